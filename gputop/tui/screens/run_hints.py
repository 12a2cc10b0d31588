"""The keys that a run's screen names in its last line: those of what is visible, the most useful first."""

from __future__ import annotations

from gputop.tui.screens.base import KeyHint

CHART_HINTS = (
    KeyHint("arrows", "read", "screen.read(-1)"),
    KeyHint("+ -", "zoom", "screen.zoom(0.5)"),
    KeyHint("m", "metric", "screen.metric(1)"),
    KeyHint("g", "all", "screen.grid"),
    KeyHint("x", "axis", "screen.x_axis"),
    KeyHint("y", "log", "screen.log_axis"),
)
CHANGED_HINT = KeyHint("0", "whole", "screen.whole")
RUN_HINTS = (KeyHint("Space", "overlay", "screen.mark"), KeyHint("/", "filter", "screen.filter"))
MORE_HINTS = (
    KeyHint("[ ]", "smooth", "screen.smooth(1)"),
    KeyHint("r", "ranks", "screen.per_rank"),
    KeyHint("h", "heat rows", "screen.subject"),
    KeyHint("t", "table", "screen.table"),
    KeyHint("w", "where", "app.where"),
    KeyHint("k", "stop", "screen.stop"),
)
LIST_HINTS = (
    KeyHint("Up/Down", "choose"),
    KeyHint("Enter", "charts", "screen.open"),
    KeyHint("Space", "overlay", "screen.mark"),
    KeyHint("u", "unmark all", "screen.unmark"),
    KeyHint("/", "filter", "screen.filter"),
    KeyHint("t", "table", "screen.table"),
    KeyHint("k", "stop", "screen.stop"),
)
GRID_HINTS = (
    KeyHint("arrows", "choose"),
    KeyHint("Enter", "large", "screen.open"),
    KeyHint("/", "search", "screen.filter"),
    KeyHint("PgUp/PgDn", "page"),
    KeyHint("g", "one metric", "screen.grid"),
    KeyHint("x", "axis", "screen.x_axis"),
    KeyHint("y", "log", "screen.log_axis"),
    KeyHint("[ ]", "smooth", "screen.smooth(1)"),
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
        return GRID_HINTS
    changed = (CHANGED_HINT,) if zoomed else ()
    if not narrow:
        return (KeyHint("Up/Down", "run"), *RUN_HINTS, *changed, *CHART_HINTS, *MORE_HINTS)
    if listed:
        return LIST_HINTS
    return (KeyHint("o", "runs", "screen.list"), *changed, *CHART_HINTS, *RUN_HINTS, *MORE_HINTS)
