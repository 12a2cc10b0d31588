"""What is kept of each machine stays apart from the other watched machines."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gputop.agent.feed import ReplayFeed
from gputop.history.history import History
from gputop.history.metrics import MetricMemory
from gputop.settings.values import Settings
from gputop.sources.recording import Recorder
from gputop.tui.machine import Machine
from gputop.tui.state.keyframes import Keyframes
from tests import samples
from tests.patience import DEADLINE_S
from tests.tui.kit import StillFeed


def machine(*snapshots: Any) -> Machine:
    feed: Any = StillFeed(*snapshots)
    return Machine(feed)


def test_machines_share_nothing() -> None:
    ours, theirs, silent = machine(samples.snapshot()), machine(samples.ranks_on_one_gpu()), machine()
    assert [bool(one.take_in()) for one in (ours, theirs, silent)] == [True, True, False]
    theirs.doctor.load()
    theirs.chosen_run = "run-2"
    view, other = ours.view(Settings()), theirs.view(Settings())
    assert view is not None
    assert other is not None
    assert silent.view(Settings()) is None
    assert view.history is not other.history
    assert view.loading
    assert not other.loading
    assert view.run_id == samples.snapshot().runs[0].run_id
    assert not ours.take_in()


def test_a_replay_that_begins_again_knows_nothing_of_what_is_later() -> None:
    watched = machine(samples.snapshot(0))
    feed: Any = watched.feed
    feed.kind = "replay"
    watched.take_in()
    watched.doctor.load()
    feed.waiting += [samples.snapshot(tick) for tick in range(1, 5)]
    watched.take_in()
    before = watched.view(Settings())
    assert before is not None
    assert before.history.started_at == samples.EPOCH
    feed.waiting += [samples.snapshot(0), samples.snapshot(1)]
    watched.take_in()
    view = watched.view(Settings())
    assert view is not None
    assert view.history is not before.history
    assert view.snapshot.sequence == 1
    assert view.diagnosis is not None
    assert view.diagnosis is not before.diagnosis
    assert not view.loading
    series = view.history.device(view.snapshot.devices[0].uuid, "utilization_percent")
    assert series is not None
    assert sum(bucket.count for bucket in series.buckets) == 2


def test_a_chosen_run_holds_while_it_exists() -> None:
    second = samples.run(run_id="run-2", name="second", created_at=1.0)
    both = replace(samples.snapshot(), runs=(*samples.snapshot().runs, second))
    watched = machine(both)
    watched.take_in()
    watched.chosen_run = "run-2"
    view = watched.view(Settings())
    assert view is not None
    assert view.run_id == "run-2"
    watched.feed.waiting.append(samples.snapshot(5))  # type: ignore[attr-defined]
    watched.take_in()
    view = watched.view(Settings())
    assert view is not None
    assert view.run_id == samples.snapshot().runs[0].run_id


def test_a_newer_run_without_a_gpu_does_not_displace_one_that_uses_gpus() -> None:
    """On a shared server, somebody's small training on the CPU begins every few minutes."""
    on_gpus = samples.snapshot()
    newer = samples.run(run_id="run-2", created_at=samples.EPOCH, world_size=1)
    newer = replace(newer, ranks=(replace(newer.ranks[0], pid=1),))
    watched = machine(replace(on_gpus, runs=(*on_gpus.runs, newer)))
    watched.take_in()
    view = watched.view(Settings())
    assert view is not None
    assert view.run_id == on_gpus.runs[0].run_id
    lost = replace(samples.snapshot(5), runs=(*on_gpus.runs, newer), processes=())
    watched.feed.waiting.append(lost)  # type: ignore[attr-defined]
    watched.take_in()
    view = watched.view(Settings())
    assert view is not None
    assert view.run_id == on_gpus.runs[0].run_id  # a GPU that is lost lists no process
    watched = machine(lost)
    watched.take_in()
    view = watched.view(Settings())
    assert view is not None
    assert view.run_id == "run-2"


def test_the_screen_and_its_doctor_share_one_memory_of_the_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    made, begin = [], MetricMemory.__init__

    def counted(self: MetricMemory, *arguments: Any, **options: Any) -> None:
        made.append(self)
        begin(self, *arguments, **options)

    monkeypatch.setattr(MetricMemory, "__init__", counted)
    first = samples.snapshot()
    elsewhere = replace(samples.snapshot(5), host=replace(first.host, hostname="elsewhere"))
    watched = machine(first, elsewhere)
    watched.take_in()
    watched.doctor.load()
    assert watched.history.metrics(first.runs[0].run_id)
    assert made == [watched.history.memory], "also after the stream went on from another machine"


def test_a_reading_that_waited_for_this_machine_is_as_old_as_it_is() -> None:
    class Waited(StillFeed):
        def age_s(self, snapshot: object) -> float:
            return 75.0

    feed: Any = Waited(samples.snapshot())
    late = Machine(feed)
    late.take_in()
    assert (late.stale_s() or 0.0) >= 75.0


def test_a_replay_goes_back_without_playing_all_of_it_again(tmp_path: Path) -> None:
    with Recorder(tmp_path / "r") as recorder:
        for tick in range(350):
            recorder.write(samples.snapshot(tick).to_json())

    def played(watched: Machine, until: int) -> list[int]:
        seen: list[int] = []
        deadline = time.monotonic() + DEADLINE_S
        while not seen or seen[-1] != until:
            assert time.monotonic() < deadline, seen
            seen += [snapshot.sequence for snapshot in watched.take_in()]
            time.sleep(0.005)
        return seen

    feed, other = ReplayFeed(tmp_path / "r"), ReplayFeed(tmp_path / "r")
    watched, fresh = Machine(feed), Machine(other)
    for one in (feed, other):
        one.toggle_pause()
        one.start(lambda: None)
    watched.doctor.load()
    fresh.doctor.load()
    feed.seek(349.0)
    assert played(watched, 349) == list(range(350))
    feed.seek(-60.0)
    assert played(watched, 289) == list(range(200, 290))
    other.seek(289.0)
    played(fresh, 289)
    view, expected = watched.view(Settings()), fresh.view(Settings())
    assert view is not None
    assert expected is not None
    assert view.findings == expected.findings
    assert view.undecided == expected.undecided
    device, run = view.snapshot.devices[0].uuid, view.snapshot.runs[0].run_id
    assert view.history.metrics(run) == expected.history.metrics(run) != ()

    def past(history: History) -> list[list[object]]:
        use = history.device(device, "utilization_percent")
        assert use is not None
        return [list(use.buckets), *(list(one.by_step.buckets) for one in history.metric(run, "loss").values())]

    assert past(view.history) == past(expected.history)
    assert view.diagnosis is not None
    assert view.diagnosis._memory is view.history.memory, "the doctor reads the metrics that the screen adds"
    feed.seek(-1e6)
    assert played(watched, 0) == [0]
    feed.close()
    other.close()


def test_keyframes_far_away_are_further_apart() -> None:
    frames = Keyframes(limit_bytes=10_000)
    for number in range(200):
        frames.keep((number, number * 100.0), bytes(900))
    assert len(list(frames)) <= 10_000 // 900
    kept = sorted(number for number, _ in frames)
    assert kept[-3:] == [197, 198, 199]
    assert kept[0] < 100
    assert frames.restore((199, 19_900.0)) == bytes(900)
