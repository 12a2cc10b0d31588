"""A main thread that is nearly always at data, and so never seen to compute: what it prints shows that it trains (D01)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.snapshot import Snapshot
from gputop.whereabouts.records import Activity, Doing
from tests.doctor.scenes.base import Scene, only_shown, play
from tests.doctor.scenes.near.learning import falls, run_with

READS = Doing("data", "sheets.py:39", "__getitem__")
SECONDS = 100


def printing(every_s: int, look: Callable[[int], Doing] = lambda second: READS, percent: float = 10.0) -> Scene:
    """A process on a GPU that is busy for this much of the time; it prints a loss this often, and is seen at this."""
    scene = only_shown(run_with(falls), {"source": "log"})

    def shown(second: int) -> Snapshot:
        shot = scene(second)
        devices = tuple(replace(device, utilization_percent=percent) for device in shot.devices)
        processes = tuple(replace(process, doing=look(second)) for process in shot.processes)
        points = tuple(
            replace(item, steps=item.steps[-1:], times=item.times[-1:], values=item.values[-1:])
            for item in shot.points
            if second % every_s == 0
        )
        return replace(shot, devices=devices, processes=processes, points=points)

    return shown


def said_of(scene: Scene) -> Finding | None:
    return next((item for item in play(scene, SECONDS)[-1] if item.id == "D01"), None)


def test_data_that_takes_all_looks_of_a_run_that_prints_its_losses_is_named() -> None:
    finding = said_of(printing(5))
    assert finding is not None
    assert finding.confidence == "likely"
    assert finding.title == "The GPUs wait for data: the training prepares it in 100% of the time"
    assert "mostly at sheets.py:39 in __getitem__" in finding.evidence[0].text


def seldom(other: Activity, every: int) -> Callable[[int], Doing]:
    return lambda second: READS if second % every else Doing(other, "fit.py:9", "main")


@pytest.mark.parametrize(
    ("near", "fault"),
    [
        (printing(25), printing(14)),
        (printing(5, seldom("other", 4)), printing(5, seldom("other", 6))),
        (printing(5, percent=70.0), printing(5, percent=50.0)),
    ],
    ids=["prints seldom", "is elsewhere in a quarter of the looks", "the GPU is busy"],
)
def test_bounds(near: Scene, fault: Scene) -> None:
    assert said_of(near) is None
    assert said_of(fault) is not None
