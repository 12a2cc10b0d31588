"""The plain-text table that the commands print: no box, two spaces between columns, no trailing spaces."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.terminal_text import printable


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the header and one line per row; each row has as many cells as the header. Cells are made printable.

    Raises:
        ValueError: a row has more or fewer cells.
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in (head, *rows)]
