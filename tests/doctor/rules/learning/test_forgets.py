"""Data that a script of its own reads in its order: the losses show it, without a loader (J04)."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from gputop.doctor.findings.finding import Finding
from tests.doctor.scenes.base import only_shown, play
from tests.doctor.scenes.near.learning import CALM, Scene, by_class, falls, restarting, rounds, sampled_by, single, with_metrics

Loss = Callable[[int, int], float]
FIRST = 2.3
BEGINS = 118
"""The step of the first jump."""


def own_data(loss: Loss, **more: Loss) -> Scene:
    """One process that reads its data without a loader of torch."""
    metrics = {**CALM, "loss": loss, **more}
    return lambda second: with_metrics(single(second, {"loader": None}, metrics=metrics))


def jumps(to: float = 20.0, low: float = 1e-4, every: int = 20, times: int = 100, late: int = 0) -> Loss:
    """From a low loss to another, this often, and evenly spaced; most times up to ``late`` steps later."""
    starts = [BEGINS + number * every + late * (number * number % 7) // 4 for number in range(times)]

    def loss(rank: int, step: int) -> float:
        if step < BEGINS:
            return falls(rank, step)
        since = step - max(at for at in starts if at <= step)
        return max(low, to * math.exp(-since))

    return loss


def with_small_jumps(rank: int, step: int) -> float:
    """Every third jump is hardly one."""
    return jumps()(rank, step) * (0.2 if step >= BEGINS and (step - BEGINS) // 20 % 3 == 1 else 1.0)


def of_two_classes(to: float = 20.0, ways: tuple[int, ...] = (30, 10), times: int = 100) -> Loss:
    """Jumps where one of two classes of different sizes begins, in each epoch."""
    starts = [BEGINS]
    while len(starts) < times:
        starts.append(starts[-1] + ways[len(starts) % len(ways)])

    def loss(rank: int, step: int) -> float:
        if step < BEGINS:
            return falls(rank, step)
        return max(1e-4, to * math.exp(-(step - max(at for at in starts if at <= step))))

    return loss


def said_of(scene: Scene, seconds: int = 75) -> Finding | None:
    """Return what the doctor says of the order of the data."""
    return next((item for item in play(scene, seconds)[-1] if item.id == "J04"), None)


def test_a_loss_that_jumps_far_above_its_first_value_again_and_again_may_come_from_sorted_data() -> None:
    finding = said_of(own_data(jumps()))
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("warning", "possible")
    assert finding.title == "Every 20 steps, the loss jumps far above its first values: the data may not be shuffled"
    assert "and then jumped to 20" in finding.evidence[0].text


def test_so_of_a_run_that_only_prints_its_losses() -> None:
    finding = said_of(only_shown(own_data(jumps()), {"source": "log"}))
    assert finding is not None
    assert finding.evidence[0].source != "journal: loss"


def test_so_if_some_jumps_are_small() -> None:
    finding = said_of(own_data(with_small_jumps), 120)
    assert finding is not None


def test_so_of_jumps_that_repeat_in_each_epoch_where_classes_of_different_sizes_begin() -> None:
    finding = said_of(own_data(of_two_classes()), 120)
    assert finding is not None
    assert finding.title == "Every 40 steps, the loss jumps far above its first values 2 times: the data may not be shuffled"
    assert said_of(own_data(of_two_classes(ways=(30, 10, 25, 14, 33, 8, 29, 17, 36))), 120) is None


@pytest.mark.parametrize(
    ("near", "fault"),
    [
        (jumps(to=2.9 * FIRST, low=0.1 * FIRST), jumps(to=3.3 * FIRST, low=0.1 * FIRST)),
        (jumps(to=1.0 * FIRST, low=0.03 * FIRST), jumps(to=1.3 * FIRST, low=0.03 * FIRST)),
        (jumps(to=2.0 * FIRST, low=0.07 * FIRST), jumps(to=2.0 * FIRST, low=0.03 * FIRST)),
        (jumps(to=0.25 * FIRST), jumps(to=0.4 * FIRST)),
        (jumps(low=0.35 * FIRST), jumps(low=0.25 * FIRST)),
        (jumps(late=6), jumps(late=2)),
        (jumps(times=5), jumps(times=6)),  # before the first one, it has not learned enough
        (of_two_classes(times=6), of_two_classes(times=7)),  # likewise
    ],
    ids=[
        "hardly above the first loss",
        "as at first",
        "not sure before",
        "back a little",
        "not learned in between",
        "at uneven times",
        "few times",
        "few times in turn",
    ],
)
def test_bounds(near: Loss, fault: Loss) -> None:
    assert said_of(own_data(near)) is None
    assert said_of(own_data(fault)) is not None


@pytest.mark.parametrize(
    "scene",
    [
        own_data(falls),
        own_data(by_class),
        own_data(jumps(), training=rounds),
        own_data(jumps(), lr=restarting),
        sampled_by("RandomSampler", jumps()),
    ],
    ids=["falls", "a new model each time", "a new model that is counted", "restarts of the rate", "a loader that shuffles"],
)
def test_others_say_nothing(scene: Scene) -> None:
    assert said_of(scene) is None
