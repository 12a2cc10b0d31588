"""A run whose steps take longer and longer (E10), judged over its whole course, not over the newest steps."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

from gputop import units
from gputop.doctor.evidence.evidence import WARM_UP_STEPS, Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.pace.beside import busy_beside, name_of, seen_beside
from gputop.doctor.rules.pace.other_work import GROWN_SHARE, GROWTH_LOOKS_MIN, GROWTH_MIN, growth_of
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.culprit import TAKEN_TEXT, taken_from
from gputop.doctor.rules.support.grown_part import GROWTH, MUCH, RISING, grown_part
from gputop.doctor.rules.support.grown_part import SPAN_MIN_S as PART_SPAN_S
from gputop.doctor.rules.support.policies import learns_policy
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion, case
from gputop.doctor.rules.support.stages import STAGES_TEXT, grown_work, states_more_work
from gputop.levels import STEP_TIME, Stretch, is_rate
from gputop.snapshot import Rank

PARTS = 8
SLOWER = 1.3
SURE_SHARE = 0.9
"""This share of all pairs of parts must rise with time; a single change of level makes three quarters of them rise."""
SPAN_MIN_S = 60.0
SPAN_IF_CLEAR_S = 45.0
SPAN_IF_MUCH_S = 30.0
"""Less time is enough if each part is slower than the previous one, by ``SLOWER_OF_FEW`` or by ``MUCH_SLOWER`` in all."""
VALUES_MIN = 100
"""Values needed of a rate, whose printed values may carry no time of their own."""
VALUES_FEW = 40
SLOWER_OF_FEW = 1.5
"""Fewer values, often means of many steps, are enough if each part is slower than the previous one, by this factor in all."""
SLOWER_OF_VERY_FEW = 2.0
"""Still fewer are enough by this factor (our choice)."""
MUCH_SLOWER = 3.0
"""From this factor on, a part or two may be out of order, as on a machine that others use."""
ROWS_SAME = 1.15
"""If the rows per second fall by less than this, the steps are longer because they contain more rows."""

TIMES = "the times of its values"
"""Stands for a metric: the pace of a run that logs neither step times nor a throughput."""
PARTS_FEW = 4
"""This many parts are enough for "possible" if the last is ``MUCH_SLOWER``, for example if only epochs are logged."""
BETWEEN_SHARE = 0.7
"""Where the time between the steps grows, they themselves take less than this share of all (our choice)."""
EPOCH_S = "epoch_s"
TOTAL_FROM = 1.7
"""If the second epoch took this many times as long as the first, the time may be counted from the start (our choice)."""
READ_EVERY_S = 1.0
"""What a run prints is read once a second, so the time of each part may be this much shorter or longer."""


class _Course(NamedTuple):
    """The seconds per step, or a substitute, in each part of a run's course, and the steps at which the parts begin."""

    metric: str
    seconds: tuple[float, ...]
    steps: tuple[int, ...]
    few: bool = False

    @property
    def growth(self) -> float:
        return self.seconds[-1] / self.seconds[0]


def slows_down(evidence: Evidence, group: RankGroup) -> Judgement:
    """E10: steps take longer and longer from one part of the run to the next."""
    return _by_pace(evidence, group) or _by_epochs(evidence, group) or _by_stacks(evidence, group)


