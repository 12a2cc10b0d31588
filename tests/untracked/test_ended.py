"""Untracked runs that end while they are watched: real processes, real files."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gputop.process import ProcessRun
from gputop.untracked import followed
from gputop.untracked.curves import Curves, UntrackedCurves
from tests.real_processes import eventually
from tests.untracked.files.writers import event, event_file, simple
from tests.untracked.test_curves import HOST, LOSSES, Trainings, run_of, until_known, write_events


@pytest.fixture
def trainings() -> Iterator[Trainings]:
    started = Trainings()
    yield started
    started.end()


@pytest.fixture(autouse=True)
def soon_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "LAST_WORDS_S", 0.2)


def has_ended(reader: UntrackedCurves) -> Curves:
    return eventually(lambda: reader.poll([]), lambda curves: bool(curves.ended_runs))


def test_a_run_that_ends_keeps_its_curve_with_the_values_that_it_wrote_at_last(trainings: Trainings, tmp_path: Path) -> None:
    pid = trainings.start(tmp_path)
    path, run, reader = write_events(tmp_path, pid), run_of(pid), UntrackedCurves()
    alive = until_known(reader, [run], lambda curves: bool(curves.runs))
    assert (alive.ended_runs, alive.runs[0].state) == ((), "running")
    with path.open("ab") as file:
        file.write(event(time.time(), 50, simple("loss", 0.125)))
    trainings.end()

    def is_complete(curves: Curves) -> bool:
        return bool(curves.runs) and curves.runs[0].ranks[0].metrics.get("loss") == 0.125

    over = eventually(lambda: reader.poll([]), is_complete)
    (ended,), (curve,) = over.ended_runs, over.runs
    assert (ended.ranks, ended.started_at, ended.run_id, ended.failed) == (run.ranks, run.started_at, curve.run_id, False)
    assert ended.curves[0].files == (str(path),)
    assert ended.ended_at is not None
    assert (curve.state, curve.ended_at, curve.step) == ("ended", ended.ended_at, 50)
    assert {rank.state for rank in curve.ranks} == {"ended"}
    assert over.process_runs == ()
    assert reader.poll([]).ended_runs == (ended,)


def test_a_run_that_only_rests_has_not_ended(trainings: Trainings, tmp_path: Path) -> None:
    pid = trainings.start(tmp_path)
    write_events(tmp_path, pid)
    reader = UntrackedCurves()
    until_known(reader, [run_of(pid)], lambda curves: bool(curves.runs))
    os.kill(pid, signal.SIGSTOP)
    assert reader.poll([]).ended_runs == ()
    trainings.end()
    assert has_ended(reader).ended_runs[0].ranks[0].pid == pid


@pytest.mark.parametrize("is_tracked", [True, False], ids=["tracked", "part of another run"])
def test_a_run_that_gputop_tracks_now_or_that_another_one_continues_has_not_ended(
    is_tracked: bool, trainings: Trainings, tmp_path: Path
) -> None:
    pid, other = trainings.start(tmp_path), trainings.start(tmp_path)
    reader = UntrackedCurves()
    reader.poll([run_of(pid, other)])
    if is_tracked:
        reader.poll([], [pid])
    else:
        reader.poll([replace(run_of(other), key=f"pid:{other}")])
    trainings.end()
    ended = reader.poll([]).ended_runs
    assert [run.ranks[0].pid for run in ended if len(run.ranks) > 1] == []


def test_a_single_process_without_a_curve_counts_once_it_was_watched_for_long(
    trainings: Trainings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[ProcessRun, ...]] = []
    for least_s in (3600.0, 0.0):
        monkeypatch.setattr("gputop.untracked.ended.WATCHED_MIN_S", least_s)
        pid = trainings.start(tmp_path / str(least_s))
        reader = UntrackedCurves()
        reader.poll([run_of(pid)])
        trainings.end()
        found.append(reader.poll([]).ended_runs)
    assert [len(runs) for runs in found] == [0, 1]


def test_a_reused_pid_belongs_to_another_run(trainings: Trainings, tmp_path: Path) -> None:
    pid = trainings.start(tmp_path)
    event_file(tmp_path / "runs", pid, LOSSES, at=1e9, host=HOST)
    reader, first = UntrackedCurves(), run_of(pid)
    write_events(tmp_path, pid)
    until_known(reader, [first], lambda curves: bool(curves.runs))
    assert first.started_at is not None
    later = replace(first, started_at=first.started_at + 10)
    curves = reader.poll([later])
    assert [run.started_at for run in curves.process_runs] == [later.started_at]


def test_only_the_newest_are_kept(trainings: Trainings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.untracked.ended.KEPT", 2)
    reader = UntrackedCurves()
    pids = []
    for number in range(3):
        pids.append(trainings.start(tmp_path / str(number)))
        reader.poll([run_of(pids[-1], trainings.start(tmp_path / str(number)))])
        trainings.end()
        reader.poll([])
    assert [run.ranks[0].pid for run in reader.poll([]).ended_runs] == pids[:0:-1]
