"""Measures what the screen and its sampler hold together: eight live ranks, a full history, every screen opened and closed.

Counted is what belongs to the two processes alone, beyond interpreters that have only imported the libraries: other versions of
Python and of the libraries change little. Run it in a PID namespace, as ``test_memory`` does: gputop follows other programs.

    unshare --user --map-root-user --pid --fork --mount-proc python -m tests.tui.whole_memory
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from gputop.tui.terminal.settled_screen import FREED_AFTER_S
from tests import REPOSITORY, nvml_sim
from tests.terminal import Terminal

RANKS = """
import os, time, gputop
for rank in range(8):
    if not os.fork():
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "8", "GPUTOP_RUN_ID": "eight"}
        run = gputop.init(name="eight", autolog=False)
        os.write(1, b"%d\\n" % os.getpid())
        for step in range(10**9):
            run.log(loss=2 - step % 100 / 100, lr=3e-4, step_s=0.05, samples_per_s=1e5)
            time.sleep(0.05)
time.sleep(10**6)
"""
WITH_FULL_HISTORY = """
import os, sys
from gputop.startup.light_imports import import_library
import_library()
from dataclasses import replace
from gputop.history.history import History
from gputop.history.series import BUCKETS
observe, filled = History.observe, []
def fill(self, snapshot):
    observe(self, snapshot)
    if filled or len({points.rank for points in snapshot.points}) < 8:
        return
    filled.append(snapshot)
    ticks = range(BUCKETS)
    for tick in ticks:
        observe(self, replace(snapshot, time=snapshot.time + tick / 1000, points=()))
    past = {"steps": tuple(tick + 1000 for tick in ticks), "times": tuple(snapshot.time + tick / 1000 for tick in ticks)}
    values = tuple(1 / (1 + tick) for tick in ticks)
    observe(self, replace(snapshot, points=tuple(replace(item, values=values, **past) for item in snapshot.points)))
    open(os.environ["FILLED"], "w").close()
History.observe = fill
from gputop.__main__ import main
sys.argv[1:] = ["-i", "1"]
sys.exit(main())
"""
SCREENS = (
    ("d", "octor", ("down", "enter", "escape")),
    ("?", "Keys and words", ()),
    ("f2", "nterval", ()),
    ("l", "ecipe", ()),
    ("o", "eight", ("g", "escape")),
    ("w", "eight", ()),
    ("2", "GPU", ("enter",)),
    ("3", "Processes", ("down", "enter")),
    ("3", "Processes", ("down", "e")),
    ("3", "Processes", ("down", "k")),
    (":", "", ()),
)
"""The key that opens a screen, what it then shows, and further keys."""
LIBRARIES = {
    "screen": "argparse, asyncio, textual.app, textual.widgets, psutil, json, subprocess",
    "sampler": "pynvml, psutil, json, subprocess, tempfile, platform",
}


def own_mib(pid: int | str) -> float:
    """Return how much memory belongs to a process alone."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Dirty:", "Swap:"))) / 1024


def pss_mib(pid: int) -> float:
    """Return the proportional memory of a process."""
    return psutil.Process(pid).memory_full_info().pss / 2**20


def imported_mib(modules: str) -> float:
    """Return what belongs to an interpreter alone that has only imported these."""
    code = f"import {modules}\nfrom pathlib import Path\nprint(Path('/proc/self/smaps_rollup').read_text())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return sum(int(line.split()[1]) for line in told.splitlines() if line.startswith("Private_Dirty:")) / 1024


@contextmanager
def watched(folder: Path) -> Iterator[Terminal]:
    """Start eight ranks, and a screen with a full history that watches them."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUTOP_")}
    ours = {"GPUTOP_DIR": str(folder / "gputop"), "HOME": str(folder), "PYTHONPATH": str(REPOSITORY)}
    ranks = subprocess.Popen([sys.executable, "-c", RANKS], env=kept | ours, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert ranks.stdout is not None
        pids = tuple(int(ranks.stdout.readline()) for _ in range(8))
        scenario = nvml_sim.living_box(8, pids=pids).write(folder / "scenario")
        filled = folder / "filled"
        environment = nvml_sim.environment(scenario) | ours | {"FILLED": str(filled)}
        with Terminal([sys.executable, "-c", WITH_FULL_HISTORY], environment) as terminal:
            terminal.wait_for(lambda text: "q quit" in text and filled.exists())
            yield terminal
    finally:
        os.killpg(ranks.pid, 9)
        ranks.wait()


def main() -> None:
    """Print the figures as JSON, in MiB."""
    with tempfile.TemporaryDirectory() as folder, watched(Path(folder)) as terminal:
        screen = psutil.Process(terminal.process.pid)
        (sampler,) = screen.children()
        pids = {"screen": screen.pid, "sampler": sampler.pid}
        for key, shows, more in SCREENS:
            terminal.press(key)
            terminal.wait_for(shows)
            terminal.press(*more, "escape", "escape")
            terminal.wait_for("q quit")
        time.sleep(FREED_AFTER_S + 1)
        found = {
            "own": {name: own_mib(pid) for name, pid in pids.items()},
            "pss": {name: pss_mib(pid) for name, pid in pids.items()},
            "libraries": {name: imported_mib(modules) for name, modules in LIBRARIES.items()},
        }
        terminal.press("q")
        terminal.wait_exit()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
