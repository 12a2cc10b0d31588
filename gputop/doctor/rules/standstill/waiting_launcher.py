"""A launcher that needs other nodes and has started no rank (G06)."""

from __future__ import annotations

import shlex

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.support.rule import Judgement, Rule, Suspicion
from gputop.process import NODES_START_S, WaitingLauncher


def waits_for_nodes(evidence: Evidence) -> dict[str, Judgement]:
    """G06: torchrun or accelerate has waited for other nodes for a minute."""
    snapshot = evidence.snapshot
    judged: dict[str, Judgement] = {}
    for launcher in snapshot.waiting_launchers if snapshot is not None else ():
        waited_s = snapshot.time - launcher.started_at if snapshot is not None and launcher.started_at is not None else 0.0
        judged[str(launcher.pid)] = _suspicion(launcher, waited_s) if waited_s >= NODES_START_S else None
    return judged


def _suspicion(launcher: WaitingLauncher, waited_s: float) -> Suspicion:
    where = f" at {launcher.meets_at}" if launcher.meets_at is not None else ""
    finding = Finding(
        id="G06",
        severity="warning",
        confidence="likely",
        title=f"{launcher.name} has no rank: {launcher.launcher} waits for other nodes{where}",
        evidence=(
            Fact(
                f"{launcher.launcher} (process {launcher.pid}) runs for {units.duration(waited_s)} and has started no rank",
                round(waited_s),
                "/proc/<pid>/stat, children",
            ),
            Fact(f"it needs {launcher.nodes} nodes{where}", launcher.nodes, "/proc/<pid>/cmdline, environ"),
        ),
        cause="A launcher starts its ranks only once all its nodes have come to one address. Another node was not started, has "
        "failed, cannot reach that address, or was given other options.",
        fix=_FIX[launcher.launcher == "accelerate"] + _reach(launcher.meets_at),
        refuted_by="You are about to start the other nodes.",
        pids=(launcher.pid,),
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
    return f"\nnc -zv {shlex.quote(host.strip('[]'))} {port}  # on another node: can it reach the address?"


G06 = Rule(
    id="G06",
    order=1003,
    family="lost ranks",
    title="A launcher waits for other nodes",
    severities=("warning",),
    confidences=("likely",),
    needs=("/proc",),
    threshold=(
        f"a torchrun, or an accelerate launch whose options name the machines, that needs other nodes and has run for "
        f"{NODES_START_S:.0f} s without starting a rank"
    ),
    mechanism=(
        "torchrun and accelerate start ranks only once all nodes have met at one address. They wait ten minutes by default."
    ),
    signature="The launcher has no children, and its command or environment asks for several nodes.",
    look_alike="Nodes that are still being started; one whose ranks have ended, and that waits for those of other nodes.",
    fix="Start the other nodes with the same options, and check that they can reach the address.",
    judge_machine=waits_for_nodes,
)