def _by_pace(evidence: Evidence, group: RankGroup) -> Judgement:
    ranks = logged.ranks_of(group)
    if not ranks:
        return None
    rank = min(ranks, key=lambda item: item.rank)
    course = _course(evidence, group, rank)
    if course is None or not _rises(course):
        return _grows_in_one_part(evidence, group, rank) or _grows_between(evidence, group, rank)
    stretches = evidence.levels(logged.run_id(group), rank.rank, course.metric).stretches
    work = grown_work(rank, stretches, course.growth)
    if work.explains == "all" or states_more_work(evidence, group, rank, stretches, course.growth):
        return None
    # How much a step of an untracked run works on is unknown: layers may thaw, or sequences get longer.
    beside = _beside(evidence, group)
    unsure = (group.run is None and beside is None) or work.explains == "maybe"
    # An iteration may be an episode, and these get longer as the policy learns to survive.
    unsure = unsure or learns_policy([rank]) or len(course.seconds) < PARTS
    where = f"{logged.source(group)}: {course.metric}"
    first, last = course.seconds[0], course.seconds[-1]
    facts = [
        Fact(f"{_pace(course, first)} from step {units.count(course.steps[0])}", first, where),
        Fact(f"{_pace(course, last)} from step {units.count(course.steps[-1])}", last, where),
        Fact("almost every part of the run is slower than the previous one", round(_rising(course.seconds), 2), where),
        *work.facts,
    ]
    return _suspicion(evidence, group, rank, course.growth, facts, beside, unsure)


