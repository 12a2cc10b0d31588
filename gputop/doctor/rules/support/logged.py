"""The metrics that a run logs: in its journal or, for a run that gputop does not track, in its own files and output."""

from __future__ import annotations

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.stated import facts_of
from gputop.facts.setup import counts_lines
from gputop.process import OUTPUT
from gputop.snapshot import LIVE_STATES, Rank

_PRINTED = "log"
"""The ``source`` of facts about printed values."""


def ranks_of(group: RankGroup) -> tuple[Rank, ...]:
    """Return the live ranks whose metrics are known, including those on other machines."""
    run = group.run if group.run is not None else group.shown
    return tuple(rank for rank in run.ranks if rank.state in LIVE_STATES) if run is not None else ()


def run_id(group: RankGroup) -> str | None:
    """Return the id under which the group's metrics are stored; None if it logs no known metric."""
    return group.shown.run_id if group.run is None and group.shown is not None else group.run_id


def source(group: RankGroup) -> str:
    """Return where the metrics come from, as the source of a fact."""
    if is_printed(group):
        return OUTPUT
    return "journal" if group.run is not None else "its files"


def is_printed(group: RankGroup) -> bool:
    """Return whether the values are printed ones: rounded, and not of every step."""
    return any(facts_of(rank).source == _PRINTED for rank in ranks_of(group))


def place(evidence: Evidence, group: RankGroup, rank: Rank, step: int) -> str:
    """Return where a step is, in words: "step 5", or its epoch if no line shows a step, as the user's lines then name that."""
    if counts_lines(rank.facts):
        epochs = evidence.series(run_id(group), rank.rank, "epoch")
        epoch = next((point.value for point in epochs if point.step == step), 0.0)
        if epoch >= 1 and epoch.is_integer():
            return f"epoch {units.count(int(epoch))}"
    return f"step {units.count(step)}"
