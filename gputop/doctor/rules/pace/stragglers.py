"""Stragglers: one rank that all others wait for in every step (F01, F02, F05), or a different rank each time (F04)."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import replace

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.evidence.straggling import COVERAGE_MIN, GPU, WINDOW_STEPS, Straggling
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import words
from gputop.doctor.rules.pace import other_work
from gputop.doctor.rules.pace.beside import TIMES_LONG_MIN
from gputop.doctor.rules.pace.main_threads import (
    LATE_SHARE,
    LITTLE_SHARE,
    LOCK_SHARE,
    RUNS_SHARE,
    computes_alone,
    waits_for_one,
)
from gputop.doctor.rules.pace.other_work import one_does_more, one_prepares
from gputop.doctor.rules.pace.unequal_rounds import ROUNDS_TEXT, longer_round
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.culprit import (
    FEW_TEXT,
    INTERRUPTED_OTHERS,
    INTERRUPTED_PER_S,
    PRESSURE_PERCENT,
    SCORE_TEXT,
    SOURCES,
    TAKEN_TEXT,
    culprit_by,
    find_culprit,
    only_its_cores_are_taken,
    taken_cores,
    taken_from,
    waiting,
)
from gputop.doctor.rules.support.rule import SELDOM_S, Judgement, Rule

_KERNELS = ("cuda/forward_s", "cuda/backward_s")
_PARTS = (("phase/data",), ("phase/forward",), ("phase/optimizer", "rest"))
"""The parts of a step that F01, F02 and F05 judge."""

_SEEN_TO_WAIT = (
    f"in {other_work.LATE_SHARE:.0%} of all looks, at least {TIMES_LONG_MIN} times, the others in at most "
    f"{other_work.LITTLE_SHARE:.0%}, and in {other_work.WAITS_FACTOR:.0%} of the difference the "
    "others are seen in backward or collectives more than it (possible)"
)


def slow_data(evidence: Evidence, group: RankGroup) -> Judgement:
    """F01: one rank waits for its data, and all others wait for that rank."""
    if group.run is None:
        return one_prepares(evidence, group) or waits_for_one(evidence, group)
    known = culprit_by(evidence, group, "phase/data")
    if known is None:
        return None
    who = f"rank {known.found.culprit}"
    loader = facts_of(known.member.journal).loader if known.member is not None else None
    more = max(4, 2 * (loader.num_workers or 0)) if loader is not None else 4
    return waiting(
        group,
        "F01",
        known,
        f"All ranks wait for {who}, which waits for its data",
        "Its share of the data arrives more slowly: another disk, fewer cores, larger files. In DDP, the slowest rank sets "
        "the pace.",
        f"DataLoader(..., num_workers={more}, persistent_workers=True, pin_memory=True)  # and check {who}'s disk and cores\n"
        f"taskset -pc {known.pid}  # the cores that it may use",
        f"{tracked.capital(who)}'s time for data equals that of the others.",
    )


F01 = Rule(
    id="F01",
    order=2501,
    family="stragglers",
    title="One rank waits for its data",
    severities=("error", "warning"),
    confidences=("likely", "possible"),
    needs=(*SOURCES, "/proc"),
    window_s=3.0,
    every_s=SELDOM_S,
    threshold=(
        f"{SCORE_TEXT} explained by one rank's data",
        FEW_TEXT,
        f"from outside: steps advance, and the main thread of one rank waits in {LATE_SHARE:.0%} of all samples, that of the "
        f"others in at most {LITTLE_SHARE:.0%}, and they wait for a rank (possible)",
        f"from outside, by stacks: one rank is seen at its data {_SEEN_TO_WAIT}",
    ),
    hides=("D01", "E06", "F04"),
    mechanism=(
        "Its share of the data arrives more slowly: another disk, fewer cores, larger files. In DDP, the slowest rank sets "
        "the pace."
    ),
    signature=(
        "One rank spends longer on data, and the others spend that time in the backward pass, at full utilization and low "
        "power."
    ),
    look_alike="D01 (all ranks wait for data).",
    fix="Give that rank more workers, and check its disk and cores.",
    judge=slow_data,
)


def slow_compute(evidence: Evidence, group: RankGroup) -> Judgement:
    """F02: one rank computes longer with equal work."""
    known = culprit_by(evidence, group, "phase/forward", "phase/backward")
    if known is None:
        return _cores_taken(evidence, group) or longer_round(evidence, group)
    if known.unequal:
        return None
    who, device = f"rank {known.found.culprit}", known.device
    if group.virtual:  # The cores of the machine have no clock or temperature of their own.
        cause = "With equal work, its forward pass takes longer: only this rank runs some code, or others use its cores."
        if known.work is None:
            cause = "Its passes take longer: it has more or longer samples, only it runs some code, or others use its cores."
        fix = "gputop where  # while the run is going: the line that it is at\n"
    else:
        cause = (
            f"With equal work, its forward pass takes longer: {words.gpu(device) if device else 'its GPU'} is hot, clocked "
            "lower, shared with another process or a smaller card, or only this rank runs some code."
        )
        fix = f"nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE -i {device.index if device is not None else 'N'}\n"
    return waiting(
        group,
        "F02",
        known,
        f"All ranks wait for {who}, which computes longer",
        cause,
        f"{fix}py-spy dump --pid {known.pid}",
        f"{tracked.capital(who)} gets more rows or longer sequences than the others.",
        [] if _gpu_takes_longer(evidence, group, known.found) else taken_cores(evidence, group, known),
    )


def _cores_taken(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge a rank of which every part takes longer, as others take its cores: no part alone explains the wait."""
    known = culprit_by(evidence, group, *itertools.chain(*_PARTS))
    if known is None or known.unequal:
        return None
    taken = only_its_cores_are_taken(evidence, group, known)
    if not taken or any(sum(map(known.found.explained_by, parts)) >= COVERAGE_MIN for parts in _PARTS):
        return None
    who = f"rank {known.found.culprit}"
    suspicion = waiting(
        group,
        "F02",
        known,
        f"All ranks wait for {who}, whose cores others take",
        "Another program, or threads of another rank, run on its cores, and each part of its step takes longer. The other "
        "ranks have cores of their own.",
        f"taskset -pc {known.pid}  # the cores that it may use\n"
        "top  # then f, and P (last used CPU): what else runs there; move it away, or give the rank more cores",
        f"{tracked.capital(who)} is as slow when nothing else runs on its cores.",
    )
    return replace(suspicion, finding=replace(suspicion.finding, evidence=(*suspicion.finding.evidence, *taken)))


