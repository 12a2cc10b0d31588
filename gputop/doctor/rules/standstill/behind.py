"""G01 by counts of collectives: some ranks wait in an operation that others have not entered."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.doctor.evidence import collective_counts
from gputop.doctor.evidence.collective_counts import Behind
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.standstill.stalls import IDLE_CPU_PERCENT, STALL_HOLD_S, Stalls, recorder_command, stall_fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.doctor.rules.support.shared import utilization
from gputop.snapshot import CommunicatorRank

MUTE_S = 10.0
"""Ranks report where they are every 2 s."""


def judge_counts(evidence: Evidence, group: RankGroup, late: Behind, stalls: Stalls) -> Judgement:
    """Judge by counts that no longer change: some ranks have begun an operation that others have not entered."""
    ahead, slow = [rank.rank for rank in late.ahead], [rank.rank for rank in late.behind]
    working = [rank for rank in late.behind if _has_other_work(evidence, group, rank, stalls)]
    facts = _told_facts(evidence, late) if late.standing else [_count_fact(late)]
    facts += [stall_fact(rank, stall) for rank, (_, stall) in stalls.items()]
    facts += utilization(evidence, tracked.used_devices(group))
    pids = [rank.pid for rank in late.behind if rank.pid is not None]
    dump = f"py-spy dump --pid {pids[0]}" if pids else "py-spy dump --pid PID"
    if late.standing and group.run is not None:
        dump = f"gputop where {fixes.shell_join((group.run.run_id,))}"
    finding = tracked.about(
        group,
        "G01",
        "error",
        "possible" if working else "certain",
        f"The training hangs: {words.ranks(ahead)} wait{'s' if len(ahead) == 1 else ''} in {late.operation} for "
        f"{words.ranks(slow)}",
        facts,
        "A collective operation ends when every rank has called it. The missing rank waits for something else, died "
        "inside, or took a different path through the code.",
        f"{dump}  # for {words.ranks(slow)}: where it is now\n{recorder_command(group)}",
        "The counts change, or the missing rank evaluates or writes and the others rightly wait for it.",
        [device for device in group.pool if device.uuid in _mains(group, pids)] or None,
        pids or None,
    )
    return Suspicion(finding, STALL_HOLD_S)


def _count_fact(late: Behind) -> Fact:
    ahead, slow = [rank.rank for rank in late.ahead], [rank.rank for rank in late.behind]
    text = (
        f"{words.ranks(slow)} {'has' if len(slow) == 1 else 'have'} begun fewer {late.operation} operations than "
        f"{words.ranks(ahead)} ({late.most}), and no count has changed for {late.still_s:.0f} s"
    )
    return Fact(text, late.most, "NCCL RAS")


def _told_facts(evidence: Evidence, late: Behind) -> list[Fact]:
    """Return what the ranks report: torch's counts, and where the ranks that are behind are."""
    ahead, slow = [rank.rank for rank in late.ahead], [rank.rank for rank in late.behind]
    least = min(stands.begun for rank, stands in late.standing.items() if rank in slow and stands.begun is not None)
    text = (
        f"{words.ranks(slow)} {'has' if len(slow) == 1 else 'have'} begun {least} collective operations and "
        f"{words.ranks(ahead)} {late.most}, and no count has changed for {late.still_s:.0f} s"
    )
    facts = [Fact(text, late.most, "the ranks: standing")]
    now = evidence.snapshot.time if evidence.snapshot is not None else 0.0
    for rank in slow:
        stands = late.standing[rank]
        place = f"{stands.line} in {stands.function}" if stands.line is not None else "a place outside the script"
        silent_s = now - stands.at if stands.at is not None else 0.0
        if silent_s > MUTE_S:
            text = (
                f"rank {rank} has not reported where it is for {silent_s:.0f} s, so its Python code is not running; it was "
                f"at {place}"
            )
        else:
            text = f"rank {rank} is at {place}"
        facts.append(Fact(text, list(stands.stack), "the ranks: standing"))
    return facts


def _mains(group: RankGroup, pids: Sequence[int]) -> set[str | None]:
    return {member.main for member in group.members if member.pid in pids} - {None}


def _has_other_work(evidence: Evidence, group: RankGroup, rank: CommunicatorRank, stalls: Stalls) -> bool:
    """Return whether a missing rank may be doing other work: its GPU or CPU is busy, or it uses a disk."""
    member = next((member for member in group.members if rank.pid is not None and member.pid == rank.pid), None)
    if member is None or member.process is None:
        return False
    if any(known.pid == member.pid for known, _ in stalls.values()):
        return False  # The rank itself reported that it completes no step and neither evaluates nor writes a checkpoint.
    load = evidence.load(member.main) if member.main is not None else None
    cpu = member.process.cpu_percent
    return (
        (load is not None and load.busy)
        or (cpu is not None and cpu >= IDLE_CPU_PERCENT)
        or evidence.still.disks_s(member.process) < collective_counts.STILL_S
    )
