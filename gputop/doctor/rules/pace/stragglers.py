"""Stragglers: one rank that all others wait for in every step (F01, F02, F05), or a different one each time (F03, F04)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gputop.doctor.evidence import straggling as waits
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.evidence.straggling import COVERAGE_MIN, FOLLOWS_MIN, SCORE_MIN, WINDOW_STEPS, WINDOWS, Straggling
from gputop.doctor.facts import stated
from gputop.doctor.facts.calls import wrapped_by
from gputop.doctor.facts.ddp import has_engine
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Severity
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import SELDOM_S, Judgement, Rule, Suspicion
from gputop.snapshot import Device, Rank

SEVERE_SCORE = 0.2
_NAMES = {"phase/data": "waiting for data", "phase/forward": "forward", "phase/optimizer": "optimizer", "rest": "the rest"}
_KERNELS = ("cuda/forward_s", "cuda/backward_s")
_SOURCES = ("journal: phase/*, step_s of all ranks",)
_SCORE = f"a wait of {SCORE_MIN:.0%} of the step in each of {WINDOWS} windows of {WINDOW_STEPS} steps, {COVERAGE_MIN:.0%} of it"


@dataclass(frozen=True, slots=True)
class _Culprit:
    """The rank that the others wait for. ``member`` is None if it varies from step to step, or is on another machine."""

    found: Straggling
    member: Member | None
    device: Device | None
    work: waits.Work | None

    @property
    def pid(self) -> int | str:
        """The culprit's PID, or the placeholder for it in a command."""
        return self.member.pid if self.member is not None and self.member.pid is not None else "PID"

    @property
    def unequal(self) -> bool:
        """Whether the ranks' work was measured and differs."""
        return self.work is not None and self.work.unequal

    @property
    def has_most_work(self) -> bool:
        """Whether the culprit has clearly more work than the others: it explains longer parts of the step of any kind."""
        return self.work is not None and self.found.culprit is not None and self.work.heaviest == self.found.culprit


def _find_culprit(evidence: Evidence, group: RankGroup) -> _Culprit | None:
    if not tracked.all_speak(group):
        return None
    if not _exchange_in_backward(tracked.ranks_of(group)):
        return None
    ranks = tuple(rank.rank for rank in tracked.ranks_of(group))
    found = waits.straggling(evidence, group, ranks)
    if found is None:
        return None
    late = (member for member in group.members if member.journal is not None and member.journal.rank == found.culprit)
    member = next(late, None) if found.culprit is not None else None
    device = next((device for device in group.pool if member is not None and device.uuid == member.main), None)
    return _Culprit(found, member, device, waits.work(evidence, group, ranks))


def _exchange_in_backward(ranks: Sequence[Rank]) -> bool:
    """Return whether ranks may meet in backward, where the wait is looked for.

    Where the model has no wrapper and no engine, gradients are averaged after it, and backward holds nobody's wait.
    """
    return has_engine(ranks) or any(not stated.model_inspected(rank) or wrapped_by(rank) is not None for rank in ranks)


def _culprit_by(evidence: Evidence, group: RankGroup, *parts: str) -> _Culprit | None:
    """Return the one rank that the others wait for, if these parts of its step explain the wait."""
    known = _find_culprit(evidence, group)
    if known is None or known.found.culprit is None:
        return None
    return known if sum(known.found.explained_by(part) for part in parts) >= COVERAGE_MIN else None


def _facts(found: Straggling) -> list[Fact]:
    who = f"rank {found.culprit}" if found.culprit is not None else "the last one"
    longest = max(found.excess_s, key=lambda name: found.excess_s[name])
    return [
        Fact(
            f"the others wait {found.score:.0%} of each step for {who} (over {found.steps} steps)",
            round(found.score, 3),
            "journal: phase/backward of all ranks",
        ),
        Fact(
            f"{_NAMES[longest]} takes {who} {found.excess_s[longest] * 1e3:.1f} ms longer, their gap in backward is "
            f"{found.gap_s * 1e3:.1f} ms",
            round(found.excess_s[longest], 6),
            "journal: phases of the step",
        ),
        Fact(f"a step takes {found.step_s * 1e3:.1f} ms", round(found.step_s, 6), "journal: step_s"),
    ]


