"""Multi-host runs that hang: the others wait for the ranks of a host (K02), or one host continues alone (K03)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gputop.doctor.evidence.collective_counts import STILL_S, by_torch
from gputop.doctor.evidence.evidence import PROGRESS_S, Evidence
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.hosts.places import runs_over_hosts
from gputop.doctor.rules.support.rule import SELDOM_S, Judgement, Rule, Suspicion
from gputop.snapshot import Rank, Run

ALONE_HOLD_S = 10.0
"""How long K03 must hold, in addition to the time without a step (our choice)."""


def behind_hosts(evidence: Evidence) -> Mapping[str, Judgement]:
    """K02: ranks have not begun a collective operation in which ranks of other hosts wait."""
    return {run.run_id: _behind(evidence, run, hosts) for run, hosts in runs_over_hosts(evidence)}


def _behind(evidence: Evidence, run: Run, hosts: Mapping[str, Sequence[Rank]]) -> Judgement:
    ranks = [rank for held in hosts.values() for rank in held]
    found = by_torch(ranks, evidence.snapshot.time) if evidence.snapshot is not None else None
    if found is None:
        return None
    late = {rank.rank for rank in found.behind}
    at_fault = [host for host, held in hosts.items() if any(rank.rank in late for rank in held)]
    if len(at_fault) == len(hosts):
        return None  # Ranks of every host are behind, so no host is at fault.
    who = words.ranks(sorted(late))
    facts = [
        Fact(f"{who} on {', '.join(at_fault)} began fewer collectives than {found.most}", sorted(late), "torch's counts"),
        Fact(f"the other ranks have waited in {found.operation} for {found.still_s:.0f} s", found.operation, "torch's counts"),
    ]
    facts += [
        Fact(f"rank {number} is at {where.line}", where.line, "journal: standing")
        for number in sorted(late)[:2]
        if (where := found.standing.get(number)) is not None and where.line
    ]
    title = f"The run hangs: {who} on {', '.join(at_fault)} {'is' if len(late) == 1 else 'are'} behind"
    pid = next((rank.pid for rank in found.behind if rank.pid is not None), "PID")
    ask = f"gputop where {fixes.shell_join((run.run_id,))}  # shows its line and what it waits for"
    fix = f"{ask}\npy-spy dump --pid {pid}  # on {at_fault[0]}"
    finding = Finding("K02", "error", "likely", title, tuple(facts), _CAUSE, fix, "The counts still change.", run=run.run_id)
    return Suspicion(finding)


_CAUSE = (
    "A collective operation ends when every rank has begun it. These ranks have not: they wait for a disk or a lock, run "
    "other code, or their host can no longer reach the others."
)

K02 = Rule(
    id="K02",
    order=2951,
    family="hosts",
    title="A run waits for the ranks of one host",
    severities=("error",),
    confidences=("likely",),
    needs=("journal: standing of the ranks of all hosts",),
    window_s=STILL_S,
    every_s=SELDOM_S,
    threshold=(
        "ranks of some hosts, but not of all, have begun fewer collectives than the others, and no count changes for "
        f"{STILL_S:.0f} s"
    ),
    hides=("K03", "G01", "G02"),
    mechanism=_CAUSE,
    signature="By torch's own counts, the ranks of one host are behind, and all others wait in a collective.",
    look_alike="Counts that differ for a moment while the run continues; an evaluation or a checkpoint on one rank.",
    fix="On that host, see where the ranks are, with gputop where or py-spy.",
    judge_machine=behind_hosts,
)


def one_host_works(evidence: Evidence) -> Mapping[str, Judgement]:
    """K03: one host still completes steps, and no other host does."""
    return {run.run_id: _one_host_works(evidence, run, hosts) for run, hosts in runs_over_hosts(evidence)}


def _one_host_works(evidence: Evidence, run: Run, hosts: Mapping[str, Sequence[Rank]]) -> Judgement:
    stepping = {host: [rank for rank in ranks if rank.step is not None] for host, ranks in hosts.items()}
    if not all(stepping.values()) or evidence.observed_s < PROGRESS_S:
        return None  # Many scripts log only on rank 0.
    still = {host: min(evidence.stood_s(run.run_id, rank.rank) for rank in ranks) for host, ranks in stepping.items()}
    moving = [host for host, stood_s in still.items() if stood_s < PROGRESS_S]
    if len(moving) != 1:
        return None
    others = [host for host in hosts if host != moving[0]]
    stood_s = min(still[host] for host in others)
    facts = (
        Fact(f"{moving[0]} completes steps", moving[0], "journal"),
        Fact(f"no step from {', '.join(others)} for {stood_s:.0f} s", round(stood_s), "journal"),
    )
    title = f"Only {moving[0]} works: {len(others)} of {len(hosts)} hosts complete no step"
    look = f"gputop -H {','.join(others)}  # shows what the ranks there do"
    fix = f"{look}\n# do the ranks share one process group? WORLD_SIZE shows how many there should be"
    finding = Finding("K03", "warning", "likely", title, facts, _ALONE, fix, "The other hosts complete steps.", run=run.run_id)
    return Suspicion(finding, ALONE_HOLD_S)


_ALONE = (
    "Ranks that exchange gradients cannot continue without each other: these no longer exchange anything, or what they "
    "exchange needs no step from the other hosts. The other hosts have left the loop, or wait for something else."
)

K03 = Rule(
    id="K03",
    order=2952,
    family="hosts",
    title="Only one host of a run works",
    severities=("warning",),
    confidences=("likely",),
    needs=("journal: steps of the ranks of all hosts",),
    window_s=PROGRESS_S,
    every_s=SELDOM_S,
    threshold=f"steps of one host, and none of the others for {PROGRESS_S:.0f} s, although their ranks completed steps before",
    mechanism=_ALONE,
    signature="One host still completes steps; all others have stopped, although their ranks are alive.",
    look_alike="A pause on all hosts, such as a checkpoint; a script that logs only on rank 0.",
    fix="Look at what the ranks on the other hosts do, and whether all ranks are in one process group.",
    judge_machine=one_host_works,
)
