"""Values that are lists of rows: how a record reads one, and what one should be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gputop.facts.record import read_items, read_whole


def read_rows(value: Any, least: int) -> list[tuple[int, Any]]:
    """Return (first column, row) of each row that has at least ``least`` columns and starts with a whole number."""
    rows = [item for item in read_items(value) if isinstance(item, list | tuple) and len(item) >= least]
    return [(first, row) for row in rows if (first := read_whole(row[0])) is not None]


def is_rows_of(columns: int) -> Callable[[Any], bool]:
    """Return a check that a value is a list of lists of this many columns."""
    return lambda value: isinstance(value, list) and all(isinstance(row, list) and len(row) == columns for row in value)
