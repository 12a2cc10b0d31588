"""Ranks that are gone while the others stand still, judged by their processes alone (G04 from outside)."""

from __future__ import annotations

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.standstill.at_rest import has_run_backward
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion

STOOD_S = 20.0
"""No rank has run backward for so long. At the end of a run they leave one after the other, faster than this (our choice)."""
HOLD_S = 5.0


def missing_ranks(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge ranks that nobody tracks: fewer live than their launcher started, and the others have stopped to train."""
    size = group.local_world_size
    seen = {member.local_rank for member in group.members}
    processes = [member.process for member in group.members if member.process is not None]
    if group.run is not None or size is None or None in seen or len(seen) >= size or len(processes) < len(group.members):
        return None
    if not all(map(has_run_backward, processes)):
        return None
    stood = [seconds for process in processes if (seconds := evidence.no_backward_s(process)) is not None]
    if len(stood) < len(processes) or min(stood) < STOOD_S:
        return None
    gone = sorted(set(range(size)) - {number for number in seen if number is not None})
    whole = all(process.environment is not None and process.environment.world_size == size for process in processes)
    numbers = words.ranks(gone) if whole else f"local {words.ranks(gone)}"
    is_gone = "is" if len(gone) == 1 else "are"
    finding = tracked.about(
        group,
        "G04",
        "error",
        "likely",
        f"{tracked.capital(numbers)} {is_gone} gone, and the others wait",
        [
            Fact(f"{len(seen)} of {size} ranks that were started here have a process", len(seen), "/proc/<pid>/environ"),
            Fact(
                f"no other rank's backward threads have used a processor for {min(stood):.0f} s",
                round(min(stood)),
                "pt_autograd threads (/proc/<pid>/task)",
            ),
        ],
        "A rank died without taking the others with it, as where no torchrun watches over them: they wait for it in a "
        "collective operation until its time limit.",
        "sudo dmesg --ctime | grep -i -E 'killed process|oom|xid' | tail\n# the last output of that rank, then start anew:\n"
        f"{fixes.launch_line(group, size)}",
        "The rank runs where gputop cannot see it, as in another container; or the run is about to end.",
        pids=list(group.pids),
    )
    return Suspicion(finding, HOLD_S)
