"""Ranks that are gone while the others stand still, as their processes show it (G04), and those that only look so.

``PAIRS`` holds each with the fault that it differs from in one thing.
"""

from __future__ import annotations

from dataclasses import replace

from gputop.snapshot import Snapshot
from tests.doctor.scenes.base import gpus, rank, scene, use
from tests.doctor.scenes.near import Pair, look_alikes


def left_alone(second: int, gone: tuple[int, ...] = (2,), stood_from: int = 10) -> Snapshot:
    """Four ranks that nobody tracks; after ten seconds some are gone, and the others run no backward any more."""
    stays = [number for number in range(4) if second < stood_from or number not in gone]
    ranks = (replace(rank(n, use(n), world=4, second=min(second, stood_from)), run_id=None, rank=n) for n in stays)
    return scene(second, gpus(stays, 4), tuple(ranks))


def gone_and_going_on(second: int) -> Snapshot:
    """Ranks that do not wait for one another, as in a sweep that a launcher has started."""
    ranks = (replace(rank(n, use(n), world=4, second=second), run_id=None, rank=n) for n in (0, 1, 3))
    return scene(second, gpus((0, 1, 3), 4), tuple(ranks))


PAIRS = (
    Pair("G04", "the others train on", gone_and_going_on, left_alone, 60),
    Pair("G04", "all ranks are there", lambda second: left_alone(second, ()), left_alone, 60),
    Pair("G04", "all have just stopped", lambda second: left_alone(second, stood_from=50), left_alone, 60),
)
LOOK_ALIKES = look_alikes(PAIRS)
