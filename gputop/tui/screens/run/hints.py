"""The keys that a run's screen names in its last line: those of what is visible; a narrow line drops the least needed."""

from __future__ import annotations

from gputop.tui.screens.base import KeyHint

_WHOLE = KeyHint("0", "whole", "screen.whole", 1)
_AXIS = KeyHint("x", "axis", "screen.x_axis", 4)
_LOG = KeyHint("Y", "log", "screen.log_axis", 5)
_SMOOTH = KeyHint("[ ]", "smooth", "screen.smooth(1)", 6)
_OVERLAY = KeyHint("Space", "overlay", "screen.mark", 1)
_FILTER = KeyHint("/", "filter", "screen.filter", 1)
_TABLE = KeyHint("t", "table", "screen.table", 4)
_CHARTS = KeyHint("t", "charts", "screen.table", 1)
"""For when the tables replace the charts."""

_CHART = (
    KeyHint("arrows", "read", "screen.read(-1)", 2),
    KeyHint("+ -", "zoom", "screen.zoom(0.5)", 1),
    KeyHint("m", "metric", "screen.metric(1)", 3),
    KeyHint("g", "all", "screen.grid", 3),
    _AXIS,
    _LOG,
)
_MORE = (
    _SMOOTH,
    KeyHint("r", "ranks", "screen.per_rank", 5),
    KeyHint("h", "heat rows", "screen.subject", 6),
    _TABLE,
)
_LIVE = (
    KeyHint("w", "where", "app.where", 2),
    KeyHint("P", "profile", "app.profile", 3),
    KeyHint("k", "stop", "screen.stop", 1),
)
_LIST = (
    KeyHint("Up/Down", "choose"),
    KeyHint("Enter", "charts", "screen.open", 1),
    _OVERLAY,
    KeyHint("u", "unmark all", "screen.unmark", 4),
    _FILTER,
    _TABLE,
)
_GRID = (
    KeyHint("arrows", "choose"),
    KeyHint("Enter", "large", "screen.open", 2),
    KeyHint("/", "search", "screen.filter", 1),
    KeyHint("PgUp/PgDn", "page"),
    KeyHint("g", "one metric", "screen.grid", 2),
    _AXIS,
    _LOG,
    _SMOOTH,
)


def hints_without_curve(listed: bool) -> tuple[KeyHint, ...]:
    """Return the hints for an untracked run without a curve; ``listed``: the list of runs is visible."""
    runs = KeyHint("Up/Down", "choose") if listed else KeyHint("o", "runs", "screen.list", 2)
    alive = tuple(hint for hint in _LIVE if hint.key != "P")  # gputop profiles only what it tracks
    return (runs, KeyHint("Enter", "processes", "screen.open", 0), _FILTER, *alive)


def hints(*, table: bool = False, grid: bool, narrow: bool, listed: bool, zoomed: bool, live: bool) -> tuple[KeyHint, ...]:
    """Return the hints.

    Args:
        table: the tables are in the place of the charts.
        grid: small charts of all metrics are visible.
        narrow: there is room for either the list or the charts.
        listed: on a narrow screen, the list is visible.
        zoomed: the chart does not show its whole axis, or values are read.
        live: the run is live, so its ranks can be asked and it can be stopped.
    """
    alive = _LIVE if live else ()
    if grid:
        return (*_GRID, *alive)
    if table:
        runs = (KeyHint("o", "runs", "screen.list", 2),) if narrow else (KeyHint("Up/Down", "run"), _FILTER)
        return (_CHARTS, *runs, *alive)
    changed = (_WHOLE,) if zoomed else ()
    if not narrow:
        return (KeyHint("Up/Down", "run"), _OVERLAY, _FILTER, *changed, *_CHART, *_MORE, *alive)
    if listed:
        return (*_LIST, *alive)
    unseen = _OVERLAY._replace(drop=7)  # the list is not visible; its filter is named where it is
    return (KeyHint("o", "runs", "screen.list", 2), *changed, *_CHART, *_MORE, *alive, unseen)
