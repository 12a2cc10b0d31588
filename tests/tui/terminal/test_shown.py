"""What is sent adds up to what the screen should show, and what the terminal shows already is not sent again."""

from __future__ import annotations

import random

import pyte
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from gputop.tui.terminal.partial_update import PartialUpdate, Piece, erases_in_color
from gputop.tui.terminal.shown import CELLS_SHARED, ShownCells, cells_of

COLUMNS, ROWS = 24, 4
CONSOLE = Console(color_system="truecolor", width=COLUMNS, height=ROWS)
STYLES = [Style.parse(text) for text in ("red", "bold red", "green on blue", "none", "underline red", "reverse")]
WORDS = ("GPU", " 98 %", "▁▂▅█", "日本語", "  ", " " * 13, "─" * 5, "e\u0301té", "x")


class Screen:
    """A terminal, and what it should show."""

    def __init__(self, columns: int = COLUMNS, rows: int = ROWS, erases: bool = True) -> None:
        self.shown = ShownCells(erases)
        self.kept, self.wanted = pyte.Screen(columns, rows), pyte.Screen(columns, rows)
        self._kept, self._wanted = pyte.Stream(self.kept), pyte.Stream(self.wanted)

    def update(self, update: PartialUpdate | LayoutUpdate) -> str:
        """Show an update on both; return what was sent."""
        self._wanted.feed(update.render_segments(CONSOLE))
        sparing = self.shown.sparing(update, self.kept.columns, self.kept.lines)
        sent: str = sparing.render_segments(CONSOLE) if sparing is not None else ""
        self._kept.feed(sent)
        return sent

    def interrupt(self, written: str, columns: int, rows: int) -> None:
        """Another program writes to the terminal, which takes another size."""
        self._kept.feed(written)
        for terminal in (self.kept, self.wanted):
            terminal.resize(rows, columns)

    def check(self) -> None:
        assert self.kept.display == self.wanted.display
        for y in range(self.kept.lines):
            for x in range(self.kept.columns):
                assert look(self.kept.buffer[y][x]) == look(self.wanted.buffer[y][x])


def look(cell: pyte.screens.Char) -> pyte.screens.Char:
    """How a cell looks: the color and weight of its text do not show in a blank."""
    is_blank = cell.data == " " and not (cell.underscore or cell.strikethrough or cell.reverse)
    return cell._replace(fg="default", bold=False, italics=False) if is_blank else cell


def a_row(luck: random.Random, words: tuple[str, ...] = WORDS) -> list[tuple[str, Style]]:
    cells = [(luck.choice(words), luck.choice(STYLES)) for _ in range(3)]
    strip = Strip([Segment(*cell) for cell in cells]).adjust_cell_length(COLUMNS, STYLES[3])
    return [(segment.text, segment.style or Style.null()) for segment in strip]


def whole(rows: list[list[tuple[str, Style]]]) -> LayoutUpdate:
    return LayoutUpdate([[Strip([Segment(*cell) for cell in row])] for row in rows], Region(0, 0, COLUMNS, ROWS))


@pytest.mark.parametrize("seed", range(40))
def test_what_is_sent_adds_up(seed: int) -> None:
    luck = random.Random(seed)
    screen = Screen(erases=bool(seed % 2))
    rows = [a_row(luck) for _ in range(ROWS)]
    screen.update(whole(rows))
    for _ in range(12):
        if luck.random() < 0.5:
            rows = [row if luck.random() < 0.5 else a_row(luck) for row in rows]
            screen.update(whole(rows))
        else:
            y = luck.randrange(ROWS)
            rows[y] = a_row(luck)
            screen.update(PartialUpdate([Piece(0, y, rows[y])]))
        screen.check()


NARROW = ("7", "98", "100", *(word for word in WORDS if "\u0301" not in word))
"""pyte puts a combining character after the last column into the next row."""
CELLS = st.lists(st.tuples(st.sampled_from(NARROW), st.sampled_from(STYLES)), min_size=1, max_size=4)
TEXTS_OF_OTHERS = st.sampled_from(("", "\x1b[0m$ ", "\x1b[1;35;44mfor all\r\n", "\x1b[2J\x1b[H\x1b[7mprompt", "\x1b[4;9H"))