def _told(group: RankGroup, rule: str, known: _Culprit, title: str, cause: str, fix: str, refuted_by: str) -> Suspicion:
    pids = [known.pid] if isinstance(known.pid, int) else None
    devices = [known.device] if known.device is not None else None
    severity: Severity = "error" if known.found.score >= SEVERE_SCORE else "warning"
    facts = _facts(known.found)
    return Suspicion(tracked.about(group, rule, severity, "likely", title, facts, cause, fix, refuted_by, devices, pids), 3.0)


def slow_data(evidence: Evidence, group: RankGroup) -> Judgement:
    """F01: one rank waits for its data, and all others wait for that rank."""
    known = _culprit_by(evidence, group, "phase/data")
    if known is None:
        return None
    who = f"rank {known.found.culprit}"
    loader = facts_of(known.member.journal).loader if known.member is not None else None
    more = max(4, 2 * (loader.num_workers or 0)) if loader is not None else 4
    return _told(
        group,
        "F01",
        known,
        f"All ranks wait for {who}, which waits for its data",
        "Its share of the data comes more slowly: another disk, fewer cores, larger files. In DDP, the slowest sets the pace.",
        f"DataLoader(..., num_workers={more}, persistent_workers=True, pin_memory=True)  # and look at {who}'s disk and cores\n"
        f"taskset -pc {known.pid}  # the cores that it may use",
        f"{tracked.capital(who)}'s time for data is that of the others.",
    )


F01 = Rule(
    id="F01",
    order=2501,
    family="stragglers",
    title="One rank waits for its data",
    severities=("error", "warning"),
    confidences=("likely",),
    needs=_SOURCES,
    window_s=3.0,
    every_s=SELDOM_S,
    threshold=f"{_SCORE} explained by one rank's data",
    hides=("D01", "E06", "F04"),
    mechanism=(
        "Its share of the data arrives more slowly: another disk, fewer cores, larger files. In DDP all ranks are as fast "
        "as the slowest."
    ),
    signature=(
        "One rank spends longer on data, and the others spend that time in backward, at full utilization and little power."
    ),
    look_alike="D01, where all ranks wait for data.",
    fix="Give that rank more workers, and look at its disk and cores.",
    judge=slow_data,
)


def slow_compute(evidence: Evidence, group: RankGroup) -> Judgement:
    """F02: one rank computes longer at equal work."""
    known = _culprit_by(evidence, group, "phase/forward")
    if known is None or known.unequal:
        return None
    who, device = f"rank {known.found.culprit}", known.device
    return _told(
        group,
        "F02",
        known,
        f"All ranks wait for {who}, which computes longer",
        f"With equal work its forward takes longer: a lower clock or heat at {words.gpu(device) if device else 'its GPU'}, "
        "another process on it, a smaller card, or code that this rank alone runs.",
        f"nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE -i {device.index if device is not None else 'N'}\n"
        f"py-spy dump --pid {known.pid}",
        f"{tracked.capital(who)} gets more rows or longer sequences than the others.",
    )


F02 = Rule(
    id="F02",
    order=2502,
    family="stragglers",
    title="One rank computes longer",
    severities=("error", "warning"),
    confidences=("likely",),
    needs=_SOURCES,
    window_s=3.0,
    every_s=SELDOM_S,
    threshold=f"{_SCORE} explained by one rank's forward",
    hides=("E06", "F04"),
    mechanism=(
        "With equal work its forward takes longer: a lower clock, heat, another process on its GPU, a smaller "
        "card, or code that runs on this rank only."
    ),
    signature="One rank's forward is longer than the others', and they wait for it in backward.",
    look_alike=(
        "F03, where it has more rows or longer sequences; a finding on its GPU (I01, I02, I06, I07, H03) is the cause."
    ),
    fix="Check clocks, temperature and processes of its GPU, then profile that rank.",
    judge=slow_compute,
)


