"""The rank that all others wait for, and the findings about it; shared by the rules on stragglers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gputop import units
from gputop.doctor.evidence import straggling as waits
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.evidence.straggling import COVERAGE_MIN, FEW_WINDOW_STEPS, SCORE_MIN, WINDOW_STEPS, WINDOWS, Straggling
from gputop.doctor.evidence.windows import FEW_SPAN_S
from gputop.doctor.facts import stated
from gputop.doctor.facts.calls import wrapped_by
from gputop.doctor.facts.ddp import averages_by_hand, has_engine
from gputop.doctor.findings.finding import Confidence, Fact, Severity
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Suspicion
from gputop.snapshot import Device, Process, Rank

SEVERE_SCORE = 0.2
SOURCES = ("journal: phase/*, step_s of all ranks; on GPUs cuda/*",)
INTERRUPTED_OTHERS = 0.25
"""Only one rank's cores are taken if the others are stopped at most this share as often (our choice)."""
INTERRUPTED_PER_S = 20.0
"""From here on, other threads take several percent of a core: Linux lets each run for about 3 ms (our choice). Measured: 103
to 139 for a program that got a third of a core."""
PRESSURE_PERCENT = 40.0
"""CPU pressure from which virtual GPUs take each other's cores; as in D02."""
TAKEN_TEXT = (
    f"possible if others stop its main thread {INTERRUPTED_PER_S:.0f} times a second, or on virtual GPUs under CPU pressure "
    f"of {PRESSURE_PERCENT:.0f}%"
)
SCORE_TEXT = (
    f"a wait of {SCORE_MIN:.0%} of the step in each of {WINDOWS} windows of {WINDOW_STEPS} steps, {COVERAGE_MIN:.0%} of it"
)
FEW_TEXT = f"or the same for one rank in windows of {FEW_WINDOW_STEPS} steps or more, if all take {FEW_SPAN_S:.0f} s (possible)"
_MEETS: Mapping[waits.Meets, str] = {
    "backward": "backward pass",
    "after backward": "time after the backward pass",
    "forward": "forward pass, before which DDP sends them rank 0's buffers,",
}
_NAMES = {
    "phase/data": "waiting for data",
    "phase/forward": "forward",
    "phase/backward": "backward",
    "phase/optimizer": "optimizer",
    "rest": "the rest",
}


@dataclass(frozen=True, slots=True)
class Culprit:
    """The rank that the others wait for. ``member`` is None if the rank varies from step to step, or is on another machine."""

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


def find_culprit(evidence: Evidence, group: RankGroup) -> Culprit | None:
    """Return who the others wait for, even if that changes with each step; None if nobody waits long enough."""
    if not tracked.all_speak(group):
        return None
    journals = tracked.ranks_of(group)
    by_hand = not _exchange_in_backward(journals)
    if by_hand and not averages_by_hand(journals):
        return None
    ranks = tuple(rank.rank for rank in journals)
    found = waits.straggling(evidence, group, ranks, "after backward" if by_hand else "backward")
    if found is None and any(wrapped_by(rank) == "ddp" for rank in journals):
        found = waits.straggling(evidence, group, ranks, "forward")
    if found is None or (by_hand and found.culprit is None) or (found.meets == "forward" and found.culprit != 0):
        return None
    late = (member for member in group.members if member.journal is not None and member.journal.rank == found.culprit)
    member = next(late, None) if found.culprit is not None else None
    device = next((device for device in group.pool if member is not None and device.uuid == member.main), None)
    return Culprit(found, member, device, waits.work(evidence, group, ranks))


def _exchange_in_backward(ranks: Sequence[Rank]) -> bool:
    """Return whether the ranks may synchronize in the backward pass, where the rule looks for the wait.

    If the model has no wrapper and no engine, gradients are averaged by hand after the backward pass, which contains no wait.
    """
    return has_engine(ranks) or any(not stated.model_inspected(rank) or wrapped_by(rank) is not None for rank in ranks)


def culprit_by(evidence: Evidence, group: RankGroup, *parts: str) -> Culprit | None:
    """Return the one rank that the others wait for, if these parts of its step explain the wait."""
    known = find_culprit(evidence, group)
    if known is None or known.found.culprit is None:
        return None
    return known if sum(known.found.explained_by(part) for part in parts) >= COVERAGE_MIN else None


