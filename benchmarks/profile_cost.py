"""What a profile costs a training: extra time and the longest step, in steps, for trainings with small and large operators.

Run: python benchmarks/profile_cost.py [profiles]    (needs torch; 5 profiles of each training by default)
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from common.ending import ended_by_signals

from gputop.profiles.asking import ask
from gputop.snapshot import LIVE_STATES, Run
from gputop.tracking.reader.runs import RunReader

SCRIPT = """
import sys, gputop, torch
layers, width, foreach = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "foreach"
torch.set_num_threads(1)
net = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(layers)])
optimizer = torch.optim.Adam(net.parameters(), foreach=foreach)
rows = torch.randn(8, width)
while True:
    optimizer.zero_grad()
    net(rows).square().mean().backward()
    optimizer.step()
"""
TRAININGS = (("10", "64", "single"), ("30", "64", "single"), ("30", "256", "foreach"), ("10", "1024", "foreach"))


def live_run(state: Path) -> Run:
    """Return the run once it has enough steps."""
    while True:
        reader = RunReader(state / "runs")
        found = [run for run in reader.poll().runs if run.state in LIVE_STATES and (run.step or 0) > 50]
        reader.close()
        if found:
            return found[0]
        time.sleep(0.2)


def main() -> None:
    """Print a line for each training."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print("layers width optimizer | step ms | extra steps per recorded step: median, worst | longest, in steps: median, worst")
    for training in TRAININGS:
        with tempfile.TemporaryDirectory() as folder:
            state = Path(folder)
            state.joinpath("train.py").write_text(SCRIPT)
            os.environ["GPUTOP_DIR"] = str(state)
            process = subprocess.Popen([sys.executable, str(state / "train.py"), *training], stderr=subprocess.DEVNULL)
            try:
                run = live_run(state)
                found = [ask(run, 3, go=True, runs_dir=state / "runs") for _ in range(count)]
            finally:
                process.kill()
                process.wait()
            name = " ".join(training)
            done = [
                item for item in found if item.step_s and item.steps and item.extra_s is not None and item.longest_s is not None
            ]
            if not done:
                print(f"{name} | {found[0].why}")
                continue
            extra = sorted((item.extra_s or 0.0) / (item.step_s or 1.0) / (item.steps or 1) for item in done)
            longest = sorted((item.longest_s or 0.0) / (item.step_s or 1.0) for item in done)
            usual = 1000 * median(item.step_s or 0.0 for item in done)
            print(
                f"{name} | {usual:.1f} | {median(extra):.1f}, {extra[-1]:.1f} | {median(longest):.1f}, {longest[-1]:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    with ended_by_signals():
        main()
