"""What a poll of the runs returns. Apart from ``runs``, because a machine without runs needs no reader."""

from __future__ import annotations

from dataclasses import dataclass

from gputop.snapshot import Points, Run

POLL_POINTS = 500
"""New points per metric, rank and poll; a faster log is decimated to minima and maxima."""


@dataclass(frozen=True, slots=True)
class RunUpdate:
    """All runs in their current state, and the points since the previous poll."""

    runs: tuple[Run, ...] = ()
    points: tuple[Points, ...] = ()