class Sequences(RuleBasedStateMachine):
    """A screen that changes in every way, on a terminal that is resized and used by others in between."""

    @initialize(erases=st.booleans())
    def begin(self, erases: bool) -> None:
        self.screen = Screen(erases=erases)
        self._fill([[("GPU", STYLES[0])]])

    def _fill(self, parts: list[list[tuple[str, Style]]]) -> None:
        columns, rows = self.screen.kept.columns, self.screen.kept.lines
        strips = [
            [Strip([Segment(*cell) for cell in parts[y % len(parts)]]).adjust_cell_length(columns, STYLES[3])]
            for y in range(rows)
        ]
        self.screen.update(LayoutUpdate(strips, Region(0, 0, columns, rows)))

    @rule(parts=st.lists(CELLS, min_size=1, max_size=ROWS))
    def another_screen(self, parts: list[list[tuple[str, Style]]]) -> None:
        self._fill(parts)

    @rule(
        changes=st.lists(
            st.tuples(
                st.integers(0, COLUMNS - 1), st.integers(0, ROWS - 1), st.sampled_from("0123456789▇ "), st.sampled_from(STYLES)
            ),
            min_size=1,
            max_size=8,
            unique_by=lambda change: change[:2],
        )
    )
    def cells_change(self, changes: list[tuple[int, int, str, Style]]) -> None:
        screen = self.screen.wanted
        pieces = [
            Piece(x, y, [(text, style)])
            for x, y, text, style in changes
            if x < screen.columns and y < screen.lines and whole_cells(screen, x, y)
        ]
        self.screen.update(PartialUpdate(pieces))

    @rule(
        written=TEXTS_OF_OTHERS,
        columns=st.integers(8, COLUMNS),
        rows=st.integers(1, ROWS),
        parts=st.lists(CELLS, min_size=1, max_size=ROWS),
    )
    def another_size_or_writer(self, written: str, columns: int, rows: int, parts: list[list[tuple[str, Style]]]) -> None:
        self.screen.interrupt(written, columns, rows)
        self.screen.shown.forget()
        self._fill(parts)

    @invariant()
    def it_shows_what_it_should(self) -> None:
        if hasattr(self, "screen"):
            self.screen.check()


def whole_cells(screen: pyte.Screen, x: int, y: int) -> bool:
    """Return whether a cell is no half of a wide character."""
    row = screen.buffer[y]
    return row[x].data != "" and (x + 1 == screen.columns or row[x + 1].data != "")


TestSequences = Sequences.TestCase
TestSequences.settings = settings(stateful_step_count=8)


def test_what_is_shown_already_is_not_sent_again() -> None:
    luck = random.Random(1)
    rows = [a_row(luck) for _ in range(ROWS)]
    screen = Screen()
    assert screen.update(whole(rows))
    assert screen.update(whole(rows)) == ""
    assert screen.update(PartialUpdate([Piece(0, 2, rows[2])])) == ""
    changed = [list(row) for row in rows]
    changed[1] = [("power 643 W".ljust(COLUMNS), STYLES[0])]
    screen.update(whole(changed))
    changed[1] = [("power 645 W".ljust(COLUMNS), STYLES[0])]
    assert screen.update(whole(changed)) == "\x1b[2;9H5", "the terminal has kept the style"
    screen.check()


def test_a_blank_is_neither_sent_for_another_color_of_text_nor_parts_two_words() -> None:
    screen = Screen()
    rows: list[list[tuple[str, Style]]] = [[(" " * COLUMNS, STYLES[3])] for _ in range(ROWS)]
    screen.update(whole(rows))
    rows[1] = [("  ", STYLES[0]), ("GPU", STYLES[1]), ("  ", STYLES[3]), ("98", STYLES[1]), (" " * 15, STYLES[0])]
    assert screen.update(whole(rows)) == "\x1b[1;31m\x1b[2;3HGPU  98"
    screen.check()


@pytest.mark.parametrize("style", ["underline", "reverse", "strike", "on blue", "link https://example.org"])
def test_a_blank_that_looks_different_is_sent(style: str) -> None:
    screen = Screen()
    rows: list[list[tuple[str, Style]]] = [[(" " * COLUMNS, STYLES[3])] for _ in range(ROWS)]
    screen.update(whole(rows))
    rows[1] = [(" " * 4, Style.parse(style)), (" " * 20, STYLES[3])]
    assert "    " in screen.update(whole(rows))
    rows[1] = [("GPU ", STYLES[0]), (" " * 4, Style.parse(style)), (" " * 16, STYLES[3])]
    screen.update(whole(rows))
    screen.check()


def test_an_update_that_is_not_rendered_does_not_count_as_shown() -> None:
    rows = [a_row(random.Random(2)) for _ in range(ROWS)]
    screen = Screen()
    assert screen.shown.sparing(whole(rows), COLUMNS, ROWS) is not None
    assert screen.update(whole(rows))
    screen.check()


def test_everything_is_sent_after_another_size_and_when_something_else_wrote() -> None:
    rows = [a_row(random.Random(3), ("GPU", "98 %")) for _ in range(ROWS)]
    shown = ShownCells()
    first = shown.sparing(whole(rows), COLUMNS, ROWS).render_segments(CONSOLE)
    assert shown.sparing(whole(rows), COLUMNS, ROWS) is None
    assert shown.sparing(whole(rows), COLUMNS + 1, ROWS).render_segments(CONSOLE) == first
    shown.forget()
    assert shown.sparing(whole(rows), COLUMNS + 1, ROWS).render_segments(CONSOLE) == first
    other = object()
    assert shown.sparing(other, COLUMNS + 1, ROWS) is other
    assert shown.sparing(whole(rows), COLUMNS + 1, ROWS).render_segments(CONSOLE) == first


