"""Counts at which of its own lines a rank is seen, outside all phases, while its steps advance."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from gputop.facts.standing import OwnLines, Standing

SAMPLES_MAX = 30
REPORT_EVERY = 5
"""A fact that changed with each sample would make each snapshot longer."""
LINES_MAX = 3
_OTHER = "other"


class SeenLines:
    """The newest places of one rank."""

    def __init__(self) -> None:
        self._seen: deque[tuple[str, str] | None] = deque(maxlen=SAMPLES_MAX)
        self._at: float | None = None
        self._step: int | None = None
        self._new = 0

    def see(self, said: Standing) -> dict[str, Any] | None:
        """Count a place if it is new and a step has ended since the one before; return the fact once it is due."""
        if said.at is None or said.at == self._at or said.step is None:
            return None
        moved, self._at, self._step = said.step != self._step, said.at, said.step
        if not moved:
            return None
        own = said.phase == _OTHER and said.operation is None and said.line is not None
        self._seen.append((said.line or "", said.function or "") if own else None)
        self._new += 1
        if self._new % REPORT_EVERY:
            return None
        counted = Counter(place for place in self._seen if place is not None).most_common(LINES_MAX)
        return OwnLines.filled(samples=len(self._seen), lines=[[count, *place] for place, count in counted])
