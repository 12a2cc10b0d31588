"""Which groups the doctor judges at a snapshot: all of them or, if there are very many, some of them in turn."""

from __future__ import annotations

from collections.abc import Sequence, Set

from gputop.doctor.evidence.rank_groups import RankGroup

JOBS_A_TURN = 16
"""Judging 500 groups, inference servers, takes half a second. With this many at 1 Hz, each has its turn twice a minute."""


class Turns:
    """Takes turns among the groups."""

    def __init__(self) -> None:
        self._last: str | None = None

    def take(self, groups: Sequence[RankGroup], watched: Set[str]) -> Set[str]:
        """Return the keys of the groups whose turn it is: always tracked runs and ``watched`` groups, then a few others."""
        always = {group.key for group in groups if group.run is not None or group.key in watched}
        others = [group.key for group in groups if group.key not in always]
        if len(others) <= JOBS_A_TURN:
            return always.union(others)
        first = others.index(self._last) + 1 if self._last in others else 0
        chosen = (others[first:] + others[:first])[:JOBS_A_TURN]
        self._last = chosen[-1]
        return always.union(chosen)
