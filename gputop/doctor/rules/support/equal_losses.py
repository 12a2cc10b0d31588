"""Processes that print equal losses, in an output that they share or in one for each. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gputop import units
from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.rules.support import logged, tracked
from gputop.process import OUTPUT, ProcessRun

VALUES_MIN = 8
"""This many different losses must be equal on all ranks. Each has three digits or more, so none is equal by chance; more of
them would not show whether ranks that are connected average their losses (our choice)."""
_KEPT = 64


class Alike(NamedTuple):
    """How many of the newest losses are equal on all ranks, and where that is known from."""

    values: int
    text: str
    source: str


def printed_alike(evidence: Evidence, group: RankGroup) -> Alike | None:
    """Return that all ranks print equal losses, in an output that they share or in one for each; None otherwise."""
    run, size = process_run(evidence, group), tracked.world(group)
    if run is None or len(group.members) != size:
        return None
    repeated = run.repeated
    if repeated is not None:
        if repeated.times != size:
            return None
        text = f"each of the last {units.count(repeated.values)} losses is printed {repeated.times} times, as often as there "
        return Alike(repeated.values, f"{text}are ranks", OUTPUT)
    ranks, name = logged.ranks_of(group), tracked.loss_of(logged.ranks_of(group))
    if name is None or len(ranks) != size:
        return None
    series = [windows.latest(evidence.series(logged.run_id(group), rank.rank, name), _KEPT) for rank in ranks]
    return _equal(name, series, "on all ranks", logged.source(group))


def copies_alike(evidence: Evidence, groups: Sequence[RankGroup]) -> Alike | None:
    """Return that processes of one command print equal losses. ``groups``: that of each process.

    They are one untracked run, or each is one of its own.
    """
    each = list({group.key: group for group in groups}.values())
    if len(each) == 1:
        return printed_alike(evidence, each[0])
    runs = [run for group in each if (run := process_run(evidence, group)) is not None]
    if len(each) < len(groups) or len(runs) < len(groups):
        return None
    shared = [run.repeated for run in runs if run.repeated is not None and run.run_id is None]
    if len(shared) == len(runs):  # no run has a curve, because each of them may have printed a line
        if any(repeated.times != len(runs) for repeated in shared):
            return None
        text = f"each of the last {units.count(shared[0].values)} losses is printed {len(runs)} times, as often as there "
        return Alike(shared[0].values, f"{text}are processes", "their output")
    ranks = [rank for group in each for rank in logged.ranks_of(group)]
    name = tracked.loss_of(ranks)
    if name is None or len(ranks) != len(each) or any(group.run is not None for group in each):
        return None
    series = [
        windows.latest(evidence.series(logged.run_id(group), logged.ranks_of(group)[0].rank, name), _KEPT) for group in each
    ]
    return _equal(name, series, "of all processes", logged.source(each[0]))


def _equal(name: str, series: Sequence[Mapping[int, float]], whose: str, source: str) -> Alike | None:
    steps = sorted(set(series[0]).intersection(*series[1:]))
    if len({series[0][step] for step in steps}) < VALUES_MIN or any(len({own[step] for own in series}) > 1 for step in steps):
        return None
    return Alike(len(steps), f"{name} is the same {whose}, to the last digit, in {units.count(len(steps))} steps", source)


def process_run(evidence: Evidence, group: RankGroup) -> ProcessRun | None:
    """Return the untracked run whose ranks are the group's; None for a tracked group."""
    if group.run is not None or evidence.snapshot is None or not group.pids:
        return None
    found = (run for run in evidence.snapshot.process_runs if run.ranks and group.pids[0] in [rank.pid for rank in run.ranks])
    return next(found, None)
