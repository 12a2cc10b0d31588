"""Memory that the allocator releases and takes again, or never releases (E04)."""

from __future__ import annotations

from collections.abc import Sequence

from gputop import units
from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import WARM_UP_STEPS, Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.kept_graphs import GRAPHS_TEXT, keeps_graphs
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion
from gputop.doctor.rules.support.shared import real_gpu
from gputop.facts.measured import CudaMemory
from gputop.snapshot import Device
from gputop.units import bytes_text

RETRIES_MIN = 3
RETRIES_PER_100_STEPS = 1.0
EMPTY_CACHE_PER_STEP = 0.5
"""The allocator releases memory for lack of it, or on request (docs/rules.md#e04; our choice)."""
LEAK_STEPS_MIN = 200
LEAK_R2_MIN = 0.9
LEAK_SHARE_MIN = 0.01
"""Memory grows along a line: over this many steps, with this R², by this share of the GPU's (docs/rules.md#e04; our choice)."""


def memory_churn(evidence: Evidence, group: RankGroup) -> Judgement:
    """E04: the allocator keeps releasing and reallocating memory, on request or for lack of memory, or memory only grows."""
    for member in group.members:
        fact, rank = facts_of(member.journal).cuda_memory, member.journal
        if rank is None or fact is None or not rank.steps_taken or rank.steps_taken < WARM_UP_STEPS:
            continue
        device = real_gpu(group, member)
        devices = [device] if device is not None else []
        calls = fact.empty_cache_calls or 0
        if calls >= max(WARM_UP_STEPS, EMPTY_CACHE_PER_STEP * rank.steps_taken):
            return Suspicion(
                _churn(
                    group,
                    devices,
                    f"empty_cache() runs in the loop: {units.count(calls)} times in {units.count(rank.steps_taken)} steps",
                    calls,
                    True,
                )
            )
        retries = fact.retries or 0
        if retries >= RETRIES_MIN and retries * 100 >= RETRIES_PER_100_STEPS * rank.steps_taken:
            many = f"{units.count(retries)} times in {units.count(rank.steps_taken)} steps"
            text = f"GPU memory is short: the allocator had to retry {many}"
            return Suspicion(_churn(group, devices, text, retries, False))
        leak = _leak(evidence, group, member, fact)
        if leak is not None:
            return leak
    return keeps_graphs(evidence, group)


E04 = Rule(
    id="E04",
    order=2800,
    family="efficiency",
    title="Memory is reallocated repeatedly, or grows",
    severities=("warning",),
    confidences=("certain", "likely", "possible"),
    needs=("journal: cuda_memory, memory_allocated_bytes, graphs, evaluated_graphs",),
    window_s=3.0,
    every_s=RARELY_S,
    threshold=(
        f"{RETRIES_PER_100_STEPS:.0f} retry per 100 steps, or empty_cache in every other step (certain); or memory "
        f"that grows over {LEAK_STEPS_MIN} steps by {LEAK_SHARE_MIN:.0%} of the GPU's memory, with R² above {LEAK_R2_MIN} "
        "(likely)",
        GRAPHS_TEXT,
    ),
    mechanism=(
        "empty_cache returns unused memory to the driver, and the next step allocates it again. A sum of losses that keep "
        "their graphs holds the memory of every step."
    ),
    signature=("empty_cache in the loop, allocations that fail and are retried, or memory that grows with every step."),
    look_alike="A curriculum that makes the sequences longer; losses that are summed at the end of an epoch.",
    fix="Remove empty_cache from the loop, set expandable_segments:True, and sum only loss.detach().",
    judge=memory_churn,
)


def _churn(group: RankGroup, devices: Sequence[Device], title: str, count: int, on_command: bool) -> Finding:
    segments = f"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True {fixes.own_command(group)}"
    return tracked.about(
        group,
        "E04",
        "warning",
        "certain",
        title,
        [
            Fact(f"{words.count(count, 'call')} of empty_cache()", count, "journal: cuda_memory")
            if on_command
            else Fact(f"{units.count(count)} allocations failed at first and were retried", count, "journal: cuda_memory")
        ],
        "empty_cache returns all unused memory to the driver: it waits for the GPU, and the next step must allocate the "
        "memory again. It does not reduce the memory that the step needs."
        if on_command
        else "When no free block is large enough, the allocator waits, returns all unused memory to the driver and asks "
        "for memory again.",
        f"# remove torch.cuda.empty_cache() from the loop\n{segments}"
        if on_command
        else f"{segments}\n# or a smaller batch, or torch.utils.checkpoint",
        "Another process on the same GPU allocates and frees memory.",
        devices or None,
    )


def _leak(evidence: Evidence, group: RankGroup, member: Member, fact: CudaMemory) -> Judgement:
    if member.journal is None or group.virtual:
        return None
    for metric in ("memory_allocated_bytes", "memory_peak_bytes"):
        series = evidence.series(group.run_id, member.journal.rank, metric)
        begin = max(WARM_UP_STEPS, series.steps[-1] - 3 * LEAK_STEPS_MIN) if series else 0
        points = windows.finite(windows.since(series, begin))
        if len(points) < WARM_UP_STEPS or points.steps[-1] - points.steps[0] < LEAK_STEPS_MIN:
            continue
        found = windows.trend(points)
        total = fact.total_bytes
        if found is None or not total or found[1] <= LEAK_R2_MIN or found[0] <= LEAK_SHARE_MIN * total:
            continue
        steps = points[-1].step - points[0].step
        left = total - points[-1].value
        more = int(min(left / found[0] * steps, 1e12)) if left > 0 else 0
        finding = tracked.about(
            group,
            "E04",
            "warning",
            "likely",
            f"GPU memory grows with every step: {bytes_text(found[0])} in {units.count(steps)} steps",
            [
                Fact(
                    f"{bytes_text(points[0].value)} to {bytes_text(points[-1].value)}, R² {found[1]:.2f}",
                    found[0],
                    metric,
                ),
                Fact(f"at this rate, the GPU is full in about {units.count(more)} steps", more, metric),
            ],
            "Something keeps the tensors of each step: a sum of losses that still hold their graphs, or a list of outputs.",
            "total += loss.detach()  # or loss.item(), not total += loss\noutputs.append(y.detach().cpu())",
            "A curriculum makes the sequences longer, and memory grows with them.",
        )
        return Suspicion(finding, 3.0)
    return None
