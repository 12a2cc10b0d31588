"""G01 while one rank evaluates, predicts or writes for long, and all others wait for it in a collective operation."""

from __future__ import annotations

from gputop import units
from gputop.doctor.evidence import stacks
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.standstill.stalls import Stalls, is_paused, stall_fact, stalled_s
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion

LONG_PAUSE_S = 60.0
LONGER_THAN_PAUSES = 3.0
"""A pause of one rank is reported after this long, if it is this many times as long as any before it (our choice)."""
HOLD_S = 3.0
_FIX = """\
# if a rank can stop on its own, let all ranks decide together in every epoch:
stop = torch.tensor(float(stopper(value)), device=device); dist.all_reduce(stop, op=dist.ReduceOp.MAX)
if stop: break"""


def judge_long_pause(evidence: Evidence, group: RankGroup, stalls: Stalls) -> Judgement:
    """Judge a run in which all ranks but one wait for others. ``stalls`` are the reports of its ranks, none of them early."""
    paused = [rank for rank, (_, stall) in stalls.items() if is_paused(stall)]
    waiting = [rank for rank, (_, stall) in stalls.items() if stacks.communicates(stall)]
    ranks = tracked.ranks_of(group)
    if len(paused) != 1 or len(waiting) + 1 != len(ranks) or len(stalls) != len(ranks):
        return None
    seconds, run_id = stalled_s(evidence, stalls), group.run_id or ""
    longest_s = max(evidence.pauses(run_id, rank.rank)[1] for rank in ranks)
    if seconds < max(LONG_PAUSE_S, LONGER_THAN_PAUSES * longest_s):
        return None
    (rank,) = paused
    pid = stalls[rank][0].pid
    finding = tracked.about(
        group,
        "G01",
        "warning",
        "possible",
        f"All ranks wait for rank {rank}, which has been elsewhere for {units.duration(seconds)}",
        [
            Fact(f"no step for {units.duration(seconds)}, longer than any pause before", round(seconds, 1), "journal: stalled"),
            *(stall_fact(number, stall) for number, (_, stall) in stalls.items()),
        ],
        "The others are in a collective operation that this rank has not entered. It evaluates, predicts or writes by itself, "
        "and comes back; or it has left the loop, as with early stopping on one rank, and never will.",
        _FIX,
        "The rank comes back to the training loop, and a step completes.",
        pids=[pid] if pid is not None else None,
    )
    return Suspicion(finding, HOLD_S)
