"""A loss that leaps up and stays there, in a log too short for the other judgements of J02. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gputop import units
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.learning.exploding import times_text
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.only_loss import opposes
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.history.points import PointSeries

STEPS_MIN, TIMES, FROM, TO = 5, 1e4, 0.01, 1e3
"""In this many steps, all up to the newest, the loss is this many times everything before, which was at least ``FROM``: a term
that begins near 0 may grow as far. It is at least ``TO`` (our choice)."""
EPOCHS_BEFORE, EPOCHS_SINCE, GROWN, STAYS = 8, 4, 3.0, 0.9
"""In this many newest epochs, after at least the first number, the loss is this many times everything before, and its last
value at least this share of the highest: one that gained a term, or harder data, falls again (our choice)."""
HOLD_S = 10.0


def leaps(group: RankGroup, name: str, series: PointSeries, is_by_epochs: bool) -> Judgement:
    """J02: all newest losses are many times each one before. ``is_by_epochs``: there is one for each epoch."""
    values = list(series.values)
    if not values or not all(map(math.isfinite, values)) or min(values) <= 0 or opposes(name):
        return None
    far = _leap(values, TIMES)
    if far is not None:
        enough = len(set(series.steps[far:])) >= STEPS_MIN and max(values[:far]) >= FROM and min(values[far:]) >= TO
        return _suspicion(group, name, series, far) if enough else None
    at = _leap(values, GROWN) if is_by_epochs else None
    if at is None or at < EPOCHS_BEFORE or len(values) - at < EPOCHS_SINCE or values[-1] < STAYS * max(values[at:]):
        return None
    return _suspicion(group, name, series, at)


def _leap(values: Sequence[float], times: float) -> int | None:
    """Return from which value on all are this many times everything before."""
    lowest = math.inf
    for at in range(len(values) - 1, 0, -1):
        lowest = min(lowest, values[at])
        if lowest >= times * max(values[:at]):
            return at
    return None


def _suspicion(group: RankGroup, name: str, series: PointSeries, at: int) -> Suspicion:
    now, before, where = series.values[-1], series.values[at - 1], f"{logged.source(group)}: {name}"
    times = times_text(now / min(series.values[:at]))
    return Suspicion(
        tracked.about(
            group,
            "J02",
            "warning",
            "possible",
            f"The loss has grown to {units.metric(now)}, {times} times its lowest",
            [
                Fact(f"it was {units.metric(before)} at step {units.count(series.steps[at - 1])}", before, where),
                Fact(
                    f"since step {units.count(series.steps[at])}, it has never been below "
                    f"{units.metric(min(series.values[at:]))}",
                    now,
                    where,
                ),
            ],
            "A step was too large: the learning rate is too high at this point of the run, or the gradients of a few batches "
            "are far larger than usual.",
            "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # before optimizer.step()\n"
            f"# continue from a checkpoint before step {units.count(series.steps[at])}, with a lower learning rate",
            "The loss gained a term, or the task became harder on purpose.",
        ),
        HOLD_S,
    )
