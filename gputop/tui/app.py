"""The app: the keys that work on every screen, the requests of screens, and the settings.

It must not import drawing or sources. Each screen handles its own keys.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from textual.binding import Binding
from textual.notifications import SeverityLevel

from gputop import units
from gputop.agent.feed import Feed, ReplayFeed
from gputop.places import jobs_dir
from gputop.settings.file import read_settings
from gputop.settings.values import Settings
from gputop.terminal_text import printable
from gputop.tui import screenshot
from gputop.tui.screen_factory import OPENERS, AnyScreen, gpu_screen, process_run_screen, process_screen, run_screen
from gputop.tui.screens.dashboard import DashboardScreen
from gputop.tui.state.copying import Copy
from gputop.tui.state.keys import APP_KEYS
from gputop.tui.state.layout import CHART_OPTIONS, LayoutKeeper
from gputop.tui.terminal.palette import THEMES, theme_name
from gputop.tui.terminal.private_textual import drawn_text, driver_of
from gputop.tui.terminal_signals import answer_signals, answering
from gputop.tui.typed_ahead import bound_keys
from gputop.tui.watching_app import WatchingApp
from gputop.tui.widgets.requests import (
    Asked,
    GpuOpened,
    LayoutChanged,
    PcieWanted,
    ProcessChosen,
    ProcessRunOpened,
    RunChosen,
    RunOpened,
    SettingsChanged,
)

if TYPE_CHECKING:
    from gputop.over_hosts.watched import HostJobs

_OF_RUNS = ("run", "where", "profile")
"""The screens that send questions about runs."""
INTERVALS_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""The intervals that the keys switch through."""
SETTINGS_PROBLEM_S = 15.0
"""For how long a problem with the settings file is shown at start."""
LINES_PER_PROBLEM = 15
"""A problem with the settings is shown for each of this many lines of the screen: it covers two or three."""


