"""What it costs a training that each rank notes where it is: two real gloo ranks whose notes are alternately on and off.

Run: ``python benchmarks/where.py [--json] [--quick]``. While notes are on, the ranks note where they are twice a second, four
times as often as usual; blocks of two seconds with and without notes are compared with their neighbors. If other programs run,
CPU time says more than wall time. It also prints how long one note takes on its thread, including waits for the interpreter
lock.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common.ending import ended_by_signals

ROOT = Path(__file__).parent.parent
OFTEN = 4
"""How much more often than usual the ranks note here where they are."""
EVERY_US = 2_000_000
LOOP = """
import json, sys, time
import torch
import gputop
from gputop.tracking.standing import reporter
from gputop.tracking.standing.reporter import Reporter

torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(8)]))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
inputs = torch.randn(64, 64)
notes, switch = [], [True]
reporter.EVERY_S = 0.0
write, say = Reporter.write_if_due, Reporter._say


def switched(self, ring, asked_ns):
    if switch[0]:
        write(self, ring, asked_ns)


def timed(self, ring, asked_ns, now):
    say(self, ring, asked_ns, now)
    notes.append((time.perf_counter() - now) * 1e6)


Reporter.write_if_due, Reporter._say = switched, timed
blocks = {True: [], False: []}
steps_of_block = 0
for number in range(2 + 2 * int(sys.argv[1])):
    switch[0] = number % 2 == 1
    began, used, steps, over = time.perf_counter(), time.process_time(), 0, torch.zeros(1)
    while not over.item():
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        steps += 1
        over.fill_(float(time.perf_counter() - began > 2.0))
        if steps % 50 == 0:
            torch.distributed.broadcast(over, 0)
        else:
            over.zero_()
    if number >= 2:
        took, spent = time.perf_counter() - began, time.process_time() - used
        blocks[switch[0]].append([took / steps * 1e6, spent / steps * 1e6])
print(json.dumps({"on": blocks[True], "off": blocks[False], "notes": notes}))
"""


def run(pairs: int) -> list[dict[str, Any]]:
    """Return the mean step of each block of each rank in microseconds, and how long the notes took."""
    with tempfile.TemporaryDirectory() as name, socket.socket() as free:
        path = Path(name) / "loop.py"
        path.write_text(LOOP, encoding="utf-8")
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        common = {"PYTHONPATH": str(ROOT), "GPUTOP_DIR": str(Path(name) / "state"), "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2"}
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        ranks = [
            subprocess.Popen(
                [sys.executable, str(path), str(pairs)],
                env={**os.environ, **common, **place, "RANK": str(rank)},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        return [json.loads(rank.communicate()[0].splitlines()[-1]) for rank in ranks]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="three pairs of blocks instead of fifteen")
    options = parser.parse_args()
    found = run(3 if options.quick else 15)
    result: dict[str, float] = {}
    for index, name in enumerate(("step_us", "processor_us")):
        off = statistics.fmean(value[index] for rank in found for value in rank["off"])
        pairs = [(on[index], off[index]) for rank in found for on, off in zip(rank["on"], rank["off"], strict=True)]
        added = statistics.median(on - without for on, without in pairs)
        result |= {name: round(off, 1), f"{name}_added_percent": round(100 * added / off / OFTEN, 3)}
    notes = [note for rank in found for note in rank["notes"]]
    result |= {
        "note_us_median": round(statistics.median(notes), 1),
        "note_us_mean": round(statistics.fmean(notes), 1),
        "note_percent_of_the_time": round(statistics.fmean(notes) / EVERY_US * 100, 4),
    }
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))


if __name__ == "__main__":
    with ended_by_signals():
        main()
