"""Graphs that a script keeps: of losses in a running mean or a list, or of what its evaluations return (for E04)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gputop import units
from gputop.doctor.evidence.data_waits import beginnings
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Suspicion
from gputop.facts.measured import Graphs

KEPT_MIN, STEPS_MIN = 10, 30
"""This many marked losses, over this many steps from the first to the last, must still have their graphs (our choice)."""
EVALUATIONS_MIN = 5
"""The same for outputs of evaluations, of which there are fewer."""
SURE_STEPS = 1000
"""Losses of a whole epoch may be summed at its end. Graphs that are kept beyond an epoch, or over this many steps, are
something else."""
GRAPHS_TEXT = (
    f"or if no graph of {KEPT_MIN} losses, or of {EVALUATIONS_MIN} outputs in evaluation mode, over {STEPS_MIN} steps or more, "
    f"was freed (possible; likely from one epoch to the next, or over {SURE_STEPS} steps)"
)


def keeps_graphs(evidence: Evidence, group: RankGroup) -> Suspicion | None:
    """Judge the marks on the losses of a rank, and on what its evaluations return: all graphs since the first still exist."""
    for rank in tracked.ranks_of(group):
        facts = facts_of(rank)
        epochs = beginnings(evidence, group, rank.rank)
        if facts.graphs is not None and _all_exist(facts.graphs, KEPT_MIN):
            return _suspicion(group, facts.graphs, epochs, _LOSSES)
        if facts.evaluated_graphs is not None and _all_exist(facts.evaluated_graphs, EVALUATIONS_MIN):
            return _suspicion(group, facts.evaluated_graphs, epochs, _EVALUATIONS)
    return None


def _all_exist(fact: Graphs, least: int) -> bool:
    known = fact.first is not None and fact.last is not None and not fact.released
    return known and fact.kept >= least and _steps(fact) >= STEPS_MIN


def _steps(fact: Graphs) -> int:
    return (fact.last or 0) - (fact.first or 0)


class _Kind(NamedTuple):
    """What is said of kept graphs, by what they belong to."""

    title: str
    marked: str
    source: str
    cause: str
    fix: str
    refuted_by: str


_LOSSES = _Kind(
    "The graph of every loss since step {} is kept, and memory grows with each step",
    "losses",
    "journal: graphs",
    "The script keeps losses, or sums or averages of them, as tensors that were not detached: each refers to the graph of its "
    "step, and to all that this graph still holds.",
    "ema = 0.9 * ema + 0.1 * loss.item()  # or loss.detach()\nlosses.append(loss.item())  # not the tensor",
    "The losses are summed for a later backward, or forgotten at the end of the epoch.",
)
_EVALUATIONS = _Kind(
    "The graphs of all evaluations since step {} are kept, and memory grows with each",
    "outputs of evaluations",
    "journal: evaluated_graphs",
    "The evaluation runs with gradients, and the script keeps its outputs or losses: with each, all activations of the model "
    "stay in memory.",
    "with torch.inference_mode():  # or @torch.no_grad()\n    predictions.append(model(x).cpu())",
    "A later backward runs on these outputs.",
)


def _suspicion(group: RankGroup, fact: Graphs, epochs: Sequence[int], kind: _Kind) -> Suspicion:
    first, last = fact.first or 0, fact.last or 0
    is_sure = any(first < step <= last for step in epochs) or last - first >= SURE_STEPS
    text = f"of {fact.kept} {kind.marked} that were marked from step {units.count(first)} to step {units.count(last)}, all "
    finding = tracked.about(
        group,
        "E04",
        "warning",
        "likely" if is_sure else "possible",
        kind.title.format(units.count(first)),
        [Fact(f"{text}still have their graphs", fact.kept, kind.source)],
        kind.cause,
        kind.fix,
        kind.refuted_by,
    )
    return Suspicion(finding, 3.0)