class GputopApp(WatchingApp):
    """gputop's screen."""

    TITLE = "gputop"
    CSS_PATH = "gputop.tcss"
    ENABLE_COMMAND_PALETTE = False
    """Textual's own palette does not know gputop's actions."""
    BINDINGS = [Binding(key.keys, key.action, key.what, show=False) for key in APP_KEYS]  # noqa: RUF012 - Textual's own form

    def __init__(self, feed: Feed, settings: Settings) -> None:
        keeper, loaded = LayoutKeeper(), read_settings()
        super().__init__(feed, keeper.layout.settings(settings, loaded.named))
        self.driver_class = answering(self.driver_class)
        self.over: HostJobs | None = None
        """The hosts that the launch screen starts jobs on; None: this machine."""
        self.keeper = keeper
        self.settings_problems = loaded.problems
        for theme in THEMES:
            self.register_theme(theme)
        # Set before the first frame, because Textual fixes its color filters there.
        self.theme = theme_name(settings.theme, settings.color)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Show a message for a moment. It may contain names, so it is never parsed as markup."""
        super().notify(printable(message), title=title, severity=severity, timeout=timeout, markup=False)

    async def on_mount(self) -> None:
        """Show the first screen and open the feed."""
        loop = asyncio.get_running_loop()
        driver = driver_of(self)
        answer_signals(loop, driver, self.draw_anew)
        bound_keys(self, driver, loop)
        await self.push_screen(self.first_screen())
        self.start_watching()
        if self.keeper.problem is not None:
            what = f"{self.keeper.problem} How you arrange the screens is not kept until you move it away."
            self.notify(what, severity="warning", timeout=SETTINGS_PROBLEM_S)
        most = max(1, self.size.height // LINES_PER_PROBLEM)
        more = len(self.settings_problems) - most
        for problem in self.settings_problems[:most]:
            self.notify(f"{problem.message} {problem.hint}", severity="warning", timeout=SETTINGS_PROBLEM_S)
        if more > 0:
            what = f"{more} more problem{'s' * (more > 1)} with the settings: F2 lists them all."
            self.notify(what, severity="warning", timeout=SETTINGS_PROBLEM_S)

    def action_draw_anew(self) -> None:
        """Send the whole screen again, because something else has written to the terminal."""
        self.draw_anew()

    def first_screen(self) -> AnyScreen:
        """Return the screen below all others."""
        return DashboardScreen(self.keeper.layout)

    def change_settings(self, settings: Settings) -> None:
        """Apply new settings at once, here and in the sampler."""
        if settings.interval_s != self.settings.interval_s:
            for feed in self.feeds():
                feed.set_interval(settings.interval_s)
        self.settings = settings
        self.keeper.keep(**{name: getattr(settings, name) for name in CHART_OPTIONS})
        self.theme = theme_name(settings.theme, settings.color)
        self.refresh_view()

    async def _open(self, name: str) -> None:
        if getattr(self.screen, "NAME", None) == name:
            return
        if name in _OF_RUNS and self.view is not None and self.view.without_runs is not None:
            self.screen.notify(self.view.without_runs)
            return
        await self._show(OPENERS[name](self, self.view))

    async def _show(self, screen: AnyScreen | None) -> None:
        if screen is not None:
            self.release()  # the first picture is of the dashboard
            await self.push_screen(screen)

    def on_asked(self, message: Asked) -> None:
        """Pass a screen's question to the feed."""
        self.feed.ask(message.question)

    async def on_process_chosen(self, message: ProcessChosen) -> None:
        """Open the details of a process from the dashboard's table."""
        found = self.machine.latest.processes if self.machine.latest else ()
        process = next((process for process in found if process.pid == message.pid), None)
        if process is not None:
            await self._show(process_screen(process, self.view))

    async def on_run_opened(self, message: RunOpened) -> None:
        """Open a run's own screen."""
        await self._show(run_screen(self, message.run_id, self.view))

    async def on_process_run_opened(self, message: ProcessRunOpened) -> None:
        """Open the own screen of an untracked run."""
        found = self.machine.latest.process_runs if self.machine.latest else ()
        run = next((run for run in found if run.key == message.key), None)
        if run is not None:
            await self._show(process_run_screen(run, self.view))

    async def on_gpu_opened(self, message: GpuOpened) -> None:
        """Open a GPU's own screen."""
        found = self.machine.latest.devices if self.machine.latest else ()
        device = next((device for device in found if device.uuid == message.uuid), None)
        if device is not None:
            await self._show(gpu_screen(device, self.view))

    def on_pcie_wanted(self, message: PcieWanted) -> None:
        """Pass on whether a screen shows PCIe throughput."""
        self.feed.want_pcie(message.wanted)

    def on_run_chosen(self, message: RunChosen) -> None:
        """Show another run on the dashboard."""
        self.choose_run(message.run_id)

    def on_layout_changed(self, message: LayoutChanged) -> None:
        """Remember how a screen is arranged."""
        self.keeper.keep(**message.changes)

    def on_settings_changed(self, message: SettingsChanged) -> None:
        """Apply a setting that a key changed."""
        self.change_settings(message.settings)

    def action_leave(self) -> None:
        """Quit. Launched jobs keep running, and the farewell line names them."""
        running = _running_jobs()
        if running:
            word = "job keeps" if len(running) == 1 else "jobs keep"
            self.farewell = f"{len(running)} {word} running: {', '.join(running)}. See: gputop jobs, logs JOB, stop JOB."
        self.exit()

    def action_pause(self) -> None:
        """Freeze the screen or pause a replay; the history keeps growing."""
        if isinstance(self.feed, ReplayFeed):
            self.feed.toggle_pause()
            self.refresh_view()
            return
        self._paused = not self._paused
        if self.view is not None and self._paused:
            self.view = replace(self.view, paused=True)
            self.show_view()
        else:
            self.refresh_view()

    def action_copy(self) -> None:
        """Copy what is under the cursor through the terminal (OSC 52), and say what it was."""
        copyable: Callable[[], Copy | None] | None = getattr(self.screen, "copyable", None)
        found = copyable() if copyable is not None else None
        if found is None:
            self.screen.notify("There is nothing to copy here: choose a process, a GPU, a run or a finding.", timeout=4)
            return
        self.copy_to_clipboard(found.text)
        self.notify(found.message(self.size.width - 3), timeout=4)

    def action_save_screen(self) -> None:
        """Save what is on the screen, and say where. A disk that hangs does not block the screen."""
        name = f"gputop-{getattr(self.screen, 'NAME', None) or 'dashboard'}"
        svg = self.export_screenshot(title=f"gputop {units.clock(time.time(), '%Y-%m-%d %H:%M:%S')}")
        self.run_worker(self._save(name, svg, drawn_text(self, self.visible_screens()[:-1])), exit_on_error=False)

    async def _save(self, name: str, svg: str, text: str) -> None:
        try:
            paths = await asyncio.to_thread(screenshot.save, name, svg, text)
        except OSError as error:
            self.notify(f"The screen cannot be saved: {error.strerror or error}.", severity="warning", timeout=6)
            return
        also = " (and .txt)" if len(paths) > 1 else ""
        self.notify(f"Saved {paths[0]}{also}", timeout=6)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action applies now."""
        return isinstance(self.feed, ReplayFeed) if action.startswith("replay_") else True

    def action_interval(self, direction: str) -> None:
        """Switch to the next longer or shorter interval."""
        now, steps = self.settings.interval_s, INTERVALS_S if direction == "longer" else INTERVALS_S[::-1]
        found = next((value for value in steps if (value > now if direction == "longer" else value < now)), steps[-1])
        self.change_settings(replace(self.settings, interval_s=found))

    def action_replay_step(self) -> None:
        """Show the next snapshot of a replay."""
        if isinstance(self.feed, ReplayFeed):
            self.feed.step()

    def action_replay_seek(self, direction: int) -> None:
        """Go a minute back or forward in a replay; at a higher speed, further."""
        if not isinstance(self.feed, ReplayFeed):
            return
        if direction > 0 and self.feed.is_at_end:
            self.notify("The recording ends here.", timeout=4)
            return
        self.feed.seek(direction * self.feed.minute())
        self.refresh_view()

    def action_replay_faster(self) -> None:
        """Play the replay faster."""
        if isinstance(self.feed, ReplayFeed):
            self.feed.faster()
            self.refresh_view()

    def action_replay_slower(self) -> None:
        """Play the replay slower."""
        if isinstance(self.feed, ReplayFeed):
            self.feed.slower()
            self.refresh_view()

    async def action_help(self) -> None:
        """Open the help screen."""
        await self._open("help")

    async def action_runs(self) -> None:
        """Open the list of runs."""
        await self._open("run")

    async def action_launch(self) -> None:
        """Open the launch screen."""
        await self._open("launch")

    async def action_doctor(self) -> None:
        """Open the doctor's screen."""
        await self._open("doctor")

    async def action_settings(self) -> None:
        """Open the settings screen."""
        await self._open("settings")

    async def action_palette(self) -> None:
        """Open the list of all actions."""
        await self._open("palette")

    async def action_environment(self) -> None:
        """Open the environment of the chosen process."""
        await self._open("environment")

    async def action_where(self) -> None:
        """Open the screen that shows where the ranks of the chosen run are."""
        await self._open("where")

    async def action_profile(self) -> None:
        """Open a profile of the chosen run."""
        await self._open("profile")

    async def action_stop_chosen(self) -> None:
        """Ask whether to stop the chosen process or run."""
        await self._open("stop")


def _running_jobs() -> list[str]:
    """Return the ids of the jobs that keep running. Without any launch so far, their slow package is not imported."""
    try:
        if not os.listdir(jobs_dir()):
            return []
    except OSError:
        return []
    from gputop.jobs.store import list_jobs

    return [job.id for job in list_jobs() if job.active]