def test_numbers_below_one_another_are_reached_from_one_another() -> None:
    """From row to row only where the cursor's place is sure: not after a wide character, nor at the edge."""
    style = STYLES[0]
    pieces = [
        *(Piece(10 - len(text), y, [(text, style)]) for y, text in enumerate(("7", "42", "1000"))),
        *(Piece(COLUMNS - 1, y, [("9", style)]) for y in range(3)),
        *(Piece(14, y, [("日", style), ("1", style)]) for y in range(3)),
    ]
    wanted, kept = pyte.Screen(COLUMNS, ROWS), pyte.Screen(COLUMNS, ROWS)
    whole = PartialUpdate(pieces).render_segments(CONSOLE)
    sparing = PartialUpdate(pieces, COLUMNS).render_segments(CONSOLE)
    pyte.Stream(wanted).feed(whole)
    pyte.Stream(kept).feed(sparing)
    assert kept.display == wanted.display
    assert "\x1b[1;10H7\x1bD\b\b42\x1b[3;7H1000" in sparing, "not where it takes as much"
    assert sparing.count("H") == 2 + 3 + 3
    assert len(sparing) < len(whole)


def test_every_second_column_is_sent_upward() -> None:
    """Its lowest number is nearer to the last one of the column before than its topmost is."""
    columns = (4, 10, 16)
    rows = [Piece(x, y, [(f"{x + y:2}", STYLES[0])]) for x in columns for y in range(3)]
    sent = PartialUpdate(rows, COLUMNS).render_segments(CONSOLE)
    assert sent == (
        "\x1b[31m\x1b[1;5H 4\x1bD\b\b 5\x1bD\b\b 6\x1b[4C12\x1bM\b\b11\x1bM\b\b10\x1b[4C16\x1bD\b\b17\x1bD\b\b18\x1b[0m"
    )
    kept = pyte.Screen(COLUMNS, ROWS)
    pyte.Stream(kept).feed(sent)
    assert [row.split() for row in kept.display[:3]] == [["4", "10", "16"], ["5", "11", "17"], ["6", "12", "18"]]


@pytest.mark.parametrize(
    ("style", "sent"),
    [
        ("green on blue", "ab\x1b[13X\x1b[13Ccd\x1b[12X"),
        *((f"{name} green", f"ab{' ' * 13}cd") for name in ("underline", "reverse")),
    ],
)
def test_long_blanks_are_erased_unless_they_show_more_than_their_background(style: str, sent: str) -> None:
    row = [("ab" + " " * 13 + "cd" + " " * 12, Style.parse(style))]
    screen = Screen(columns=29, rows=1)
    assert sent in screen.update(PartialUpdate([Piece(0, 0, row)]))
    screen.check()


def test_erased_cells_are_of_the_background_s_color_except_in_gnu_screen() -> None:
    assert erases_in_color({"TERM": "xterm-256color"})
    assert erases_in_color({"TERM": "tmux-256color"})
    assert erases_in_color({"TERM": "screen-256color", "TMUX": "/run/tmux/default,1,0"})
    assert not erases_in_color({"TERM": "screen.xterm-256color"})
    assert not erases_in_color({"TERM": "xterm-256color", "STY": "1.pts-0.host"})


def test_bold_is_changed_alone() -> None:
    def sent(*styles: str) -> str:
        cells = [Piece(2 * x, 0, [("x", Style.parse(text))]) for x, text in enumerate(styles)]
        return PartialUpdate(cells, COLUMNS).render_segments(CONSOLE)

    assert sent("red on blue", "bold red on blue", "green on blue") == (
        "\x1b[31;44m\x1b[1;1Hx\x1b[1m\x1b[Cx\x1b[22;32m\x1b[Cx\x1b[0m"
    )
    assert sent("dim red", "bold red") == "\x1b[1;31m\x1b[1;3Hx\x1b[0;2;31m\b\b\bx\x1b[0m", "22 ends dim as well"
    screen = pyte.Screen(COLUMNS, ROWS)
    pyte.Stream(screen).feed(sent("bold red", "red"))
    assert [screen.buffer[0][x].bold for x in (0, 2)] == [True, False]


def test_equal_cells_are_one_object_and_a_blank_has_no_color_of_text() -> None:
    bold, plain = Style.parse("bold red"), Style.parse("red")
    assert cells_of(bold)["a"] is cells_of(Style.parse("bold red"))["a"]
    assert cells_of(bold)["a"] == ("a", bold) != cells_of(plain)["a"]
    assert cells_of(bold)[" "] == cells_of(plain)[" "]


def test_however_many_characters_there_are_few_cells_are_kept() -> None:
    characters = list(map(chr, (*range(0x100, 0x250), *range(0x400, 0x480), *range(0x2500, 0x25F0), *range(0x2800, 0x2900))))
    assert len(characters) > CELLS_SHARED
    cells = cells_of(Style.parse("dim"))
    assert [cells[character][0] for character in characters] == characters
    assert len(cells) <= CELLS_SHARED
