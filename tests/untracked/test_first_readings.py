"""How many readings the curve of a run takes that trained before gputop came: counted, because a busy machine is slow.

The agent reads every second, so a curve in the second reading is there within 3 s of gputop's start where starting takes less
than two: ``benchmarks/attach.py`` measures that on an idle machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gputop.agent.sampler import WARM_UP_S, Sampler, take_once
from gputop.snapshot import Points, Snapshot
from gputop.sources.virtual import VirtualSource
from gputop.untracked import curves as curves_module
from gputop.untracked.followed import FollowedRun
from tests.tracking.kit import eventually
from tests.untracked.test_curves import (
    HOST,
    LOSSES,
    event_file,
    write_csv,
    write_lines,
    write_mlflow,
    write_mlflow_database,
    write_state,
    write_wandb,
)

READINGS = 2
SEEN_S = 60.0
"""How long the first look at its files may take here."""
TRAINS = """
import mmap, os, sys, time
with open("libtorch_cpu.so", "rb") as file:
    kept = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
for step in range(int(sys.argv[1])):
    print(f"step {step} loss {1 / (step + 1):.9f}", flush=True)
open("ready", "w").close()
parent = os.getppid()
while os.getppid() == parent:
    time.sleep(0.05)
"""


def write_events(folder: Path, pid: int) -> None:
    event_file(folder / "runs" / "exp1", pid, LOSSES, at=time.time(), host=HOST)


def in_folder(write: Callable[[Path], Path]) -> Callable[[Path, int], None]:
    def written(folder: Path, pid: int) -> None:
        write(folder)

    return written


KINDS: dict[str, Callable[[Path, int], None]] = {
    "TensorBoard": write_events,
    "W&B": in_folder(write_wandb),
    "MLflow": in_folder(write_mlflow),
    "MLflow's database": in_folder(write_mlflow_database),
    "CSV": in_folder(write_csv),
    "JSON lines": in_folder(write_lines),
    "Trainer state": in_folder(write_state),
    "its output": lambda folder, pid: None,
}


@pytest.fixture
def rank(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has torch mapped and a rank's environment, and has printed its losses if nothing else has them."""
    (tmp_path / "libtorch_cpu.so").write_bytes(b"not really\n")
    prints = len(LOSSES) if request.node.callspec.params["kind"] == "its output" else 0
    with (tmp_path / "nohup.out").open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", TRAINS, str(prints)],
            cwd=tmp_path,
            env={**os.environ, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("kind", KINDS)
def test_the_curve_is_whole_in_the_second_reading(
    kind: str, rank: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curves_module, "RUNS_MAX", 1000)  # other runs of this machine are not in the way
    eventually((tmp_path / "ready").exists, "it has done its steps", SEEN_S)
    KINDS[kind](tmp_path, rank.pid)
    sampler, points = Sampler(VirtualSource(1), 1.0), list[Points]()
    snapshot: Snapshot | None = None
    for _ in range(READINGS):
        snapshot = sampler.take()
        points += snapshot.points
        curves = sampler._untracked_curves
        assert curves is not None, "the first reading has the run"
        (followed,) = (item for run_id, item in curves._followed.items() if run_id.startswith(f"pid-{rank.pid}-"))
        followed.wait(SEEN_S)  # what a second would be enough for on a machine that is not busy
    assert snapshot is not None
    (run,) = (run for run in snapshot.process_runs if rank.pid in {each.pid for each in run.ranks})
    assert [curve.source for curve in run.curves] == [kind.partition("'")[0]]
    read = {step: value for item in points if item.run_id == run.run_id and "loss" in item.metric for step, value in at(item)}
    assert read == {step: pytest.approx(value, abs=1e-6) for step, value in LOSSES.items()}


@pytest.mark.parametrize("kind", ["its output"])
def test_a_command_that_reads_once_waits_for_the_curve(
    kind: str, rank: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, gputop --once listed the run without its curve, which gputop runs had."""
    read = FollowedRun._search_and_read

    def slowly(*arguments: Any) -> None:
        time.sleep(WARM_UP_S + 1.0)
        read(*arguments)

    monkeypatch.setattr(FollowedRun, "_search_and_read", slowly)
    monkeypatch.setattr(curves_module, "RUNS_MAX", 1000)
    monkeypatch.setattr(curves_module, "ONLY_WAIT_S", SEEN_S)
    eventually((tmp_path / "ready").exists, "it has done its steps", SEEN_S)
    snapshot = take_once(Sampler(VirtualSource(1), 1.0))
    (run,) = (run for run in snapshot.process_runs if rank.pid in {each.pid for each in run.ranks})
    assert [curve.source for curve in run.curves] == [kind]


def at(points: Points) -> Iterator[tuple[int, float]]:
    return zip(points.steps, points.values, strict=True)
