"""The path of the data to the GPU: waiting for batches (D01), copies (D05), workers that restart (D06)."""

from __future__ import annotations

import statistics

from gputop import units
from gputop.doctor.evidence import data_waits, windows
from gputop.doctor.evidence.data_waits import STEPS_MIN, WARN_SHARE, share_of_data
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.evidence.windows import FEW_SPAN_S, FEW_STEPS
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.pace.beside import BUSY_SHARE, LONG_SPANS_S, SHARE_MIN, TIMES_LONG_MIN, TIMES_MIN
from gputop.doctor.rules.pace.beside import SPAN_S as STACKS_SPAN_S
from gputop.doctor.rules.pace.between_phases import BUSY_PERCENT, KNOWN_WORK_SHARE, OWN_WORK_SHARE, own_work
from gputop.doctor.rules.pace.bursts import ALONE_TEXT, computes_beside, from_outside
from gputop.doctor.rules.pace.by_stack import (
    DATA_SHARE,
    PRINTED_SHARE,
    PRINTED_SPAN_S,
    PRINTS_MIN,
    mostly_computes,
    prepares_by_stack,
    works_beside,
)
from gputop.doctor.rules.pace.main_threads import WAITS_SHARE, waits_itself
from gputop.doctor.rules.pace.own_times import SHARE as OWN_SHARE
from gputop.doctor.rules.pace.own_times import waits_by_own_times
from gputop.doctor.rules.pace.saves import SPAN_S as READS_SPAN_S
from gputop.doctor.rules.pace.saves import mostly_writes
from gputop.doctor.rules.pace.slowing import slows_down
from gputop.doctor.rules.pace.steady_files import COPIED, READ_MIN_BYTES, READ_PER_CPU_S, reads_all_the_time
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.first_pass import KNOWN_S, Keeping, keeps_what_it_reads
from gputop.doctor.rules.support.rule import RARELY_S, SELDOM_S, Judgement, Rule, Suspicion, case
from gputop.doctor.rules.support.shared import cores_per_rank, only_updates, utilization
from gputop.units import bytes_text

SEVERE_SHARE = 0.30
"""Sum of waits divided by sum of step times (docs/rules.md#d01)."""
WAIT_MIN_S = 0.002
"""A shorter wait per step is never the bottleneck (our choice)."""
COPY_SHARE = 0.10
RESTART_FACTOR = 5.0
RESTART_SHARE = 0.05
"""The first batch of an epoch takes 5 times as long as a mean step, and 5% of the time (docs/rules.md#d06)."""
RESTARTS_MIN = 2
"""Number of epochs whose beginning must be this late (docs/rules.md#d06)."""
SLEEPING_PERCENT = 30.0
"""Workers that use less of a core than this wait for something: a disk, a network, or the training (our choice)."""


def _waits_s(evidence: Evidence, group: RankGroup, share: float) -> float:
    steps = [windows.step_s(evidence, group, rank.rank, STEPS_MIN) for rank in tracked.ranks_of(group)]
    return share * statistics.median([value for value in steps if value is not None] or [0.0])


