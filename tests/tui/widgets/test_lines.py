"""The widget of lines: what it repaints, how it scrolls, what it looks like in each theme."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from rich.color import Color
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.screen import Screen

from gputop.settings.values import THEMES as CHOICES
from gputop.tui.drawing.line import STYLES, Line, line
from gputop.tui.start import guess_theme
from gputop.tui.terminal.compositor import SparingCompositor
from gputop.tui.terminal.palette import DARK_BACKGROUND, LIGHT_BACKGROUND, PALETTES, THEMES, palette, theme_name
from gputop.tui.terminal.partial_update import PartialUpdate
from gputop.tui.terminal.private_textual import install_compositor
from gputop.tui.terminal.shown import ShownCells
from gputop.tui.widgets.lines import LinesWidget
from gputop.tui.widgets.pane import Pane


class Watched(LinesWidget):
    """Remembers what it asked to be repainted."""

    def __init__(self, lines: Sequence[Line] = ()) -> None:
        super().__init__(lines, can_focus=True)
        self.painted: list[Region] = []

    def refresh(self, *regions: Region, **options: object) -> Watched:
        self.painted.extend(regions)
        super().refresh(*regions, **options)  # type: ignore[arg-type]
        return self


class LinesApp(App[None]):
    def __init__(self, widget: LinesWidget, theme: str = "gputop-dark") -> None:
        super().__init__()
        self.widget, self.wanted = widget, theme
        self.moved: list[int] = []
        self.clicked: list[tuple[int, int]] = []

    def compose(self) -> ComposeResult:
        yield self.widget

    def on_mount(self) -> None:
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = self.wanted
        self.widget.focus()

    def on_lines_widget_cursor_moved(self, event: LinesWidget.CursorMoved) -> None:
        self.moved.append(event.index)

    def on_lines_widget_line_clicked(self, event: LinesWidget.LineClicked) -> None:
        self.clicked.append((event.index, event.column))

    def text(self) -> list[str]:
        return ["".join(segment.text for segment in strip).rstrip() for strip in self.screen._compositor.render_strips()]


def numbered(count: int) -> list[Line]:
    return [line(f"line {number}") for number in range(count)]


async def test_only_what_changed_is_painted_again() -> None:
    widget = Watched(numbered(5))
    async with LinesApp(widget).run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        widget.painted.clear()
        widget.set_lines(numbered(5))
        assert widget.painted == []
        widget.set_lines([*numbered(3), line("line X"), line("line 4")])
        assert widget.painted == [Region(0, 3, 40, 1)]
        await pilot.pause()
        assert pilot.app.text()[:5] == ["line 0", "line 1", "line 2", "line X", "line 4"]  # type: ignore[attr-defined]


async def test_keys_and_wheel_scroll_within_the_lines() -> None:
    widget = LinesWidget(numbered(30), can_focus=True)
    app = LinesApp(widget)
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.press("down", "down")
        await pilot.pause()
        assert app.text()[0] == "line 2"
        await pilot.press("end")
        await pilot.pause()
        assert app.text()[-1] == "line 29"
        await pilot.press("pagedown")
        await pilot.press("pageup")
        await pilot.pause()
        assert app.text()[0] == "line 11"
        await pilot.press("home", "up")
        await pilot.pause()
        assert app.text()[0] == "line 0"
        widget.scroll_lines(3)
        await pilot.pause()
        assert app.text()[0] == "line 3"


async def test_cursor_moves_and_stays_in_sight() -> None:
    widget = LinesWidget(can_focus=True)
    app = LinesApp(widget)
    async with app.run_test(size=(40, 10)) as pilot:
        widget.set_lines(numbered(30), cursor=25)
        await pilot.pause()
        assert "line 25" in app.text()
        await pilot.press("up", "home", "up", "down")
        await pilot.pause()
        assert app.moved == [24, 0, 1]
        assert app.text()[0] == "line 0"
        assert widget.cursor == 1


async def test_a_click_reports_line_and_column() -> None:
    pane = Pane("Title", "1")
    app = LinesApp(pane)
    async with app.run_test(size=(40, 10)) as pilot:
        pane.set_content(numbered(30))
        await pilot.click(pane, offset=(5, 3))
        await pilot.click(pane, offset=(5, 0))
        await pilot.pause()
        assert app.clicked == [(2, 3)]


async def test_pane_draws_frame_title_and_position() -> None:
    pane = Pane("GPUs", "1")
    app = LinesApp(pane)
    async with app.run_test(size=(30, 5)) as pilot:
        pane.set_content(numbered(9), subtitle=line("by GPU"), footer=line("note"))
        await pilot.pause()
        assert app.text() == [
            "╭▸1 GPUs ─────────── by GPU ─╮",
            "│ line 0                     │",
            "│ line 1                     │",
            "│ line 2                     │",
            "╰─ note ────────── 1-3 of 9 ─╯",
        ]
        pane.ascii = True
        pane.set_content(numbered(2))
        await pilot.pause()
        assert app.text()[0] == "+>1 GPUs --------------------+"
        assert app.text()[-1] == "+----------------------------+"


async def test_an_empty_pane_says_something() -> None:
    pane = Pane("GPUs")
    app = LinesApp(pane)
    async with app.run_test(size=(30, 5)) as pilot:
        pane.set_content([])
        await pilot.pause()
        assert "Nothing to show yet." in app.text()[1]


async def test_new_size_and_new_lines_are_painted() -> None:
    pane = Pane("GPUs")
    app = LinesApp(pane)
    async with app.run_test(size=(30, 5)) as pilot:
        pane.set_content(numbered(9))
        await pilot.resize_terminal(40, 8)
        await pilot.pause()
        assert app.text()[-1].endswith("1-6 of 9 ─╯")
        assert all(len(row) == 40 for row in app.text())


def test_every_look_knows_every_style() -> None:
    for name, styles in PALETTES.items():
        assert set(styles) == set(STYLES), name
    assert palette("light", color=False) is PALETTES["mono"]
    assert theme_name("auto") == "gputop-dark"
    assert theme_name("light") == "gputop-light"
    assert theme_name("dark", color=False) == "gputop-mono"


def test_mono_has_no_color() -> None:
    assert all(style.color is None and style.bgcolor is None for style in PALETTES["mono"].values())


def test_the_looks_are_those_that_can_be_chosen() -> None:
    assert set(PALETTES) == {*CHOICES} - {"auto"}
    assert {theme.name for theme in THEMES} == {f"gputop-{look}" for look in PALETTES}


@pytest.mark.parametrize(
    ("environment", "look"),
    [
        ({"TERM": "vt100"}, "mono"),
        ({"TERM": "vt100", "COLORTERM": "truecolor"}, "dark"),
        ({"TERM": "vt220", "COLORFGBG": "0;15"}, "mono"),
        ({"TERM": "xterm", "COLORFGBG": "0;15"}, "light"),
        ({"TERM": "linux"}, "ansi"),
        ({"TERM": "xterm-256color"}, "dark"),
    ],
)
def test_the_terminal_decides_what_auto_means(environment: dict[str, str], look: str) -> None:
    assert guess_theme(environment) == look


def test_colorblind_distinguishes_states_without_red_and_green() -> None:
    """Blue and orange differ in their blue part, which those who confuse red with green still see."""
    styles = PALETTES["colorblind"]
    good, warn, bad = (styles[role].color for role in ("ok", "warn", "bad"))
    assert good is not None
    assert warn is not None
    assert bad is not None
    good_rgb, *others = (color.triplet for color in (good, warn, bad))
    assert good_rgb is not None
    for rgb in others:
        assert rgb is not None
        assert good_rgb.blue - rgb.blue > 100
        assert rgb.red - good_rgb.red > 100


def luminance(color: Color) -> float:
    assert color.triplet is not None
    parts = [value / 255 for value in color.triplet]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


NO_TEXT = {"track", "band", "memory", "other", "work0", "work1", "work2", "work3"}
"""Styles of bars and surfaces."""


@pytest.mark.parametrize(
    ("look", "background"), [("dark", DARK_BACKGROUND), ("light", LIGHT_BACKGROUND), ("colorblind", DARK_BACKGROUND)]
)
def test_text_can_be_read(look: str, background: str) -> None:
    """WCAG 2.1 asks for a contrast of 4.5 for text; the cursor's line must hold it as well."""
    styles = PALETTES[look]
    for under in (Color.parse(background), styles["cursor"].bgcolor):
        assert under is not None
        for name in STYLES:
            color = styles[name].color
            if color is None or name in NO_TEXT:
                continue
            light, dark = sorted((luminance(color), luminance(under)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (look, name, under)


async def test_changed_cells_alone_go_to_the_terminal() -> None:
    """The update starts at the changed cell and repeats no style; a terminal that applies it shows the new line."""
    import pyte

    class SparingScreen(Screen[None]):
        def __init__(self) -> None:
            super().__init__()
            install_compositor(self)

        def compose(self) -> ComposeResult:
            yield LinesWidget([line(("memory 71.2/80 GiB ", "text"), ("日本 98%", "value"))])

    class SparingApp(App[None]):
        def on_mount(self) -> None:
            for theme in THEMES:
                self.register_theme(theme)
            self.theme = "gputop-dark"
            self.push_screen(SparingScreen())

    app = SparingApp()
    async with app.run_test(size=(40, 3)) as pilot:
        await pilot.pause()
        compositor = app.screen._compositor
        assert isinstance(compositor, SparingCompositor)
        terminal, shown = pyte.Screen(40, 3), ShownCells()
        stream = pyte.Stream(terminal)
        stream.feed(shown.sparing(compositor.render_update(full=True), 40, 3).render_segments(app.console))
        widget = app.screen.query_one(LinesWidget)
        updates: list[str] = []
        original = compositor.render_partial_update

        def spy() -> object:
            update = original()
            if isinstance(update, PartialUpdate):
                updates.append(shown.sparing(update, 40, 3).render_segments(app.console))
            return update

        compositor.render_partial_update = spy  # type: ignore[method-assign,assignment]
        widget.set_lines([line(("memory 71.3/80 GiB ", "text"), ("日月 97%", "value"))])
        await pilot.pause()
        (sent,) = updates
        assert "\x1b[1;11H" in sent
        assert "memory" not in sent
        stream.feed(sent)
        assert terminal.display[0].replace(" ", "").startswith("memory71.3/80GiB日月97%")