def _gpu_takes_longer(evidence: Evidence, group: RankGroup, found: Straggling) -> bool:
    """Return whether the kernels of the culprit's forward pass take longer by themselves: then it is not for lack of cores."""
    ranks = [rank.rank for rank in tracked.ranks_of(group)]
    series = {rank: evidence.series(group.run_id, rank, _KERNELS[0])[-WINDOW_STEPS:] for rank in ranks}
    if found.culprit is None or not all(times and times.finite() for times in series.values()):
        return False
    medians = {rank: statistics.median(times.values) for rank, times in series.items()}
    others = [took for rank, took in medians.items() if rank != found.culprit]
    return medians[found.culprit] - statistics.median(others) >= COVERAGE_MIN / 2 * found.gap_s


F02 = Rule(
    id="F02",
    order=2502,
    family="stragglers",
    title="One rank computes longer",
    severities=("error", "warning"),
    confidences=("likely", "possible"),
    needs=(*SOURCES, "/proc"),
    window_s=3.0,
    every_s=SELDOM_S,
    threshold=(
        f"{SCORE_TEXT} explained by one rank's forward pass; {TAKEN_TEXT}",
        FEW_TEXT,
        f"the same explained by all parts of one rank's step together, whose main thread others stop {INTERRUPTED_PER_S:.0f} "
        f"times a second; those of the other ranks at most {INTERRUPTED_OTHERS:.0%} as often (likely)",
        f"{ROUNDS_TEXT}, and as many of them between two pauses (possible)",
    ),
    hides=("E06", "F04"),
    mechanism=(
        "With equal work, its forward pass takes longer: a lower clock, heat, another process on its GPU, a smaller card, "
        "or code that runs only on this rank."
    ),
    signature="One rank's forward pass takes longer than the others', and they wait for it in the backward pass.",
    look_alike=(
        "F03 (it has more rows or longer sequences); a finding on its GPU (I01, I02, I06, I07, H03), which is then the cause; "
        "other programs on its cores."
    ),
    fix="Check the clocks, temperature and processes of its GPU, then profile that rank.",
    judge=slow_compute,
)


def jitter(evidence: Evidence, group: RankGroup) -> Judgement:
    """F04: the slow rank changes with each step, and neither data nor the forward pass explains it: the machine disturbs the
    ranks.
    """
    known = find_culprit(evidence, group)
    if known is None or known.found.culprit is not None or known.unequal:
        return None
    if known.found.explained_by("rest") + known.found.explained_by("phase/optimizer") < COVERAGE_MIN / 2:
        return None
    suspicion = waiting(
        group,
        "F04",
        known,
        "Different ranks are slow in turn",
        "Garbage collection, swapping or other programs stop one rank after the other, and each time all others wait.",
        "import gc; gc.disable()  # and gc.collect() every 500 steps, on all ranks in the same step\n"
        "vmstat 1  # si, so: swapping; r above the number of cores: too many processes",
        "The ranks have different work in each step.",
    )
    taken = taken_from(evidence, group, None)
    if not taken:
        return suspicion
    # Virtual GPUs are the cores of a crowded machine: who is late there says little about the run.
    facts = (*suspicion.finding.evidence, *taken)
    return replace(suspicion, finding=replace(suspicion.finding, confidence="possible", evidence=facts))


