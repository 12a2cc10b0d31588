"""The ranks that an untracked run has lost, and whether its failure explains them. Pure."""

from __future__ import annotations

from collections.abc import Collection


class Losses:
    """Counts the lost ranks, except for those that were replaced and those after which training continued."""

    def __init__(self, outlived_s: float) -> None:
        """``outlived_s``: after this many seconds of progress, the run counts as continuing without the lost process."""
        self.seen: frozenset[int] = frozenset()
        """All ranks seen so far. Replaced as a whole, so that another thread may read it."""
        self._outlived_s = outlived_s
        self._alive: frozenset[int] = frozenset()
        self._lost: dict[int, float] = {}
        self._progress: int | None = None

    @property
    def are_any(self) -> bool:
        """Whether a lost rank is not yet forgiven."""
        return bool(self._lost)

    def update(self, pids: Collection[int], now: float) -> bool:
        """Note which ranks are alive; return whether new ones have replaced lost ones.

        Args:
            pids: the live ranks.
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
        """Forgive the losses that progress has followed for a while, if any rank is alive; ``lines``: lines of progress so
        far."""
        grew = self._progress is not None and lines > self._progress
        self._progress = lines
        if grew and self._alive:
            self._lost = {pid: at for pid, at in self._lost.items() if now - at < self._outlived_s}
