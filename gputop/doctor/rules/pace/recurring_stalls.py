"""Stalls that recur: checkpoints, evaluations, garbage collection, and what a run does between its steps (E07)."""

from __future__ import annotations

from gputop import units
from gputop.command_line import is_session
from gputop.doctor.evidence import data_waits, windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.evidence.rounds import waits_between
from gputop.doctor.facts import stated
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.pace import beside, own_times
from gputop.doctor.rules.pace.beside import EVALUATION_MAX_SHARE, EVALUATION_SHARE, PAUSE_SHARE
from gputop.doctor.rules.pace.by_stack import WRITTEN_SURE_BYTES, calls_by_stack, pauses_by_stack, works_by_stack
from gputop.doctor.rules.pace.other_work import PAUSE_SURE_SHARE
from gputop.doctor.rules.pace.own_times import PAUSES_SHARE, evaluates_longer, pauses_before_evaluations
from gputop.doctor.rules.pace.saves import (
    OFTEN_STEPS,
    SAVES_MIN,
    SHARE_MIN,
    SPAN_S,
    SURE_SHARE,
    pauses_while_it_writes,
    saves_too_often,
    writes_in_the_loop,
)
from gputop.doctor.rules.pace.slowing import slows_down
from gputop.doctor.rules.pace.steady_files import WRITTEN_MIN_BYTES, writes_all_the_time
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.renewed import begins_anew
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion, case
from gputop.units import bytes_text

STALLS_MIN = 3
STALL_FACTOR = 5.0
STALL_VARIATION = 0.1
PERIOD_MIN = 2
STALL_SHARE_MIN = 0.05
EVALUATION_SHARE_MIN = 0.4
EVALUATION_SHARE_MAX = 0.9
PLAYS_SHARE = 0.125
SAMPLES_MIN = 10
"""At least 3 stalls of 5 times the median, at intervals that vary by less than 10% (docs/rules.md#e07). Slow steps that follow
one another are a slow stretch, as when other jobs crowd the GPU: they do not return at intervals. A stall is reported if it
costs 5% of the time; a stall of unknown cause is more than "possible" from 40%, but not in a session, where the user reads
results and types. An evaluation is only "possible", and information below 40%: some protocols test longer than they train. Its
call takes about a third of a step, the forward of a batch; one that takes an eighth is not one (our choice). What a thread does
is known from this many samples."""


def stalls_that_return(evidence: Evidence, group: RankGroup) -> Judgement:
    """E07: at regular intervals one step takes several times as long."""
    for member in group.members:
        if member.journal is None:
            continue
        rank = member.journal.rank
        paused = any(evidence.series(group.run_id, rank, metric) for metric in windows.PAUSES)
        if not paused and windows.steady(evidence.series(group.run_id, rank, "step_s"), STALL_FACTOR):
            continue
        points = windows.with_pauses(evidence, group, rank, windows.PAUSES)
        found = windows.stalls(points, STALL_FACTOR)
        if found is None or len(found.steps) < STALLS_MIN or found.excess_share < STALL_SHARE_MIN:
            continue
        if found.period < PERIOD_MIN or not windows.regular(found.steps, STALL_VARIATION):
            continue
        works = windows.device_share(evidence, group, rank, points, (windows.DEVICE_STEP,))
        if works is not None and works > 1 - found.excess_share / 2:
            continue  # for most of each pause, the host waits for work that it has queued itself
        cause = _cause(evidence, group, rank, found)
        if cause == "data" or (cause == "other" and _waits_for_another(evidence, group, rank)):
            continue
        if cause == "other" and _between_epochs(evidence, group, rank, found):
            cause = "epoch"
        name, why, fix = _STALLS[cause]
        # What tracking does not know may be an evaluation, too, or the user reads what the last cell printed.
        share_max = 1.0 if cause == "other" and _in_session(member) else EVALUATION_SHARE_MIN
        deliberate = cause in ("evaluation", "epoch", "other") and found.excess_share < share_max
        # Then evaluation is the work itself: an evolution, a search, an active learner that scores its pool.
        deliberate = deliberate or (cause == "evaluation" and found.excess_share > EVALUATION_SHARE_MAX)
        deliberate = deliberate or (cause in ("evaluation", "other") and _plays(member, found))
        deliberate = deliberate or (cause == "other" and _sleeps(evidence, member, found))
        chooses = cause in ("evaluation", "epoch", "other") and begins_anew(evidence, group, member.journal, found)
        deliberate = deliberate or chooses
        # The loop may only wait for its GPU, whose times are not known.
        deliberate = deliberate or (cause == "other" and works is None and _is_on_gpu(member))
        finding = tracked.about(
            group,
            "E07",
            "info" if deliberate else "warning",
            "possible" if deliberate or cause == "evaluation" else "likely",
            f"Every {units.count(found.period)} steps {name} stalls the loop: {found.excess_share:.0%} of the time",
            [
                Fact(
                    f"{words.count(len(found.steps), 'step')} took {found.mean_s:.2f} s, "
                    f"where the median is {found.median_s * 1000:.0f} ms",
                    found.mean_s,
                    "journal: step_s",
                ),
                Fact(
                    f"every {units.count(found.period)} steps, last at step {units.count(found.steps[-1])}",
                    found.period,
                    "journal: step_s",
                ),
            ],
            why,
            fix,
            "The length and frequency of the pauses are intentional.",
        )
        return Suspicion(finding, 3.0)
    return next((judged for judge in _JUDGES if (judged := judge(evidence, group)) is not None), None)


