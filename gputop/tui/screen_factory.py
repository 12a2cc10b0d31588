"""Decides which screen a key opens, and with what arguments. Imports each screen on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from textual.screen import Screen

from gputop.settings.values import Settings
from gputop.snapshot import Device, Process, ProcessRun, Run
from gputop.tui.state.layout import LayoutKeeper
from gputop.tui.state.untracked import processes_of
from gputop.tui.state.view import View, newest_run

if TYPE_CHECKING:
    from gputop.over_hosts.watched import HostJobs

AnyScreen = Screen[Any]


class Host(Protocol):
    """What a new screen needs from the app."""

    settings: Settings
    keeper: LayoutKeeper
    over: HostJobs | None
    """The hosts that jobs can be started on; None: this machine only."""

    @property
    def remote(self) -> str | None:
        """The other machine that is shown; None: this one."""

    @property
    def screen(self) -> AnyScreen:
        """The visible screen."""

    def change_settings(self, settings: Settings) -> None:
        """Apply new settings at once."""


def _help(app: Host, view: View | None) -> AnyScreen | None:
    from gputop.tui.screens.help import HelpScreen

    return HelpScreen(view, getattr(app.screen, "NAME", ""))


def _launch(app: Host, view: View | None) -> AnyScreen | None:
    from gputop.tui.screens.launch.screen import LaunchScreen

    if app.settings.readonly:
        app.screen.notify("gputop was started with --readonly: it starts nothing.", severity="warning")
        return None
    if app.remote is not None and app.over is None:
        app.screen.notify(
            f"This screen shows {app.remote}: gputop launches on this machine only, without -H.", severity="warning"
        )
        return None
    return LaunchScreen(view, app.keeper.layout.recipe, app.over)


def _doctor(app: Host, view: View | None) -> AnyScreen | None:
    from gputop.tui.screens.doctor import DoctorScreen

    return DoctorScreen(view)


def _settings(app: Host, view: View | None) -> AnyScreen | None:
    from gputop.tui.screens.settings import SettingsScreen

    return SettingsScreen(view, app.change_settings) if view is not None else None


def _palette(app: Host, view: View | None) -> AnyScreen | None:
    from gputop.tui.screens.palette import PaletteScreen, choices

    return PaletteScreen(choices(app.screen), app.settings.ascii)


def _environment(app: Host, view: View | None) -> AnyScreen | None:
    from gputop.tui.screens.details import EnvironmentScreen

    process = chosen_process(app)
    if process is None:
        app.screen.notify("Choose a process first: Tab to the processes, then the arrow keys.")
        return None
    return EnvironmentScreen(process, view)


def _stop(app: Host, view: View | None) -> AnyScreen | None:
    from gputop.tui.screens.stop import stop_question, stop_run

    process, run = chosen_process(app), _run_on(app.screen)
    tagged: tuple[Process, ...] = getattr(app.screen, "tagged_processes", ())
    if view is not None and tagged:
        return stop_question(tagged, view)
    if view is not None and process is not None:
        return stop_question((process,), view)
    if getattr(app.screen, "all_filtered_out", False):  # the user looks at an empty table, and not at the run above it
        app.screen.notify("The filter keeps no process to stop. Esc clears it.")
        return None
    if view is not None and run is not None:
        return stop_run(run, view)
    app.screen.notify("Choose a process or a run first.")
    return None


def _where(app: Host, view: View | None) -> AnyScreen | None:
    from gputop.tui.screens.where import WhereScreen

    run = _run_on(app.screen)
    if isinstance(run, Run) and view is not None:  # a curve has only the ranks that write it; the processes have all ranks
        run = processes_of(run.run_id, view.snapshot) or run
    if run is None:
        app.screen.notify("Choose a run first. gputop where PID --py-spy asks about other processes.")
        return None
    return WhereScreen(run, view)


def _profile(app: Host, view: View | None) -> AnyScreen | None:
    from gputop.tui.screens.profile.screen import ProfileScreen

    run = getattr(app.screen, "chosen_run", None)
    if app.settings.readonly:
        app.screen.notify(
            "gputop was started with --readonly: it takes no profile, because a profile slows the training.", severity="warning"
        )
        return None
    if not isinstance(run, Run) or (view is not None and processes_of(run.run_id, view.snapshot) is not None):
        app.screen.notify("Choose a tracked run first: only a training that gputop tracks can be profiled.")
        return None
    return ProfileScreen(run, view)


def _runs(app: Host, view: View | None) -> AnyScreen | None:
    shown = None if view is None else view.run or newest_run(view.snapshot.runs)
    return run_screen(app, shown.run_id if shown is not None else "", view, listed=True)


def _run_on(screen: AnyScreen) -> Run | ProcessRun | None:
    """Return the run under the cursor of a screen, or the one that it shows."""
    found = getattr(screen, "chosen_run", None) or getattr(screen, "chosen_process_run", None)
    return found if isinstance(found, Run | ProcessRun) else None


OPENERS: dict[str, Callable[[Host, View | None], AnyScreen | None]] = {
    "help": _help,
    "launch": _launch,
    "doctor": _doctor,
    "settings": _settings,
    "palette": _palette,
    "environment": _environment,
    "stop": _stop,
    "where": _where,
    "profile": _profile,
    "run": _runs,
}
"""Screen name -> its factory, which returns None after telling the user why the key does nothing now."""


def process_screen(process: Process, view: View | None) -> AnyScreen:
    """Return the screen with a process's details."""
    from gputop.tui.screens.details import ProcessScreen

    return ProcessScreen(process, view)


def run_screen(app: Host, run_id: str, view: View | None, *, listed: bool = False) -> AnyScreen:
    """Return the run screen of this run; ``listed``: even if the list of runs hides its charts."""
    from gputop.tui.screens.run.screen import RunScreen

    return RunScreen(run_id, view, app.change_settings, listed=listed)


def process_run_screen(run: ProcessRun, view: View | None) -> AnyScreen:
    """Return the screen of an untracked run, as its processes show it."""
    from gputop.tui.screens.untracked import UntrackedScreen

    return UntrackedScreen(run, view)


def gpu_screen(device: Device, view: View | None) -> AnyScreen:
    """Return the screen of one GPU."""
    from gputop.tui.screens.gpu import GpuScreen

    return GpuScreen(device, view)


def chosen_process(app: Host) -> Process | None:
    """Return the process under the cursor of the visible screen, or None."""
    chosen = getattr(app.screen, "chosen_process", None)
    found = chosen() if callable(chosen) else chosen
    return found if isinstance(found, Process) else None
