"""Ranks that are gone while the others stand still, judged only by their processes (G04 from outside)."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.group_past import has_run_backward, uses_no_processor
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.standstill.spinning import polls
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.process import LOCAL_RANKS_MOST

STOOD_S = 20.0
"""No rank runs backward for this long. Ranks that exit one by one at the end of a run take less time (our choice)."""
HOLD_S = 5.0
"""How long that must hold (our choice)."""


def missing_ranks(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge untracked ranks: some that were seen are gone, and all others have trained and now wait."""
    seen = {member.local_rank for member in group.members if member.local_rank is not None}
    if group.run is not None or len(seen) < len(group.members):
        return None
    size = group.local_world_size
    processes = [member.process for member in group.members if member.process is not None]
    if size is None or size > LOCAL_RANKS_MOST or len(processes) < len(group.members):
        return None
    gone = sorted(set(range(size)) - seen)
    left = _left_free(evidence, group, gone)
    if not gone or not (
        left or evidence.past.local_ranks(group).issuperset(gone)
    ):  # They may run where gputop cannot see them.
        return None
    if not all(map(has_run_backward, processes)):
        return None
    stood = [seconds for process in processes if (seconds := evidence.no_backward_s(process)) is not None]
    if len(stood) < len(processes) or min(stood) < STOOD_S:
        return None
    waits = [_waits(evidence, member, left) for member in group.members]
    if None in waits:
        return None
    whole = all(process.environment is not None and process.environment.world_size == size for process in processes)
    numbers = words.ranks(gone) if whole else f"local {words.ranks(gone)}"
    is_gone = "is" if len(gone) == 1 else "are"
    alone = len(seen) == 1  # After training, often one rank is left that does work of its own.
    finding = tracked.about(
        group,
        "G04",
        "warning" if alone else "error",
        "possible" if alone else "likely",
        f"{tracked.capital(numbers)} {is_gone} gone, and {'the last one may wait' if alone else 'the others wait'}",
        [
            Fact(f"{len(seen)} of the {size} ranks started here have a process", len(seen), "/proc/<pid>/environ"),
            Fact(
                f"no other rank's backward threads have used a CPU for {min(stood):.0f} s",
                round(min(stood)),
                "pt_autograd threads (/proc/<pid>/task)",
            ),
            *[fact for fact in waits[:4] if fact is not None],
        ],
        "A rank died and the others did not end with it, as happens without torchrun: they wait for it in a collective "
        "operation until that times out.",
        "sudo dmesg --ctime | grep -i -E 'killed process|oom|xid' | tail\n# look at that rank's last output, then start "
        f"again:\n{fixes.launch_line(group, size)}",
        "The others still work: they test, save or upload the model.",
        pids=list(group.pids),
    )
    return Suspicion(finding, HOLD_S)


def _left_free(evidence: Evidence, group: RankGroup, gone: Sequence[int]) -> bool:
    """Return whether the GPUs that belong to the missing ranks' numbers are free: an unseen rank would use its own GPU."""
    known = group.visible if group.visible is not None and not group.virtual else ()
    return all(number < len(known) and evidence.is_free(known[number]) for number in gone)


def _waits(evidence: Evidence, member: Member, beside_idle: bool) -> Fact | None:
    """Return what shows that a rank waits: it uses no CPU and no disk, or its GPU polls; None if it may be working."""
    process = member.process
    if process is None:
        return None
    if uses_no_processor(process) and evidence.still.disks_s(process) >= STOOD_S:
        text = f"process {process.pid} uses {process.cpu_percent:.0f}% of a core and no disk"
        return Fact(text, process.cpu_percent, f"/proc/{process.pid}/stat, io")
    device = evidence.device(member.main) if member.main is not None else None
    if device is None or not polls(evidence, device, beside_idle):
        return None
    share = windows.power_share_at_most(evidence, device.uuid)
    return Fact(f"{words.gpu(device)} is fully used at {share or 0.0:.0%} of its power limit: NCCL polls", share, "NVML")