def _works(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge E07 by other work that the stacks show, unless that takes longer and longer: then E10 says so."""
    judged = works_by_stack(evidence, group)
    return judged if judged is None or slows_down(evidence, group) is None else None


def _by_own_times(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge E07 by printed times of steps, unless they grow: then few are above the median, and E10 says so."""
    judged = own_times.stalls_by_own_times(evidence, group)
    return judged if judged is None or slows_down(evidence, group) is None else None


_JUDGES = (
    saves_too_often,
    writes_in_the_loop,
    pauses_while_it_writes,
    evaluates_longer,
    _by_own_times,
    pauses_by_stack,
    _works,
    pauses_before_evaluations,
    writes_all_the_time,
    calls_by_stack,
)


E07 = Rule(
    id="E07",
    order=2811,
    family="efficiency",
    title="The loop stalls at regular intervals",
    from_printed=True,
    severities=("warning", "info"),
    confidences=("likely", "possible"),
    needs=("journal: step_s, checkpoint_s, phase/evaluation, gc_s, cuda/step_s", "/proc: waits for files, bytes written"),
    window_s=3.0,
    every_s=RARELY_S,
    threshold=(
        case(
            "Long steps at regular intervals",
            f"{STALLS_MIN} steps of {STALL_FACTOR:.0f} times the median that take {STALL_SHARE_MIN:.0%} of the time or more, "
            f"at intervals of at least {PERIOD_MIN} steps that vary by less than {STALL_VARIATION:.0%}",
            f"these are only possible for evaluations, and information if those take more than {EVALUATION_SHARE_MAX:.0%}, if "
            f"each call of the model without gradients takes less than {PLAYS_SHARE:.1%} of a step, or if the loss starts "
            "over after each; and none if the GPU works through more than half of each pause, by CUDA events",
            f"{own_times.STALLS_MIN} printed times of a step are {own_times.STALL_FACTOR:g} times the median, take "
            f"{own_times.STALL_SHARE:.0%} of all, and are at distances that vary by less than {own_times.STALL_VARIATION:.0%} "
            f"(likely from {own_times.SHARE:.0%})",
        ),
        case(
            "Checkpoints and files",
            f"{SAVES_MIN} checkpoints, {OFTEN_STEPS:g} steps apart or less on average, take {SHARE_MIN:.0%} of the time "
            f"(likely from {SURE_SHARE:.0%})",
            f"a main thread waits for files in {SHARE_MIN:.0%} of all samples, in a process that writes and hardly reads, "
            f"while steps advance (likely from {SURE_SHARE:.0%})",
            f"untracked, losses pause after about equally many steps for {SHARE_MIN:.0%} of the time, and the process writes "
            f"to disk then and hardly otherwise (likely from {SURE_SHARE:.0%})",
            f"a process of the run writes {bytes_text(int(WRITTEN_MIN_BYTES))}/s for {SPAN_S:.0f} s, and hardly reads, while "
            "steps advance (possible)",
        ),
        case(
            "Evaluations",
            "evaluations take longer than training, according to the run's own numbers; or, untracked, the pauses before "
            f"their results take {PAUSES_SHARE:.0%} of the time (possible)",
            f"untracked, calls of the model at a line at which no step is made, for {EVALUATION_SHARE:.0%} to "
            f"{EVALUATION_MAX_SHARE:.0%} of {beside.LONG_SPANS_S[0]:.0f} s or more, {beside.TIMES_LONG_MIN} times, if several "
            "steps are seen between some of them (possible)",
        ),
        case(
            "From outside, by the stacks of the main threads",
            f"checkpoints take {PAUSE_SHARE:.0%} of all looks (likely from "
            f"{PAUSE_SURE_SHARE:.0%}, if they last or {bytes_text(WRITTEN_SURE_BYTES)} a minute are written), or evaluations "
            f"{EVALUATION_SHARE:.0%} to {EVALUATION_MAX_SHARE:.0%} (possible), repeatedly: {beside.TIMES_MIN} times in "
            f"{beside.SPAN_S:.0f} s, or {beside.TIMES_LONG_MIN} times in up to {beside.LONG_SPANS_S[-1]:.0f} s",
            f"other work that neither trains nor prepares data takes {PAUSE_SHARE:.0%} in pauses of "
            f"several looks, or metrics, files, drawing, logging or garbage {beside.WORK_SHARE:.0%} in any (possible); of a "
            "policy, or in an environment, only what it writes",
            f"the same of a tracked run between its steps, of which {beside.WITHIN_SHARE:.0%} or less is outside their phases "
            "(possible)",
        ),
    ),
    mechanism=(
        "A checkpoint, an evaluation, the end of an epoch, garbage collection or another program blocks the loop. "
        "If only one rank does it, all others wait."
    ),
    signature="At regular intervals, a step takes at least five times the median.",
    look_alike="A host that queues steps and then waits for its GPU, where it logs the loss; D06 (the loader's workers "
    "restart); pauses on purpose, also between the cells of a notebook or at a prompt, or asleep until new data arrives; "
    "games or rollouts that make the data of later steps; rounds that each begin with another model or other data.",
    fix=("Save asynchronously, evaluate less often and on every rank, and collect garbage on all ranks at the same step."),
    judge=stalls_that_return,
)


_STALLS = {
    "checkpoint": (
        "a checkpoint",
        "The loop waits until the checkpoint is written.",
        "from torch.distributed.checkpoint import async_save  # writes while training continues\n"
        'async_save({"model": model.state_dict()}, checkpoint_id=path)\n# or save less often',
    ),
    "evaluation": (
        "evaluation",
        "The loop evaluates in between.",
        "# evaluate less often, on fewer batches, and a part on every rank",
    ),
    "epoch": (
        "the end of an epoch",
        "The work between two epochs (an evaluation, a checkpoint, a new loader) blocks the training.",
        "# do it less often, on fewer batches, and a part on every rank",
    ),
    "gc": (
        "Python's garbage collection",
        "From time to time, Python scans all live objects. Each rank does so at a different time, and all others wait for it.",
        "gc.collect(); gc.freeze(); gc.disable()  # before the loop\n"
        "if step % 1000 == 0: gc.collect()  # on all ranks at the same step",
    ),
    "other": (
        "something",
        "Between two steps, the loop does other work: it writes, logs images, or moves data.",
        "# `Enter` on the run shows the time of each phase; look at the loop's work at these steps",
    ),
}
_CAUSE_METRICS = (("checkpoint", "checkpoint_s"), ("evaluation", "phase/evaluation"), ("gc", "gc_s"), ("data", "phase/data"))


def _waits_for_another(evidence: Evidence, group: RankGroup, rank: int) -> bool:
    """Return whether the pauses are waits for another rank that makes steps meanwhile: F03 and F02 report them."""
    found = waits_between(evidence, group)
    return found is not None and found.waiting == rank


def _is_on_gpu(member: Member) -> bool:
    return member.journal is not None and (stated.parameter_device(member.journal) or "").startswith("cuda")


def _in_session(member: Member) -> bool:
    """Return whether the user types the training piece by piece."""
    return member.process is not None and is_session(member.process.command)


def _sleeps(evidence: Evidence, member: Member, found: windows.Stalls) -> bool:
    """Return whether the loop sleeps through half of the pauses, as an online learner that waits for data does."""
    seen = evidence.still.samples(member.process) if member.process is not None else {}
    total = sum(seen.values())
    return total >= SAMPLES_MIN and seen["sleep"] / total >= found.excess_share / 2


def _plays(member: Member, found: windows.Stalls) -> bool:
    """Return whether the calls without gradients are far smaller than a step: games, rollouts or sampling, no evaluation."""
    fact = facts_of(member.journal).evaluation
    return fact is not None and fact.calls > 0 and fact.seconds / fact.calls < PLAYS_SHARE * found.median_s


def _between_epochs(evidence: Evidence, group: RankGroup, rank: int, found: windows.Stalls) -> bool:
    """Return whether an epoch begins or ends at each of these steps."""
    near = {step + shift for step in data_waits.beginnings(evidence, group, rank) for shift in (-1, 0, 1)}
    return bool(near) and near.issuperset(found.steps)


def _cause(evidence: Evidence, group: RankGroup, rank: int, found: windows.Stalls) -> str:
    """Return what explains most of the stalls: at least half of their excess."""
    steps = {step + shift for step in found.steps for shift in (-1, 0, 1)}
    excess = (found.mean_s - found.median_s) * len(found.steps)
    best, most = "other", 0.5
    for name, metric in _CAUSE_METRICS:
        taken = sum(point.value for point in evidence.series(group.run_id, rank, metric) if point.step in steps)
        if excess > 0 and taken / excess > most:
            best, most = name, taken / excess
    return best
