"""A launcher that waits for other nodes and has started no rank (G06)."""

from __future__ import annotations

import math

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.findings.fixes import shell_word
from gputop.doctor.rules.support.rule import SELDOM_S, Judgement, Rule, Suspicion
from gputop.process import NODES_START_S, WaitingLauncher


def waits_for_nodes(evidence: Evidence) -> dict[str, Judgement]:
    """G06: torchrun or accelerate has waited for other nodes for a minute.

    What gputop launched over hosts is left out: the launch reports that.
    """
    snapshot = evidence.snapshot
    if snapshot is None:
        return {}
    ours = {part.job_id for part in snapshot.launches}
    runs: dict[str, list[WaitingLauncher]] = {}
    for launcher in snapshot.waiting_launchers:
        if launcher.started_at is not None and launcher.gputop_job_id not in ours:
            meeting = (launcher.words, launcher.name, launcher.meets_at, launcher.rendezvous_id, launcher.slurm_job_id)
            runs.setdefault(":".join(item or "" for item in meeting), []).append(launcher)
    return {key: _judged(launchers, snapshot.time) for key, launchers in runs.items()}


def _judged(launchers: list[WaitingLauncher], now: float) -> Judgement:
    """Judge the launchers of one run, all of which are on this machine; they wait since the youngest was started."""
    first, count, pids = launchers[0], len(launchers), tuple(launcher.pid for launcher in launchers)
    waited_s = now - max(launcher.started_at or now for launcher in launchers)
    if not NODES_START_S <= waited_s < math.inf:
        return None
    where = f" at {first.meets_at}" if first.meets_at is not None else ""
    title = (
        f"{first.name} has no rank: {first.words} waits for other nodes{where}"
        if count < first.nodes
        else f"{first.name} has no rank: its {first.nodes} nodes are on this machine and have not met{where}"
    )
    finding = Finding(
        id="G06",
        severity="warning" if first.user is None else "info",
        confidence="likely",
        title=title,
        evidence=(
            Fact(
                f"{words.processes(pids)} ({first.words}) {words.agree(count, 'has', 'have')} run for "
                f"{units.duration(waited_s)} without starting a rank",
                round(waited_s),
                "/proc/<pid>/stat, children",
            ),
            Fact(f"it needs {first.nodes} nodes{where}", first.nodes, "/proc/<pid>/cmdline, environ"),
        ),
        cause="A launcher starts its ranks only once all its nodes have come to one address. Another node was not started, has "
        "failed, cannot reach that address, or was given other options.",
        fix=_FIX[first.launcher == "accelerate"] + _reach(first.meets_at),
        refuted_by="The other nodes are still being started: you do so by hand, or their jobs wait for resources.",
        pids=pids,
    )
    return Suspicion(finding)


_FIX = (
    "# start the other nodes with the same --nnodes, --rdzv-endpoint and --rdzv-id, or read there why they failed",
    "# start the other nodes with the same --num_machines and --main_process_ip, and each with its own --machine_rank",
)


def _reach(meets_at: str | None) -> str:
    """Return the command that tries the address from another node; "" if none is known."""
    host, colon, port = (meets_at or "").rpartition(":")
    if not colon or not port.isdigit() or not host:
        return ""
    return f"\nnc -zv {shell_word(host.strip('[]'))} {port}  # on another node: can it reach the address?"


G06 = Rule(
    id="G06",
    order=1003,
    family="lost ranks",
    title="A launcher waits for other nodes",
    severities=("warning", "info"),
    confidences=("likely",),
    needs=("/proc/<pid>/cmdline, environ",),
    window_s=NODES_START_S,
    every_s=SELDOM_S,
    threshold=(
        "a torchrun, or an accelerate launch, that needs other nodes by its options or its configuration, is not part of a "
        f"launch by gputop, and has run for {NODES_START_S:.0f} s without starting a rank (info if it is another user's)"
    ),
    estimated=True,
    mechanism=(
        "torchrun and accelerate start ranks only once all nodes have met at one address. They wait ten minutes by default."
    ),
    signature="The launcher has no children, and its command or environment asks for several nodes.",
    look_alike="Nodes that start one after the other; one whose ranks have ended, and that waits for those of other nodes.",
    fix="Start the other nodes with the same options, and check that they can reach the address.",
    judge_machine=waits_for_nodes,
)
