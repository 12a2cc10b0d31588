"""The return of an agent that falls while it is trained (J06)."""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.learning.evaluating.courses import Course, courses
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion
from gputop.losses import is_return

VALUES_MIN = 24
"""With fewer values, returns say too little (our choice)."""
FIRST = 2
"""A policy with a wrong sign gets worse from its first updates on: this many means show where it began (our choice)."""
PARTS = 12
"""Where single returns vary too much for that, the first of this many parts does (our choice)."""
HIGHER = 0.1
"""No later part is above it by more than this share of the fall (our choice)."""
DROP = 0.3
"""The second half of the course is lower than its beginning by this share (our choice)."""
SPREADS = 3.0
"""And by this many standard deviations of that half: returns of single episodes vary (our choice)."""
FEW_MEANS = 6
"""This many values are enough if each is the mean of many episodes, by its name (our choice)."""
LOST, LOST_BEFORE = 0.7, 0.5
"""A return that had risen has lost this share of what it had gained, and nearly so before its last value (our choice)."""
SINCE_MIN, SINCE_SHARE, NEWEST = 4, 0.8, 4
"""At least this many parts have come since its best, and this share of them is below the one before; or it has been lost in
this many of the newest ones (our choice)."""
JUMPS = 3.0
"""What it had gained is this many times the usual difference between neighbors: else it is noise (our choice)."""
RISE = 0.1
"""Between two of those parts it may rise by this share of the fall (our choice)."""
GAINED = 0.3
"""And this share of the larger one of both: the mean of many episodes goes up and down in waves (our choice)."""
FALLEN = 0.5
"""Means of many episodes that fall from the first one on have fallen by this share of the larger one (our choice)."""
_OF_MANY = re.compile(r"(?:^|[/_.-])(?:mean|avg|average|smooth(?:ed)?|running)(?:[/_.-]|\d*$)", re.IGNORECASE)


def return_falls(evidence: Evidence, group: RankGroup) -> Judgement:
    """J06: the return of an agent is lower than at first, and was never higher; or it has lost what it had gained."""
    for course in courses(evidence, group, is_return):
        fall = _fall(course)
        if fall is None:
            lost = _collapse(course)
            if lost is not None:
                return Suspicion(_collapsed(group, course, lost), 10.0)
            continue
        first, last = fall
        facts = [
            Fact(f"{course.name} was {units.metric(first)} at first", first, course.source),
            Fact(
                f"it is {units.metric(last)} in the second half of the run, and has never been higher than at first",
                last,
                course.source,
            ),
        ]
        finding = tracked.about(
            group,
            "J06",
            "warning",
            "possible",
            f"The return falls: {course.name} from {units.metric(first)} to {units.metric(last)}",
            facts,
            "The policy learns to avoid what is rewarded: the loss or the advantage has the wrong sign, rewards and actions of "
            "different steps are combined, or the learning rate is far too high.",
            "loss = -(log_prob * advantage).mean()  # an optimizer minimizes: what is to grow gets a minus\n"
            "# and compare with a policy that acts at random",
            "The task became harder on purpose, the opponent learns too, or the agent explores less than at first and has not "
            "learned yet.",
        )
        return Suspicion(finding, 10.0)
    return None


J06 = Rule(
    id="J06",
    order=1709,
    family="learning",
    title="The return falls",
    from_printed=True,
    severities=("warning",),
    confidences=("possible",),
    needs=("journal: returns or rewards, else its files or output",),
    every_s=RARELY_S,
    threshold=(
        f"of {VALUES_MIN} or more returns, the second half is below the first {FIRST} means, or the first of {PARTS} parts: by "
        f"{DROP:.0%} of the larger one, and by {SPREADS:g} of its standard deviations",
        f"no mean is above those at the beginning, or no part by {HIGHER:.0%} of the fall",
        f"or it has lost {LOST:.0%} of what it had gained, falling in {SINCE_SHARE:.0%} of the {SINCE_MIN} or more parts since "
        f"its best, or in the newest {NEWEST}",
        f"that gain is {JUMPS:g} times the usual difference between neighbors, and {GAINED:.0%} of the larger return; or the "
        "fall is, where a mean of episodes only falls after its best, to below where it began",
        f"a return that is named as a mean of episodes needs only {FEW_MEANS} values, each of which is a part; or these fall "
        f"from the first on, by {FALLEN:.0%} in all, and in {SINCE_SHARE:.0%} of the pairs of neighbors",
    ),
    estimated=True,
    mechanism="A gradient with the wrong sign makes the rewarded actions rarer. Or one update is too large, and the ruined "
    "policy collects the data of the next.",
    signature="The return falls from what a random policy gets, and stays there; or it rises, and is lost again.",
    look_alike="An agent that explores less than at first; a curriculum; an opponent that learns, too; a dip before a rise.",
    fix="Check the sign of the loss and of the advantage, and compare with a random policy. If the return had "
    "risen, use smaller updates.",
    judge=return_falls,
)


