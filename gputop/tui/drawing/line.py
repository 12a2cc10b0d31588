"""The unit of drawing: a line is a tuple of spans, a span is text and the name of a style.

Drawing functions are pure and know no colors: a style name says what the text *means*; ``tui/widgets/lines.py`` maps names to
terminal styles for the theme (16 colors, light, NO_COLOR). Data never contains markup. Widths are terminal cells, counted as
Textual counts them (``rich.cells``): a wide character takes two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

STYLES = (
    "text",  # plain
    "dim",  # less important: units, separators, N/A
    "title",  # a pane's title
    "key",  # a key to press
    "value",  # a number that matters
    "ok",  # state: good
    "warn",  # state: needs attention
    "bad",  # state: broken
    "accent",  # the selected or involved thing
    "bar",  # filled part of a bar
    "track",  # empty part of a bar
    "work0", "work1", "work2", "work3",  # from little work to much
    "owner",  # owners: which rank
    "memory",  # memory of the chosen run
    "other",  # memory of others
    "chip",  # reverses the style that follows: a label on the color of its state
    "band",  # the range around a curve; a background, so that the curve's own style may follow
    "cursor",  # the line under the cursor
    "rank0", "rank1", "rank2", "rank3", "rank4", "rank5", "rank6", "rank7",  # series that must be distinguishable
)  # fmt: skip


class Span(NamedTuple):
    """A piece of a line: its text (no control characters) and a name from ``STYLES``."""

    text: str
    style: str = "text"


Line = tuple[Span, ...]


ELLIPSIS = "…"
ASCII_ELLIPSIS = "~"
"""One cell, so that widths are the same in both character sets."""

MARKS_MAX = 4
"""Combining marks per character: no script uses more."""
_PLAIN = re.compile(r"[\0-\u02ff\u2010-\u2027\u2190-\u25ff]+")
"""Characters without combining marks and variation selectors: those that gputop draws with, and Latin letters."""
_CLEANED = {"Zs": " ", **dict.fromkeys(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"), "?")}


def line(*parts: str | Span | tuple[str, str]) -> Line:
    """Return a line of plain strings, (text, style) pairs and spans; empty parts are left out."""
    spans = (Span(part) if isinstance(part, str) else Span(*part) for part in parts)
    return tuple(span for span in spans if span.text)


def text_width(text: str) -> int:
    """Return how many cells ``text`` takes on a terminal."""
    return len(text) if text.isascii() else cell_len(text)


def width(of: Line) -> int:
    """Return how many cells a line takes."""
    return sum([len(text) if text.isascii() else cell_len(text) for text, _ in of])


def plain(of: Line) -> str:
    """Return a line's text without styles."""
    return "".join(span.text for span in of)


def clean(text: str) -> str:
    """Return ``text`` made safe for a terminal: control, format and unassigned characters become "?".

    Such characters could move the cursor. Only the first few combining marks of a character stay: a thousand of them take no
    cell, but spill over the line and its neighbors. Variation selectors are removed, because terminals disagree on how wide
    they make a character.
    """
    if text.isprintable() and (text.isascii() or _PLAIN.fullmatch(text)):
        return text
    kept: list[str] = []
    marks = 0
    for char in text:
        category = _category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if marks > MARKS_MAX or "\ufe00" <= char <= "\ufe0f":
            continue
        kept.append(_CLEANED.get(category, char))
    return "".join(kept)


def _category(char: str) -> str:
    """Return the category of a character in Unicode's table, which takes a megabyte and is loaded for few texts only."""
    if _PLAIN.match(char) and char.isprintable():
        return "plain"
    if char.isascii():
        return "Cc"
    import unicodedata

    return unicodedata.category(char)


def clean_row(row: Line, cells: int) -> Line:
    """Return a row that is safe for the terminal; one that is not ``clean`` is cleaned and fitted to ``cells`` again.

    No widget shows the raw contents of a name. Drawing functions clean names themselves, because cleaning changes widths.
    """
    for text, _ in row:
        if not text.isprintable():
            break
    else:
        return row
    return fit(tuple(Span(clean(text), style) for text, style in row), cells)


