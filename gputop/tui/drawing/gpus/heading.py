"""The headings of the columns of the GPUs' rows, placed on the rule above them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gputop.tui.drawing.gpus.rows import Layout
from gputop.tui.drawing.line import Line, Span

_MARK_CELLS, _UTILIZATION_CELLS = 1, 4


def heading(layout: Layout, cells: int, past: str) -> Line:
    """Return the names of the columns of a row of ``cells`` cells; ``past`` says how far back its history reaches.

    A name that does not fit its column is left out: the readings' units identify them.
    """
    spans: list[Span] = []
    at = 0
    for start, end, name, align in _named(layout, past):
        if len(name) <= end - start:
            first = end - len(name) if align == ">" else start
            spans += [Span(" " * (first - at)), Span(name, "dim")]
            at = first + len(name)
    return (*spans, Span(" " * (cells - at)))


def _named(layout: Layout, past: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield (first cell, last cell + 1, name, alignment) of each column that has a name, from left to right."""
    at = _MARK_CELLS + layout.label + 1 + (layout.user + 1 if layout.user else 0)
    yield at, at + _UTILIZATION_CELLS, "util", ">"
    at += _UTILIZATION_CELLS + 1
    memory = layout.bar + 1 + layout.memory if layout.bar else layout.memory
    for cells, name, align in (
        (layout.past, past, ">"),
        (layout.units, "SM tensor %", "<"),
        (memory, "memory" if memory >= len("memory") else "mem", "<" if layout.bar else ">"),
        (layout.power, "power", ">"),
        (layout.temperature, "temp", ">"),
        (layout.links, "NVLink PCIe GB/s", "<"),
        (layout.clock, "MHz", ">"),
    ):
        if cells:
            yield at, at + cells, name, align
            at += cells + 1
