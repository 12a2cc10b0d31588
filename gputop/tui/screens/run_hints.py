"""The keys that a run's screen names in its last line: those of what is visible, the most useful first."""

from __future__ import annotations

from gputop.tui.screens.base import KeyHint

_WHOLE = KeyHint("0", "whole", "screen.whole")
_AXIS = KeyHint("x", "axis", "screen.x_axis")
_LOG = KeyHint("Y", "log", "screen.log_axis")
_SMOOTH = KeyHint("[ ]", "smooth", "screen.smooth(1)")
_OVERLAY = KeyHint("Space", "overlay", "screen.mark")
_FILTER = KeyHint("/", "filter", "screen.filter")
_TABLE = KeyHint("t", "table", "screen.table")
_STOP = KeyHint("k", "stop", "screen.stop")

_CHART = (
    KeyHint("arrows", "read", "screen.read(-1)"),
    KeyHint("+ -", "zoom", "screen.zoom(0.5)"),
    KeyHint("m", "metric", "screen.metric(1)"),
    KeyHint("g", "all", "screen.grid"),
    _AXIS,
    _LOG,
)
_MORE = (
    _SMOOTH,
    KeyHint("r", "ranks", "screen.per_rank"),
    KeyHint("h", "heat rows", "screen.subject"),
    _TABLE,
    KeyHint("w", "where", "app.where"),
    _STOP,
)
_LIST = (
    KeyHint("Up/Down", "choose"),
    KeyHint("Enter", "charts", "screen.open"),
    _OVERLAY,
    KeyHint("u", "unmark all", "screen.unmark"),
    _FILTER,
    _TABLE,
    _STOP,
)
_GRID = (
    KeyHint("arrows", "choose"),
    KeyHint("Enter", "large", "screen.open"),
    KeyHint("/", "search", "screen.filter"),
    KeyHint("PgUp/PgDn", "page"),
    KeyHint("g", "one metric", "screen.grid"),
    _AXIS,
    _LOG,
    _SMOOTH,
)


def hints(*, grid: bool, narrow: bool, listed: bool, zoomed: bool) -> tuple[KeyHint, ...]:
    """Return the hints, of which a narrow screen drops the last.

    Args:
        grid: small charts of all metrics are visible.
        narrow: there is room for either the list or the charts.
        listed: on a narrow screen, the list is visible.
        zoomed: the chart does not show its whole axis, or values are read.
    """
    if grid:
        return _GRID
    changed = (_WHOLE,) if zoomed else ()
    if not narrow:
        return (KeyHint("Up/Down", "run"), _OVERLAY, _FILTER, *changed, *_CHART, *_MORE)
    if listed:
        return _LIST
    return (KeyHint("o", "runs", "screen.list"), *changed, *_CHART, _OVERLAY, _FILTER, *_MORE)