def _facts(found: Straggling) -> list[Fact]:
    who = f"rank {found.culprit}" if found.culprit is not None else "the last rank"
    longest = max(found.excess_s, key=lambda name: found.excess_s[name])
    return [
        Fact(
            f"the others wait {found.score:.0%} of each step for {who} (over {units.count(found.steps)} steps)",
            round(found.score, 3),
            "journal: step_s and phases of all ranks"
            if found.meets == "after backward"
            else f"journal: {found.metric} of all ranks",
        ),
        Fact(
            f"{_NAMES[longest]} takes {who} {found.excess_s[longest] * 1e3:.1f} ms longer, and the gap in the others' "
            f"{_MEETS[found.meets]} is {found.gap_s * 1e3:.1f} ms",
            round(found.excess_s[longest], 6),
            "journal: phases of the step",
        ),
        Fact(f"a step takes {found.step_s * 1e3:.1f} ms", round(found.step_s, 6), f"journal: {found.clock.step}"),
    ]


def taken_cores(evidence: Evidence, group: RankGroup, known: Culprit) -> list[Fact]:
    """Return the evidence that other processes take the culprit's cores, so that its times say little; empty without any."""
    return taken_from(evidence, group, known.member.process if known.member is not None else None)


def taken_from(evidence: Evidence, group: RankGroup, process: Process | None) -> list[Fact]:
    """Return the evidence that other processes take the cores of a group's process; empty if there is none.

    Pressure is that of the whole machine. It counts only for virtual GPUs, which are its cores.
    """
    per_s = evidence.interrupted_per_s(process) if process is not None else None
    if per_s is not None and per_s >= INTERRUPTED_PER_S:
        text = f"its main thread was stopped {per_s:.0f} times a second to let others run"
        return [Fact(text, round(per_s, 1), "/proc/<pid>/status")]
    host = evidence.snapshot.host if evidence.snapshot is not None else None
    percent = host.cpu_pressure_percent if host is not None and group.virtual else None
    if percent is not None and percent >= PRESSURE_PERCENT:
        return [Fact(f"processes waited for a core in {percent:.0f}% of the last 10 s", percent, "/proc/pressure/cpu")]
    return []


def only_its_cores_are_taken(evidence: Evidence, group: RankGroup, known: Culprit) -> list[Fact]:
    """Return the evidence that others take the culprit's cores, and not those of the other ranks; empty without any."""
    process = known.member.process if known.member is not None else None
    per_s = evidence.interrupted_per_s(process) if process is not None else None
    others = [member.process for member in group.members if member.process is not None and member.process is not process]
    known_s = [evidence.interrupted_per_s(other) for other in others]
    if per_s is None or per_s < INTERRUPTED_PER_S or not known_s:
        return []
    if any(value is None or value > INTERRUPTED_OTHERS * per_s for value in known_s):
        return []
    most = max(value for value in known_s if value is not None)
    text = (
        f"its main thread was stopped {per_s:.0f} times a second to let others run, those of the other ranks {most:.0f} times"
    )
    return [Fact(text, round(per_s, 1), "/proc/<pid>/status")]


def waiting(
    group: RankGroup,
    rule: str,
    known: Culprit,
    title: str,
    cause: str,
    fix: str,
    refuted_by: str,
    taken: Sequence[Fact] = (),
) -> Suspicion:
    """Return the suspicion of a wait: with its facts, and about the culprit's process and device.

    If others take its cores (``taken``), the cause and the fix concern them, and the suspicion is only possible.
    """
    pids = [known.pid] if isinstance(known.pid, int) else None
    devices = [known.device] if known.device is not None else None
    severity: Severity = "error" if known.found.score >= SEVERE_SCORE else "warning"
    confidence: Confidence = "possible" if taken or known.found.is_of_few else "likely"
    if taken:
        cause = (
            f"Other threads or other programs take the cores of rank {known.found.culprit}, and everything takes longer there. "
            "Its times do not show whether it is slow itself."
        )
        fix = f"top -H  # what else runs\ntaskset -pc {known.pid}  # the cores that it may use"
    facts = [*_facts(known.found), *taken]
    return Suspicion(tracked.about(group, rule, severity, confidence, title, facts, cause, fix, refuted_by, devices, pids), 3.0)
