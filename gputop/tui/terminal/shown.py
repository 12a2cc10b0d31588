"""What the terminal shows, cell by cell; of each of Textual's updates, only the cells that differ from it are sent.

Textual repaints a whole screen when one opens or closes and when a pane changes its size. Most cells stay the same.

The module imports private names of Textual: import it only after ``private_textual`` has checked them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from rich.cells import cell_len, get_character_cell_size
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate

from gputop.tui.terminal.partial_update import Cells, PartialUpdate, Piece, cut_pieces, shows_in_blank

Cell: TypeAlias = tuple[str, Style] | None
"""The text of a cell and its style; "" in the second cell of a wide character. None: unknown."""
Row: TypeAlias = list[Cell]

BRIDGED_CELLS = 3
"""Up to this many unchanged cells of one style are sent again rather than skipped: moving the cursor takes as many bytes."""
_PLAIN = Style.null()


class ShownCells:
    """The cells of the terminal as they were sent. Code that writes to the terminal in another way calls ``forget``."""

    def __init__(self, erases: bool = False) -> None:
        """``erases``: whether the terminal ``erases_in_color``."""
        self._erases = erases
        self._columns = 0
        self._rows: list[Row] = []
        self._wide: set[int] = set()
        """The rows that may hold half of a wide character; most never do."""
        self._pen: Style | None = None
        """The style that the last update has left the terminal in; None: unknown."""

    def forget(self) -> None:
        """Treat every cell and the terminal's style as unknown: the next update is sent whole."""
        self._rows = []
        self._wide.clear()
        self._pen = None

    def sparing(self, update: Any, columns: int, rows: int) -> Any:
        """Return an update that sends only what differs on a terminal of this size; None if nothing does."""
        pieces = _pieces_of(update)
        if pieces is None:
            if update is not None:
                self.forget()
            return update
        if (self._columns, len(self._rows)) != (columns, rows):
            self.forget()
            self._columns, self._rows = columns, [[None] * columns for _ in range(rows)]
        changed = self._changed_rows(pieces)
        differing = [piece for y, row in changed.items() for piece in _differing(y, self._rows[y], row, self._wide)]
        return _Difference(self, changed, PartialUpdate(differing, columns, self._erases)) if differing else None

    def _changed_rows(self, pieces: Sequence[Piece]) -> dict[int, Row]:
        """Return the rows that the pieces are part of, as they will be."""
        rows: dict[int, Row] = {}
        for x, y, cells in pieces:
            if not 0 <= y < len(self._rows):
                continue
            row = rows.get(y)
            if row is None:
                row = rows[y] = list(self._rows[y])
            expanded, is_wide = _expanded(cells)
            if is_wide:
                self._wide.add(y)
            first = max(0, -x)
            room = self._columns - x
            row[x + first : x + min(len(expanded), room)] = expanded[first:room]
        return rows

    def send(self, rows: dict[int, Row], update: PartialUpdate, console: Console) -> str:
        """Return what to write for an update, and record these rows as shown.

        The terminal keeps its style until the next update. The cursor's place is sent again: typed echoes move it.
        """
        for y, row in rows.items():
            if y < len(self._rows):
                self._rows[y] = row
        written, self._pen = update.render(console, self._pen)
        return written


class _Difference(CompositorUpdate):
    """An update of the cells that differ; they count as shown once they are rendered."""

    def __init__(self, shown: ShownCells, rows: dict[int, Row], update: PartialUpdate) -> None:
        self._shown = shown
        self._rows = rows
        self._update = update

    def render_segments(self, console: Console) -> str:
        """Return the escape sequences and text to write to the terminal."""
        return self._shown.send(self._rows, self._update, console)


def _pieces_of(update: Any) -> list[Piece] | None:
    """Return the cells of an update; None for an unknown kind of update."""
    if isinstance(update, PartialUpdate):
        return list(update.pieces)
    if type(update) is ChopsUpdate:
        return cut_pieces(update)
    if type(update) is LayoutUpdate:
        region = update.region
        return [
            Piece(region.x, y, [cell for strip in strips if strip is not None for cell in _texts(strip)])
            for y, strips in enumerate(update.strips, region.y)
        ]
    return None


@lru_cache(maxsize=1024)
def blank_of(style: Style) -> Style:
    """Return the style of a blank that looks like one of this style: the color of text does not show in it."""
    return style if shows_in_blank(style) else Style(bgcolor=style.bgcolor)


