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


def course(*activities: Activity, apart_s: int = 1) -> tuple[Doings, Process]:
    """Looks at one process, this many seconds apart, each activity at its own line."""
    doings, process = Doings(), Process(pid=7, started_at=5.0)
    for number, activity in enumerate(activities):
        doing = Doing(activity, f"train.py:{len(activity)}", "fit")
        shot = replace(samples.snapshot(number * apart_s), processes=(replace(process, doing=doing),))
        doings.observe(shot)
    return doings, process


def test_a_main_thread_stands_at_one_line_that_trained_before() -> None:
    doings, process = course("forward", "backward", "data", "data", "optimizer", "wait", "wait", "wait", apart_s=2)
    found = doings.at_one_line(process)
    assert found is not None
    assert (found.at.line, found.looks, found.seconds, found.longest_break_s) == ("train.py:4", 3, 4.0, 6.0)


def test_whether_a_main_thread_trained_before_it_stood_is_known() -> None:
    looks: dict[tuple[Activity, ...], bool | None] = {
        ("forward", "backward", "optimizer", "wait"): True,
        ("forward", "forward", "forward", "wait"): False,
        ("forward", "backward", "wait"): None,
        ("import", "wait"): None,
    }
    for activities, trained in looks.items():
        doings, process = course(*activities)
        found = doings.at_one_line(process)
        assert found is not None
        assert (found.trained, found.looks) == (trained, 1)


def test_no_main_thread_stands_that_computes_or_is_not_seen_any_more() -> None:
    doings, process = course("forward", "forward", "backward", "forward")
    assert doings.at_one_line(process) is None
    doings, process = course("forward", "backward", "optimizer", "wait")
    for second, standing in ((13, True), (14, False)):
        doings.observe(replace(samples.snapshot(second), processes=(replace(process, doing=None),)))
        assert (doings.at_one_line(process) is not None) is standing
    doings.observe(samples.snapshot(15))
    assert doings.at_one_line(process) is None, "it is gone"
