"""What the dashboard sends each second shows the same as repainting everything, in characters and in colors."""

from __future__ import annotations

import io
import random
from collections.abc import Iterable, Iterator

import pyte
import pytest
from rich.style import Style
from textual.app import App, ComposeResult
from textual.color import Color
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Static

from gputop.tui.drawing.line import STYLES, Line, cut, line
from gputop.tui.start import write_fully
from gputop.tui.terminal.compositor import SparingCompositor
from gputop.tui.terminal.painting import Look, styles_of
from gputop.tui.terminal.palette import PALETTES, THEMES
from gputop.tui.terminal.partial_update import PartialUpdate, Piece
from gputop.tui.terminal.private_textual import install_compositor
from gputop.tui.widgets.pane import Pane

COLUMNS, ROWS = 60, 12
WORDS = ("98%", "71.2 GiB", "日本", "▇▆█", "no process", "a longer text of one style", "é")


class TwoPanes(Screen[None]):
    CSS = "TwoPanes { layers: base over; } #note { layer: over; width: 9; height: 2; offset: 26 3; }"

    def __init__(self, covered: bool) -> None:
        super().__init__()
        install_compositor(self)
        self.covered = covered

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Pane("left")
            yield Pane("right")
        if self.covered:
            yield Static("a note", id="note")


class PanesApp(App[None]):
    def __init__(self, theme: str, covered: bool) -> None:
        super().__init__()
        self.wanted, self.covered = theme, covered

    def on_mount(self) -> None:
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = self.wanted
        self.push_screen(TwoPanes(self.covered))


def some_lines(luck: random.Random) -> Iterator[Line]:
    for _ in range(8):
        yield line(*((luck.choice(WORDS) + " ", luck.choice(STYLES)) for _ in range(4)))


def cells(terminal: pyte.Screen) -> list[list[tuple[object, ...]]]:

    return [[tuple(terminal.buffer[y][x])[:8] for x in range(COLUMNS)] for y in range(ROWS)]


@pytest.mark.parametrize("covered", [False, True])
@pytest.mark.parametrize("theme", ["gputop-dark", "gputop-light", "gputop-colorblind", "gputop-ansi", "gputop-mono"])
async def test_changes_add_up_to_the_whole_screen(theme: str, covered: bool) -> None:
    luck = random.Random(7)
    app = PanesApp(theme, covered)
    async with app.run_test(size=(COLUMNS, ROWS)) as pilot:
        await pilot.pause()
        compositor = app.screen._compositor
        assert isinstance(compositor, SparingCompositor)
        painted: list[bool] = []

        def whole() -> str:
            return "\x1b[H" + compositor.render_full_update().render_segments(app.console)

        kept = pyte.Screen(COLUMNS, ROWS)
        stream = pyte.Stream(kept)
        stream.feed(whole())
        original, ask = compositor.render_partial_update, compositor._painted_pieces

        def spy() -> object:
            update = original()
            if isinstance(update, PartialUpdate):
                stream.feed(update.render_segments(app.console))
            return update

        def asked(spans: Iterable[tuple[int, int, int]]) -> list[Piece] | None:
            pieces = ask(spans)
            painted.append(pieces is not None)
            return pieces

        compositor.render_partial_update = spy  # type: ignore[method-assign,assignment]
        compositor._painted_pieces = asked  # type: ignore[method-assign]
        for _ in range(12):
            for pane in app.screen.query(Pane):
                lines = list(some_lines(luck))
                pane.set_content(lines, title=lines[0], cursor=luck.choice((None, 1, 2)))
            await pilot.pause()
            anew = pyte.Screen(COLUMNS, ROWS)
            pyte.Stream(anew).feed(whole())
            assert cells(kept) == cells(anew)
        assert painted
        assert all(painted) or covered


@pytest.mark.parametrize("covered", [False, True])
@pytest.mark.parametrize("theme", ["gputop-dark", "gputop-ansi", "gputop-mono"])
async def test_a_whole_screen_is_painted_as_textual_renders_it(theme: str, covered: bool) -> None:
    luck = random.Random(8)
    app = PanesApp(theme, covered)
    async with app.run_test(size=(COLUMNS, ROWS)) as pilot:
        await pilot.pause()
        compositor = app.screen._compositor
        for pane in app.screen.query(Pane):
            pane.set_content(list(some_lines(luck)), cursor=2)
        await pilot.resize_terminal(COLUMNS, ROWS - 1)
        await pilot.resize_terminal(COLUMNS, ROWS)
        await pilot.pause()
        compositor._dirty_regions.add(compositor.size.region)
        update = compositor.render_update(screen_stack=[])
        assert isinstance(update, PartialUpdate) is not covered
        shown, anew = pyte.Screen(COLUMNS, ROWS), pyte.Screen(COLUMNS, ROWS)
        pyte.Stream(shown).feed("\x1b[H" + update.render_segments(app.console))
        pyte.Stream(anew).feed("\x1b[H" + compositor.render_full_update().render_segments(app.console))
        assert cells(shown) == cells(anew)


def test_a_cut_line_keeps_its_styles_and_whole_characters() -> None:
    whole = line(("abc", "value"), ("日本x", "dim"), ("▇▆█", "bar"))
    assert cut(whole, 1, 3) == line(("bc", "value"))
    assert cut(whole, 2, 5) == line(("c", "value"), ("日", "dim"))
    assert cut(whole, 5, 9) == line(("本x", "dim"), ("▇", "bar"))
    assert cut(whole, 0, 11) == whole
    assert cut(whole, 3, 3) == ()


class SlowTerminal(io.RawIOBase):
    """Takes seven bytes per call, like a terminal whose reader is behind."""

    def __init__(self) -> None:
        self.taken = b""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        some = bytes(data)[:7]  # type: ignore[call-overload]
        self.taken += some
        return len(some)


def test_an_unbuffered_standard_error_loses_nothing() -> None:
    terminal = SlowTerminal()
    unbuffered = io.TextIOWrapper(terminal, encoding="utf-8", write_through=True)  # type: ignore[type-var]
    stream = write_fully(unbuffered)
    assert stream is not None
    stream.write("a whole frame of the screen")
    stream.flush()
    assert terminal.taken == b"a whole frame of the screen"
    usual = io.TextIOWrapper(io.BytesIO())
    assert write_fully(usual) is usual
    assert write_fully(None) is None


@pytest.mark.parametrize("role", ["accent", "rank0", "rank7"])
def test_a_curve_takes_only_the_background_of_its_band(role: str) -> None:
    plain = styles_of(Look("mono", Style.null(), Color.parse("black")))
    assert plain["band"].dim
    assert plain[f"band {role}"] == plain[role]
    colored = styles_of(Look("dark", Style.null(), Color.parse("black")))[f"band {role}"]
    assert (colored.color, colored.bgcolor) == (PALETTES["dark"][role].color, PALETTES["dark"]["band"].bgcolor)
