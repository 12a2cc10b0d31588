"""Names that hold escapes, controls and marks of direction: no screen shows one raw, and every row keeps its width."""

from __future__ import annotations

import socket
import time
import unicodedata
from dataclasses import replace

from rich.cells import cell_len
from textual.app import App
from textual.screen import Screen

from gputop.doctor.findings.finding import Fact, Finding
from gputop.jobs import record
from gputop.places import jobs_dir
from gputop.recipes import own_commands
from gputop.settings.values import Settings
from gputop.tui.app import GputopApp
from gputop.tui.drawing.doctor.finding import plain_text
from gputop.tui.drawing.line import Span
from gputop.tui.screens.doctor import DoctorScreen
from gputop.tui.screens.launch.screen import LaunchScreen
from gputop.tui.screens.run.screen import RunScreen
from gputop.tui.widgets.pane import Pane
from tests import samples
from tests.tui.kit import ScreenApp, text_of, view_of
from tests.tui.screens.launch.test_launch import until

EVIL = "evil\x1b]0;title\x07\x1b[2J\x9b31m\u202etxt\u2066\u200f\r\n9. FORGED\x85\u2028end"
FINDING = Finding(
    "A05",
    "error",
    "certain",
    f"X={EVIL} leaves no GPU",
    (Fact(EVIL, EVIL, EVIL),),
    f"Cause {EVIL}",
    f"fix {EVIL}",
    EVIL,
    run="run-1",
)


def assert_safe(app: App[None]) -> None:
    columns, rows = app.size
    strips = app.screen._compositor.render_strips(app.size)
    for strip in strips[:rows]:
        shown = "".join(segment.text for segment in strip)
        raw = [ascii(char) for char in shown if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
        assert not raw, (raw, shown)
        assert cell_len(shown) == columns, shown


def hostile_job() -> None:
    directory = jobs_dir() / "20261122-141300-3f2a"
    directory.mkdir(parents=True)
    spec = {
        "id": "20261122-141300-3f2a",
        "name": EVIL,
        "recipe_id": None,
        "argv": ["python", EVIL],
        "device_uuids": [],
        "values": {},
        "created_at": time.time(),
    }
    ended = {"state": "ended", "exit_code": 1, "signal": None, "asked": [], "began_at": 1.0, "ended_at": 2.0}
    record.write_json(directory / record.SPEC, {**spec, "hostname": socket.gethostname()})
    record.write_json(directory / record.STATUS, ended)
    (directory / record.OUT_LOG).write_text(f"{EVIL}\nRuntimeError: CUDA error: {EVIL}\n")


async def test_the_launch_screen_shows_hostile_names_clean() -> None:
    hostile_job()
    own_commands.remember(own_commands.OwnCommand(EVIL, "true", "."))
    app = ScreenApp(LaunchScreen(), view_of())
    async with app.run_test(size=(160, 50)) as pilot:
        await until(pilot, lambda: "Log of evil" in text_of(app))
        assert_safe(app)
        for key in ("tab", "down", "enter", "end"):
            await pilot.press(key)
            await pilot.pause()
            assert_safe(app)


async def test_screens_show_a_hostile_run_and_finding_clean() -> None:
    snapshot = samples.snapshot()
    run = replace(snapshot.runs[0], name=EVIL, project=EVIL, config={EVIL: EVIL}, command=("python", EVIL))
    processes = tuple(replace(process, name=EVIL, user=EVIL, command=(EVIL,)) for process in snapshot.processes)
    devices = tuple(replace(device, name=EVIL) for device in snapshot.devices)
    host = replace(snapshot.host, hostname=EVIL, driver_version=EVIL)
    hostile = replace(snapshot, runs=(run,), processes=processes, devices=devices, host=host)
    view = view_of(hostile, findings=(FINDING,), feed_problem=EVIL)
    screens: tuple[Screen[None], ...] = (RunScreen(run.run_id), DoctorScreen())
    for screen in screens:
        app = ScreenApp(screen, view)
        async with app.run_test(size=(100, 30)) as pilot:
            await until(pilot, lambda app=app: "evil" in text_of(app))  # type: ignore[misc]
            assert_safe(app)


class PaneScreen(Screen[None]):
    def compose(self):
        yield Pane(EVIL)


async def test_a_pane_shows_even_a_raw_title_and_line_clean() -> None:
    screen = PaneScreen()
    app = ScreenApp(screen, view_of())
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        screen.query_one(Pane).set_content([(Span(EVIL), Span("漢字" + EVIL))], subtitle=(Span(EVIL),), footer=(Span(EVIL),))
        await pilot.pause()
        assert "evil" in text_of(app)
        assert_safe(app)


async def test_a_notice_is_one_line_without_markup() -> None:
    app = GputopApp(NoFeed(), Settings())  # type: ignore[arg-type]
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        app.notify(f"[bold]{EVIL}[/nothing]")
        await until(pilot, lambda: "[bold]evil" in text_of(app))
        assert_safe(app)


class NoFeed:
    """A feed without data."""

    kind = "live"
    host = None

    def start(self, notify: object) -> None:
        return

    def drain(self) -> list[object]:
        return []

    take_answers = drain

    def problem(self) -> None:
        return None

    status = problem


def test_what_is_copied_has_no_control_characters() -> None:
    assert all(char.isprintable() or char == "\n" for char in plain_text(FINDING))
    assert "\n9. FORGED" not in plain_text(replace(FINDING, fix="no"))
