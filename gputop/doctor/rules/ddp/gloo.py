"""The backend of a DDP run: gradients on GPUs that travel through host memory (C16)."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts import stated
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import fixes
from gputop.doctor.findings.finding import Confidence, Fact, Finding
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import SELDOM_S, Judgement, Rule, Suspicion
from gputop.snapshot import Rank

HOLD_S = 10.0
"""NCCL's threads may start later than gloo's (our choice)."""


def gloo_on_gpus(evidence: Evidence, group: RankGroup) -> Judgement:
    """C16: gradients on GPUs travel through gloo, that is, through host memory."""
    size = tracked.world(group)
    if size < 2 or group.virtual or not group.used:
        return None
    ranks = tracked.ranks_of(group)
    backends = {backend for rank in ranks if (backend := _backend(rank)) is not None}
    on_gpu = [rank for rank in ranks if (stated.parameter_device(rank) or "").startswith("cuda")]
    if backends == {"gloo"} and on_gpu:
        facts = [
            Fact("the process group's backend is gloo", "gloo", "journal: ddp, process_group"),
            Fact(f"parameters are on {stated.parameter_device(on_gpu[0])}", None, "journal: model"),
        ]
        return Suspicion(_gloo_finding(group, facts, "certain"))
    if backends or len(group.members) < 2 or not evidence.trains(group):
        return None
    names = [{name for name, _ in m.process.threads} if m.process is not None else set() for m in group.members]
    if not all("pt_gloo_runloop" in one for one in names) or any(_speaks_nccl(one) for one in names):
        return None
    text = "pt_gloo_runloop threads on every rank, and no NCCL threads"
    return Suspicion(_gloo_finding(group, [Fact(text, None, "/proc/<pid>/task")], "likely"), HOLD_S)


C16 = Rule(
    id="C16",
    order=1700,
    family="ddp",
    title="Gradients travel through gloo",
    severities=("warning",),
    confidences=("certain", "likely"),
    needs=("journal: ddp, process_group, model", "thread names"),
    window_s=HOLD_S,
    every_s=SELDOM_S,
    threshold=("parameters on CUDA and backend gloo; from outside, gloo threads on every rank and no NCCL threads (likely)"),
    hides=("E06",),
    mechanism=("gloo copies every gradient from the GPU to host memory and back. NCCL moves them from GPU to GPU."),
    signature=(
        "The parameters are on GPUs and the backend is gloo; from outside, every rank has gloo threads and no NCCL threads."
    ),
    look_alike='The backend "cpu:gloo,cuda:nccl", which has both; ranks that share one GPU on purpose.',
    fix='Use init_process_group("nccl").',
    judge=gloo_on_gpus,
)


def _backend(rank: Rank) -> str | None:
    wrapper, own = facts_of(rank).ddp, facts_of(rank).process_group
    return (wrapper.backend if wrapper is not None else None) or (own.backend if own is not None else None)


def _speaks_nccl(threads: set[str]) -> bool:
    return any(name.startswith(("pt_nccl", "NCCL")) for name in threads)


def _gloo_finding(group: RankGroup, facts: Sequence[Fact], confidence: Confidence) -> Finding:
    return tracked.about(
        group,
        "C16",
        "warning",
        confidence,
        "Gradients travel through the CPU: the backend is gloo",
        facts,
        "gloo copies every gradient from the GPU to host memory and back. NCCL moves them from GPU to GPU.",
        f'dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))\n{fixes.own_command(group)}',
        "NCCL does not work on this machine, or several ranks share one GPU on purpose.",
    )
