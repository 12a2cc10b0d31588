"""A torchrun that waits for other nodes and has started no rank (G06)."""

from __future__ import annotations

import math

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.support.rule import SELDOM_S, Judgement, Rule, Suspicion
from gputop.process import WaitingLauncher

WAITED_S = 60.0
"""Nodes do not start at once, least of all if they are started by hand (our choice)."""


def waits_for_nodes(evidence: Evidence) -> dict[str, Judgement]:
    """G06: torchruns of one run wait for other nodes. What gputop launched over hosts is left out: the launch reports that."""
    if evidence.snapshot is None:
        return {}
    ours = {part.job_id for part in evidence.snapshot.launches}
    runs: dict[str, list[WaitingLauncher]] = {}
    for launcher in evidence.snapshot.waiting_launchers:
        if launcher.started_at is not None and launcher.gputop_job_id not in ours:
            meeting = (launcher.name, launcher.meets_at, launcher.rendezvous_id, launcher.slurm_job_id)
            runs.setdefault(":".join(item or "" for item in meeting), []).append(launcher)
    return {key: _judged(launchers, evidence.snapshot.time) for key, launchers in runs.items()}


def _judged(launchers: list[WaitingLauncher], now: float) -> Judgement:
    first = launchers[0]
    waited_s = now - max(launcher.started_at or now for launcher in launchers)
    missing = first.nodes - len(launchers)
    where = first.meets_at or "the address that torchrun chose"
    host, _, port = where.rpartition(":")
    facts = [
        Fact(
            f"torchrun {first.name} needs {words.count(first.nodes, 'node')}; "
            f"{'one of it waits' if len(launchers) == 1 else f'{len(launchers)} of it wait'} here, without a rank",
            len(launchers),
            "/proc/<pid>/cmdline",
        ),
        Fact(f"it has waited for {units.duration(waited_s)}, at {where}", waited_s, "/proc/<pid>/stat"),
    ]
    finding = Finding(
        "G06",
        "warning",
        "likely",
        f"torchrun waits for other nodes: {len(launchers)} of {first.nodes} {'is' if len(launchers) == 1 else 'are'} here "
        f"({first.name})"
        if missing > 0
        else f"The {first.nodes} nodes of torchrun are here and have not met ({first.name})",
        tuple(facts),
        "torchrun starts the ranks once all nodes have come to the rendezvous, and gives up after ten minutes. The command on "
        "another node was not started, has ended with an error, or names another address, port, id or number of nodes; or a "
        "firewall is in the way.",
        f"# read the output of torchrun on the other {'nodes' if missing > 1 else 'node'}: it may have ended\n"
        f"nc -vz {host or 'HOST'} {port if port.isdigit() else 'PORT'}  # from there: is the address reachable?\n"
        f"torchrun --nnodes={first.nodes} --rdzv-backend=c10d --rdzv-endpoint={where if port.isdigit() else 'HOST:PORT'} "
        f"{first.name}  # the same on each",
        "The other nodes are still being started: their jobs wait for resources.",
        pids=tuple(launcher.pid for launcher in launchers),
    )
    return Suspicion(finding, 0.0 if waited_s >= WAITED_S else math.inf)


G06 = Rule(
    id="G06",
    order=1003,
    family="lost ranks",
    title="torchrun waits for other nodes",
    severities=("warning",),
    confidences=("likely",),
    needs=("/proc/<pid>/cmdline, environ",),
    window_s=WAITED_S,
    every_s=SELDOM_S,
    estimated=True,
    threshold=(
        f"a torchrun that needs several nodes, was not launched by gputop, and has started no rank for {WAITED_S:.0f} s"
    ),
    mechanism=(
        "torchrun starts the ranks once all nodes have come to the rendezvous. A command on another node was not started or "
        "failed, has another address, port, id or number of nodes, or a firewall is in the way."
    ),
    signature="A torchrun with --nnodes above 1 that has no child.",
    look_alike="Nodes that start one after the other; a torchrun whose ranks have ended.",
    fix="Read the output on the other nodes; start the same command on each; check that the address is reachable.",
    judge_machine=waits_for_nodes,
)
