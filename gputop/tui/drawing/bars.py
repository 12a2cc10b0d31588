"""Bars and sparklines. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.tui.drawing.line import Line, Span

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "_.:-=+*#"
TRACK, ASCII_TRACK = "─", "."
ASCII_FILL = "#"
_EPSILON = 1e-9
"""Keeps a fraction that rounding made slightly too small in its cell."""


def bar(fraction: float | None, cells: int, ascii_only: bool = False, style: str = "bar") -> Line:
    """Return a bar of exactly ``cells`` cells, filled to ``fraction`` (clamped to 0 to 1); blank if unknown.

    The full blocks and one partial block (eighths) precede a thin track, so that the full length is visible.
    """
    if cells <= 0:
        return ()
    if fraction is None or fraction != fraction:
        return (Span(" " * cells),)
    filled = min(1.0, max(0.0, fraction)) * cells
    whole = int(filled + _EPSILON)
    if ascii_only:
        whole = int(filled + 0.5)
        text, rest = ASCII_FILL * whole, ASCII_TRACK * (cells - whole)
    else:
        part = int((filled - whole) * 8 + _EPSILON)
        text = "█" * whole + (_EIGHTHS[part] if part else "")
        rest = TRACK * (cells - len(text))
    return tuple(span for span in (Span(text, style), Span(rest, "track")) if span.text)


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