def loader_bound(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge D01 by the journal: the GPUs wait for the loader."""
    share = share_of_data(evidence, group)
    # On the CPU, a small step takes little longer than building its batch. That is not the loader's fault.
    least = SEVERE_SHARE if group.virtual else WARN_SHARE
    if share is None or share < least or _waits_s(evidence, group, share) < WAIT_MIN_S:
        return None
    loader = data_waits.loader_of(group)
    workers = loader.num_workers if loader is not None else None
    facts = [
        Fact(f"{share:.0%} of the time is spent waiting for data", round(share, 3), "journal: phase/data, step_s"),
        Fact(
            f"{_waits_s(evidence, group, share) * 1e3:.1f} ms per step", _waits_s(evidence, group, share), "journal: phase/data"
        ),
    ]
    busy = [member.process.workers for member in group.members if member.process is not None and member.process.workers]
    cores = cores_per_rank(evidence, group)
    wanted = min(8, cores)
    if workers == 0:
        facts.append(Fact("the loader has no workers: num_workers=0", 0, "journal: loader"))
        why = "The training process prepares each batch itself while the GPU waits."
    elif workers is not None:
        facts.append(Fact(f"the loader has {words.count(workers, 'worker')}", workers, "journal: loader"))
        why = "The workers do not prepare batches as fast as the GPU uses them."
        wanted = min(cores, max(wanted, 2 * workers)) if cores > workers else workers
        regular = data_waits.rhythm(evidence, group, tracked.ranks_of(group)[0].rank, workers)
        if regular is not None and regular >= data_waits.RHYTHM_MIN:
            text = f"the waits recur every {workers} batches, the number of workers (autocorrelation {regular:.2f})"
            facts.append(Fact(text, round(regular, 2), "journal: phase/data"))
    else:
        why = "Batches arrive more slowly than the GPU uses them."
    for item in busy[:1]:
        if item.cpu_percent is None:
            continue
        text = f"its {words.count(item.count, 'worker')} use {item.cpu_percent:.0f}% of a core"
        facts.append(Fact(text, item.cpu_percent, "/proc"))
        if item.cpu_percent < SLEEPING_PERCENT * item.count:
            why = (
                "The workers themselves mostly wait: for a network, a file system or a lock. More workers would wait in "
                "parallel."
            )
    facts += utilization(evidence, tracked.used_devices(group))
    if workers is not None and workers >= cores:
        fix = (
            "# more workers than cores do not help: decode less (smaller images, cached or packed data), or decode on the "
            "GPU (DALI)"
        )
    else:
        fix = (
            f"DataLoader(..., num_workers={max(1, wanted)}, pin_memory=True, persistent_workers=True, prefetch_factor=4)"
            f"  # {cores} cores per rank"
        )
    keeping, grown = keeps_what_it_reads(evidence, group)
    if keeping is Keeping.YES:
        why = f"{why} If the data set keeps what it has decoded, this ends with the first pass."
    finding = tracked.about(
        group,
        "D01",
        "error" if share >= SEVERE_SHARE and keeping is not Keeping.YES else "warning",
        "possible" if keeping is Keeping.YES else "certain",
        f"The GPUs wait for data: {share:.0%} of the time",
        [*facts, *grown],
        why,
        fix,
        "The share of phase/data in step_s is below 15% over the newest steps.",
    )
    return Suspicion(finding, KNOWN_S if keeping is Keeping.NOT_KNOWN else 3.0)


def copies(evidence: Evidence, group: RankGroup) -> Judgement:
    """D05: copies from host to device take a tenth of the step."""
    for rank in tracked.ranks_of(group):
        fact, step_s = facts_of(rank).transfers, windows.step_s(evidence, group, rank.rank)
        if fact is None or fact.seconds_per_step is None or not step_s or fact.seconds_per_step < COPY_SHARE * step_s:
            continue
        share = fact.seconds_per_step / step_s
        facts = [Fact(f"copies to the GPU take {share:.0%} of a step", round(share, 3), "journal: transfers")]
        for value, text in (
            (fact.per_step, "copies per step"),
            (fact.pageable_per_step, "of them from memory that is not pinned"),
            (fact.blocking_per_step, "of them synchronous"),
        ):
            if value:
                facts.append(Fact(f"{value:.0f} {text}", value, "journal: transfers"))
        if fact.bytes_per_step:
            facts.append(Fact(f"{bytes_text(fact.bytes_per_step)} per step", fact.bytes_per_step, "journal: transfers"))
        finding = tracked.about(
            group,
            "D05",
            "warning",
            "likely",
            f"Copies to the GPU take {share:.0%} of a step{tracked.at(fact.where)}",
            facts,
            "A copy from pageable memory blocks until it is done, and many small copies cost more than one large copy.",
            "loader = DataLoader(..., pin_memory=True)\nx = x.to(device, non_blocking=True)  # one tensor, once",
            "The copies overlap with the computation (a profile shows them on another stream).",
        )
        return Suspicion(finding, 3.0)
    return None


D05 = Rule(
    id="D05",
    order=2403,
    family="input",
    title="Copies to the GPU take long",
    severities=("warning",),
    confidences=("likely",),
    needs=("journal: transfers",),
    window_s=3.0,
    every_s=SELDOM_S,
    threshold=f"copies to the device take {COPY_SHARE:.0%} of a step",
    mechanism=("A copy from pageable memory blocks until it is done, and many small copies cost more than one large copy."),
    signature="Copies from host to device take 10% of a step or more.",
    look_alike="Copies on another stream, which overlap with the computation.",
    fix="Use pin_memory=True and .to(device, non_blocking=True), and copy one large tensor.",
    judge=copies,
)


def workers_restart(evidence: Evidence, group: RankGroup) -> Judgement:
    """D06: each epoch begins with a long wait because the workers restart."""
    for rank in tracked.ranks_of(group):
        loader = facts_of(rank).loader
        if loader is None or not loader.num_workers or loader.persistent_workers:
            continue
        known = data_waits.first_batches(evidence, group, rank.rank)
        if known is None or known[1] < RESTART_SHARE:
            continue
        found, part = known
        usual = windows.median_step_s(evidence, group)
        if usual is None or min(found) < RESTART_FACTOR * usual:
            continue
        facts = [
            Fact(
                f"the first batch of each of {words.count(len(found), 'epoch')} took {units.mean(found) * 1e3:.0f} ms; a "
                f"step takes {usual * 1e3:.0f} ms",
                round(units.mean(found), 4),
                "journal: first_batch_s, step_s",
            ),
            Fact(f"that is {part:.0%} of the time", round(part, 3), "journal"),
            Fact(f"{loader.num_workers} workers, persistent_workers=False", loader.num_workers, "journal: loader"),
        ]
        finding = tracked.about(
            group,
            "D06",
            "warning" if part >= (share_of_data(evidence, group) or 0.0) else "info",
            "certain",
            "Each epoch begins with a wait: the loader's workers restart",
            facts,
            "Without persistent_workers, every iteration over the loader restarts its worker processes.",
            f"DataLoader(..., num_workers={loader.num_workers}, persistent_workers=True)  # or longer epochs",
            "The first batches of later epochs arrive as fast as the others.",
        )
        return Suspicion(finding)
    return None


D06 = Rule(
    id="D06",
    order=2401,
    family="input",
    title="Workers restart in every epoch",
    severities=("warning", "info"),
    confidences=("certain",),
    needs=("journal: first_batch_s, phase/data, epoch, loader",),
    every_s=RARELY_S,
    threshold=(
        f"the first batch of {RESTARTS_MIN} epochs takes as long as {RESTART_FACTOR:.0f} steps, and {RESTART_SHARE:.0%} of "
        "all time"
    ),
    hides=("E07",),
    hides_in_logs=("D01",),  # few of the batches between are printed: the first ones weigh too much
    mechanism="Without persistent_workers, every iteration over the loader restarts its worker processes.",
    signature="The first batch of each epoch takes several times as long as a step.",
    look_alike="The first epoch, in which everything starts; D01 (all batches are late).",
    fix="Set persistent_workers=True, or make epochs longer.",
    judge=workers_restart,
)


def waits_for_data(evidence: Evidence, group: RankGroup) -> Judgement:
    """D01: by the journal, else by the times that the run logs itself, else by what is visible from outside."""
    judged = loader_bound(evidence, group) if group.run is not None else None
    judged = judged or waits_by_own_times(evidence, group)
    if judged is not None or mostly_writes(evidence, group):  # the rest of the time goes to what E07 reports
        return judged
    if group.run is not None:
        own = own_work(evidence, group)
        return own if own is None or slows_down(evidence, group) is None else None  # if it grows, E10 says why
    seen = _seen_from_outside(evidence, group)
    if isinstance(seen, Suspicion) and any(only_updates(evidence, process) for process in group.processes):
        return None  # it waits for those that compute its gradients
    return seen


def _seen_from_outside(evidence: Evidence, group: RankGroup) -> Judgement:
    seen = from_outside(evidence, group)
    if isinstance(seen, Suspicion):
        return seen
    by_stack = prepares_by_stack(evidence, group) or works_beside(evidence, group)
    if by_stack is not None:
        return by_stack
    alone = waits_itself(evidence, group) or reads_all_the_time(evidence, group)
    if alone is None and not mostly_computes(evidence, group):  # its stack says more than its use of the CPU
        alone = computes_beside(evidence, group)
    return alone or seen


D01 = Rule(
    id="D01",
    order=2402,
    family="input",
    title="The GPUs wait for data",
    from_printed=True,
    severities=("error", "warning"),
    confidences=("certain", "likely", "possible"),
    needs=("journal: phase/data, step_s, loader", "/proc, stacks", "data_time and time in its files or output"),
    window_s=3.0,
    every_s=SELDOM_S,
    threshold=(
        case(
            "A tracked run waits for data",
            f"waiting for data takes {WARN_SHARE:.0%} of the time (severe: {SEVERE_SHARE:.0%}), by sums over {STEPS_MIN} or "
            f"more steps, or {FEW_STEPS} that take {FEW_SPAN_S:.0f} s, on the median rank",
            "in the first pass over the data this is only possible if the process has lately grown in memory, reading by "
            f"reading, for {KNOWN_S - 5:.0f} s: it may keep what it reads. Once there are {STEPS_MIN} later steps, that pass "
            "does not count",
            f"{OWN_WORK_SHARE:.0%} of each step passes outside all phases, with GPUs below {BUSY_PERCENT:.0f}%; or "
            f"{KNOWN_WORK_SHARE:.0%}, and stacks show the main thread in a function that prepares data or measures, by its "
            f"name, in {SHARE_MIN:.0%} of all looks (possible); where it is mostly seen is named; not if that takes longer "
            "and longer (E10), or ranks exchange gradients there (E06)",
        ),
        case(
            "By times that the run logs",
            f"they show {OWN_SHARE:.0%} (likely), also without the first of the run and of each epoch",
        ),
        case(
            "From outside",
            "bursts of work, and a loader that is busy (likely), or main threads that wait in "
            f"{WAITS_SHARE:.0%} of all samples, though steps advance (possible)",
            f"by the stacks of the main threads: they prepare data or wait for it in {DATA_SHARE:.0%} of all "
            f"looks (likely), and begin {TIMES_MIN} times in {STACKS_SPAN_S:.0f} s, or {TIMES_LONG_MIN} times in up to "
            f"{LONG_SPANS_S[-1]:.0f} s; or they are in a function that computes nothing in {BUSY_SHARE:.0%} (possible)",
            f"a single main thread does that in {PRINTED_SHARE:.0%} of all looks, and prints or writes {PRINTS_MIN} losses in "
            f"{PRINTED_SPAN_S:.0f} s (likely)",
            f"without loader workers, the training process reads {bytes_text(int(READ_MIN_BYTES))}/s for "
            f"{READS_SPAN_S:.0f} s, and {bytes_text(int(READ_PER_CPU_S))} for each second of its main thread's CPU time, and "
            f"writes at most {COPIED:.0%} as much (possible)",
            ALONE_TEXT,
        ),
    ),
    hides=("E02", "E01", "E07", "D05", "B08"),
    hides_if=lambda finding: finding.confidence != "possible",
    hides_when="its confidence is above possible",
    mechanism=(
        "The loader does not prepare batches as fast as the GPU uses them: it has no workers or too few, or decoding is slow."
    ),
    signature=("Waiting for data takes 15% of the time or more; from outside, the GPUs work in bursts and the loader is busy."),
    look_alike=(
        "E01 and E02 (the wait for data is short); F01 (only one rank waits); a data set that keeps what it decodes, and is "
        "slow in its first pass only."
    ),
    fix="Use more workers with pin_memory=True, persistent_workers=True and a higher prefetch_factor.",
    judge=waits_for_data,
)