def clip_text(text: str, cells: int, ellipsis: str = ELLIPSIS) -> str:
    """Return ``text`` in at most ``cells`` cells; if it is cut, the last one is the ellipsis."""
    if text_width(text) <= cells:
        return text
    if cells <= 0:
        return ""
    if text.isascii():
        return text[: cells - 1] + ellipsis
    return set_cell_size(text, cells - 1) + ellipsis


@lru_cache(maxsize=1024)
def fit_text(text: str, cells: int, align: str = "<", ellipsis: str = ELLIPSIS) -> str:
    """Return ``text`` in exactly ``cells`` cells, cut or padded; ``align`` is "<", ">" or "^".

    Cached, because most cells of a table do not change from tick to tick.
    """
    shown = clip_text(text, cells, ellipsis)
    missing = max(0, cells - text_width(shown))
    if align == ">":
        return " " * missing + shown
    if align == "^":
        return " " * (missing // 2) + shown + " " * (missing - missing // 2)
    return shown + " " * missing


def clip(of: Line, cells: int, ellipsis: str = ELLIPSIS) -> Line:
    """Return a line of at most ``cells`` cells; if it is cut, the last one is the ellipsis."""
    if width(of) <= cells:
        return of
    kept: list[Span] = []
    room = cells - 1
    for span in of:
        taken = text_width(span.text)
        if taken > room:
            # A padding cell replaces half of a wide character that does not fit.
            cut = span.text[:room] if span.text.isascii() else set_cell_size(span.text, max(0, room))
            if cells > 0:
                kept.append(Span(cut + ellipsis, span.style))
            break
        kept.append(span)
        room -= taken
    return tuple(kept)


def fit(of: Line, cells: int, ellipsis: str = ELLIPSIS) -> Line:
    """Return a line of exactly ``cells`` cells, cut or padded on the right."""
    missing = cells - width(of)
    if missing < 0:
        of = clip(of, cells, ellipsis)
        missing = cells - width(of)
    return (*of, Span(" " * missing)) if missing > 0 else of


def full_row(line: Line, columns: int, under_cursor: bool) -> Line:
    """Return a line padded to its full width."""
    row = fit(line, columns)
    return tuple(Span(text, f"{style} cursor") for text, style in row) if under_cursor else row


def spread(left: Line, right: Line, cells: int) -> Line:
    """Return a line of exactly ``cells`` cells with ``right`` at its end; the left part is cut if both do not fit."""
    right = clip(right, cells)
    taken = width(right)
    if not taken:
        return fit(left, cells)
    gap = 2 if left else 0
    shown = clip(left, max(0, cells - taken - gap))
    return (*shown, Span(" " * (cells - taken - width(shown))), *right)


def wrap(text: str, cells: int, style: str = "text", indent: str = "") -> list[Line]:
    """Break ``text`` at spaces into lines of at most ``cells`` cells; lines after the first start with ``indent``."""
    lines: list[Line] = []
    current = ""
    for word in text.split():
        start = indent if lines else ""
        candidate = f"{current} {word}" if current else start + word
        if not current or text_width(candidate) <= cells:
            current = candidate
        else:
            lines.append((Span(clip_text(current, cells), style),))
            current = indent + word
    if current:
        lines.append((Span(clip_text(current, cells), style),))
    return lines


def joined(parts: Iterable[Line], separator: Span) -> Line:
    """Return the non-empty parts as one line with ``separator`` between them."""
    result: list[Span] = []
    for part in parts:
        if part:
            if result:
                result.append(separator)
            result.extend(part)
    return tuple(result)


def beside(blocks: Sequence[Sequence[Line]], cells: int, gap: int) -> list[Line]:
    """Return blocks of equally many lines side by side, each ``cells`` wide, with ``gap`` cells between them."""
    return [
        tuple(span for place, part in enumerate(parts) for span in ((Span(" " * gap),) if place else ()) + fit(part, cells))
        for parts in zip(*blocks, strict=True)
    ]


def dimmed(of: Line) -> Line:
    """Return a line with all of its text dim."""
    return tuple(Span(span.text, "dim") for span in of)


def cut(of: Line, start: int, end: int) -> Line:
    """Return the cells [start, end) of a line; a wide character on an edge belongs to the cell where it begins."""
    kept: list[Span] = []
    at = 0
    for span in of:
        first, at = at, at + text_width(span.text)
        if at <= start:
            continue
        if first >= end:
            break
        if first >= start and at <= end:
            kept.append(span)
        elif at - first == len(span.text):
            kept.append(Span(span.text[max(0, start - first) : end - first], span.style))
        else:
            kept.append(Span("".join(_cells_of(span.text)[max(0, start - first) : end - first]), span.style))
    return tuple(kept)


def _cells_of(text: str) -> list[str]:
    """Return the character of each cell, with its combining marks; "" follows a wide character."""
    cells: list[str] = []
    for char in text:
        taken = cell_len(char)
        if taken == 0 and cells:
            cells[-1] += char
        else:
            cells += (char, *([""] * (taken - 1)))
    return cells


def named_on(rule: Line, names: Line, start: int, end: int) -> Line:
    """Return a rule with those names on its cells [start, end) that fit there with a blank on both sides.

    ``names`` has one span for each name, and blank ones between them, which leave the rule as it is.
    """
    kept: list[Span] = []
    at = done = 0
    for text, style in names:
        first, at = at, at + text_width(text)
        if not text.strip() or not start < first or not at < end:
            continue
        if done < first:
            kept += cut(rule, done, first - 1) if done < first - 1 else ()
        else:  # one blank is between this name and the one before
            kept[-1] = Span(kept[-1].text[:-1], kept[-1].style)
        kept.append(Span(f" {text} ", style))
        done = at + 1
    return (*kept, *cut(rule, done, width(rule)))


class Drawing(NamedTuple):
    """The contents of one pane."""

    title: Line
    lines: Sequence[Line]
    subtitle: Line = ()
    footer: Line = ()
    heading: Line = ()
    """Names of the columns, for the rule above them: one cell each for those of ``lines``."""


_ASCII = str.maketrans(
    {
        **dict.fromkeys("·–—‒−─━╌", "-"),
        **dict.fromkeys("│┃┤├", "|"),
        **dict.fromkeys("╭╮╰╯┼┬┴┌┐└┘", "+"),
        **dict.fromkeys("×✗✘", "x"),
        **dict.fromkeys("▸▶►", ">"),
        **dict.fromkeys("◂◀◄", "<"),
        **dict.fromkeys("“”„", '"'),
        **dict.fromkeys("‘’", "'"),
        "…": ASCII_ELLIPSIS,
        "°": " ",
        "±": "~",
        "↑": "^",
        "↓": "v",
        "→": ">",
        "←": "<",
        "✓": "v",
        "•": "*",
        "▲": "^",
        "▼": "v",
        "│": "|",
        "\u00a0": " ",
    }
)


def ascii_line(of: Line) -> Line:
    """Return the line in ASCII only, each character in as many cells as before; without an equivalent it becomes "?"."""
    if all(span.text.isascii() for span in of):
        return of
    return tuple(span if span.text.isascii() else Span(_ascii_text(span.text), span.style) for span in of)


def _ascii_text(text: str) -> str:
    text = text.translate(_ASCII)
    if text.isascii():
        return text
    cells = cell_len(text)  # joined characters (a flag's two letters) take fewer cells than their sum
    shown = "".join(char if char.isascii() else "?" * cell_len(char) for char in text)
    return shown[:cells].ljust(cells, "?")
