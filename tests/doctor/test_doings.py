"""The looks at main threads that are kept, and what they amount to."""

from __future__ import annotations

from dataclasses import replace

from gputop.doctor.evidence.doings import WINDOW_S, Doings, Pauses, Seen
from gputop.process import Process
from gputop.whereabouts.records import Activity, Doing
from tests import samples


def seen(*activities: Activity) -> Seen:
    return Seen(tuple(Doing(activity) for activity in activities))


def test_shares_and_beginnings_are_those_of_the_looks() -> None:
    looks = seen("data", "data", "forward", "data", "backward", "checkpoint")
    assert (looks.share("data"), looks.share("forward", "backward")) == (0.5, 2 / 6)
    assert (looks.times("data"), looks.times("checkpoint"), looks.times("optimizer")) == (2, 1, 0)
    assert Seen(()).share("data") == 0.0


def test_a_run_trains_if_it_was_seen_to_compute_repeatedly_and_lately() -> None:
    assert seen("forward", "data", "backward", "data", "optimizer").trains
    assert not seen("forward", "data", "backward").trains, "two looks are no loop"
    assert not seen("forward", "backward", "forward", *["data"] * 11).trains, "it has stopped"
    loss = Doing("other", "train.py:60", "fit")
    assert Seen((loss, loss, Doing("backward", "train.py:61", "fit"))).trains, "operators leave no call on a stack"
    assert not Seen((loss, loss, Doing("backward", "train.py:61", "main"))).trains


def test_the_line_that_is_named_is_the_most_frequent_one() -> None:
    one, other = Doing("data", "a.py:1", "read"), Doing("data", "a.py:2", "read")
    assert Seen((one, other, other, Doing("forward", "a.py:9", "main"))).mostly_at("data") == (other, 2)
    assert seen("data").mostly_at("data") is None


def test_pauses_are_looks_at_other_work() -> None:
    own = Doing("other", "train.py:9", "digest")
    looks = (*[Doing("forward", "train.py:5", "fit")] * 4, own, own, Doing("files"), Doing("other", "train.py:6", "fit"))
    pauses = Seen((*looks, *looks)).pauses
    assert (pauses.share, pauses.lengths, pauses.mostly) == (6 / 16, [3, 3], own), "fit computes, too"
    assert pauses.last
    assert Pauses(()).mostly is None


def test_work_in_each_step_is_seen_at_any_look() -> None:
    steps = Seen((Doing("forward"), Doing("metrics"), Doing("backward"), Doing("data"), Doing("metrics"), Doing("metrics")) * 9)
    assert (steps.pauses.share, steps.pauses.last) == (0.5, False)


def test_a_run_that_pauses_for_long_goes_on_training() -> None:
    pause = ["files"] * 20
    assert seen("forward", "backward", *pause, "forward", *pause).trains  # type: ignore[arg-type]
    assert not seen("forward", "backward", *pause, "forward", *pause, "files").trains  # type: ignore[arg-type]


def test_looks_count_once_for_some_minutes_and_from_the_first_computation() -> None:
    doings = Doings()
    process = Process(pid=7, started_at=5.0, doing=Doing("forward"))
    prepares = replace(samples.snapshot(0), processes=(replace(process, doing=Doing("data")),))
    doings.observe(prepares)
    assert not doings.seen(process).looks, "it has not begun to train"
    for second in range(1, int(WINDOW_S) + 50):
        # Every other snapshot repeats the reading of the one before.
        read_s = None if second % 2 == 0 else float(second - 1)
        base = samples.snapshot(second)
        doings.observe(replace(base, processes=(replace(process, waits_read_s=read_s and base.monotonic_s - 1.0),)))
    assert len(doings.seen(process).looks) == WINDOW_S / 2
    assert len(doings.seen(process, 10.0).looks) == 5
    assert not doings.seen(replace(process, started_at=6.0)).looks, "that is another process"
    doings.observe(samples.snapshot(int(WINDOW_S) + 51))
    assert not doings.seen(process).looks, "it is gone"
