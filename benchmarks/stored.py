"""Whether stored runs delay the screen: the time until it shows the first GPU data, and until it shows the runs.

On eight simulated H100s, with no stored run, with a thousand, and with one run of ten million points, in turns. The runs are
real ones, written by ``gputop.init`` and ``log``. Each screen has been opened once before, as on the second day: then gputop
knows what it keeps of ended runs.

    python benchmarks/stored.py [--runs 1000] [--points 10000000] [--rounds 7] [--json FILE]
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

from common.ending import ended_by_signals
from dashboard import ROOT

sys.path.insert(0, str(ROOT))

from tests import nvml_sim
from tests.terminal import Terminal

COMMAND = [sys.executable, "-m", "gputop", "-i", "1"]
METRICS = 4
MANY = """
import sys, gputop
for number in range(int(sys.argv[1])):
    run = gputop.init(name=f"run-{number}", config={"lr": number / 1000})
    for step in range(20):
        run.log(loss=2.0 / (1 + step), lr=3e-4, step=step)
    gputop.finish()
"""
LONG = """
import sys, gputop
run = gputop.init(name="long")
for step in range(int(sys.argv[1])):
    run.log(loss=2.0 / (1 + step % 1000), lr=3e-4, grad_norm=1.0, tokens_per_s=1e5, step=step)
gputop.finish()
"""


def opened_ms(environment: dict[str, str], shows_runs: str) -> tuple[float, float]:
    """Open the screen; return the milliseconds until it shows a GPU's memory, and until it shows ``shows_runs``."""
    began = time.perf_counter()
    with Terminal(COMMAND, environment) as terminal:
        gpus = None
        while True:
            text, now = terminal.text(), time.perf_counter()
            gpus = now if gpus is None and "/80G" in text else gpus
            if gpus is not None and shows_runs in text:
                return 1000 * (gpus - began), 1000 * (now - began)
            if now - began > 60:
                raise SystemExit(f"The screen did not show {shows_runs!r} within a minute:\n{text}")
            time.sleep(0.002)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    options = parser.parse_args()
    stores = {
        "no run": ("", 0, "Processes"),
        f"{options.runs:,} runs": (MANY, options.runs, "run 1 of 20"),
        f"{options.points:,} points": (LONG, options.points // METRICS, "Training: long"),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in stores}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        simulated = nvml_sim.environment(nvml_sim.living_box(8).write(place / "scenario")) | {"PYTHONDONTWRITEBYTECODE": ""}
        environments: dict[str, dict[str, str]] = {}
        for number, (name, (code, count, _)) in enumerate(stores.items()):
            state = place / str(number)
            state.mkdir(mode=0o700)
            environments[name] = simulated | {"GPUTOP_DIR": str(state), "HOME": folder, "PYTHONPATH": str(ROOT)}
            if code:
                subprocess.run([sys.executable, "-c", code, str(count)], env=os.environ | environments[name], check=True)
        for turn in range(options.rounds + 1):
            for name, (_, _, shows) in stores.items():
                opened = opened_ms(environments[name], shows)
                if turn:
                    found[name].append(opened)
    medians = {name: [statistics.median(column) for column in zip(*times, strict=True)] for name, times in found.items()}
    print(f"median of {options.rounds}; load {os.getloadavg()[0]:.1f}")
    for name, (gpus, runs) in medians.items():
        print(f"  {name:<20} first GPU data {gpus:6.0f} ms   runs {runs:6.0f} ms")
    if options.json:
        options.json.write_text(json.dumps(medians, indent=2) + "\n")


if __name__ == "__main__":
    with ended_by_signals():
        main()
