"""Answers a screen's questions about stored runs. A thousand journals take longer than a screen may wait."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from gputop import units
from gputop.errors import describe_unexpected
from gputop.run_questions import RunsAnswer, RunsQuestion
from gputop.snapshot import Points, Run
from gputop.tracking.reader.kept import KEPT_POINTS, decimated
from gputop.tracking.reader.runs import RunReader

LISTED_RUNS = 5000
ANSWERED_POINTS = 1_000_000
"""Most points in one answer, about 40 MB. With a hundred ranks and dozens of metrics, each series gets fewer points."""
LISTED_POINTS, WHOLE_POINTS = 0, KEPT_POINTS
"""Points to read of each metric and rank: for a list, which shows none, and for a chart."""


def answer_to(question: RunsQuestion) -> RunsAnswer:
    """Read the answer from the disk. A run that cannot be read hides no other."""
    wanted = frozenset(question.run_ids)
    try:
        runs, points = _read(wanted)
    except Exception as error:  # noqa: BLE001 - the screen shows the error, and the next question is still answered
        return RunsAnswer(question, problem=f"gputop could not read the runs: {describe_unexpected(error)}.")
    return RunsAnswer(question, runs, points) if wanted else RunsAnswer(question, tuple(map(_short, runs)))


def _read(wanted: frozenset[str]) -> tuple[tuple[Run, ...], tuple[Points, ...]]:
    began = time.time()
    reader = RunReader(recent_runs=LISTED_RUNS, backlog_points=WHOLE_POINTS if wanted else LISTED_POINTS, only=wanted or None)
    points: list[Points] = []
    try:
        update = reader.poll(lambda run_id, error: None)
        # One poll reads only a limited amount; what a live run logs meanwhile arrives with the stream.
        while any(found.times[0] <= began for found in update.points):
            points += update.points if wanted else ()
            update = reader.poll(lambda run_id, error: None)
        return update.runs, _bounded(points)
    finally:
        reader.close()


def _bounded(points: Sequence[Points]) -> tuple[Points, ...]:
    """Return the points, all decimated equally if there are too many for one line of the stream."""
    total = sum(len(part.steps) for part in points)
    if total <= ANSWERED_POINTS:
        return tuple(points)
    return tuple(decimated((part,), len(part.steps) * ANSWERED_POINTS // total) for part in points)


def _short(run: Run) -> Run:
    """Return a run for a list: without facts, and with only the means of the ranks' values, in the first rank."""
    values: dict[str, list[float]] = {}
    for rank in run.ranks:
        for name, value in rank.metrics.items():
            values.setdefault(name, []).append(value)
    means = {name: units.mean(found) for name, found in values.items()}
    ranks = tuple(replace(rank, facts={}, metrics={} if place else means) for place, rank in enumerate(run.ranks))
    return replace(run, ranks=ranks)
