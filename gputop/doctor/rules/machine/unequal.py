"""GPUs of one run that differ (I06)."""

from __future__ import annotations

from statistics import median

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts import stated
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion
from gputop.units import bytes_text

MEMORY_RATIO = 0.75
"""Cards whose memory ratio is below this are unequal (torch's DataParallel warns there; docs/rules.md#i06)."""
STRAGGLER_SHARE = 0.1
"""The straggler score above which unequal cards are a warning (docs/rules.md#measures)."""
STEPS = 20
"""As for a rank that the others wait for (F01)."""


def unequal_cards(evidence: Evidence, group: RankGroup) -> Judgement:
    """I06: the run's ranks use cards of different speed or memory; the slowest card sets the step time."""
    # With nn.DataParallel, unequal cards concern the wrapper (B11).
    if (
        group.virtual
        or any(device.mig_enabled for device in group.pool)
        or any(stated.data_parallel(m.journal) for m in group.members)
    ):
        return None
    cards = [device for device in group.pool if device.uuid in {member.main for member in group.members} | group.used]
    names = {device.name for device in cards}
    sizes = [device.memory_total_bytes for device in cards if device.memory_total_bytes]
    if len(cards) < 2 or (len(names) < 2 and (not sizes or min(sizes) >= MEMORY_RATIO * max(sizes))):
        return None
    slow = _slowest(evidence, group)
    facts = [
        Fact(f"{words.gpu(card)}: {card.name or 'N/A'}, {bytes_text(card.memory_total_bytes)}", card.name, "NVML")
        for card in cards
    ]
    usual = max(names, key=lambda name: (sum(card.name == name for card in cards), name or ""))
    alike = [card for card in cards if card.name == usual]
    ranks = len(alike)
    fix = (
        fixes.launch_line(group, ranks, alike)
        if len(group.members) > 1
        else fixes.mask_prefix(group, alike) + fixes.own_command(group)
    )
    finding = Finding(
        id="I06",
        severity="warning" if slow is not None else "info",
        confidence="certain",
        title=f"The run's {len(cards)} GPUs differ: every step runs at the speed of the slowest",
        evidence=(*facts[:4], *([slow] if slow is not None else [])),
        cause="Ranks get equal batches and wait for each other in every step, so the fast cards idle and the batch must "
        "fit the smallest memory.",
        fix=f"# equal cards only:\n{fix}\n# or give each rank a share of the rows in proportion to its speed",
        refuted_by="The ranks' shares of the work match the speed of their cards.",
        devices=tuple(card.uuid for card in cards),
        pids=group.pids,
        run=group.run_id,
    )
    return Suspicion(finding, 3.0)


I06 = Rule(
    id="I06",
    order=100,
    family="hardware",
    title="The run's GPUs differ",
    severities=("warning", "info"),
    confidences=("certain",),
    needs=("NVML names and memory", "CUDA events (journal)"),
    window_s=3.0,
    every_s=RARELY_S,
    threshold=(
        f"names differ, or the smallest memory is below {MEMORY_RATIO} of the largest; a warning when a rank's "
        f"forward takes {STRAGGLER_SHARE:.0%} longer over {STEPS} steps"
    ),
    hides=("F02",),
    mechanism=(
        "Ranks get equal batches and wait for each other in every step. A step takes as long as on the slowest card, and a "
        "batch must fit the smallest memory."
    ),
    signature="The cards have different names or memory sizes, and the fast ones wait.",
    look_alike=("Ranks that get rows in proportion to the speed of their card; the same cards in nn.DataParallel (B11)."),
    fix="Use equal cards for one run, or give each rank rows in proportion to the speed of its card.",
    judge=unequal_cards,
)


def _slowest(evidence: Evidence, group: RankGroup) -> Fact | None:
    """Return how much slower one rank's GPU runs its forward pass, by CUDA events; None if unknown or small."""
    times = {}
    for member in group.members:
        points = evidence.series(group.run_id, member.rank or 0, "cuda/forward_s")[-STEPS:]
        if len(points) >= STEPS:
            times[member.rank or 0] = median(points.values)
    if len(times) < 2:
        return None
    rank = max(times, key=lambda number: times[number])
    others = median(value for number, value in times.items() if number != rank)
    if not others > 0 or times[rank] < (1 + STRAGGLER_SHARE) * others:
        return None
    text = f"rank {rank} takes {times[rank] * 1e3:.1f} ms for its forward pass, the others {others * 1e3:.1f} ms"
    return Fact(text, round(times[rank], 6), "CUDA events (journal)")