F04 = Rule(
    id="F04",
    order=2504,
    family="stragglers",
    title="The machine slows the ranks in turn",
    severities=("error", "warning"),
    confidences=("likely", "possible"),
    needs=SOURCES,
    window_s=3.0,
    every_s=SELDOM_S,
    threshold=(
        f"{SCORE_TEXT} that no phase explains, caused by a different rank each time; possible on virtual GPUs under CPU "
        f"pressure of {PRESSURE_PERCENT:.0f}%"
    ),
    hides=("E06",),
    mechanism=("Garbage collection, swapping or other programs stop one rank after the other, and each time all others wait."),
    signature="A different rank is late in each step, and neither data nor the forward pass explains it.",
    look_alike="F03 (the work differs); E07 (the stalls come at regular intervals).",
    fix="Collect garbage on all ranks in the same step, and look for swapping and other programs.",
    judge=jitter,
)


def does_more(evidence: Evidence, group: RankGroup) -> Judgement:
    """F05: one rank does more between steps than the others."""
    if group.run is None:
        return one_does_more(evidence, group) or computes_alone(evidence, group)
    known = culprit_by(evidence, group, "rest", "phase/optimizer")
    if known is None or known.has_most_work or _waits_for_its_gpu(evidence, group, known.found):
        return None
    who = f"rank {known.found.culprit}"
    if known.found.culprit == 0:
        cause = (
            "Logging, progress bars, images or metrics on rank 0 take time in every step, and the others wait for its "
            "gradients, or for the buffers that DDP sends them from it."
        )
        fix = "if rank == 0 and step % 50 == 0:  # not in every step\n    writer.add_scalar(...)"
    else:
        cause = (
            f"Work outside data, forward, backward and optimizer takes {who} longer: batches that the script itself reads "
            "or builds, work that only this rank does, or another program on its cores. The others wait for its gradients."
        )
        fix = f"gputop where  # while the run is going: the line that {who} is at\npy-spy dump --pid {known.pid}"
    return waiting(
        group,
        "F05",
        known,
        f"All ranks wait for {who}, which does more between the steps",
        cause,
        fix,
        f"{tracked.capital(who)}'s time outside data, forward, backward and optimizer equals that of the others.",
        taken_cores(evidence, group, known),
    )


def _waits_for_its_gpu(evidence: Evidence, group: RankGroup, found: Straggling) -> bool:
    """Return whether the culprit's GPU computes while the rank does more, so that the extra work delays no other rank.

    If only one rank calls ``loss.item()``, it waits there for its GPU. The others run ahead, and wait when they launch kernels.
    """
    if found.clock is GPU:
        return False  # its times are the GPU's own
    times = [evidence.series(group.run_id, found.culprit or 0, name)[-WINDOW_STEPS:] for name in _KERNELS]
    if not all(series and series.finite() for series in times):
        return False
    idle_s = found.step_s - sum(statistics.median(series.values) for series in times)
    return idle_s < (found.excess_s["rest"] + found.excess_s["phase/optimizer"]) / 2


F05 = Rule(
    id="F05",
    order=2503,
    family="stragglers",
    title="One rank does more than the others",
    severities=("error", "warning"),
    confidences=("likely", "possible"),
    needs=(*SOURCES, "/proc"),
    window_s=3.0,
    every_s=SELDOM_S,
    threshold=(
        f"{SCORE_TEXT} explained by one rank's work between steps, while its GPU idles (if its times are known)",
        FEW_TEXT,
        f"from outside, on CPUs: steps advance, the main thread of one rank runs in {RUNS_SHARE:.0%} of all samples, and those "
        f"of the others wait for another thread in {LOCK_SHARE:.0%} (possible)",
        f"from outside, by stacks: one rank is seen at work that neither trains nor prepares data {_SEEN_TO_WAIT}",
        f"or one rank is seen in calls of the model {other_work.LATE_SHARE:.0%} more often, and the others in collectives",
        f"either is {TAKEN_TEXT}",
    ),
    hides=("E06", "F04"),
    mechanism=(
        "Logging, progress bars, images or metrics on rank 0 take time in every step, or another rank reads or builds its "
        "batches more slowly without a DataLoader. The others wait for its gradients."
    ),
    signature="One rank spends more time between the optimizer and the next step.",
    look_alike="F04 (a different rank is late each time); F03 (the rank has the most work); the only rank that reads the "
    "loss, and waits there for its GPU.",
    fix="On rank 0, log every 50 steps or in a separate thread. On another rank, look at which line it is (`gputop where`).",
    judge=does_more,
)
