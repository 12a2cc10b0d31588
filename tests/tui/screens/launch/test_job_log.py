"""A job's log while it is searched: a long search can be given up, and then moves nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.app import App, ComposeResult

from gputop.jobs.output import logs, search
from gputop.tui.screens.launch.hosts_log import HostsJobLog
from gputop.tui.screens.launch.log import JobLog
from gputop.tui.widgets.log_view import LINES_KEPT
from tests.patience import DEADLINE_S
from tests.tui.kit import text_of


class LogApp(App[None]):
    """Shows the log of one job, of two ranks."""

    def __init__(self, kind: type[JobLog] = JobLog) -> None:
        super().__init__()
        self.log_pane = kind(id="log")

    def compose(self) -> ComposeResult:
        yield self.log_pane

    def on_mount(self) -> None:
        self.log_pane.follow_job("a job")
        self.log_pane.focus()


class Slow:
    """A file system on which "quick" is found at once, and anything else takes very long."""

    def __init__(self) -> None:
        self.began = threading.Semaphore(0)
        self.gave_up = threading.Semaphore(0)
        self.released = threading.Event()
        self._in_piece = search._in_piece

    def in_piece(self, data: bytes, wanted: str, raw: bytes, backwards: bool) -> int | None:
        if wanted == "quick":
            return 0
        self.began.release()
        self.released.wait(0.02)
        return self._in_piece(data, wanted, raw, backwards)


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    """Two logs of 20,000 pieces each, a piece a line: an honest search of one takes minutes."""
    slow, find = Slow(), search.find

    def noted(*given: object, **named: object) -> int | None:
        offset = find(*given, **named)  # type: ignore[arg-type]
        slow.gave_up.release()
        return offset

    found = []
    for rank in range(2):
        path = tmp_path / f"rank{rank}.log"
        path.write_text("".join(f"\x1b[31mstep {number:09}\x1b[0m\n" for number in range(20_000)))
        found.append(logs.Source(f"rank {rank}", path, rank))
    monkeypatch.setattr(search, "PIECE_BYTES", 32)
    monkeypatch.setattr(search, "_in_piece", slow.in_piece)
    monkeypatch.setattr(search, "find", noted)
    monkeypatch.setattr(logs, "sources", lambda job_id: tuple(found))
    yield slow
    slow.released.set()


def has_begun(slow: Slow) -> bool:
    return slow.began.acquire(blocking=False)


async def until(pilot, what) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < deadline, text_of(pilot.app)
        await pilot.pause(0.02)


async def look_for_what_takes_long(pilot, slow: Slow) -> None:
    await pilot.press("slash", *"nowhere", "enter")
    await until(pilot, lambda: has_begun(slow))


async def test_escape_gives_a_search_up_and_says_so(slow: Slow) -> None:
    app = LogApp()
    async with app.run_test(size=(100, 30)) as pilot:
        app.log_pane.add(["the end"])
        await look_for_what_takes_long(pilot, slow)
        assert "looking for 'nowhere' … Esc cancels" in text_of(app)
        await pilot.press("escape")
        await until(pilot, lambda: slow.gave_up.acquire(blocking=False))
        await pilot.pause()
        shown = text_of(app)
        assert "the end" in shown
        assert "stopped searching for 'nowhere'" in shown
        assert "is not found" not in shown


@pytest.mark.parametrize("keys", [("r",), ("home",), ("end",), ("slash", *"quick", "enter")])
async def test_what_is_asked_next_ends_a_search(slow: Slow, keys: tuple[str, ...]) -> None:
    app = LogApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await look_for_what_takes_long(pilot, slow)
        await pilot.press(*keys)
        await until(pilot, lambda: slow.gave_up.acquire(blocking=False))
        await pilot.pause()
        assert "nowhere' is not found" not in text_of(app)
        assert "looking for" not in text_of(app)


@pytest.mark.parametrize(
    "labels",
    [
        ["launcher", "rank 0", "rank 1"],
        ["launcher", "local rank 0", "local rank 1"],
        ["slurm", "n1 local rank 0", "n2 local rank 0"],
    ],
    ids=["one machine", "a node of several", "a Slurm job"],
)
async def test_the_chosen_output_has_the_name_that_its_lines_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, labels: list[str]
) -> None:
    files = [logs.Source(label, tmp_path / label) for label in labels for _ in range(2)]
    monkeypatch.setattr(logs, "sources", lambda job_id: tuple(files))
    app = LogApp()
    async with app.run_test(size=(100, 30)) as pilot:
        said = []
        for _ in range(5):
            line = next(line for line in text_of(app).splitlines() if "/ search" in line)
            said.append((line.split("r ", 1)[1].split("  / ")[0], len(app.log_pane.sources())))
            await pilot.press("r")
            await pilot.pause()
        assert said == [("all", 6), *((label, 2) for label in labels), ("all", 6)]


async def test_another_job_ends_a_search(slow: Slow) -> None:
    app = LogApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await look_for_what_takes_long(pilot, slow)
        app.log_pane.follow_job("another job")
        await until(pilot, lambda: slow.gave_up.acquire(blocking=False))


async def test_leaving_does_not_wait_for_a_search(slow: Slow) -> None:
    app = LogApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await look_for_what_takes_long(pilot, slow)
    assert slow.gave_up.acquire(timeout=DEADLINE_S), "the program's end waits for its threads"


async def test_what_a_search_found_too_late_moves_nothing(slow: Slow, tmp_path: Path) -> None:
    app = LogApp()
    async with app.run_test(size=(100, 30)) as pilot:
        pane = app.log_pane
        pane.add(["the end"])
        await look_for_what_takes_long(pilot, slow)
        asked = pane._asked
        await pilot.press("escape")
        page = search.page(tmp_path / "rank0.log", 0, hit=0)
        pane.post_message(JobLog.Found(asked, page, logs.sources("a job")[0], 0, "'nowhere'"))
        await pilot.pause()
        assert "the end" in text_of(app)
        assert "step 000000001" not in text_of(app)


async def test_what_is_written_during_a_page_of_the_past_takes_no_room(slow: Slow) -> None:
    app = LogApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("slash", *"quick", "enter")
        await until(pilot, lambda: "step 000019990" in text_of(app))
        for number in range(20):
            app.log_pane.add([f"line {number} {at}" for at in range(LINES_KEPT // 2)])
        assert len(app.log_pane.texts) <= LINES_KEPT
        await pilot.pause()
        assert "step 000019990" in text_of(app)


async def test_the_log_of_hosts_is_searched_in_the_lines_that_came(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_files(job_id: str) -> tuple[logs.Source, ...]:
        raise AssertionError("a job of this machine may have the id that a host tells")

    monkeypatch.setattr(logs, "sources", no_files)
    app = LogApp(HostsJobLog)
    async with app.run_test(size=(100, 12)) as pilot:
        pane = app.log_pane
        pane.add([f"a | step {number} {'x' * 80}" for number in range(100)])
        await pilot.press("slash", *"STEP 4", "enter")
        await pilot.pause()
        assert "a | step 49 " in text_of(app), "the last one that holds it, in any case"
        await pilot.press("N")
        await pilot.pause()
        assert "a | step 48 " in text_of(app)
        pane.add([f"a | later {number}" for number in range(LINES_KEPT - 60)])
        await pilot.press("n")
        await pilot.pause()
        assert "a | step 49 " in text_of(app), "40 lines were dropped meanwhile"
        await pilot.press("n")
        await pilot.pause()
        assert "is not found below" in text_of(app)
        await pilot.press("escape")
        await pilot.pause()
        assert "a | later 1939" in text_of(app)
        await pilot.press("home", "up", "r", "slash", *"none", "enter")
        await pilot.pause()
        assert "a | step 40 " in text_of(app)
        assert "'none' is not found" in text_of(app)


async def test_a_log_that_was_not_read_yet_is_not_called_empty() -> None:
    app = LogApp()
    async with app.run_test(size=(80, 24)) as pilot:
        for _ in range(2):  # also when another job is chosen
            await pilot.pause()
            assert "Reading the log …" in text_of(app)
            assert "No output yet." not in text_of(app)
            app.log_pane.add([])
            await pilot.pause()
            assert "No output yet." in text_of(app)
            app.log_pane.add(["step 1"])
            await pilot.pause()
            assert "step 1" in text_of(app)
            app.log_pane.follow_job("another job")
