"""Every screen at every size, as text: one start of each, resized. After a change that is meant, run with --snapshot-update.

Looks are in the pictures of ``test_looks``; here, where words and lines stand.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from syrupy.assertion import SnapshotAssertion
from textual.screen import Screen

from gputop.tui.screens.details import EnvironmentScreen, ProcessScreen
from gputop.tui.screens.doctor import DoctorScreen
from gputop.tui.screens.gpu import GpuScreen
from gputop.tui.screens.help import HelpScreen
from gputop.tui.screens.launch.screen import LaunchScreen
from gputop.tui.screens.run.screen import RunScreen
from gputop.tui.screens.settings import SettingsScreen
from gputop.tui.screens.stop import StopScreen
from gputop.tui.screens.stopping import StopTarget
from gputop.tui.screens.where import WhereScreen
from gputop.tui.state.view import Settings, View
from tests.tui.dashboards import DashboardApp
from tests.tui.kit import ScreenApp, text_of
from tests.tui.screens.test_looks import Look, compare, hot_gpu, jobs_view, settle, three_jobs, utc, view
from tests.tui.screens.test_where import answer as whereabouts

assert three_jobs
assert utc

SIZES = ((80, 24), (100, 30), (120, 40), (160, 50), (220, 60))
Build = Callable[[View], Screen[object]]


def where_screen(shown: View) -> WhereScreen:
    screen = WhereScreen(shown.snapshot.runs[0])
    screen.answer = whereabouts(shown.snapshot.runs[0].run_id)
    return screen


SCREENS: dict[str, tuple[Callable[[], View], Build]] = {
    "run": (view, lambda shown: RunScreen("run-1")),
    "GPU": (hot_gpu, lambda shown: GpuScreen(shown.snapshot.devices[0])),
    "doctor": (view, lambda shown: DoctorScreen()),
    "where": (view, where_screen),
    "launch": (jobs_view, lambda shown: LaunchScreen()),
    "process": (view, lambda shown: ProcessScreen(shown.snapshot.processes[1])),
    "environment": (view, lambda shown: EnvironmentScreen(shown.snapshot.processes[1])),
    "settings": (view, lambda shown: SettingsScreen(shown, lambda settings: None)),
    "help": (view, lambda shown: HelpScreen()),
    "stop": (view, lambda shown: StopScreen(StopTarget("run resnet18-ddp", "SIGTERM goes to torchrun.", 3999))),
}


@pytest.mark.parametrize("name", ["dashboard", *SCREENS])
async def test_every_size(snapshot: SnapshotAssertion, three_jobs: None, name: str) -> None:
    if name == "dashboard":
        app: DashboardApp | ScreenApp = DashboardApp(view())
    else:
        make, build = SCREENS[name]
        shown = make()
        app = ScreenApp(build(shown), shown)
    async with app.run_test(size=SIZES[0]) as pilot:
        for columns, rows in SIZES:
            await pilot.resize_terminal(columns, rows)
            await settle(pilot)
            await settle(pilot)
            assert text_of(app).splitlines() == snapshot(name=f"{columns}x{rows}")


@pytest.mark.parametrize("name", [name for name in SCREENS if name != "run"])
@pytest.mark.parametrize("theme", ["light", "mono"])
def test_light_and_monochrome(snap_compare: Look, three_jobs: None, name: str, theme: str) -> None:
    make, build = SCREENS[name]
    shown = make()
    settings = Settings(theme=theme, color=theme != "mono")
    screen = build(shown)
    compare(snap_compare, screen, (100, 30), View(shown.snapshot, shown.history, shown.findings, settings, run_id="run-1"))
