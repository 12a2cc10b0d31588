"""Models that are trained in evaluation mode (J07), and what lies near to it."""

from __future__ import annotations

from typing import Any

from gputop.snapshot import Snapshot
from tests.doctor.scenes.base import Scene
from tests.doctor.scenes.near.pairs import Pair
from tests.doctor.tracked import single

FIRST = 98
"""The step at which the scenes begin."""


def called(since: int | None, dropout: int = 3, batch_norm: int = 20) -> Scene:
    """One process whose model is called in evaluation mode only since this step."""
    layers = {"layers": batch_norm, "synced": 0, "frozen": 0}
    mode = {} if since is None else {"evaluation_mode_from": since}

    def scene(second: int) -> Snapshot:
        facts: dict[str, Any] = {"model": {"class": "ResNet", "dropout": dropout, "batch_norm": layers, **mode}}
        return single(second, facts)

    return scene


def in_part(off: int, dropout: int = 10) -> Scene:
    """One process whose model is in training mode, but for a part with this many of its dropout layers."""

    def scene(second: int) -> Snapshot:
        return single(second, {"model": {"class": "LetterSorter", "dropout": dropout, "dropout_off": off}})

    return scene


stays_in_evaluation = called(FIRST + 10)
never_in_training = called(0)

PAIRS = (
    Pair("J07", "a model in training mode", called(None), stays_in_evaluation, 60),
    Pair("J07", "layers that are the same in both modes", called(FIRST + 10, 0, 0), called(FIRST + 10, 1, 0), 60),
    Pair("J07", "an evaluation with gradients", called(FIRST + 150), stays_in_evaluation, 60),
    Pair("J07", "a few layers that are off", in_part(4), stays_in_evaluation, 60),
    Pair("J07", "a part in evaluation mode", in_part(5), stays_in_evaluation, 60, at_most="possible"),
    Pair("J07", "a model that is never in training mode", never_in_training, stays_in_evaluation, 60, at_most="possible"),
)
