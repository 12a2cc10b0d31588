"""The past of a device's reading: means over equal periods, as one row of cells or as an area. Pure.

Heights and colors are coarse on purpose: a GPU that works evenly is an even row, and costs no bytes while it stays even.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from gputop.history.series import Series
from gputop.tui.drawing.bars import ASCII_TRACK, TRACK
from gputop.tui.drawing.line import Line, Span
from gputop.tui.state.view import View

SECONDS_PER_COLUMN, YOUNG_S, YOUNG_SECONDS_PER_COLUMN = 10.0, 300.0, 5.0
"""Time per column of a row, and in the first minutes of the history, so that a row fills sooner. Columns start at multiples of
it, so that a tick changes one character, not the whole line."""

RECORDED_HOLD_S = 15.0
"""A recorded reading holds for three of the recorder's first intervals."""
_LEVELS = "▁▂▃▄▅▆▇"
"""It ends below a full block, so that rows never run into one another."""
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "_.:-=+#"
_FULL_SHARE = 0.85
"""From this share on, a cell has its full height: the difference to 100% is noise."""
RAMP = ("work0", "work1", "work2", "work3")
"""Styles from little work to much; trouble is not on this scale."""


def recent_means(series: Series | None, end: float, seconds: float, count: int) -> list[float | None]:
    """Return ``count`` means of ``seconds`` each up to ``end``; None if there is no data.

    The means of columns before the newest bucket are final, so they are computed once per column and not on every tick.
    """
    if not math.isfinite(end) or series is None or not series.buckets:
        return [None] * count
    start = end - seconds * count
    final = min(count, max(0, int((series.buckets.x_first[-1] - start) / seconds)))
    return [*_past_means(series, start + seconds * final, seconds, final), *_means(series, end, seconds, count - final)]


def with_recorded(means: Sequence[float | None], recorded: Series | None, end: float, seconds: float) -> Sequence[float | None]:
    """Return the means with those before the first known one as they were recorded with a run, each held until the next."""
    lead = next((place for place, mean in enumerate(means) if mean is not None), len(means))
    if recorded is None or not lead or not math.isfinite(end):
        return means
    past = list(_past_means(recorded, end, seconds, len(means)))[:lead]
    most = math.ceil(RECORDED_HOLD_S / seconds)
    held = most
    for place in range(1, lead):
        held = 0 if past[place] is not None else held + 1
        if 0 < held <= most:
            past[place] = past[place - 1]
    return [*past, *means[lead:]]


def row_seconds(view: View) -> float:
    """Return the seconds per column of a row."""
    began = view.history.started_at
    young = began is not None and view.snapshot.time - began < YOUNG_S
    return seconds_per_column(YOUNG_SECONDS_PER_COLUMN if young else SECONDS_PER_COLUMN, view.snapshot.interval_s)


def seconds_per_column(least: float, interval: float) -> float:
    """Return ``least``, or a multiple of it in which every column has a reading at this interval."""
    return least * max(1, math.ceil(interval / least))


def column_end(time: float, seconds: float) -> float:
    """Return the end of the newest column, which is still being filled."""
    return (time // seconds + 1) * seconds


def _past_means(series: Series, end: float, seconds: float, count: int) -> tuple[float | None, ...]:
    return _means_kept(series, series.width, end, seconds, count)


@lru_cache(maxsize=128)
def _means_kept(series: Series, width: int, end: float, seconds: float, count: int) -> tuple[float | None, ...]:
    """Return means that are final until the series is halved: its ``width`` is then another, and so are its buckets."""
    return tuple(_means(series, end, seconds, count))


def row_of_means(means: Sequence[float | None], ascii_only: bool = False) -> Line:
    """Return what ``row_of_past`` returns for means in percent. From tick to tick only the last one changes."""
    past = _row_of_percents(tuple(means[:-1]), ascii_only)
    newest = row_of_past([None if mean is None else mean / 100 for mean in means[-1:]], ascii_only)
    if past and newest and past[-1].style == newest[0].style:
        return (*past[:-1], Span(past[-1].text + newest[0].text, newest[0].style))
    return (*past, *newest)


@lru_cache(maxsize=128)
def _row_of_percents(means: tuple[float | None, ...], ascii_only: bool) -> Line:
    return row_of_past([None if mean is None else mean / 100 for mean in means], ascii_only)


def _means(series: Series, end: float, seconds: float, count: int) -> list[float | None]:
    """Return the means, iterating backward from the newest bucket."""
    totals, counts = [0.0] * count, [0] * count
    start, scale = end - seconds * count, 1 / seconds
    for first, last, total, number in series.buckets.newest_first():
        if last < start:
            break
        place = math.floor(((first + last) / 2 - start) * scale)
        if 0 <= place < count:
            totals[place] += total
            counts[place] += number
    return [total / number if number else None for total, number in zip(totals, counts, strict=True)]


def row_of_past(shares: Sequence[float | None], ascii_only: bool = False) -> Line:
    """Return one cell per share (0 to 1): its height and color say how much work; blank where unknown, thin at 0."""
    levels = _ASCII_LEVELS if ascii_only else _LEVELS
    last = len(levels) - 1
    spans: list[tuple[str, str]] = []
    for share in shares:
        if share is None or share != share:
            spans.append((" ", "track"))
        elif share < 0.01:
            spans.append((levels[0], "track"))
        else:
            level = min(last, int(min(1.0, share) / _FULL_SHARE * last))
            spans.append((levels[level], RAMP[min(len(RAMP) - 1, level * len(RAMP) // (last + 1))]))
    return _merged(spans)


def is_of_past(span: Span) -> bool:
    """Return whether a span of a device's row shows work or rest in ``row_of_past``. Empty parts of bars have rest's style."""
    at_rest = span.style == "track" and bool(span.text.strip()) and not {TRACK, ASCII_TRACK}.intersection(span.text)
    return at_rest or span.style in RAMP


def area(shares: Sequence[float | None], rows: int, ascii_only: bool = False, style: str = "") -> list[Line]:
    """Return an area graph of ``rows`` lines, one column per share (0 to 1); the top row ends below a full block.

    Rows take the colors of ``RAMP`` from the bottom to the top, or ``style``.
    """
    lines: list[Line] = []
    for row in range(rows - 1, -1, -1):
        wanted = style or RAMP[row * len(RAMP) // rows]
        characters: list[str] = []
        for share in shares:
            filled = 0.0 if share is None or share != share else min(1.0, max(0.0, share)) * rows - row
            eighths = min(7 if row == rows - 1 else 8, max(0, round(filled * 8)))
            if row == 0 and not eighths and share is not None:
                eighths = 1
            characters.append(" #"[eighths > 3] if ascii_only else _EIGHTHS[eighths])
        lines.append((Span("".join(characters), wanted),))
    return lines


def _merged(cells: Sequence[tuple[str, str]]) -> Line:
    spans: list[Span] = []
    for text, style in cells:
        if spans and spans[-1].style == style:
            spans[-1] = Span(spans[-1].text + text, style)
        else:
            spans.append(Span(text, style))
    return tuple(spans)