class _Lost(NamedTuple):
    """A return that rose and fell: at first, at its best, and now."""

    start: float
    best: float
    now: float


def _collapse(course: Course) -> _Lost | None:
    """Return what a return has come to that had risen, and since then has fallen steadily; None if it has not."""
    means = course.means
    of_many = _OF_MANY.search(course.name) is not None
    if course.values < (FEW_MEANS if of_many else VALUES_MIN) or len(means) < FEW_MEANS:
        return None
    points = list(means)
    if len(means) >= 2 * PARTS or not of_many:
        parts = min(PARTS, len(means) // 2)
        points = [units.mean(means[at * len(means) // parts : (at + 1) * len(means) // parts]) for at in range(parts)]
    pairs = [(one + other) / 2 for one, other in itertools.pairwise(points)]
    best = max(range(len(pairs)), key=pairs.__getitem__)
    gain = pairs[best] - points[0]
    usual = statistics.median(abs(after - before) for before, after in itertools.pairwise(points))
    if of_many and _only_falls(points):
        return _Lost(points[0], pairs[best], points[-1])
    since = list(itertools.pairwise(points[best + 1 :]))
    slack = RISE * (pairs[best] - points[-1])
    falls = sum(after < before + slack for before, after in since)
    is_all_lost = of_many and falls == len(since) and points[-1] < points[0]
    is_steep = max(gain, pairs[best] - points[-1] if is_all_lost else 0.0) >= JUMPS * usual
    is_much = gain >= GAINED * max(abs(points[0]), abs(pairs[best])) and is_steep
    if not is_much or len(since) < SINCE_MIN - 1:
        return None
    if falls >= SINCE_SHARE * len(since):
        is_lost = points[-1] <= pairs[best] - LOST * gain and points[-2] <= pairs[best] - LOST_BEFORE * gain
    else:
        is_lost = max(points[-NEWEST:]) <= pairs[best] - LOST * gain
    return _Lost(points[0], pairs[best], points[-1]) if is_lost else None


def _only_falls(points: Sequence[float]) -> bool:
    """Return whether means of many episodes, of which the first ones may be missing, have fallen far and steadily."""
    falls = sum(after < before for before, after in itertools.pairwise(points))
    fall = points[0] - points[-1]
    return falls >= SINCE_SHARE * (len(points) - 1) and fall >= FALLEN * max(abs(points[0]), abs(points[-1]))


def _collapsed(group: RankGroup, course: Course, lost: _Lost) -> Finding:
    return tracked.about(
        group,
        "J06",
        "warning",
        "possible",
        f"The return collapses: {course.name} had come to {units.metric(lost.best)}, and is {units.metric(lost.now)} now",
        [
            Fact(f"{course.name} was {units.metric(lost.start)} at first", lost.start, course.source),
            Fact(f"it had come to {units.metric(lost.best)}, and has lost that since", lost.best, course.source),
        ],
        "An update was too large and ruined the policy, which then collects worse data: the learning rate, the clip range or "
        "the number of epochs for each rollout is too high, or the entropy has gone, so that the agent explores no more.",
        "# continue from the checkpoint with the best return: lower learning rate (also with a schedule), smaller clip range,\n"
        "# fewer epochs for each rollout, target_kl, more entropy (ent_coef)",
        "The task became harder on purpose, or the opponent learns too.",
    )


def _fall(course: Course) -> tuple[float, float] | None:
    """Return the highest mean at the beginning, and that of the second half, of a course that has fallen and never rose."""
    means = course.means
    if course.values < VALUES_MIN or len(means) < 6 * FIRST:
        return None
    end, spread = units.mean(means[len(means) // 2 :]), statistics.pstdev(means[len(means) // 2 :])
    parts = [units.mean(means[at * len(means) // PARTS : (at + 1) * len(means) // PARTS]) for at in range(PARTS)]
    for course_of, first, higher in ((means, FIRST, 0.0), (parts, 1, HIGHER)):
        begin, rest, half = course_of[:first], course_of[first:], course_of[len(course_of) // 2 :]
        start = max(begin)
        is_far = start - end >= DROP * max(abs(start), abs(end)) and min(begin) - end >= SPREADS * spread
        if is_far and max(half) < min(begin) and max(rest) <= start + higher * (start - end):
            return start, end
    return None
