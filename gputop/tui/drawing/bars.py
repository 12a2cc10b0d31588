"""Bars and sparklines. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.tui.drawing.line import Line, Span

_LEVELS = "▁▂▃▄▅▆▇"
"""Without a full block, which would melt into one with the row above."""
_ASCII_LEVELS = "_.:-=+#"
TRACK, ASCII_TRACK = "─", "."
ASCII_FILL = "#"


def segments(parts: Sequence[tuple[float, str]], cells: int, ascii_only: bool = False) -> Line:
    """Return a thin bar of exactly ``cells`` cells, divided into parts: each a share of the whole (0 to 1) and its style.

    A part of any size takes at least one cell while there is room, so that none is hidden.
    """
    spans: list[Span] = []
    taken, total = 0, 0.0
    for share, style in parts:
        if not share > 0:
            continue
        total += share
        end = min(cells, max(taken + 1, int(min(1.0, total) * cells + 0.5)))
        spans.append(Span((ASCII_FILL if ascii_only else "━") * (end - taken), style))
        taken = end
    spans.append(Span((ASCII_TRACK if ascii_only else TRACK) * (cells - taken), "track"))
    return tuple(span for span in spans if span.text)


def sparkline(values: Sequence[float | None], top: float = 100.0, ascii_only: bool = False) -> str:
    """Return one character per value, from 0 to ``top``; a blank where the value is unknown. Zero is the lowest mark."""
    levels = _ASCII_LEVELS if ascii_only else _LEVELS
    last = len(levels) - 1
    return "".join(
        " " if value is None or value != value else levels[round(min(1.0, max(0.0, value / top)) * last)] for value in values
    )
