"""The lines of a profile that was taken: where a step's time went, and what took it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gputop import units
from gputop.profiled import Hot, Profile, lines, shares_of, time_text
from gputop.tui.drawing.bars import segments
from gputop.tui.drawing.line import ASCII_ELLIPSIS, ELLIPSIS, Line, Span, clean, clip_text, fit_text
from gputop.tui.drawing.prose import BLANK, wrapped

_BAR = 20
_SHARE, _TIME, _GAP = 4, 8, "  "
_NAME_MIN = 16
"""A narrow screen shortens the names of operators before the lines of the script, which are what the reader can change."""


def draw_profile(profile: Profile, width: int, ascii_only: bool = False) -> tuple[Line, ...]:
    """Return the lines for a profile of any state: the texts of ``profiled.lines`` with bars beside the figures."""
    shown: list[Line] = []
    tables = {"OPERATORS, BY THEIR OWN TIME": profile.operators, "KERNELS": profile.kernels}
    drawn: Sequence[Line] = ()
    for text in lines(profile)[1:]:
        if text.startswith(" "):  # a row of the table whose title is above it
            shown += [] if drawn else [(Span(clean(text)),)]
            continue
        style = "title" if text.isupper() else "warn" if profile.state == "refused" else "text"
        shown += wrapped(clean(text), width, style) if text else [BLANK]
        drawn = _shares(profile, ascii_only) if text == "IN A STEP" else _table(tables.get(text, ()), width, ascii_only)
        shown += drawn
    return tuple(shown)


def _bar(share: float, ascii_only: bool) -> Line:
    return segments(((share, "bar"),), _BAR, ascii_only)


def _shares(profile: Profile, ascii_only: bool) -> list[Line]:
    return [
        (
            Span(_GAP),
            Span(f"{share:.0%}".rjust(_SHARE), "value"),
            Span(_GAP),
            *_bar(share, ascii_only),
            Span(f"{time_text(took)}".rjust(_TIME + 2), "dim"),
            Span(f"{_GAP}{words}"),
        )
        for words, took, share in shares_of(profile)
    ]


def _table(found: Sequence[Hot], width: int, ascii_only: bool) -> list[Line]:
    """Return a row for each operator; its bar is relative to the one that takes the most time."""
    if not found:
        return []
    most = max(item.own_s for item in found) or 1.0
    calls = max(len(str(item.calls)) for item in found) + 1
    where = [clean(item.line or units.UNKNOWN) for item in found]
    has_bars = width >= 2 * len(_GAP) + _TIME + calls + _BAR + 60
    left = width - _TIME - calls - 4 * len(_GAP) - (_BAR + len(_GAP) if has_bars else 0)
    longest = max(len(clean(item.name)) for item in found)
    name = max(_NAME_MIN, min(longest, left - min(left // 2, max(map(len, where)))))
    ellipsis = ASCII_ELLIPSIS if ascii_only else ELLIPSIS
    return [
        (
            Span(_GAP),
            Span(time_text(item.own_s).rjust(_TIME), "value"),
            *((Span(_GAP), *_bar(item.own_s / most, ascii_only)) if has_bars else ()),
            Span(f"{_GAP}{item.calls}x".rjust(calls + len(_GAP)), "dim"),
            Span(_GAP),
            Span(fit_text(clean(item.name), name, "<", ellipsis)),
            Span(_GAP),
            Span(clip_text(place, max(8, left - name), ellipsis), "dim" if item.line is None else "text"),
        )
        for item, place in zip(found, where, strict=True)
    ]