def _by_epochs(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge a run that prints or logs how long each epoch takes."""
    ranks = logged.ranks_of(group)
    if not ranks:
        return None
    rank = min(ranks, key=lambda item: item.rank)
    values = evidence.series(logged.run_id(group), rank.rank, EPOCH_S).values
    parts = min(PARTS, len(values) // 2)
    if parts < PARTS_FEW or min(values) <= 0 or learns_policy([rank]):
        return None
    cuts = [number * len(values) // parts for number in range(parts + 1)]
    seconds = tuple(units.mean(values[begin:end]) for begin, end in itertools.pairwise(cuts))
    # A time since the start of the training grows by the first value with each epoch.
    total = values[1] > TOTAL_FROM * values[0]
    if total or not _rises(_Course(EPOCH_S, seconds, tuple(cuts[:-1]), few=True)):
        return None
    where = f"{logged.source(group)}: {EPOCH_S}"
    number = cuts[-1] - cuts[-2]
    facts = [
        Fact(f"the first {words.count(cuts[1], 'epoch')} took {units.duration(seconds[0])} each", seconds[0], where),
        Fact(f"the last {words.count(number, 'epoch')} took {units.duration(seconds[-1])} each", seconds[-1], where),
    ]
    unsure = parts < PARTS
    return _suspicion(evidence, group, rank, seconds[-1] / seconds[0], facts, _beside(evidence, group), unsure, "an epoch")


def _rises(course: _Course) -> bool:
    if course.growth < SLOWER or _rising(course.seconds) < SURE_SHARE:
        return False
    return not course.few or (
        course.growth >= SLOWER_OF_FEW and (course.growth >= MUCH_SLOWER or _rising(course.seconds) == 1.0)
    )


def _grows_in_one_part(evidence: Evidence, group: RankGroup, rank: Rank) -> Judgement:
    """Judge steps that take longer, though not steadily: other work on the machine lengthens all parts of a step alike."""
    if group.run is None or learns_policy([rank]):
        return None
    part = grown_part(evidence, group.run_id, rank.rank)
    if part is None:
        return None
    growth = part.last_s / part.first_s
    work = grown_work(rank, evidence.levels(group.run_id, rank.rank, STEP_TIME).stretches, growth)
    if work.explains != "nothing":
        return None
    where = "journal: step_s, phase/*"
    facts = [
        Fact(f"{item_s * 1e3:.0f} ms per step from step {units.count(step)}, {part.name} {share:.0%} of it", item_s, where)
        for item_s, step, share in zip(
            (part.first_s, part.last_s), part.steps, (part.first_share, part.last_share), strict=True
        )
    ]
    return _suspicion(evidence, group, rank, growth, facts, _beside(evidence, group), unsure=True)


def _grows_between(evidence: Evidence, group: RankGroup, rank: Rank) -> Judgement:
    """Judge the time between the steps of a tracked run, which no step contains: evaluations, rollouts, drawing."""
    if group.run_id is None or rank.rank != 0:
        return None
    paces = evidence.paces(group.run_id, 0, STEP_TIME)
    found = paces.seconds_per_step(PARTS)
    if found is None or paces.marks[-1].time - paces.marks[0].time < SPAN_IF_CLEAR_S:
        return None
    course = _Course(TIMES, *found, few=True)
    if not _rises(course):
        return None
    steps = evidence.levels(group.run_id, 0, STEP_TIME).stretches
    work = grown_work(rank, steps, course.growth)
    within_s = units.mean([stretch.mean for stretch in steps[-PARTS:]])
    if work.explains != "nothing" or within_s > BETWEEN_SHARE * course.seconds[-1]:
        return None
    first, last = course.seconds[0], course.seconds[-1]
    where = "journal: the times of the steps"
    itself_s = within_s * (course.steps[1] - course.steps[0])
    facts = [
        Fact(f"{_pace(course, first)} from step {units.count(course.steps[0])}", first, where),
        Fact(f"{_pace(course, last)} from step {units.count(course.steps[-1])}", last, where),
        Fact(f"of that, the steps themselves took {units.duration(itself_s)}", itself_s, "journal: step_s"),
    ]
    return _suspicion(evidence, group, rank, course.growth, facts, _beside(evidence, group), unsure=True)


def _beside(evidence: Evidence, group: RankGroup) -> Fact | None:
    if group.run is None:
        return busy_beside(evidence, group)
    seen = seen_beside(evidence, group)
    return seen.fact if seen is not None else None


def _suspicion(
    evidence: Evidence,
    group: RankGroup,
    rank: Rank,
    growth: float,
    facts: list[Fact],
    beside: Fact | None,
    unsure: bool,
    what: str = "a step",
) -> Suspicion:
    member = next((item for item in group.members if item.rank in (rank.rank, None)), None)
    taken = taken_from(evidence, group, member.process if member is not None else None)
    ask = "gputop where" if group.run_id is None or not group.processes else f"gputop where {fixes.shell_join((group.run_id,))}"
    finding = tracked.about(
        group,
        "E10",
        "warning",
        "possible" if unsure or taken else "likely",
        f"The run slows down: {what} takes {growth:.1f} times as long as at the beginning",
        [*facts, *([beside] if beside is not None else []), *taken],
        "Something grows with the steps: a list that keeps every loss or output, a buffer that is searched completely, a "
        "log or plot that is rewritten, hooks that are registered again, a graph that is never detached. Or the sequences get "
        "longer.",
        f"{ask}  # run it several times: which line is the "
        "process at?\nhistory.append(loss.item())  # numbers, not tensors; from time to time, not in each step",
        "The work of a step grows on purpose (longer sequences, larger images, episodes that last longer), or another "
        "program uses more and more of the machine.",
    )
    return Suspicion(finding, 5.0)


def _by_stacks(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge an untracked run by a function that computes nothing and takes more and more of its time."""
    growth = growth_of(evidence, group)
    if growth is None:
        return None
    at, name = growth.at, name_of(growth.member)
    first, middle, last = (f"{share:.0%}" for share in growth.shares)
    finding = tracked.about(
        group,
        "E10",
        "warning",
        "possible",
        f"The run may slow down: {at.function} took {first} of the time, and now takes {last}",
        [
            Fact(
                f"the main thread of {name} was in {at.function} in {first}, {middle} and {last} of the looks at its stack, in "
                "each third of them",
                round(growth.shares[-1], 2),
                f"/proc/{growth.member.pid}/mem",
            ),
            Fact(f"mostly at {at.place}", at.line, "as above"),
        ],
        "Something grows with the steps and is processed completely each time: a list that keeps every prediction, a metric "
        "that is never reset, a log or plot that is rewritten.",
        "metric.reset()  # after each epoch; and in a step, only the new batch\n"
        "history.append(loss.item())  # numbers, not tensors; from time to time, not in each step",
        "It takes longer on purpose, or only lately: a cache that was filled at first.",
        pids=None if growth.member.pid is None else (growth.member.pid,),
    )
    return Suspicion(finding, 5.0)


E10 = Rule(
    id="E10",
    order=2810,
    family="efficiency",
    title="The run slows down",
    from_printed=True,
    severities=("warning",),
    confidences=("likely", "possible"),
    needs=(
        "journal: step_s since the run began, else a throughput, or the times of its losses, in its files or output",
        "journal: workload",
    ),
    every_s=RARELY_S,
    threshold=(
        case(
            "Steps take longer and longer",
            f"over {SPAN_MIN_S:.0f} s or more ({VALUES_MIN} values of a throughput), a step takes {SLOWER:g} times as long in "
            f"the last eighth of the run as in the first, and {SURE_SHARE:.0%} of all pairs of eighths rise; not if the "
            "samples per second stay the same",
            f"already over {SPAN_IF_CLEAR_S:.0f} or {SPAN_IF_MUCH_S:.0f} s of step times, if each eighth is slower than the "
            f"previous one, by {SLOWER_OF_FEW:g} or {MUCH_SLOWER:g} times in all",
            f"the same from {VALUES_FEW} values, {2 * PARTS} if it is {SLOWER_OF_VERY_FEW:g} times, or by the times of an "
            f"untracked run's losses over {SPAN_IF_CLEAR_S:.0f} s: {SLOWER_OF_FEW:g} times, and all pairs if it is less than "
            f"{MUCH_SLOWER:g} times",
            f"either is {TAKEN_TEXT}, if the run logs rewards, or if it has logged {2 * PARTS_FEW} losses or a few more and "
            f"the last part takes {MUCH_SLOWER:g} times as long as the first",
        ),
        case(
            "A part of the step does",
            f"a step takes {SLOWER:g} times as long, and in {RISING:.0%} of all pairs of eighths, the ratio of one phase, or "
            f"of the time outside all, to the rest of the step rises, by {GROWTH:g} times over {PART_SPAN_S:.0f} s or "
            f"{MUCH:g} times (possible)",
            f"the time between the steps of a tracked run grows, which is not part of them: {SLOWER_OF_FEW:g} times over "
            f"{SPAN_IF_CLEAR_S:.0f} s, and all pairs if it is less than {MUCH_SLOWER:g} times; and the steps themselves take "
            f"less than {BETWEEN_SHARE:.0%} of the time (possible)",
        ),
        case(
            "Whole epochs do",
            f"the run prints how long each epoch takes, these times grow by as much in {PARTS_FEW} to {PARTS} parts of them, "
            f"and the second is not {TOTAL_FROM:g} times the first, as a time since the start would be",
        ),
        case(
            "An untracked run",
            "of an untracked run, either is possible unless its main thread is mostly seen in a function that computes nothing",
            f"by its stacks: a function that computes nothing takes more of the looks in each third of {GROWTH_LOOKS_MIN} or "
            f"more, by {GROWTH_MIN:.0%} in all, and {GROWN_SHARE:.0%} in the last (possible)",
        ),
        case(
            "Which changes do not count",
            STAGES_TEXT,
        ),
    ),
    estimated=True,
    mechanism="The script keeps something from each step and processes all of it in later steps.",
    signature="The step time has grown steadily since the run began, while the work per step stays the same.",
    look_alike="A warm-up, which is slow at the beginning; a temporary slowdown; batches, images or sequences that grow on "
    "purpose; layers that thaw one after the other.",
    fix="Keep numbers instead of tensors, keep only the newest values, and append to logs.",
    judge=slows_down,
)


def _course(evidence: Evidence, group: RankGroup, rank: Rank) -> _Course | None:
    """Return the course of the pace, unless the rows per second show that only the steps have grown."""
    run = logged.run_id(group)
    episodes = learns_policy([rank])
    rates = [name for name in rank.metrics if is_rate(name) and not (episodes and name.endswith("it_per_sec"))]
    names = ["step_s", *sorted(rates)]
    known = [found for name in names if (found := _parts(name, evidence.levels(run, rank.rank, name).stretches)) is not None]
    if not known and group.run is None:
        return _by_times(evidence, run, rank)
    if not known or (group.run is not None and known[0].metric != "step_s" and not logged.is_printed(group)):
        return None
    if any(found.growth < ROWS_SAME for found in known[1:]):
        return None
    return known[0]


def _parts(metric: str, stretches: list[Stretch]) -> _Course | None:
    """Return the mean pace in each of eight parts with the same number of steps; None if the course is too short."""
    # A printed rate covers many steps, so its warm-up is at most an eighth of the course.
    course = stretches[-1].step - stretches[0].step if stretches else 0
    warm_up = WARM_UP_STEPS if metric == "step_s" else min(WARM_UP_STEPS, course // PARTS)
    kept = [item for item in stretches if item.step >= stretches[0].step + warm_up and item.mean > 0]
    if len(kept) < 2 * PARTS:
        return None
    begin, end = min(item.step for item in kept), max(item.step for item in kept)  # a script's steps may go back
    parts: list[list[Stretch]] = [[] for _ in range(PARTS)]
    for item in kept:
        parts[min(PARTS - 1, (item.step - begin) * PARTS // max(1, end - begin))].append(item)
    if not all(parts):
        return None
    means = [sum(item.mean * item.count for item in part) / sum(item.count for item in part) for part in parts]
    if metric == "step_s":
        seconds = tuple(means)
        if sum(seconds) * (end - begin) / PARTS < _span_needed(seconds):
            return None
    else:
        seconds = tuple(1.0 / mean for mean in means)
        if sum(item.count for item in kept) < VALUES_FEW and seconds[-1] < SLOWER_OF_VERY_FEW * seconds[0]:
            return None
    if not all(0.0 < value < math.inf for value in seconds):
        return None
    few = metric != "step_s" and sum(item.count for item in kept) < VALUES_MIN
    return _Course(metric, seconds, tuple(part[0].step for part in parts), few)


def _span_needed(seconds: tuple[float, ...]) -> float:
    """Return how long a course of step times must be, in seconds: the clearer it rises, the shorter."""
    growth = seconds[-1] / seconds[0] if _rising(seconds) == 1.0 else 1.0
    return SPAN_IF_MUCH_S if growth >= MUCH_SLOWER else SPAN_IF_CLEAR_S if growth >= SLOWER_OF_FEW else SPAN_MIN_S


def _by_times(evidence: Evidence, run: str | None, rank: Rank) -> _Course | None:
    """Return the pace by when each loss was written; None if that spans too little time."""
    losses = (evidence.paces(run, rank.rank, name) for name in rank.metrics)
    longest = max(losses, key=lambda paces: len(paces.marks), default=None)
    parts = min(PARTS, len(longest.marks) // 2) if longest is not None else 0
    found = longest.seconds_per_step(parts) if longest is not None and parts >= PARTS_FEW else None
    if longest is None or found is None or longest.marks[-1].time - longest.marks[0].time < SPAN_IF_CLEAR_S:
        return None
    seconds, steps = found
    part_s = (longest.marks[-1].step - longest.marks[0].step) / parts
    first_s, last_s = seconds[0] * part_s + READ_EVERY_S, seconds[-1] * part_s - READ_EVERY_S
    if last_s < (SLOWER_OF_FEW if parts == PARTS else MUCH_SLOWER) * first_s or min(seconds) * part_s < READ_EVERY_S:
        return None
    return _Course(TIMES, seconds, steps, few=True)


def _rising(seconds: tuple[float, ...]) -> float:
    pairs = list(itertools.combinations(seconds, 2))
    return sum(later > earlier for earlier, later in pairs) / len(pairs)


def _pace(course: _Course, seconds: float) -> str:
    if course.metric == TIMES:
        steps = course.steps[1] - course.steps[0]
        return f"{units.count(steps)} steps took {units.duration(seconds * steps)}"
    return f"{seconds * 1e3:.0f} ms per step" if course.metric == "step_s" else f"{course.metric} {units.metric(1.0 / seconds)}"
