"""Ranks that are often seen in a collective at the same time (E06), and what only resembles it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.snapshot import Snapshot
from gputop.whereabouts.records import Activity, Doing
from tests.doctor.scenes.base import Scene, ids, play
from tests.doctor.scenes.by_hand import by_hand
from tests.doctor.scenes.outside import seen_at
from tests.doctor.scenes.own_work import constant

Look = Callable[[int], Doing]
ALONE: tuple[Activity, ...] = ("forward", "backward", "optimizer")
REDUCE = Doing("collective", "train.py:33", "synchronise", "dist.all_reduce(flat)")


def in_turn(*activities: Activity) -> Look:
    """Look at these one after the other, again and again."""
    looks = [REDUCE if name == "collective" else Doing(name, "train.py:60", "fit") for name in activities]
    return lambda second: looks[second % len(looks)]


def until(last: int, look: Look) -> Look:
    """Look so up to a second, and then only at the collective."""
    return lambda second: look(second) if second <= last else REDUCE


def judged(scene: Scene, seconds: int = 60) -> Finding | None:
    return next((item for item in play(scene, seconds)[-1] if item.id == "E06"), None)


OFTEN = in_turn("collective", "collective", "forward", "collective", "backward")
AT_TIMES = in_turn("collective", "forward", "optimizer", "collective", "backward", "forward", "collective", "optimizer")


def test_ranks_that_are_often_in_a_collective_at_once_communicate_for_long() -> None:
    finding = judged(seen_at(OFTEN, OFTEN))
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("warning", "possible")
    assert finding.title == "Communication takes 60% of the time"
    assert finding.evidence[0].text.startswith(
        "the main threads of both ranks were in a collective at the same time in 60% of 40"
    )
    assert finding.evidence[1].text == "mostly at train.py:33 in synchronise: `dist.all_reduce(flat)`"


def test_two_fifths_of_the_time_are_enough() -> None:
    enough = in_turn("collective", "forward", "collective", "backward", "optimizer")
    assert judged(seen_at(enough, enough)) is not None


def test_ranks_that_compute_no_more_hang() -> None:
    stopped = seen_at(until(48, OFTEN), until(48, OFTEN))
    assert judged(stopped, 64) is not None
    assert judged(stopped, 70) is None


@pytest.mark.parametrize(
    "looks",
    [
        [AT_TIMES, AT_TIMES],
        [OFTEN, in_turn("backward", "backward", "collective", "forward", "collective")],
        [OFTEN],
        [in_turn("collective"), in_turn("collective")],
    ],
    ids=["for less of the time", "one waits for the other in turn", "one process", "they stand there"],
)
def test_ranks_that_wait_for_one_another_or_for_good_are_left_alone(looks: list[Look]) -> None:
    assert judged(seen_at(*looks)) is None


def test_a_rank_elsewhere_may_be_late() -> None:
    def one_of_three(second: int) -> Snapshot:
        shot = seen_at(OFTEN, OFTEN)(second)
        of_three = [
            replace(process, environment=replace(process.environment, world_size=3)) if process.environment else process
            for process in shot.processes
        ]
        return replace(shot, processes=tuple(of_three))

    assert judged(one_of_three) is None


def test_a_tracked_run_that_averages_by_hand_is_not_said_to_wait_for_its_own_code() -> None:
    times = {"step_s": 0.3, "phase/data": 0.004, "phase/forward": 0.02, "phase/backward": 0.05, "phase/optimizer": 0.01}
    base = by_hand(
        {"all_reduce": 1},
        batches="own",
        weights="same",
        losses="unlike",
        world=2,
        times={name: constant(value) for name, value in times.items()},
    )

    def seen(look: Look) -> Scene:
        def scene(second: int) -> Snapshot:
            shot = base(second)
            return replace(
                shot,
                processes=tuple(replace(process, doing=look(second)) for process in shot.processes),
                devices=tuple(replace(device, utilization_percent=22.0) for device in shot.devices),
            )

        return scene

    assert ids(play(seen(OFTEN), 60)[-1]) == ["E06"]
    assert "D01" in ids(play(seen(in_turn("forward", "backward", "optimizer")), 60)[-1])
