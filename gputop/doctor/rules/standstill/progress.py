"""How long an untracked run has logged no step, and whether that is unusual for it."""

from __future__ import annotations

from typing import NamedTuple

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import logged

STOOD_MIN_S = 15.0
LONGER_THAN_STEPS = 5.0
"""No step for this many times the longest pause between two steps that was seen (our choice)."""
MOVES_MIN = 5
UNSEEN_MIN_S = 30.0
LONGER_THAN_USUAL = 10.0
"""If few steps were seen, only the mean pause between all values is known, imports included (our choice)."""


class Standing(NamedTuple):
    """No step was logged for ``stood_s`` seconds, which is long for this run."""

    stood_s: float
    fact: Fact


def standing(evidence: Evidence, group: RankGroup) -> Standing | None:
    """Return how long no rank has logged a step; None while that is usual, or if steps are unknown."""
    run, ranks = logged.run_id(group), logged.ranks_of(group)
    if group.run is not None or run is None or not ranks:
        return None
    stood_s = min(evidence.stood_s(run, rank.rank) for rank in ranks)
    moves, longest_s = max(evidence.pauses(run, rank.rank) for rank in ranks)
    if moves < MOVES_MIN:
        return _by_files(evidence, group, run)
    if stood_s < max(STOOD_MIN_S, LONGER_THAN_STEPS * longest_s):
        return None
    before = f"before that, one every {units.duration(max(1.0, longest_s))} or faster"
    text = f"no step has been logged for {units.duration(stood_s)}; {before}"
    return Standing(stood_s, Fact(text, round(stood_s), logged.source(group)))


def _by_files(evidence: Evidence, group: RankGroup, run: str) -> Standing | None:
    """Judge a run of which few steps were seen: by when its newest values were written, and by how many it has logged."""
    started = min((process.started_at for process in group.processes if process.started_at is not None), default=None)
    times = [rank.last_log_at for rank in logged.ranks_of(group) if rank.last_log_at is not None]
    most = max(
        (len(evidence.series(run, rank.rank, name)) for rank in logged.ranks_of(group) for name in rank.metrics), default=0
    )
    if evidence.snapshot is None or started is None or not times or most < MOVES_MIN:
        return None
    stood_s, usual_s = evidence.snapshot.time - max(times), (max(times) - started) / most
    if usual_s <= 0 or stood_s < max(UNSEEN_MIN_S, LONGER_THAN_USUAL * usual_s):
        return None
    text = f"no step has been logged for {units.duration(stood_s)}; before that, one every {units.duration(max(1.0, usual_s))}"
    return Standing(stood_s, Fact(f"{text} on average", round(stood_s), logged.source(group)))
