"""What automatic tracking adds to a training step: a real torch loop in fresh processes, with and without, in turns.

Run: ``python benchmarks/autolog.py [--json] [--quick]``. The step has a loader, a forward, a backward and an optimizer
on small layers on one CPU thread, so what is added can be told from noise; the number of layers shows that what is
added does not grow with the model.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LOOP = """
import json, sys, time
import torch
torch.set_num_threads(1)
layers, steps = int(sys.argv[1]), int(sys.argv[2])
model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(layers)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
data = torch.utils.data.TensorDataset(torch.randn(16 * steps, 16), torch.randn(16 * steps, 16))
loader = torch.utils.data.DataLoader(data, batch_size=16)
times = []
started = time.perf_counter()
for inputs, targets in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    loss.item()
    now = time.perf_counter()
    times.append(now - started)
    started = now
print(json.dumps(sorted(times[20:])))
"""


def loop(directory: Path, layers: int, steps: int, tracked: bool) -> list[float]:
    """Return the sorted step times of one process in seconds."""
    path = directory / "loop.py"
    path.write_text(LOOP, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GPUTOP_DIR": str(directory / "state"), "OMP_NUM_THREADS": "1"}
    front = [sys.executable, "-m", "gputop", "run", "--"] if tracked else []
    command = [*front, sys.executable, str(path), str(layers), str(steps)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: list[float] = json.loads(done.stdout)
    return found


def measure(quick: bool) -> dict[str, Any]:
    """Return per number of layers: medians of the step without and with, and what is added, in microseconds."""
    rounds, steps = (3, 500) if quick else (9, 3000)
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        for layers in (2, 40):
            without: list[float] = []
            tracked: list[float] = []
            for turn in range(rounds):
                # Which of the two is first changes each turn: whatever else the machine does hits both alike.
                for kind in ((False, True), (True, False))[turn % 2]:
                    times = loop(Path(name), layers, steps, kind)
                    (tracked if kind else without).append(times[len(times) // 2] * 1e6)
            added = [after - before for before, after in zip(without, tracked, strict=True)]
            result[f"{layers} layers"] = {
                "step_us": statistics.median(without),
                "tracked_us": statistics.median(tracked),
                "added_us": statistics.median(added),
                "added_best_us": min(tracked) - min(without),
            }
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--quick", action="store_true", help="few rounds: to see that it works")
    options = parser.parse_args()
    found = measure(options.quick)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print("a real torch step on the CPU, without and with gputop run, median microseconds")
    for name, row in found.items():
        print(
            f"  {name:10}  without {row['step_us']:7.1f}  with {row['tracked_us']:7.1f}  "
            f"added {row['added_us']:+6.1f}  (best against best {row['added_best_us']:+.1f})"
        )


if __name__ == "__main__":
    main()