def unequal_work(evidence: Evidence, group: RankGroup) -> Judgement:
    """F03: the ranks' batches differ in size, so some rank always waits."""
    known = _find_culprit(evidence, group)
    if known is None:
        return _measured(evidence, group)
    found, work = known.found, known.work
    computes = found.explained_by("phase/forward") + found.explained_by("phase/data") >= COVERAGE_MIN / 2
    by_turns = found.culprit is None and found.explained_by("phase/forward") > max(
        found.explained_by("phase/data"), found.explained_by("rest"), found.explained_by("phase/optimizer")
    )
    if not ((known.unequal and (computes or known.has_most_work)) or (by_turns and not _equal_work(group, work))):
        return None
    judged = _told(group, "F03", known, *_UNEQUAL)
    if work is None or not work.unequal:
        return judged
    return Suspicion(replace(judged.finding, evidence=(_ratio(work), *judged.finding.evidence)), judged.hold_s)


F03 = Rule(
    id="F03",
    order=2500,
    family="stragglers",
    title="Ranks have unequal work",
    severities=("error", "warning"),
    confidences=("likely",),
    needs=_SOURCES,
    window_s=3.0,
    every_s=SELDOM_S,
    threshold=f"{_SCORE} explained by unequal work",
    hides=("F01", "F02", "F04", "F05", "E06"),
    mechanism=(
        "A step ends when the rank with most work is done. With randomly drawn batches (sentences, boxes, "
        "sequences) it is a different rank each time."
    ),
    signature="The size of the batches differs between ranks, and the time of forward follows that size.",
    look_alike="F02, where one rank is slow at equal work; F04, where no phase explains the wait.",
    fix="Balance the batches: group by length, fill by tokens, or pack sequences.",
    judge=unequal_work,
)


_UNEQUAL = (
    "The ranks' batches are of different size: in every step some wait for the largest",
    "A step ends when the rank with most work is done; with batches drawn by chance (sentences, boxes, sequences) that is "
    "another one each time.",
    "TrainingArguments(group_by_length=True)  # or a sampler that fills batches by tokens; or packing\n"
    "# every rank gets equal work in the same step",
    "All ranks have the same number of tokens or samples in each step.",
)


def _ratio(work: waits.Work) -> Fact:
    text = f"most over mean of the ranks' {work.unit} in a step: {work.ratio:.2f} (over {work.steps} steps)"
    return Fact(text, round(work.ratio, 3), work.source)


