"""A rank that finished while the others trained (part of G04): the others wait for it in a collective, or failed without it."""

from __future__ import annotations

from collections.abc import Sequence

from gputop import units
from gputop.doctor.evidence import collective_counts, stacks
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts import model as model_facts
from gputop.doctor.facts.ddp import standstill
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.outputs import Output, quoted
from gputop.doctor.rules.support.rule import Suspicion
from gputop.facts.standing import Stalled
from gputop.process import DEAD_STATES
from gputop.snapshot import LIVE_STATES, Rank, Run

STILL_S = 5.0
LATE_S = 3.0
"""Ranks may report what they did before another rank ended this long after it: they write at most every 2 seconds."""
_CAUSE = (
    "A rank left the loop before the others: its data ended, or it alone reached a break or a return. Each exchange of "
    "gradients needs every rank, so the others wait in the next one until it times out, or lose the connection."
)
_FIX = """\
# give every rank the same number of steps: drop_last=True, a sampler that pads, or stop together:
stop = torch.tensor(float(done), device=device); dist.all_reduce(stop, dist.ReduceOp.MAX)
if stop: break
# if only the data is uneven, and only for DDP:
with torch.distributed.algorithms.join.Join([model]):  # around the loop"""


PEERS = ("gloo_peer", "nccl_peer_closed", "nccl_remote", "store_lost")
"""What ranks print after losing the connection to another one."""
RANKS_MOST = 4096
"""A world size comes from a file, and may be any number."""
LAUNCHERS = ("child_failed", "elastic_exit", "srun_exit", "mpi_exit", "deepspeed_exit")
"""What launchers print when one of their ranks has failed."""


def only_consequences(output: Output) -> Suspicion | None:
    """Return the finding for a failed run whose error texts all follow from a rank that had gone.

    The run has no journal, or none of its ranks on this machine is left and others are on other machines.
    """
    away = elsewhere(output.run) if output.run is not None else ()
    if output.run is not None and (not away or any(rank.state in LIVE_STATES for rank in output.run.ranks)):
        return None
    lost = [match for match in output.matches if match.pattern in PEERS]
    reports = [match for match in output.matches if match.pattern in LAUNCHERS]
    others = [match for match in output.matches if match.cascade and match not in lost and match not in reports]
    if output.launch_state != "failed" or not lost or others or not all(match.cascade for match in output.matches):
        return None
    numbers = sorted({match.rank for match in lost if match.rank is not None})
    who = tracked.capital(words.ranks(numbers)) if numbers else "Ranks"
    finding = Finding(
        "G04",
        "error",
        "likely" if reports else "possible",
        f"{who} lost the connection to a rank that had left or died, and the run ended",
        tuple(quoted(match) for match in (*lost[:2], *reports[:1])),
        "A rank left the loop before the others (its data ended, or it alone reached a break or a return), or it died "
        "silently. Each exchange needs every rank, so the others lose the connection.",
        f"{look_there(output.run, away)}{_FIX}",
        "The output of another rank contains an earlier error.",
        devices=output.devices,
        pids=output.pids,
        run=output.run_id or lost[0].run_id,
    )
    return Suspicion(finding, 2.0)


def elsewhere(run: Run) -> tuple[int, ...]:
    """Return the ranks of a run that are not known here."""
    here = {rank.rank for rank in run.ranks}
    if run.world_size is None or run.world_size <= len(here):
        return ()
    return tuple(number for number in range(min(run.world_size, RANKS_MOST)) if number not in here)


def look_there(run: Run | None, away: Sequence[int]) -> str:
    """Return what to look at first: the output of the other ranks."""
    if run is None or not away:
        return "torchrun --log-dir logs --tee 3 ...  # keeps what each rank prints\n"
    runs, where = words.agree(len(away), "runs", "run"), words.agree(len(away), "another machine", "other machines")
    there = f"; there:\ngputop logs {fixes.shell_join((run.run_id,))}" if run.job_id is not None else ": read it there"
    return f"# {words.ranks(away)} {runs} on {where}, whose output says more{there}\n"


def others_failed(run: Run, bad: Sequence[Rank], group: RankGroup | None) -> Suspicion:
    """Return the finding that ranks finished and the others then failed; the error texts would blame one of those."""
    early = [rank.rank for rank in run.ranks if rank.state == "finished"]
    names = words.ranks(early)
    finding = Finding(
        "G04",
        "error",
        "likely",
        f"{tracked.capital(names)} ended while the others trained, and the others failed without it",
        (
            Fact(f"{names} {'has' if len(early) == 1 else 'have'} finished", early, "journal"),
            Fact(f"{words.ranks([rank.rank for rank in bad])} lost the connection after that", len(bad), "journal: error"),
        ),
        _CAUSE,
        _FIX,
        "The failed ranks report that something else went wrong first.",
        pids=tuple(rank.pid for rank in bad if rank.pid is not None) if group is not None else (),
        run=run.run_id,
    )
    return Suspicion(finding, 2.0)


