"""A recognizer that gets every word wrong in each evaluation, while its loss stays where it is (part of J03). Pure."""

from __future__ import annotations

import re

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.learning.evaluating.courses import courses
from gputop.doctor.rules.learning.evaluating.evaluations import words_of
from gputop.doctor.rules.learning.evaluating.scored import PERCENT
from gputop.doctor.rules.learning.guessing import steady_median
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.history.points import PointSeries
from gputop.losses import is_of_evaluation

LOSSES_MIN = 12
"""The fewest reports of the loss (our choice)."""
EVALUATIONS_MIN = 6
"""A recognizer says nothing in its first evaluations: CTC's loss has a plateau of blanks at first (our choice)."""
ALL = 0.98
"""At least this share of the words, characters or phones is wrong: an empty answer has an error rate of 1 (our choice)."""
_RATES, _PLAIN_RATES = frozenset(("wer", "cer", "per", "ter", "mer")), frozenset(("wer", "cer"))
_LAST = re.compile(r"[a-z]+$")
_OF_TRAINING = frozenset(("train", "training", "best", "min", "max"))
PERCENT_FROM = 5.0
"""A rate above this counts in percent: more words than that are never inserted for each one (our choice)."""


def all_wrong(evidence: Evidence, group: RankGroup, name: str, series: PointSeries) -> Judgement:
    """J03: every evaluation finds an error rate of about 1, and the loss ``name`` has been the same since its first quarter."""
    if len(series) < LOSSES_MIN:
        return None
    loss = steady_median(series.values[len(series) // 4 :])
    rates = courses(evidence, group, _is_an_error_rate)
    if loss is None or not rates:
        return None
    for rate in rates:
        if rate.values < EVALUATIONS_MIN or rate.lowest < ALL * (100 if rate.lowest > PERCENT_FROM else 1):
            return None
    first = rates[0]
    finding = tracked.about(
        group,
        "J03",
        "warning",
        "possible",
        f"After {first.values} evaluations, everything is still wrong: {first.name} is {units.metric(first.lowest)} or more",
        [
            Fact(
                f"{first.name} was {units.metric(first.lowest)} to {units.metric(first.highest)} in {first.values} evaluations",
                first.lowest,
                first.source,
            ),
            Fact(
                f"{name} stays at {units.metric(loss)} in {units.count(len(series))} reports",
                loss,
                f"{logged.source(group)}: {name}",
            ),
        ],
        "The model gives the same answer to every input, such as blanks only. The learning rate is too high for it or too "
        "low, the texts do not belong to the inputs, or their tokens are not those that the model's outputs stand for.",
        "print(tokenizer.decode(labels[labels >= 0]), hypothesis)  # does this text belong to this input?\n"
        "# and overfit ten samples: if the model cannot, it has a fault",
        "The loss has a plateau at first, and falls later.",
    )
    return Suspicion(finding, 5.0)


def _is_an_error_rate(name: str) -> bool:
    """Return whether a metric is an error rate of an evaluation; no loss trains on one: without a side, it is one, too."""
    last = _LAST.search(name.lower().removesuffix(PERCENT))
    if last is None or words_of(name) & _OF_TRAINING:
        return False
    return last[0] in _RATES if is_of_evaluation(name) else last[0] in _PLAIN_RATES
