"""The evaluations and returns that a tracked run prints to a file, each as the means of its course since the run began."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from gputop.facts.standing import PrintedCourse
from gputop.levels import Levels
from gputop.losses import is_of_evaluation, is_return
from gputop.untracked.outputs import OutputFile
from gputop.untracked.run_curves import RunCurves

COURSES_MAX = 12
"""At most this many metrics of a rank are kept: each snapshot holds them."""
TURN_S = 0.5


class PrintedCourses:
    """The courses of one run. Only one thread may use it."""

    def __init__(self) -> None:
        self._curves = RunCurves()
        self._levels: dict[int, dict[str, Levels]] = {}

    def read(self, files: Mapping[int, tuple[OutputFile, ...]]) -> None:
        """Read on in these files, by rank; a file that several ranks share is listed under one of them."""
        self._curves.take_in((), files, {}, 0)
        self._curves.read_on(time.monotonic() + TURN_S)
        for curve in self._curves.by_key.values():
            for number, collected in curve.ranks.items():
                for points in collected.take_points("", number):
                    self._add(number, points.metric, points.steps, points.values)

    def _add(self, rank: int, metric: str, steps: tuple[int, ...], values: tuple[float, ...]) -> None:
        known = self._levels.setdefault(rank, {})
        if metric in known or (len(known) < COURSES_MAX and (is_of_evaluation(metric) or is_return(metric))):
            known.setdefault(metric, Levels()).extend(steps, values)

    def facts(self) -> dict[int, list[dict[str, Any]]]:
        """Return the fact ``printed`` of each rank that prints such a metric."""
        return {
            rank: [
                PrintedCourse.filled(
                    name=name,
                    values=sum(stretch.count for stretch in levels.stretches),
                    lowest=levels.lowest,
                    highest=levels.highest,
                    means=[[stretch.step, stretch.mean] for stretch in levels.stretches],
                )
                for name, levels in known.items()
                if levels.stretches
            ]
            for rank, known in self._levels.items()
        }
