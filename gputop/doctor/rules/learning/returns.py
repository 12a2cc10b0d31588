"""The return of an agent that falls while it is trained (J06)."""

from __future__ import annotations

import statistics

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.learning.courses import Course, courses
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion
from gputop.losses import is_return

VALUES_MIN = 24
"""With fewer values, returns say too little (our choice)."""
FIRST = 2
"""A policy with a wrong sign gets worse from its first updates on: so many means show where it began (our choice)."""
PARTS = 12
"""Where single returns vary too much for that, the first of so many parts does (our choice)."""
HIGHER = 0.1
"""No later part is above it by more than this share of the fall (our choice)."""
DROP = 0.3
"""The second half of the course is lower than its beginning by this share (our choice)."""
SPREADS = 3.0
"""And by this many standard deviations of that half: returns of single episodes vary (our choice)."""


def return_falls(evidence: Evidence, group: RankGroup) -> Judgement:
    """J06: the return of an agent is lower than at first, and was never higher."""
    for course in courses(evidence, group, is_return):
        fall = _fall(course)
        if fall is None:
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
    ),
    estimated=True,
    mechanism="A gradient with the wrong sign makes the rewarded actions rarer.",
    signature="The return falls from what a random policy gets, and stays there.",
    look_alike="An agent that explores less than at first; a curriculum; an opponent that learns, too; a dip before a rise.",
    fix="Check the sign of the loss and of the advantage, and compare with a random policy.",
    judge=return_falls,
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
