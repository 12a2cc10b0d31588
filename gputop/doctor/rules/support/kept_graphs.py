"""Graphs of earlier losses that a script keeps: a running mean or a list of losses that were not detached (for E04)."""

from __future__ import annotations

from gputop import units
from gputop.doctor.evidence.data_waits import beginnings
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Suspicion

KEPT_MIN, STEPS_MIN = 10, 30
"""So many marked losses, and steps from the first of them to the last, must still have their graphs (our choice)."""
SURE_STEPS = 1000
"""Losses of a whole epoch may be summed at its end. Graphs that are kept over an epoch or so many steps are none of this."""
GRAPHS_TEXT = (
    f"or if no graph of {KEPT_MIN} losses, over {STEPS_MIN} steps or more, was freed (possible; likely from one epoch to the "
    f"next, or over {SURE_STEPS} steps)"
)


def keeps_graphs(evidence: Evidence, group: RankGroup) -> Suspicion | None:
    """Judge the marks on the losses of a rank: the graphs of all since the first still exist."""
    for rank in tracked.ranks_of(group):
        fact = facts_of(rank).graphs
        if fact is None or fact.released or fact.kept < KEPT_MIN or fact.first is None or fact.last is None:
            continue
        if fact.last - fact.first < STEPS_MIN:
            continue
        over_epochs = any(fact.first < step <= fact.last for step in beginnings(evidence, group, rank.rank))
        is_sure = over_epochs or fact.last - fact.first >= SURE_STEPS
        text = (
            f"of {fact.kept} losses that were marked from step {units.count(fact.first)} to step {units.count(fact.last)}, all "
        )
        text += "still have their graphs"
        finding = tracked.about(
            group,
            "E04",
            "warning",
            "likely" if is_sure else "possible",
            f"The graph of every loss since step {units.count(fact.first)} is kept, and memory grows with each step",
            [Fact(text, fact.kept, "journal: graphs")],
            "The script keeps losses, or sums or averages of them, as tensors that were not detached: each refers to the graph "
            "of its step, and to all that this graph still holds.",
            "ema = 0.9 * ema + 0.1 * loss.item()  # or loss.detach()\nlosses.append(loss.item())  # not the tensor",
            "The losses are summed for a later backward, or forgotten at the end of the epoch.",
        )
        return Suspicion(finding, 3.0)
    return None
