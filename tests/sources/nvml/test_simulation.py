"""The simulated driver itself: what it holds in the process that it is loaded into does not grow with what it plays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests import nvml_sim

CHANGES = 60
MOST_KIB = 1024
"""A scenario is 350 KiB, of which eight GPUs use 140: without reuse, they took 8 MiB."""
WATCH = """
import sys, time
from pathlib import Path
import pynvml
scenario, texts, changes = Path(sys.argv[1]), [Path(path).read_text() for path in sys.argv[2:4]], int(sys.argv[4])
def held():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))
pynvml.nvmlInit()
def play(number):
    new = scenario.with_suffix(".new")
    new.write_text(texts[number % 2])
    new.replace(scenario)
    deadline = time.monotonic() + 60
    while pynvml.nvmlDeviceGetCount() != 7 + number % 2:
        assert time.monotonic() < deadline
        time.sleep(0.001)
for number in range(20):
    play(number)
before = held()
for number in range(changes):
    play(number)
print(held() - before)
"""


def test_a_changed_scenario_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    """A soak of an hour blamed the sampler for it."""
    paths = [nvml_sim.living_box(count).write(tmp_path / f"{count} GPUs") for count in (7, 8)]
    scenario = tmp_path / "scenario"
    scenario.write_text(paths[0].read_text())
    command = [sys.executable, "-c", WATCH, str(scenario), *map(str, paths), str(CHANGES)]
    found = subprocess.run(
        command, env=os.environ | nvml_sim.environment(scenario), capture_output=True, text=True, timeout=300, check=False
    )
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) < MOST_KIB
