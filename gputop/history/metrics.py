"""The metrics of runs: each kept once for a stream, bounded however many there are."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gputop.history.interrupted import is_interrupted
from gputop.history.points import PointSeries
from gputop.history.series import BUCKETS, X_MAX, Series
from gputop.losses import AUTOMATIC_PREFIX

if TYPE_CHECKING:
    from gputop.snapshot import Points, Snapshot

METRICS_FULL = 16
"""Up to this many metrics of ranks keep all their buckets, 5 MiB together; with more, each keeps a half, a quarter, etc."""
METRIC_BUCKETS_MIN = 256
"""A metric keeps at least this many buckets, however many metrics there are."""
ENDED_RUNS_KEPT = 10
"""How many runs that the stream no longer lists keep their metrics. The screen compares eight, and asks again for others."""


class Places:
    """The steps and times of some values: examined once for all metrics that a rank logs together."""

    __slots__ = ("are_valid", "given", "on_axis", "steps", "times")

    def __init__(self, steps: Sequence[int], times: Sequence[float]) -> None:
        """Columns of unequal length are cut to the shortest."""
        self.given = steps, times
        number = min(len(steps), len(times))
        self.steps: Sequence[int] = steps[:number]
        self.times = array("d", times[:number])
        try:
            self.steps = array("q", self.steps)
            self.on_axis = array("d", self.steps)
        except OverflowError:  # a step that does not fit into 64 bits
            self.on_axis = array("d", [step if abs(step) <= X_MAX else math.inf for step in self.steps])
        self.are_valid = _all_valid(self.on_axis) and _all_valid(self.times)


class MetricSeries:
    """One metric of one rank: its newest values, exact, and its whole past over steps and over time (wall-clock seconds)."""

    __slots__ = ("by_step", "by_time", "last_finite", "newest", "not_finite_since")

    def __init__(self, limit: int = BUCKETS) -> None:
        """``limit`` is the number of buckets of the past; with 0, none is kept."""
        self.newest = PointSeries()
        self.by_step = Series(limit)
        self.by_time = Series(limit, values_of=self.by_step)
        self.not_finite_since: int | None = None
        """The step from which on all values are NaN or infinite; None if the newest one is a number."""
        self.last_finite: tuple[int, float] | None = None
        """Step and value of the newest number. Both are exact, however long ago that was."""

    def extend(
        self, steps: Sequence[int], times: Sequence[float], values: Sequence[float], beside: MetricSeries | None = None
    ) -> None:
        """Add values in order of arrival; columns of unequal length are cut to the shortest.

        A value whose step or time has no place on an axis is not added to the past. ``beside`` may have the same steps.
        """
        self.extend_at(Places(steps, times), values, beside)

    def extend_at(self, places: Places, values: Sequence[float], beside: MetricSeries | None = None) -> None:
        """Add values as ``extend`` does."""
        number = min(len(places.times), len(values))
        if number < max(len(places.times), len(values)):
            places, values = Places(places.steps[:number], places.times[:number]), values[:number]
        values = array("d", values)
        self.newest.extend(places.steps, places.times, values, None if beside is None else beside.newest)
        self._note_finite(places.steps, values)
        if not self.by_step.limit:
            return
        if not places.are_valid:
            steps, times = places.steps, places.times
            valid = [n for n in range(number) if _all_valid(steps[n : n + 1]) and _all_valid(times[n : n + 1])]
            places, values = Places([steps[n] for n in valid], [times[n] for n in valid]), [values[n] for n in valid]
        self.by_step.extend(places.on_axis, values)
        self.by_time.extend(places.times, values)

    def _note_finite(self, steps: Sequence[int], values: Sequence[float]) -> None:
        place = len(values) - 1
        while place >= 0 and not math.isfinite(values[place]):
            place -= 1
        if place >= 0:
            self.last_finite, self.not_finite_since = (steps[place], values[place]), None
        if place + 1 < len(values) and self.not_finite_since is None:
            self.not_finite_since = steps[place + 1]

    def about_before(self, step: int) -> tuple[int, float] | None:
        """Return the last step and the mean of the newest part of the past that ends before ``step``; None without one."""
        for bucket in reversed(self.by_step.buckets):
            if bucket.count and bucket.x_last < step:
                return int(bucket.x_last), bucket.mean
        return None


def _all_valid(x: Sequence[float]) -> bool:
    """Return whether each of these has a place on an axis. NaN has none, and any sum with a NaN is NaN."""
    return not x or (min(x) >= -X_MAX and max(x) <= X_MAX and not math.isnan(sum(x)))


class MetricMemory:
    """The metrics of the runs of one stream: the only copy, shared by its screens and its doctor."""

    def __init__(self, buckets: int = BUCKETS, ended_runs: int = ENDED_RUNS_KEPT) -> None:
        """The memory is empty at first.

        Args:
            buckets: How many buckets of its past each series keeps; 0 keeps only the newest values. See ``METRICS_FULL``.
            ended_runs: How many runs to keep that the stream no longer lists.
        """
        self._buckets = self._limit = buckets
        self._ended_runs = ended_runs
        self._runs: dict[str, dict[str, dict[int, MetricSeries]]] = {}
        self._created: dict[str, float] = {}
        """When the runs began that have metrics: one that takes the place of a deleted run of the same id begins later."""
        self._last: Snapshot | None = None
        self._places = Places((), ())
        self._beside: tuple[tuple[str, int], MetricSeries] | None = None
        """The series that was last extended, and its run and rank."""

    def observe(self, snapshot: Snapshot) -> None:
        """Add the new points of one snapshot."""
        self.begin(snapshot)
        for points in snapshot.points:
            self.add(points)

    def begin(self, snapshot: Snapshot) -> None:
        """Forget what the next snapshot no longer covers: runs that it does not list, and the time before an interruption."""
        last, self._last = self._last, snapshot
        self._beside = None
        if last is not None and snapshot.sequence < last.sequence:
            self._runs.clear()  # a restarted sampler sends the past of every run again
        elif is_interrupted(last, snapshot):
            for series in [series for run in self._runs.values() for ranks in run.values() for series in ranks.values()]:
                series.newest.clear()
        for run in snapshot.runs:
            if run.created_at is not None and run.created_at > self._created.setdefault(run.run_id, run.created_at):
                self._created[run.run_id] = run.created_at
                self._runs.pop(run.run_id, None)
        listed = {run.run_id for run in snapshot.runs}
        gone = [run_id for run_id in self._runs if run_id not in listed]
        for run_id in gone[: len(gone) - self._ended_runs] if len(gone) > self._ended_runs else ():
            del self._runs[run_id]
        if len(self._created) > len(listed) + len(self._runs):
            self._created = {run_id: at for run_id, at in self._created.items() if run_id in listed or run_id in self._runs}

    def add(self, points: Points) -> None:
        """Add new points."""
        ranks = self._runs.setdefault(points.run_id, {}).setdefault(points.metric, {})
        series = ranks.get(points.rank)
        if series is None:
            series = ranks[points.rank] = MetricSeries(self._limit)
            self._share_memory()
        if self._places.given[0] is not points.steps or self._places.given[1] is not points.times:
            self._places = Places(points.steps, points.times)
        rank = points.run_id, points.rank
        beside = self._beside[1] if self._beside is not None and self._beside[0] == rank else None
        series.extend_at(self._places, points.values, beside)
        self._beside = rank, series

    def _share_memory(self) -> None:
        """Give each series fewer buckets if there are many series; those with more merge theirs at the next value."""
        number = sum(len(ranks) for run in self._runs.values() for ranks in run.values())
        limit = self._buckets
        while limit * number > self._buckets * METRICS_FULL and limit > METRIC_BUCKETS_MIN:
            limit //= 2
        if limit == self._limit:
            return
        self._limit = limit
        for run in self._runs.values():
            for ranks in run.values():
                for series in ranks.values():
                    series.by_step.limit = series.by_time.limit = limit

    def keep(self, run_id: str) -> None:
        """Of the runs that the stream does not carry, forget this one last."""
        if run_id in self._runs:
            self._runs[run_id] = self._runs.pop(run_id)

    def recall(self, points: Iterable[Points]) -> None:
        """Add the past of runs that the stream does not carry; a run whose metrics are known keeps them."""
        known = set(self._runs)
        for found in points:
            if found.run_id not in known:
                self.add(found)

    def names(self, run_id: str) -> tuple[str, ...]:
        """Return the names of a run's metrics in order of first appearance."""
        return tuple(self._runs.get(run_id, {}))

    def metric(self, run_id: str, name: str) -> dict[int, MetricSeries]:
        """Return rank -> series of one metric; empty if unknown.

        If the script opened the run, a rank's automatic values are under "auto/…": they are used if it has none of its own.
        """
        metrics = self._runs.get(run_id, {})
        return {**metrics.get(AUTOMATIC_PREFIX + name, {}), **metrics.get(name, {})}

    def series(self, run_id: str, rank: int, name: str) -> MetricSeries | None:
        """Return one rank's series of the metric ``name``; None if it has none."""
        metrics = self._runs.get(run_id, {})
        own = metrics.get(name, {}).get(rank)
        return own if own is not None else metrics.get(AUTOMATIC_PREFIX + name, {}).get(rank)
