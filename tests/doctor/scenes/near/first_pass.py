"""Waits for data in the first pass over it (D01), by data sets that keep what they have read, and by others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gputop.snapshot import Snapshot
from tests.doctor.scenes.base import Scene
from tests.doctor.scenes.near.pairs import Pair
from tests.doctor.tracked import CALM, single

MIB = 2**20
PASS_STEPS = 100
FIRST_STEP = 98
"""Scenes start at this step, with three steps a second."""


def waits(step: int) -> bool:
    return step < FIRST_STEP + PASS_STEPS


def reads(mib: Callable[[int], float], slow: Callable[[int], bool] = waits, first_epoch: int = 0, workers: int = 0) -> Scene:
    """One process that waits for its data in slow steps, and holds this much memory at each second."""
    metrics = {
        **CALM,
        "step_s": lambda rank, step: 0.3 if slow(step) else 0.1,
        "phase/data": lambda rank, step: 0.21 if slow(step) else 0.01,
        "epoch": lambda rank, step: float(first_epoch + (step - FIRST_STEP) // PASS_STEPS),
    }
    facts = {"loader": {"num_workers": workers, "length": PASS_STEPS}}

    def scene(second: int) -> Snapshot:
        shot = single(second, facts, metrics=metrics)
        (process,) = shot.processes
        held = int((4000 + mib(second)) * MIB)
        return replace(shot, processes=(replace(process, memory_rss_bytes=held),))

    return scene


def grows(second: int) -> float:
    return 12.0 * min(second, PASS_STEPS / 3)


keeps_what_it_decodes = reads(grows)
decodes_anew = reads(lambda second: 3.0 * (second % 2))
still_slow_afterwards = reads(grows, lambda step: True)
grows_once = reads(lambda second: 0.0 if second < 12 else 900.0)
a_later_pass = reads(grows, first_epoch=4)

PAIRS = (
    Pair("D01", "a data set that keeps what it has decoded", keeps_what_it_decodes, decodes_anew, 32, at_most="possible"),
    Pair("D01", "the second pass is fast", keeps_what_it_decodes, still_slow_afterwards, 80, at_most="possible"),
    Pair(
        "D01",
        "a data set that keeps what it has decoded, beside one that allocates once",
        keeps_what_it_decodes,
        grows_once,
        32,
        at_most="possible",
    ),
    Pair("D01", "the fifth pass", keeps_what_it_decodes, a_later_pass, 32, at_most="possible"),
)