def others_wait(evidence: Evidence, run: Run, alive: Sequence[Rank], group: RankGroup | None) -> Suspicion | None:
    """Return the finding that ranks finished while all others wait in a collective that nobody else will enter.

    Ranks that end one after the other are fine, and so is a rank that still evaluates or writes after the others ended.
    """
    left = [rank for rank in run.ranks if rank.state == "finished"]
    if not left or not alive or group is None:
        return None
    still = min(evidence.stood_s(run.run_id, rank.rank) for rank in alive)
    ended = max(evidence.ended_s(run.run_id, rank.rank) for rank in left)
    if ended - still > LATE_S or min(ended, still) < STILL_S:
        return None  # They continued without it, or it is too early to tell.
    stalls = _in_collectives(alive)
    counted = _counted(evidence, group, left) if stalls is None else None
    if stalls is None and counted is None:
        return None
    numbers, waiting = words.ranks([rank.rank for rank in left]), words.ranks([rank.rank for rank in alive])
    one = len(alive) == 1
    at = max((rank.steps_taken for rank in left if rank.steps_taken is not None), default=None)
    facts = [
        Fact(
            f"{numbers} {'has' if len(left) == 1 else 'have'} finished without an error"
            + (f", at step {units.count(at)}" if at is not None else ""),
            at,
            "journal",
        ),
        Fact(f"{waiting} {'is' if one else 'are'} alive, without a step for {still:.0f} s", len(alive), "journal"),
    ]
    for rank, stall in (stalls or [])[:3]:
        frame = f" in {stall.stack[0]}" if stall.stack else ""
        facts.append(
            Fact(f"rank {rank.rank} has waited since step {units.count(stall.step)}{frame}", stall.step, "journal: stalled")
        )
    if counted is not None:
        facts.append(counted)
    pids = {rank.pid for rank in left}
    there = [process.pid for process in group.processes if process.pid in pids and process.state not in DEAD_STATES]
    if there:
        facts.append(
            Fact(f"{words.processes(there)} of {numbers} still {words.agree(len(there), 'exists', 'exist')}", there, "/proc")
        )
    early = bool(there) or any(stall.early for _, stall in stalls or ())
    finding = Finding(
        "G04",
        "warning" if early else "error",
        "possible" if early else "likely",
        f"{tracked.capital(numbers)} ended before the {words.agree(len(alive), 'other', 'others')}, which "
        f"{'may wait' if early else words.agree(len(alive), 'waits', 'wait')} for {words.agree(len(left), 'it', 'them')}",
        tuple(facts),
        _CAUSE,
        _FIX,
        "The others complete steps, or the process that finished its run is alive and enters the same operation.",
        devices=tuple(sorted(group.used)),
        pids=tuple(rank.pid for rank in alive if rank.pid is not None),
        run=run.run_id,
    )
    return Suspicion(finding, 2.0)


def _in_collectives(alive: Sequence[Rank]) -> list[tuple[Rank, Stalled]] | None:
    """Return where the live ranks are; None unless each of them waits in a collective of a group with several ranks."""
    if not any((model_facts.group_size(rank) or 0) > 1 for rank in alive):
        return None
    found = [(rank, stall) for rank in alive if (stall := standstill(rank)) is not None]
    if len(found) < len(alive):
        return None
    held = any(stacks.compiles(stall) or stacks.in_debugger(stall) for _, stall in found)
    return None if held or not all(stacks.communicates(stall) for _, stall in found) else found


def _counted(evidence: Evidence, group: RankGroup, left: Sequence[Rank]) -> Fact | None:
    """Return what NCCL's stopped counts show: the ranks that are behind are the ones that ended."""
    late = collective_counts.behind(evidence, group)
    gone = {rank.pid for rank in left} - {None}
    if late is None or not all(rank.pid in gone for rank in late.behind):
        return None
    text = (
        f"{words.ranks([rank.rank for rank in late.ahead])} wait{'s' if len(late.ahead) == 1 else ''} in {late.operation}, "
        "and no count has changed for "
        f"{late.still_s:.0f} s"
    )
    return Fact(text, late.most, "NCCL RAS")
