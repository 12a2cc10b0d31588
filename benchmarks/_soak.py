"""Runs gputop for an hour: its memory, descriptors, threads and CPU must stay flat, and nothing that happens may end it.

A screen in a real terminal watches eight simulated H100s and two runs: one lasts; the ranks of the other come and go, some by
kill -9. Screens are opened and closed, the terminal is resized, a GPU is lost and comes back, the sampler is killed. The first
half fills the history; the last third of the second half is then compared with its first third. The exit code is 1 if
something grew or ended.

    make soak            HOURS=0.2 make soak
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from common.ending import ended_by_signals

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gputop.tracking.journal import places  # noqa: E402 - from the checkout
from tests import nvml_sim  # noqa: E402
from tests.terminal import Terminal  # noqa: E402

TRAINING = """
import signal, sys, time, gputop
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
run = gputop.init(name=sys.argv[1])
step, until = 0, time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    step += 1
    run.log(loss=1 / step, lr=0.1, step_s=0.05, samples_per_s=640.0)
    time.sleep(0.05)
"""
SCREENS = (
    ("d", "down", "enter"),
    ("?",),
    ("f2",),
    ("l",),
    ("2", "enter"),
    ("3", "down", "enter"),
    ("3", "down", "e"),
    ("3", "down", "k"),
)
SIZES = ((160, 50), (100, 30), (80, 24), (200, 60), (40, 12))
TURN_S = 5.0
POLL_S = 1.0
KILL_SAMPLER_EVERY = 23
"""Turns. Every fault has a different period, so that they meet in all combinations."""
LOSE_GPU_EVERY = 7
KILL_RANK_EVERY = 3

MEMORY_MIB, MEMORY_MIB_PER_H = 4.0, 8.0
"""Allowed growth: noise, and the history of the run that lasts. PSS may be added up: pages that processes share count once."""
ALLOWED = {"descriptors": 3.0, "threads": 1.0}
CPU_SHARE = 0.5
"""The CPU time of a second may grow by this share of its mean, and by ``CPU_S_PER_MIN``: ranks come and go."""
CPU_S_PER_MIN = 2.0


@dataclass
class Track:
    """The measurements of one kind of process, which may have been several processes in succession."""

    times: list[float] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=dict)
    _cpu: tuple[int, float, float] | None = None

    def look(self, now: float, process: psutil.Process | None) -> None:
        """Measure a process; skip None and a process that is gone."""
        try:
            if process is None:
                return
            with process.oneshot():
                cpu = sum(process.cpu_times()[:2])
                memory = process.memory_full_info()
                found = {
                    "PSS MiB": memory.pss / 2**20,
                    "RSS MiB": memory.rss / 2**20,
                    "descriptors": float(process.num_fds()),
                    "threads": float(process.num_threads()),
                }
        except psutil.Error:
            return
        before, self._cpu = self._cpu, (process.pid, now, cpu)
        if before is None or before[0] != process.pid:
            return
        found["CPU s/min"] = 60 * (cpu - before[2]) / (now - before[1])
        self.times.append(now)
        for name, value in found.items():
            self.values.setdefault(name, []).append(value)

    def judged(self, from_s: float) -> dict[str, tuple[float, float, float, bool]]:
        """Return for each figure: its first and last value, its slope per hour, and whether that is more than allowed."""
        first = next((index for index, at in enumerate(self.times) if at >= from_s), len(self.times))
        third = (len(self.times) - first) // 3
        if third < 3:
            raise SystemExit("Too short to judge: give it more hours.")
        hours = (self.times[-1] - self.times[first]) * 2 / 3 / 3600
        result = {}
        for name, values in self.values.items():
            was, now = statistics.median(values[first : first + third]), statistics.median(values[-third:])
            limit = ALLOWED.get(name, MEMORY_MIB + MEMORY_MIB_PER_H * hours)
            if name.startswith("CPU"):
                was, now = statistics.mean(values[first : first + third]), statistics.mean(values[-third:])
                limit = CPU_S_PER_MIN + CPU_SHARE * was
            result[name] = (was, now, (now - was) / hours, now - was > limit)
        return result


class Soak:
    """A machine, its runs and its screen."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self._random = random.Random(7)
        self._scenario = folder / "scenario"
        self._busy = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1e6)"]) for _ in range(2)]
        self._box(lost=False)
        self._state = folder / "gputop"
        changed = {"GPUTOP_DIR": str(self._state), "HOME": str(folder), "PYTHONPATH": str(ROOT)}
        # Compiled modules, as an installer leaves them: compiling takes memory that Python keeps.
        self.environment = {**nvml_sim.environment(self._scenario), "PYTHONDONTWRITEBYTECODE": "", **changed}
        self._script = folder / "training.py"
        self._script.write_text(TRAINING)
        self.lasting = self._train("lasting", "lasting", 0, 1, seconds + 600)
        self._ranks: list[subprocess.Popen[bytes]] = []
        self._runs = 0
        self.terminal = Terminal([sys.executable, "-m", "gputop", "-i", "1"], self.environment)
        self.screen = psutil.Process(self.terminal.process.pid)

    def _box(self, lost: bool) -> None:
        scenario = nvml_sim.living_box(8, pids=tuple(process.pid for process in self._busy))
        if lost:
            scenario.set(3, lost=1)
        scenario.write(self._scenario)

    def _train(self, name: str, run: str, rank: int, world: int, seconds: float) -> subprocess.Popen[bytes]:
        ids = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "GPUTOP_RUN_ID": run}
        command = [sys.executable, str(self._script), name, str(seconds)]
        return subprocess.Popen(command, env={**self.environment, **ids}, stderr=subprocess.DEVNULL)

    def sampler(self) -> psutil.Process | None:
        """Return the sampler; None if there is none at the moment."""
        try:
            return next((child for child in self.screen.children() if "agent" in child.cmdline()), None)
        except psutil.Error:
            return None

    def go_on(self) -> bool:
        """Return whether the screen and the training that lasts still run."""
        return self.terminal.process.poll() is None and self.lasting.poll() is None

    def turn(self, number: int) -> None:
        """Do what happens in one turn."""
        self._ranks = [rank for rank in self._ranks if rank.poll() is None]
        if not self._ranks:
            self._runs += 1
            name = f"passing-{self._runs}"
            self._ranks = [self._train(name, name, rank, 2, self._random.uniform(10, 40)) for rank in range(2)]
        elif number % KILL_RANK_EVERY == 0:
            self._random.choice(self._ranks).kill()
        if number % LOSE_GPU_EVERY in (0, 1):
            self._box(lost=number % LOSE_GPU_EVERY == 0)
        sampler = self.sampler()
        if number % KILL_SAMPLER_EVERY == KILL_SAMPLER_EVERY - 1 and sampler is not None:
            sampler.send_signal(signal.SIGKILL)
        self.terminal.resize(*self._random.choice(SIZES))
        self.terminal.press(*SCREENS[number % len(SCREENS)], "escape", "escape")

    def close(self) -> int:
        """Quit the screen with its key, and end everything; return the screen's exit code, or -1 if it does not end."""
        try:
            self.terminal.resize(160, 50)
            self.terminal.press("escape", "escape")
            time.sleep(TURN_S)  # on a crowded machine, an escape and a key may be read at once: as Alt and that key
            self.terminal.press("q")
            return self.terminal.wait_exit(30.0)
        except (OSError, subprocess.TimeoutExpired):
            return -1
        finally:
            self.terminal.close()
            for process in (self.lasting, *self._ranks, *self._busy):
                process.terminate()
                process.wait()
            for rings in places.live_dirs(self._state / "runs"):
                shutil.rmtree(rings, ignore_errors=True)  # of ranks that were killed at the end


