"""Whether the graphs of earlier losses still exist: a running mean or a list of losses that were not detached keeps them all.

A loss's node in the graph gets a mark in its ``metadata``, a dict that torch has for such things. The mark goes with the node,
and is here only referred to weakly: so nothing of the script's lives longer for it. A few losses are marked, not all: a mark
takes some microseconds.
"""

from __future__ import annotations

import weakref
from time import perf_counter
from typing import Any

from gputop.facts import measured
from gputop.tracking.journal.handlers import let_through

EVERY_S = 1.0
"""How far apart two marks are, at first."""
MARKS_MAX = 32
"""With more marks, every other one is forgotten, and new ones are twice as far apart."""
NEWEST = 2
"""The newest losses of all still have their graphs in any loop."""
DEPTH = 3
"""This many nodes of a loss are marked: backward may run on a part of what the script keeps, as with gradient accumulation."""
_KEY = "gputop"


class _Mark:
    __slots__ = ("__weakref__",)


class _Marked:
    """A loss, by the marks of its first nodes."""

    __slots__ = ("marks", "step")

    def __init__(self, step: int, marks: list[weakref.ref[_Mark]]) -> None:
        self.step, self.marks = step, marks

    def exists(self) -> bool:
        return any(mark() is not None for mark in self.marks)


class Graphs:
    """The marked losses of one training, oldest first."""

    def __init__(self) -> None:
        self._marked: list[_Marked] = []
        self._every_s = EVERY_S
        self._due_s = 0.0
        self._released = 0
        self._off = False

    def mark(self, loss: Any, step: int) -> None:
        """Mark a loss on which backward is about to run, or an output of an evaluation, if it is time for one.

        Never raises, and runs no operation. What is no tensor is left out.
        """
        now = perf_counter()
        if now < self._due_s or self._off:
            return
        self._due_s = now + self._every_s
        try:
            marks = _mark(loss)
        except Exception as error:  # noqa: BLE001 - a graph of any kind, of any version of torch
            let_through(error)
            self._off = True
            return
        if marks:
            self._look()
            self._marked.append(_Marked(step, marks))
            if len(self._marked) > MARKS_MAX:
                self._marked = self._marked[::2]
                self._every_s *= 2

    def fact(self) -> dict[str, Any] | None:
        """Return the fact ``graphs``; None before anything is known. Safe on any thread."""
        kept: list[_Marked] = []
        for item in reversed(self._marked[:-NEWEST]):
            if not item.exists():
                break
            kept.append(item)
        if not kept and not self._released:
            return None
        first, last = (kept[-1].step, kept[0].step) if kept else (None, None)
        return measured.Graphs.filled(kept=len(kept), first=first, last=last, released=self._released)

    def _look(self) -> None:
        """Forget the losses whose graphs are gone; if it existed for longer, those before it, too: it was only freed late."""
        kept, newest = self._marked[:-NEWEST], self._marked[-NEWEST:]
        gone = [place for place, item in enumerate(kept) if not item.exists()]
        if gone:
            self._released += 1
            kept = kept[gone[-1] + 1 :]
        if len(newest) == NEWEST and not newest[0].exists():
            del newest[0]  # as in most loops
        self._marked = [*kept, *newest]


def _mark(loss: Any) -> list[weakref.ref[_Mark]]:
    """Mark the first nodes of a loss's graph that are new, and return references to the marks."""
    marks: list[weakref.ref[_Mark]] = []
    node = getattr(loss, "grad_fn", None)
    for _ in range(DEPTH):
        if node is None or hasattr(node, "variable"):  # that of a weight lives as long as the weight
            break
        if _KEY not in node.metadata:
            mark = node.metadata[_KEY] = _Mark()
            marks.append(weakref.ref(mark))
        inner = node.next_functions
        node = inner[0][0] if inner else None
    return marks
