"""Runs that slow down (E10), and what lies near: a pace that changes once, batches that grow, a slow beginning."""

from __future__ import annotations

from collections.abc import Callable

from tests.doctor.scenes.base import Scene
from tests.doctor.scenes.near.learning import falls, run_with, with_metrics
from tests.doctor.scenes.near.pairs import Pair
from tests.doctor.tracked import CALM, single

BEGIN, ALL = 98, 360
SECONDS = 120


def run_at(step_s: Callable[[int, int], float], **more: Callable[[int, int], float]) -> Scene:
    """A run whose loss falls as it should, at this pace."""
    return run_with(CALM["loss"], step_s=step_s, **more)  # type: ignore[arg-type]


def grown(rank: int, step: int) -> float:
    """From 0.2 s to 0.5 s."""
    return 0.2 + 0.3 * (step - BEGIN) / ALL + 0.004 * (step % 5)


def printed(rate: Callable[[int, int], float]) -> Scene:
    """A run of which loss and throughput are known, and no more."""
    return lambda second: with_metrics(single(second, {}, metrics={"loss": falls, "throughput": rate}))


slows_down = run_at(grown)
slower_hour = run_at(lambda rank, step: 0.3 if 200 < step < 300 else 0.2 + 0.004 * (step % 5))
another_program_came = run_at(lambda rank, step: 0.35 + 0.01 * (step * 7 % 11) if step > 280 else 0.2 + 0.01 * (step * 7 % 11))
larger_batches = run_at(grown, samples_per_s=lambda rank, step: 320.0 + step % 7)
slow_beginning = run_at(lambda rank, step: 0.2 + 2.0 * 0.97 ** (step - BEGIN))
rate_falls = printed(lambda rank, step: 64 / grown(rank, step))
rate_stays = printed(lambda rank, step: 320.0 + step % 7)

PAIRS = (
    Pair("E10", "a slow hour that passes", slower_hour, slows_down, SECONDS),
    Pair("E10", "another program came", another_program_came, slows_down, SECONDS),
    Pair("E10", "batches that grow", larger_batches, slows_down, SECONDS),
    Pair("E10", "a slow beginning", slow_beginning, slows_down, SECONDS),
)
