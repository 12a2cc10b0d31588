"""Counts that are steps only if they rise from line to line: "batch: 300" may be the size of a batch. Pure.

The first such line waits for the next one, and so do the lines between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from gputop.tracking.printed.names import is_evaluation, is_measured
from gputop.tracking.printed.own_lines import Held

_COUNT = re.compile(
    r"(?<![\w/.-])(?:(total)[_ ]steps?|(batch)|(frame)s?(?: number)?)\s{0,3}[:=#]?\s{0,5}(?<![a-z])(\d{1,15})"
    r"(?![\w%/:-]|[.,]\d|\s{0,3}(?:/|of\b|[x×]))",
    re.IGNORECASE,
)
_WAITING_MAX = 8
"""After this many lines, the count has not risen and is no step (our choice)."""
_BEGINS_AGAIN = 4
"""A count below this fraction of the one before begins again, with an epoch; other lower counts are late (our choice)."""


class _Count:
    """What is known about the count behind one word."""

    __slots__ = ("base", "is_step", "last")

    def __init__(self, last: int) -> None:
        self.last = last
        self.base = 0
        """The sum of all counts before it began again."""
        self.is_step = False

    def at(self, count: int) -> int:
        """Return the step of a line."""
        if count < self.last / _BEGINS_AGAIN:
            self.base += self.last
        self.last = count
        return self.base + count


class Rising:
    """Follows such counts in one output stream."""

    def __init__(self) -> None:
        self._counts: dict[str, _Count] = {}
        self._is_over = False
        """Whether a count did not rise: then none is looked for."""
        self._waiting: list[Held] = []
        self._word = ""
        self._repeats = False
        """Whether a line that waits repeats the count of the first one."""

    def of(self, lines: list[Held]) -> Iterator[Held]:
        """Yield lines, with a count as their step where it rises; those that have to wait come later."""
        for held in lines:
            yield from self._take(held)

    def release(self) -> list[Held]:
        """Return the lines that wait, without a step."""
        waiting, self._waiting, self._repeats = self._waiting, [], False
        return waiting

    def release_idle(self) -> list[Held]:
        """Return the same while nothing more is printed, if the count has not risen; a first one still waits for the next."""
        return self.release() if self._repeats else []

    def _take(self, held: Held) -> Iterator[Held]:
        found = self._count_in(held)
        known = self._counts.get(found[0]) if found is not None else None
        if found is not None and known is not None and known.is_step:
            yield _with_step(held, known, found[1])
            return
        if found is None and not self._waiting:
            yield held
            return
        if found is not None and known is not None and found[0] == self._word and found[1] != known.last:
            yield from self._decide(held, known, found[1])
            return
        if found is not None and not self._waiting:
            self._word = found[0]
            self._counts[self._word] = _Count(found[1])
        elif found is not None:
            self._repeats = True
        self._waiting.append(held)
        if len(self._waiting) > _WAITING_MAX:
            self._is_over = found is not None
            yield from self.release()

    def _decide(self, held: Held, known: _Count, count: int) -> Iterator[Held]:
        waiting = self.release()
        if count < known.last:
            yield from waiting
            self._counts[self._word] = _Count(count)
            self._waiting = [held]
            return
        known.is_step = True
        for each in waiting:
            before = self._count_in(each)
            yield each if before is None or before[0] != self._word else _with_step(each, known, known.last)
        yield _with_step(held, known, count)

    def _count_in(self, held: Held) -> tuple[str, int] | None:
        """Return the word and the count of a line that reports a value of the training, and no step."""
        printed = held.printed
        if self._is_over or printed.step is not None or printed.evaluation:
            return None
        if not any(is_measured(name) and not is_evaluation(name) for name in printed.metrics):
            return None
        found = _COUNT.search(held.line)
        if found is None:
            return None
        return (found[1] or found[2] or found[3]).lower(), int(found[4])


def _with_step(held: Held, known: _Count, count: int) -> Held:
    of_epoch = held.printed.epoch is not None
    step = count if of_epoch else known.at(count)
    return Held(held.line, replace(held.printed, step=step, batch=of_epoch))
