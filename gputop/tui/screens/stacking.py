"""How many rows each pane of the dashboard gets: as many as it needs; the rest go to the pane that grows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Need(NamedTuple):
    """The rows of one pane: with less than ``least`` it is left out, and more than ``wanted`` would be empty."""

    least: int
    wanted: int


def stack(room: int, needs: Mapping[str, Need], importance: Sequence[str], grows: str) -> dict[str, int]:
    """Return the rows of each pane by name, together ``room``; 0 leaves a pane out.

    First each pane gets its minimum, in order of ``importance``, until one does not fit; then, in the same order, what it
    wants. The remaining rows go to the pane ``grows``, or, if that is left out, to the least important one that is not.
    """
    rows = dict.fromkeys(needs, 0)
    left = room
    for name in importance:
        if needs[name].least > left and any(rows.values()):
            break
        rows[name] = min(left, needs[name].least)
        left -= rows[name]
    for name in importance:
        if rows[name]:
            more = min(left, max(0, needs[name].wanted - rows[name]))
            rows[name] += more
            left -= more
    takes = grows if rows.get(grows) else next((name for name in reversed(importance) if rows[name]), importance[0])
    rows[takes] += left
    return rows
