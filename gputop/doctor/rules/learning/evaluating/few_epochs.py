"""A model that overfits within a few epochs, each with one training loss and one evaluation (part of J05). Pure.

Both are means over many samples: where each one is worse than the one before, a few are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.rules.learning.evaluating.courses import Course
from gputop.doctor.rules.support import logged
from gputop.doctor.rules.support.only_loss import STRETCHES_MIN
from gputop.snapshot import Rank

EPOCHS_MIN = 5
"""At least this many epochs were reported (our choice), and too few for the other judgements."""
TRAINED = 0.5
"""The training loss has fallen in each of them, and to this share of its first value (our choice)."""
RISES_MIN, GROWN = 4, 2.0
"""The evaluation's loss has risen this often in a row, up to now, and to this many times its lowest (our choice)."""
GROWN_WITH_SCORES = 1.5
"""This many times is enough if every score has fallen (our choice)."""
RISES_LEAST, GROWN_SOON = 3, 1.75
"""If every score has fallen, this many rises are enough if they come to this many times the lowest (our choice)."""
FALLEN = 0.99
"""A score has fallen if it is below this share of its best, and either has fallen twice in a row or is below its first value:
a single one of a small data set varies by more (our choice)."""
AGAIN = 2.0
"""A loss that jumps to this many times its last value where the epochs begin anew is that of a new run (our choice)."""


def begins_at(evidence: Evidence, group: RankGroup, rank: Rank, loss: str) -> int | None:
    """Return the step at which the newest of several runs in one log begins; None if there is only one."""
    run = logged.run_id(group)
    epochs, losses = evidence.series(run, rank.rank, "epoch"), evidence.series(run, rank.rank, loss)
    if any(after < before for before, after in pairwise(epochs.steps)):
        return None
    for before, after in reversed(list(pairwise(epochs))):
        if after.value < before.value and after.value <= 1:
            old = [value for step, value in zip(losses.steps, losses.values, strict=True) if step < after.step]
            new = [value for step, value in zip(losses.steps, losses.values, strict=True) if step >= after.step]
            return after.step if old and new and new[0] >= AGAIN * old[-1] > 0 else None
    return None


def overfits_at_once(trained: Sequence[float], course: Course, scores: Sequence[Course]) -> bool:
    """Return whether a loss of the evaluation has risen in each epoch since its lowest, while the training's fell in each."""
    means, lowest = course.means, min(course.means)
    if not EPOCHS_MIN <= len(means) < STRETCHES_MIN or len(trained) != len(means) or course.values != len(means) or lowest <= 0:
        return False
    falls = all(after < before for before, after in pairwise(trained))
    if not falls or not 0 < trained[-1] <= TRAINED * trained[0]:
        return False
    since = means[means.index(lowest) :]
    rises = len(since) - 1
    if not all(before < after for before, after in pairwise(since)):
        return False
    if not scores:
        return rises >= RISES_MIN and since[-1] >= GROWN * lowest
    if not all(has_fallen(score.means) for score in scores):
        return False
    return since[-1] >= (GROWN_WITH_SCORES if rises >= RISES_MIN else GROWN_SOON) * lowest and rises >= RISES_LEAST


def has_fallen(means: Sequence[float]) -> bool:
    """Return whether a score that came once an epoch has fallen, by more than one of them varies."""
    falls = len(means) > 2 and means[-1] < means[-2] < means[-3]
    return means[-1] <= FALLEN * max(means) and (falls or means[-1] < means[0])
