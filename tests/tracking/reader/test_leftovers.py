"""What dead trainings left on tmpfs is freed, and nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from gputop.agent.sampler import Sampler
from gputop.sources.virtual import VirtualSource
from gputop.tracking.journal import places
from gputop.tracking.reader import leftovers
from gputop.tracking.reader.runs import RunReader
from tests.tracking.kit import Home, home, read_all

assert home

TRAINS = """
import sys, gputop
run = gputop.init(dir=sys.argv[1])
for step in range(5000):
    run.log(loss=float(step))
print("up", flush=True)
sys.stdin.readline()
"""


PROFILE = (f"{'a' * 16}-0.trace", "profile-request", "profile-answer", "profile-answer-77")


def training(home: Home, runs: Path) -> tuple[subprocess.Popen[str], Path]:
    """A training with a runs directory of its own that has logged everything, and its ring."""
    process = home.start(TRAINS, str(runs))
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    (ring,) = (ring for directory in places.live_dirs(runs) for ring in directory.glob("*.ring"))
    return process, ring


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def age(*paths: Path) -> None:
    for path in paths:
        if path.exists():
            os.utime(path, (then := time.time() - 2 * leftovers.LEFT_S, then))


def test_what_dead_trainings_left_is_freed_and_nothing_else(home: Home, tmp_path: Path) -> None:
    places_of = {name: tmp_path / name for name in ("killed", "alive", "deleted", "young")}
    processes, rings = {}, {}
    for name, runs in places_of.items():
        processes[name], rings[name] = training(home, runs)
    for name in ("killed", "deleted", "young"):
        kill(processes[name])
    shutil.rmtree(places_of["deleted"])
    profiles = {
        name: [*(ring.with_suffix(f".{end}") for end in PROFILE), ring.with_name(f".{ring.stem}.profile-answer-1a2b3c4d")]
        for name, ring in rings.items()
    }
    for path in (path for paths in profiles.values() for path in paths):
        path.write_text("")
    age(*(path for name in ("killed", "alive", "deleted") for path in (rings[name], *profiles[name])))
    leftovers.free()
    assert {name for name, ring in rings.items() if ring.exists()} == {"alive", "young"}
    kept = {name for name, paths in profiles.items() for path in paths if path.exists()}
    assert kept == {"alive", "young"}, "a profile goes with its ring"
    for path in profiles["young"]:
        path.unlink()
    (archive,) = places_of["killed"].glob("*/*.gpr")
    assert read_all(archive).series["loss"][-1] == (4999, 4999.0), "all of it is in the archive"

    age(*(ring.parent for ring in rings.values()))
    sampler = Sampler(VirtualSource(1), 1.0)
    sampler.take()
    sampler.take()
    assert {name for name, ring in rings.items() if ring.parent.exists()} == {"alive", "young"}
    again, ring = training(home, places_of["killed"])
    assert ring.exists(), "a directory that was removed is made again"
    for process in (again, processes["alive"]):
        process.communicate("\n")
        assert process.returncode == 0
    age(rings["young"])
    leftovers.free()
    assert not rings["young"].exists()
    for runs in places_of.values():
        for directory in places.live_dirs(runs):
            shutil.rmtree(directory, ignore_errors=True)


def test_a_ring_that_is_the_only_copy_stays(home: Home, tmp_path: Path) -> None:
    obstacle = tmp_path / "no directory"
    obstacle.write_text("")
    process, ring = training(home, obstacle / "runs")
    kill(process)
    age(ring)
    leftovers.free()
    assert ring.exists()
    shutil.rmtree(ring.parent)


@pytest.mark.parametrize("by", ["the reader of its directory", "any other"])
def test_a_ring_that_a_deleted_run_left_takes_none_from_a_run_of_the_same_id(home: Home, by: str) -> None:
    def begin() -> subprocess.Popen[str]:
        process = home.start(TRAINS, str(home.runs), GPUTOP_RUN_ID="same")
        assert isinstance(process, subprocess.Popen)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return process

    killed = begin()
    (left,) = home.rings()
    kill(killed)
    shutil.rmtree(home.runs)
    process = begin()
    (own,) = (ring for ring in home.rings() if ring != left)
    if by == "any other":
        age(left)
        leftovers.free()
    reader = RunReader(home.runs)
    (run,) = reader.poll().runs
    reader.close()
    assert [(rank.pid, rank.state, rank.metrics["loss"]) for rank in run.ranks] == [(process.pid, "running", 4999.0)]
    assert home.rings() == [own], "what was left is freed"
    process.communicate("\n")
    assert home.rings() == []


KILLED = """
import os, sys
from gputop.tracking.journal.writing import files, ring
def kill(*ignored, **also):
    os.kill(os.getpid(), 9)
place, name = sys.argv[1].split()
setattr(os if place == "os" else {"files": files, "ring": ring}[place], name, kill)
import gputop
gputop.init()
"""
MOMENTS = ("files open_ring", "os pwrite", "os posix_fallocate", "ring private", "files Journal")


def test_a_training_that_is_killed_while_it_opens_its_files_leaves_no_memory_and_no_complaint(home: Home) -> None:
    killed = [home.start(KILLED, moment) for moment in MOMENTS]
    assert [process.wait(90) for process in killed] == [-9] * len(MOMENTS)
    assert len(home.archives()) == len(MOMENTS)
    assert len(home.rings()) == len(MOMENTS) - 1
    reader = RunReader(home.runs)
    reader.poll()
    assert reader.unreadable() == {}
    reader.close()
    (ring,) = home.rings()
    assert ring.stat().st_size == 0, "it takes no memory"
    age(ring)
    leftovers.free()
    assert home.rings() == []
