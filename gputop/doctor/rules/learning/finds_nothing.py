"""A detector whose evaluations find nothing at all, while the parts of its loss fall (part of J05). Pure."""

from __future__ import annotations

import re

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.learning.courses import courses
from gputop.doctor.rules.learning.scored import Guess
from gputop.doctor.rules.support import logged
from gputop.doctor.rules.support.only_loss import STRETCHES_MIN, opposes
from gputop.losses import is_of_evaluation

TIMES_MIN, HIGHEST, HALVED = 8, 0.001, 0.5
"""A mean average precision that is so often at most this has found nothing, though the sum of the losses has fallen to a half:
detectors log no such sum, and print their parts rounded (our choice)."""
_PRECISION = re.compile(r"(?i)(?:^|[/_.])map(?:@?\.?\d{1,3}(?:[-:]\.?\d{1,3})?)?(?:\([a-z]\))?$")
"""Only evaluations measure it: it needs no word for them in its name."""


def finds_nothing(evidence: Evidence, group: RankGroup) -> Guess | None:
    """Return a mean average precision that is always 0, beside losses whose sum falls."""
    scores = courses(evidence, group, lambda name: _PRECISION.search(name) is not None)
    if not scores or not all(item.values >= TIMES_MIN and 0 <= item.lowest <= item.highest <= HIGHEST for item in scores):
        return None
    rank = min(logged.ranks_of(group), key=lambda item: item.rank)
    names = [
        name
        for name in sorted(rank.metrics)
        if name.lower().endswith("loss") and not is_of_evaluation(name) and "scale" not in name and not opposes(name)
    ]
    levels = [evidence.levels(logged.run_id(group), rank.rank, name).stretches for name in names]
    if not levels or any(len(item) < STRETCHES_MIN or len(item) != len(levels[0]) for item in levels):
        return None
    start = sum(item[0].mean for item in levels)
    now = sum(units.mean([stretch.mean for stretch in item[-2:]]) for item in levels)
    if not 0 < now <= HALVED * start:
        return None
    text = f"the sum of {', '.join(names)} fell from {units.metric(start)} to {units.metric(now)}"
    return Guess(scores[0], Fact(text, now, f"{logged.source(group)}: {names[0]}"))
