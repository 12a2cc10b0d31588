"""A newcomer who knows no key finds the way by what is on the screen: its last line, the titles of panes, and the palette."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot

from gputop import places
from gputop.settings.values import Settings
from gputop.tui.app import GputopApp
from tests import samples
from tests.tui.kit import StillFeed, text_of
from tests.tui.test_screenshot import told

SIZES = ((80, 24), (160, 50))
SENT = {"Enter": "enter", "Esc": "escape", "Space": "space", " ": "space", ":": "colon", "/": "slash", "?": "question_mark"}
NAMED_IN_TITLE = re.compile(r"[─▸] (\d) (\w+)")
NAMED = re.compile(r"(\S+(?: -)?) (.+)")

at_both_sizes = pytest.mark.parametrize("size", SIZES, ids=["80x24", "160x50"])


class Newcomer:
    """Presses only what the screen names."""

    def __init__(self, pilot: Pilot[None], app: GputopApp) -> None:
        self.pilot, self.app = pilot, app
        self.digits: dict[str, str] = {}

    def sees(self) -> str:
        return text_of(self.app)

    def offered(self) -> dict[str, str]:
        """What the last line, and the title of the pane with the focus, name: what it does -> its key."""
        rows = self.sees().splitlines()
        titles = [re.split("─ ", row.rstrip(" ─"))[-1] for row in rows if row.startswith("▸")]
        parts = (part for named in (*titles, rows[-1].strip()) for part in re.split(r" {2,}", named))
        found = (NAMED.fullmatch(part) for part in parts)
        return {match[2]: match[1].split()[0] for match in found if match is not None}

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(SENT.get(key, key))
        await self.pilot.pause()

    async def takes(self, what: str) -> None:
        """Press the key that is named for this."""
        offered = self.offered()
        assert what in offered, (what, offered)
        await self.press(offered[what])

    async def goes_to(self, pane: str) -> None:
        """Press the digit that was in a pane's title; the last line names it for a pane that was not visible."""
        self.digits |= {name: digit for digit, name in NAMED_IN_TITLE.findall(self.sees())}
        if pane in self.digits:
            await self.press(self.digits[pane])
        else:
            await self.takes(pane.lower())

    async def looks_up(self, words: str) -> str:
        """Search the palette for these words; return the first key that it names for them."""
        await self.takes("actions")
        assert "type to search" in self.sees()
        await self.press(*words)
        found = [match[1] for row in self.sees().splitlines() if (match := re.search(rf"│ ([^\s│]+) {{2,}}[^│]*{words}", row))]
        assert found, self.sees()
        await self.press("Esc")
        return found[0]


@asynccontextmanager
async def newcomer(size: tuple[int, int]) -> AsyncIterator[Newcomer]:
    """Start gputop beside four ranks that have shared one GPU for fifteen seconds, and nothing else."""
    feed: Any = StillFeed(*(samples.ranks_on_one_gpu(second) for second in range(15)))
    app = GputopApp(feed, Settings())
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        yield Newcomer(pilot, app)


@at_both_sizes
async def test_the_list_of_runs(size: tuple[int, int]) -> None:
    async with newcomer(size) as someone:
        await someone.takes("runs")
        assert re.search(r"▸ Runs ─.*\n.*NAME.*\n.*resnet18-ddp", someone.sees())


@at_both_sizes
async def test_the_details_of_a_gpu(size: tuple[int, int]) -> None:
    async with newcomer(size) as someone:
        await someone.goes_to("GPUs")
        await someone.takes("details")
        assert someone.sees().startswith(" gputop › GPU 0")
        await someone.takes("back")
        await someone.goes_to("GPUs")
        assert "› GPU" not in someone.sees()


@at_both_sizes
async def test_the_filter(size: tuple[int, int]) -> None:
    async with newcomer(size) as someone:
        if "filter" not in someone.offered():
            await someone.goes_to("Processes")
        await someone.takes("filter")
        await someone.press(*"rank:2", "Enter")
        assert "Processes · 1 of 4  /rank:2" in someone.sees()
        assert "4002" in someone.sees()


@at_both_sizes
async def test_the_palette(size: tuple[int, int]) -> None:
    async with newcomer(size) as someone:
        assert await someone.looks_up("doctor") == "d"


@pytest.mark.parametrize(("word", "key"), [("picture", "S"), ("screenshot", "S"), ("kill", "k"), ("theme", "F2"), ("fix", "d")])
async def test_the_palette_knows_what_others_call_it(word: str, key: str) -> None:
    async with newcomer((160, 50)) as someone:
        assert await someone.looks_up(word) == key


@at_both_sizes
async def test_zooming(size: tuple[int, int]) -> None:
    async with newcomer(size) as someone:
        await someone.takes("runs")
        if "zoom" not in someone.offered():
            await someone.takes("charts")
        # Without the first line, which says that the stream is stale once the test takes long.
        whole = someone.sees().splitlines()[1:]
        await someone.takes("zoom")
        assert someone.sees().splitlines()[1:] != whole
        await someone.takes("whole")
        assert someone.sees().splitlines()[1:] == whole


@at_both_sizes
async def test_the_copy_of_the_fix(size: tuple[int, int]) -> None:
    async with newcomer(size) as someone:
        assert "fix: " in someone.sees()
        await someone.goes_to("Doctor")
        await someone.takes("copy the fix")
        assert "set_device" in someone.app.clipboard
        await someone.goes_to("GPUs")
        await someone.takes("copy UUID")
        assert someone.app.clipboard.startswith("GPU-")
        await someone.goes_to("Doctor")
        await someone.takes("doctor" if "doctor" in someone.offered() else "full report")
        await someone.takes("copy its fix")  # the doctor's own words; the notices cover the name of the screen
        assert "set_device" in someone.app.clipboard


@at_both_sizes
async def test_a_picture_of_the_screen(size: tuple[int, int]) -> None:
    async with newcomer(size) as someone:
        if "picture" in someone.offered():
            await someone.takes("picture")
        else:
            await someone.press(await someone.looks_up("SVG"))
        assert str(places.state_dir()) in await told(someone.pilot, "Saved")
        assert len(list((places.state_dir() / "screenshots").glob("*.svg"))) == 1


@pytest.mark.parametrize(("pane", "opened"), [("GPUs", "› GPU 0"), ("Training", "› run"), ("Doctor", "› doctor")])
async def test_a_click_on_details_opens_those_of_the_focused_pane(pane: str, opened: str) -> None:
    async with newcomer((160, 50)) as someone:
        await someone.goes_to(pane)
        row = someone.sees().splitlines()[-1]
        await someone.pilot.click(offset=(row.index("details"), 49))
        await someone.pilot.pause()
        assert opened in someone.sees().splitlines()[0]


@pytest.mark.parametrize(
    ("words", "opened"), [(" 98% ", "› GPU 0"), ("loss 0.446 ±", "› run"), ("fix: local_rank", "› doctor")]
)
@at_both_sizes
async def test_a_click_opens_what_it_points_at(size: tuple[int, int], words: str, opened: str) -> None:
    async with newcomer(size) as someone:
        rows = someone.sees().splitlines()
        place = next(place for place, row in enumerate(rows) if words in row)
        await someone.pilot.click(offset=(rows[place].index(words) + 1, place))
        await someone.pilot.pause()
        assert opened in someone.sees().splitlines()[0]
