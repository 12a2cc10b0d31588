"""The values of one rank, read from files: the newest of each metric, and the points since the last call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gputop.facts.setup import Progress
from gputop.snapshot import Points, Rank
from gputop.tracking.reader.decimate import Decimator
from gputop.tracking.reader.update import POLL_POINTS

METRICS_MAX = 1000
"""Further metrics are ignored: no run needs that many."""


@dataclass(slots=True)
class Collected:
    """The metrics of one rank. Times are wall clock, in seconds since the epoch."""

    metrics: dict[str, float] = field(default_factory=dict)
    fresh: dict[str, Decimator] = field(default_factory=dict)
    step: int | None = None
    first_log_at: float | None = None
    last_log_at: float | None = None
    total_steps: int | None = None
    counts_lines: bool = False
    """Whether the steps are counted lines, because none of them shows a step."""

    def add(self, step: int, metrics: Mapping[str, float], at: float, points_max: int = POLL_POINTS) -> None:
        """Add the values of one step. At most ``points_max`` points of a metric are kept until they are taken."""
        self.step, self.last_log_at = max(step, self.step or 0), max(at, self.last_log_at or at)
        self.first_log_at = min(at, self.first_log_at or at)
        for name, value in metrics.items():
            if name not in self.metrics and len(self.metrics) >= METRICS_MAX:
                continue
            self.metrics[name] = value
            series = self.fresh.get(name)
            if series is None:
                series = self.fresh[name] = Decimator(points_max)
            series.extend((step,), (int(at * 1e9),), (value,), _seconds)

    def take_points(self, run_id: str, rank: int) -> list[Points]:
        """Return the points since the last call."""
        fresh, self.fresh = self.fresh, {}
        return [Points(run_id, rank, name, *series.columns()) for name, series in fresh.items()]

    def rank(self, known: Rank) -> Rank:
        """Return ``known`` with the newest step and metrics, and what is known of how far the training is."""
        facts = dict(known.facts)
        if self.counts_lines:
            facts["progress"] = Progress.filled(total_steps=self.total_steps, counts_lines=True)
        elif self.total_steps:
            facts["progress"] = Progress.filled(total_steps=self.total_steps)
        return replace(known, step=self.step, last_log_at=self.last_log_at, metrics=dict(self.metrics), facts=facts)


def _seconds(time_ns: int) -> float:
    return time_ns / 1e9
