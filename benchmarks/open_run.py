"""How long the screen takes to open an old stored run, next to a live run: from the key to the full picture.

Stored runs of a million and of ten million points lie behind newer ones, so the stream does not carry them. In the first round,
no gputop has read them before ("new"): the first list of runs reads them. The live run has logged a million points. The CPU
time is that of the screen and its sampler, with everything else that they do meanwhile. The list shows every run of the
machine: where others train, run it in a PID namespace (unshare -Urpf --mount-proc). gputop runs with compiled modules, as an
installer leaves them: a screen has been opened once before, with other runs.

    python benchmarks/open_run.py [--points 1000000 10000000] [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from common.ending import ended_by_signals
from dashboard import ROOT

sys.path.insert(0, str(ROOT))

from tests import nvml_sim
from tests.terminal import Terminal

COMMAND = [sys.executable, "-m", "gputop", "-i", "1"]
METRICS = 4
NEWER_RUNS = 21
"""More than the stream lists."""
LIVE_POINTS = 1_000_000
CHART_CELLS = 60
"""At least this many cells with dots are a chart."""
WAIT_S = 120.0
_SCHEDULED = 2
"""The kind of CPU clock in Linux's id of a process's clock (CPUCLOCK_SCHED)."""
TRAIN = """
import sys, time, gputop
name, steps, lasts = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "lasts"
run = gputop.init(name=name)
for step in range(steps):
    run.log(loss=2.0 / (1 + step % 1000), lr=3e-4, grad_norm=1.0, tokens_per_s=1e5, step=step)
print("logged", flush=True)
while lasts:
    step += 1
    run.log(loss=2.0 / (1 + step % 1000), lr=3e-4, grad_norm=1.0, tokens_per_s=1e5, step=step)
    time.sleep(0.1)
gputop.finish()
"""


def is_whole(text: str, name: str) -> bool:
    """Return whether a run's screen shows its chart, and what is known about its GPUs."""
    dots = sum("\u2801" <= character <= "\u28ff" for character in text)
    return f"run  {name} " in text.splitlines()[0] and dots >= CHART_CELLS and "none was recorded with it" in text


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a screen and its sampler, from their CPU clocks: /proc counts in ticks of 10 ms."""
    tree = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return sum(time.clock_gettime((~process.pid << 3) | _SCHEDULED) for process in tree)


def opened(environment: dict[str, str], name: str) -> dict[str, float]:
    """Open a run from the list; return the milliseconds until the list and the run are there, and the CPU milliseconds."""
    with Terminal(COMMAND, environment) as terminal:
        wait(terminal, lambda text: "/80G" in text)
        time.sleep(3.0)  # the doctor is loaded, and everything has been drawn once
        began = time.perf_counter()
        terminal.press("o")
        wait(terminal, lambda text: "newer0" in text)
        listed = time.perf_counter()
        terminal.press("n", "/", *name)
        time.sleep(1.5)
        before, key = cpu_s(terminal.process.pid), time.perf_counter()
        terminal.press("enter")
        wait(terminal, lambda text: is_whole(text, name))
        shown, after = time.perf_counter(), cpu_s(terminal.process.pid)
        return {"list_ms": 1000 * (listed - began), "key_ms": 1000 * (shown - key), "cpu_ms": 1000 * (after - before)}


def wait(terminal: Terminal, holds: object) -> None:
    """Wait until the terminal shows it."""
    end = time.monotonic() + WAIT_S
    assert callable(holds)
    while not holds(text := terminal.text()):
        if time.monotonic() > end:
            raise SystemExit(f"The screen did not show it:\n{text}")
        time.sleep(0.002)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    options = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        simulated = nvml_sim.environment(nvml_sim.living_box(8).write(place / "scenario"))
        shared = simulated | {"HOME": folder, "PYTHONPATH": str(ROOT)}
        shared |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(place / "compiled")}

        def train(environment: dict[str, str], name: str, points: int, lasts: str = "ends") -> subprocess.Popen[str]:
            words = [sys.executable, "-c", TRAIN, name, str(points // METRICS), lasts]
            process = subprocess.Popen(words, env=os.environ | environment, stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            process.stdout.readline()
            return process

        def store(name: str, runs: dict[str, int]) -> dict[str, str]:
            """Store old runs with this many points, and newer ones; return the environment that shows them."""
            state = place / name
            state.mkdir(mode=0o700)
            environment = shared | {"GPUTOP_DIR": str(state)}
            for run, points in (*runs.items(), *((f"newer{number}", 80) for number in range(NEWER_RUNS))):
                train(environment, run, points).wait()
            return environment

        opened(store("first", {"old": LIVE_POINTS}), "old")  # compiles
        stored = {f"{points}-old": points for points in options.points}
        environment = store("state", stored)
        live = train(environment, "live", LIVE_POINTS, "lasts")
        try:
            for turn in range(options.rounds):
                for name in stored:
                    found.setdefault(f"{name}, new" if not turn else name, []).append(opened(environment, name))
                found.setdefault("live", []).append(opened(environment, "live"))
        finally:
            live.kill()
            live.wait()
    medians = {
        name: {key: statistics.median(one[key] for one in rounds) for key in rounds[0]} for name, rounds in found.items()
    }
    print(f"median of {options.rounds}; load {os.getloadavg()[0]:.1f}")
    for name, one in medians.items():
        print(
            f"  {name:<18} list {one['list_ms']:6.0f} ms   key to picture {one['key_ms']:6.0f} ms   CPU {one['cpu_ms']:6.0f} ms"
        )
    if options.json:
        options.json.write_text(json.dumps(medians, indent=2) + "\n")


if __name__ == "__main__":
    with ended_by_signals():
        main()
