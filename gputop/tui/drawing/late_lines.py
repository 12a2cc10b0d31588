"""Lines of a long list that are drawn only when they are shown: of hundreds of rows, a screen shows forty. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from gputop.tui.drawing.line import Line


class LateLines(Sequence[Line]):
    """``head``, then a line for each of ``count`` rows, which ``draw`` returns, then ``tail``. A row is drawn once at most."""

    __slots__ = ("_count", "_draw", "_drawn", "_head", "_tail")

    def __init__(self, head: Sequence[Line], count: int, draw: Callable[[int], Line], tail: Sequence[Line] = ()) -> None:
        self._head = tuple(head)
        self._count = count
        self._draw = draw
        self._tail = tuple(tail)
        self._drawn: dict[int, Line] = {}

    def below(self, above: Sequence[Line]) -> LateLines:
        """Return the same lines below others."""
        return LateLines((*above, *self._head), self._count, self._draw, self._tail)

    def __len__(self) -> int:
        return len(self._head) + self._count + len(self._tail)

    @overload
    def __getitem__(self, place: int) -> Line: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Line, ...]: ...

    def __getitem__(self, place: int | slice) -> Line | tuple[Line, ...]:
        if isinstance(place, slice):
            return tuple([self._line(number) for number in range(*place.indices(len(self)))])
        return self._line(range(len(self))[place])

    def _line(self, place: int) -> Line:
        row = place - len(self._head)
        if row < 0:
            return self._head[place]
        if row >= self._count:
            return self._tail[row - self._count]
        if row not in self._drawn:
            self._drawn[row] = self._draw(row)
        return self._drawn[row]