def main() -> int:
    """Soak, print the slopes and the verdict, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=1.0)
    seconds = 3600 * parser.parse_args().hours
    tracks = {"screen": Track(), "sampler": Track(), "training": Track()}
    with tempfile.TemporaryDirectory() as directory:
        soak = Soak(Path(directory), seconds)
        try:
            soak.terminal.wait_for("GPU")
            lasting = psutil.Process(soak.lasting.pid)
            began, number = time.monotonic(), 0
            while (now := time.monotonic() - began) < seconds and soak.go_on():
                if now >= number * TURN_S:
                    soak.turn(number)
                    number += 1
                for name, process in (("screen", soak.screen), ("sampler", soak.sampler()), ("training", lasting)):
                    tracks[name].look(time.monotonic() - began, process)
                time.sleep(POLL_S)
            went_on = soak.lasting.poll() is None
            if not soak.go_on():
                print(soak.terminal.text())
        finally:
            code = soak.close()
            if code:
                print(soak.terminal.text())  # what Python or Textual says of its end
    print(f"{number} turns in {seconds / 60:.0f} minutes; load {os.getloadavg()[0]:.1f}")
    failed = []
    for name, track in tracks.items():
        for figure, (was, is_now, slope, grew) in track.judged(seconds / 2).items():
            print(f"{name:9} {figure:12} {was:8.1f} -> {is_now:8.1f}  {slope:+9.1f} an hour{'  GREW' if grew else ''}")
            failed += [f"{figure} of the {name} grew"] if grew else []
    failed += [] if code == 0 else [f"the screen ended with {code}"]
    failed += [] if went_on else ["the training ended"]
    print("FAILED: " + "; ".join(failed) if failed else "Nothing grew, and nothing ended.")
    return 1 if failed else 0


if __name__ == "__main__":
    with ended_by_signals():
        sys.exit(main())