def _measured(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge F03 if the wait does not show in backward: by the measured work, provided that forward follows it."""
    if not tracked.all_speak(group):
        return None
    ranks = tuple(rank.rank for rank in tracked.ranks_of(group))
    work = waits.work(evidence, group, ranks) if len(ranks) > 1 else None
    if work is None or not (work.measured and work.unequal):
        return None
    loss = waits.cost_of(work, evidence, group, ranks)
    if loss is None or loss[0] < SCORE_MIN or loss[1] < FOLLOWS_MIN:
        return None
    lost, follows, steps = loss
    facts = [
        _ratio(work),
        Fact(
            f"a rank's forward takes as long as its {work.unit} say (rank correlation {follows:.2f} over {steps} steps)",
            round(follows, 3),
            "journal: phase/forward, batches",
        ),
        Fact(
            f"by that the mean rank waits about {lost:.0%} of each step",
            round(lost, 3),
            "journal: phase/forward, phase/backward, step_s",
        ),
    ]
    title, cause, fix, refuted_by = _UNEQUAL
    return Suspicion(tracked.about(group, "F03", "warning", "likely", title, facts, cause, fix, refuted_by), 3.0)


def _equal_work(group: RankGroup, work: waits.Work | None) -> bool:
    """Return whether the ranks' work is equal: on shared CPU cores their forward times differ all the same."""
    if work is not None and work.measured:
        return not work.unequal
    said = [facts_of(rank).batches for rank in tracked.ranks_of(group)]
    sizes = {(fact.rows, fact.elements) if fact is not None else None for fact in said}
    return group.virtual and len(sizes) == 1 and not sizes & {None, (None, None)}


def jitter(evidence: Evidence, group: RankGroup) -> Judgement:
    """F04: the slow rank changes with each step, and neither data nor forward explains it: the machine disturbs them."""
    known = _find_culprit(evidence, group)
    if known is None or known.found.culprit is not None or known.unequal:
        return None
    if known.found.explained_by("rest") + known.found.explained_by("phase/optimizer") < COVERAGE_MIN / 2:
        return None
    return _told(
        group,
        "F04",
        known,
        "Different ranks are slow in turn",
        "Garbage collection, swapping or other programs stop one rank after the other, and all others wait each time.",
        "import gc; gc.disable()  # and gc.collect() every 500 steps, on all ranks in the same step\n"
        "vmstat 1  # si, so: swapping; r above the number of cores: too much runs",
        "The ranks have different work in each step.",
    )


F04 = Rule(
    id="F04",
    order=2504,
    family="stragglers",
    title="The machine slows the ranks in turn",
    severities=("error", "warning"),
    confidences=("likely",),
    needs=_SOURCES,
    window_s=3.0,
    every_s=SELDOM_S,
    threshold=f"{_SCORE} explained by no phase, and by another rank each time",
    hides=("E06",),
    mechanism=("Garbage collection, swapping or other programs stop one rank after the other, and all others wait each time."),
    signature="A different rank is late in each step, and neither data nor forward explains it.",
    look_alike="F03, where the work differs; E07, where the stalls come at regular intervals.",
    fix="Collect garbage on all ranks in the same step, and look for swapping and other programs.",
    judge=jitter,
)


def does_more(evidence: Evidence, group: RankGroup) -> Judgement:
    """F05: one rank does more between steps than the others."""
    known = _culprit_by(evidence, group, "rest", "phase/optimizer")
    if known is None or known.has_most_work or _waits_for_its_gpu(evidence, group, known.found):
        return None
    who = f"rank {known.found.culprit}"
    if known.found.culprit == 0:
        cause = (
            "Logging, progress bars, pictures or metrics on rank 0 take time in every step; the others wait for its gradients."
        )
        fix = "if rank == 0 and step % 50 == 0:  # not in every step\n    writer.add_scalar(...)"
    else:
        cause = (
            f"Work outside of data, forward, backward and optimizer takes {who} longer: batches that the script itself reads "
            "or makes, something that this rank alone does, or another program on its cores. The others wait for its gradients."
        )
        fix = f"gputop where  # while it runs: the line at which {who} is\npy-spy dump --pid {known.pid}"
    return _told(
        group,
        "F05",
        known,
        f"All ranks wait for {who}, which does more between the steps",
        cause,
        fix,
        f"{tracked.capital(who)}'s time outside of data, forward, backward and optimizer is that of the others.",
    )


def _waits_for_its_gpu(evidence: Evidence, group: RankGroup, found: Straggling) -> bool:
    """Return whether the culprit's GPU computes while the rank does more, which then delays nobody.

    A rank that alone calls ``loss.item()`` waits there for its GPU. The others run ahead, and wait where they launch kernels.
    """
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
    confidences=("likely",),
    needs=_SOURCES,
    window_s=3.0,
    every_s=SELDOM_S,
    threshold=f"{_SCORE} explained by what one rank does between steps, while its GPU, where its times are known, idles",
    hides=("E06", "F04"),
    mechanism=(
        "Logging, progress bars, images or metrics on rank 0 take time in every step, or another rank reads or makes its "
        "batches more slowly without a DataLoader, and the others wait for its gradients."
    ),
    signature="One rank spends more time between optimizer and next step.",
    look_alike="F04, where another rank is late each time; F03, where the rank has most work; a rank that alone reads the "
    "loss, and waits there for its GPU.",
    fix="On rank 0, log every 50 steps or in a separate thread; on another rank, see at which line it is (`gputop where`).",
    judge=does_more,
)
