"""The ranks of an untracked run that are gone, and which of these losses its failure explains. Pure."""

from __future__ import annotations

from collections.abc import Collection


class Losses:
    """Counts the ranks that are gone, except for those that others replaced and those after which training continued."""

    def __init__(self, outlived_s: float) -> None:
        """``outlived_s``: seconds of progress after a loss, from which on the run counts as continuing without that process."""
        self.seen: frozenset[int] = frozenset()
        """Every rank that was seen. Replaced whole, so that another thread may take it."""
        self._outlived_s = outlived_s
        self._alive: frozenset[int] = frozenset()
        self._lost: dict[int, float] = {}
        self._progress: int | None = None

    @property
    def are_any(self) -> bool:
        """Whether a rank is gone whose loss is not forgiven."""
        return bool(self._lost)

    def update(self, pids: Collection[int], now: float) -> bool:
        """Take in which ranks live; return whether new ones replaced some that are gone.

        Args:
            pids: the ranks that live.
            now: seconds of a steady clock.
        """
        alive = frozenset(pids)
        new = alive - self.seen
        for pid in sorted(self._alive - alive):
            self._lost[pid] = now
        replaced = list(self._lost)[: len(new)]
        for pid in (*replaced, *(alive & self._lost.keys())):
            self._lost.pop(pid, None)
        self._alive = alive
        self.seen |= alive
        return bool(replaced)

    def note_progress(self, lines: int, now: float) -> None:
        """Forgive the losses that progress has followed for a while, if any rank lives; ``lines``: of progress so far."""
        grew = self._progress is not None and lines > self._progress
        self._progress = lines
        if grew and self._alive:
            self._lost = {pid: at for pid, at in self._lost.items() if now - at < self._outlived_s}