CELLS_SHARED = 512
"""Cells of one style that are kept: names may contain any character."""


class _Cells(dict[str, tuple[str, Style]]):
    """The cells of one style by their character. Rows share them: a screen has thousands of cells, and few that differ."""

    def __init__(self, style: Style) -> None:
        super().__init__()
        self._style = style

    def __missing__(self, character: str) -> tuple[str, Style]:
        if len(self) >= CELLS_SHARED:
            self.clear()
        cell = self[character] = (character, blank_of(self._style) if character == " " else self._style)
        return cell


cells_of = lru_cache(maxsize=128)(_Cells)
TEXTS_KEPT = 512
"""Texts whose cells are kept: of a row that is painted again, most did not change."""


@lru_cache(maxsize=TEXTS_KEPT)
def _cells_of_text(text: str, style: Style) -> Row | None:
    """Return one entry per character; None if one takes more or less than one cell."""
    if not text.isascii() and cell_len(text) != len(text):
        return None
    shared = cells_of(style)
    return [shared[character] for character in text]


def _texts(segments: Iterable[Segment]) -> list[tuple[str, Style]]:
    return [(text, style or _PLAIN) for text, style, control in segments if not control]


def _expanded(cells: Cells) -> tuple[Row, bool]:
    """Return one entry per cell, and whether a character takes more or less than one."""
    found: Row = []
    is_wide = False
    for text, style in cells:
        known = _cells_of_text(text, style)
        if known is not None:
            found += known
            continue
        is_wide = True
        for character in text:
            width = get_character_cell_size(character)
            if width == 0 and found and (last := found[-1]) is not None:
                found[-1] = (last[0] + character, last[1])
            else:
                found += [(character, style), *([("", style)] * (width - 1))]
    return found, is_wide


def _differing(y: int, before: Row, after: Row, wide: Collection[int]) -> list[Piece]:
    """Return the cells of a row that must be sent, those next to one another together."""
    # Most are the same object, and comparing two styles takes long.
    differs = [x for x, (old, new) in enumerate(zip(before, after, strict=True)) if old is not new and old != new]
    if not differs:
        return []
    if y in wide and any(cell is not None and cell[0] == "" for row in (before, after) for cell in row):
        # Half of a wide character cannot be replaced: what lies between the changes is sent as well.
        start, end = differs[0], differs[-1] + 1
        while start > 0 and any((cell := row[start]) is not None and cell[0] == "" for row in (before, after)):
            start -= 1
        while end < len(after) and any((cell := row[end]) is not None and cell[0] == "" for row in (before, after)):
            end += 1
        return [*_pieces(y, after, start, end)]
    runs: list[tuple[int, int]] = []
    for x in differs:
        if runs and _bridged(after, runs[-1][1], x):
            runs[-1] = (runs[-1][0], x + 1)
        else:
            runs.append((x, x + 1))
    return [piece for start, end in runs for piece in _pieces(y, after, start, end)]


def _bridged(row: Row, start: int, end: int) -> bool:
    """Return whether the cells between two changes are few, and can be sent in the style of those on both sides."""
    if start == end:
        return True  # when a screen opens, nearly all
    if end - start > BRIDGED_CELLS:
        return False
    cells = [cell for cell in row[start - 1 : end + 1] if cell is not None]
    if len(cells) != end + 2 - start:
        return False
    return len({style for text, style in cells if text != " "}) <= 1 and len({blank_of(style) for _, style in cells}) == 1


def _pieces(y: int, row: Row, start: int, end: int) -> Iterable[Piece]:
    """Return the cells [start, end) that are known, each stretch of them as one piece.

    Blanks take the style of the text before them, else after them, if they look the same in it: one more style is one more
    sequence, and one more move of the cursor.
    """
    at, cells = start, list[tuple[str, Style]]()
    texts: list[str] = []
    held = _PLAIN
    only_blanks = True
    for x in range(start, end):
        cell = row[x]
        if cell is None:
            if texts:
                yield Piece(at, y, [*cells, ("".join(texts), held)])
            at, cells, texts, only_blanks = x + 1, [], [], True
            continue
        text, style = cell
        if texts and style is not held and style != held:
            if text == " " and blank_of(held) == style:
                style = held
            elif not (only_blanks and blank_of(style) == held):
                cells.append(("".join(texts), held))
                texts, only_blanks = [], True
        held = style
        only_blanks = only_blanks and text == " "
        texts.append(text)
    if texts:
        yield Piece(at, y, [*cells, ("".join(texts), held)])
