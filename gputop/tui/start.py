"""Starts the app: sets what Textual reads at import, runs it, and on exit reports the jobs that keep running."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from gputop.agent.feed import Feed
from gputop.agent.one_heap import share_one_heap
from gputop.errors import GputopError
from gputop.settings.values import Settings
from gputop.startup.gc_freeze import collect_rarely, long_lived
from gputop.startup.light_imports import for_textual, import_asyncio
from gputop.terminal_text import printable
from gputop.tui.state.under_way import UNDER_WAY
from gputop.tui.terminal_watch import watch

if TYPE_CHECKING:
    from gputop.doctor.findings.reaching import Reach
    from gputop.hosts.feed import HostFeed
    from gputop.over_hosts.watched import HostJobs
    from gputop.snapshot import Problem
    from gputop.tui.app import GputopApp
    from gputop.tui.first_picture import FirstPicture
    from gputop.tui.hosts_app import More

FRAMES_PER_S = "15"
"""Keys still feel immediate, and a burst of changes becomes one frame: a slow link gets few, small writes."""


def run_app(feed: Feed, settings: Settings, over: HostJobs | None = None, problems: Sequence[Problem] = ()) -> int:
    """Run the screen of one machine until the user quits; return the exit code. ``over``: where its launch screen starts jobs.

    ``problems`` with the settings are shown at start, after those of the file.

    Raises:
        GputopError: there is no terminal to read keys from.
    """

    def app(settings: Settings) -> GputopApp:
        from gputop.tui.app import GputopApp

        found = GputopApp(feed, settings)
        found.over = over
        found.settings_problems += tuple(problems)
        return found

    return _run(app, feed.close, settings, lambda settings: _first_picture(feed, settings), [feed])


def run_hosts_app(
    hosts: Sequence[HostFeed], settings: Settings, reach: Reach, over: HostJobs | None = None, more: More | None = None
) -> int:
    """Run the screen of several hosts until the user quits; return the exit code. ``over``: as for ``run_app``.

    ``reach`` returns the options that reach hosts, for commands on the screen. ``more`` asks to be notified of hosts that are
    found later.

    Raises:
        GputopError: there is no terminal to read keys from.
    """

    def app(settings: Settings) -> GputopApp:
        from gputop.tui.hosts_app import HostsApp

        found = HostsApp(hosts, settings, more)
        found.fleet.reach = reach
        found.over = over
        apps.append(found)
        return found

    apps: list[GputopApp] = []

    def close() -> None:
        from gputop.hosts.feed import close_all

        close_all(apps[0].feeds() if apps else hosts)

    return _run(app, close, settings, lambda settings: None, hosts)


def _run(
    make_app: Callable[[Settings], GputopApp],
    close: Callable[[], None],
    settings: Settings,
    first_picture: Callable[[Settings], FirstPicture | None],
    feeds: Sequence[Feed],
) -> int:
    try:
        take_terminal()
    except GputopError:
        close()
        raise
    share_one_heap()
    os.environ["TEXTUAL_ANIMATIONS"] = "none"
    os.environ.setdefault("TEXTUAL_FPS", FRAMES_PER_S)
    if settings.theme == "auto":
        settings = replace(settings, theme=guess_theme(os.environ))
    if not settings.color or settings.theme in ("ansi", "mono"):
        os.environ.setdefault("TEXTUAL_COLOR_SYSTEM", "standard")
    app: GputopApp | None = None
    first: FirstPicture | None = None

    def leave() -> bool:
        if app is not None:
            app.call_from_thread(app.exit)
        elif first is not None:
            first.leave()
        return app is not None

    watch(sys.__stdin__.fileno() if sys.__stdin__ is not None else -1, leave, _abandon(feeds))
    collect_rarely()
    with long_lived(many=True):
        first = first_picture(settings)
        with first or contextlib.nullcontext():
            import_asyncio()
            with for_textual():
                made = make_app(settings)
        if first is not None and first.shown:
            first.hand_over(made)
        app = made
    left: tuple[str, ...] = ()
    try:
        app.run(mouse=settings.mouse)
    finally:
        left = UNDER_WAY.leave()
        close()
        app.keeper.finish()
    for said in (app.farewell, *left):
        if said:
            print(printable(said), file=sys.stderr)  # noqa: T201 - the screen is closed; this prints to the plain terminal
    return app.return_code or 0


def _abandon(feeds: Sequence[Feed]) -> Callable[[], object]:
    """Return what ends the connections to hosts where nothing can be waited for."""
    if all(feed.host is None for feed in feeds):
        return lambda: None
    from gputop.hosts.connection import abandon_all

    return abandon_all


def _first_picture(feed: Feed, settings: Settings) -> FirstPicture | None:
    """Return the picture to show during the imports; None for other feeds, and for a terminal that moves no cursor."""
    from gputop.agent.live import LiveFeed

    if not isinstance(feed, LiveFeed) or os.environ.get("TERM", "dumb") == "dumb":
        return None
    from gputop.tui.first_picture import FirstPicture

    assert sys.__stderr__ is not None
    assert sys.__stdin__ is not None
    return FirstPicture(feed, settings, sys.__stderr__, sys.__stdin__.fileno())


def take_terminal() -> None:
    """Let Textual write to and read from a terminal, whatever standard error and input are.

    Raises:
        GputopError: there is no terminal to read keys from.
    """
    drawn_on = sys.__stderr__ if _is_terminal(sys.__stderr__) else sys.__stdout__
    sys.__stderr__ = write_fully(drawn_on)  # type: ignore[misc, assignment] # where Textual writes
    if not _is_terminal(sys.__stdin__):
        try:
            sys.__stdin__ = open("/dev/tty")  # type: ignore[misc] # noqa: SIM115 - where Textual reads, to the end
        except OSError as error:
            raise GputopError(
                "There is no terminal to read keys from.", "Use gputop --once for one reading as text."
            ) from error


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def write_fully(stream: TextIO | None) -> TextIO | None:
    """Return a stream that writes everything it is given, even where stderr is unbuffered (PYTHONUNBUFFERED, ``python -u``).

    An unbuffered stream calls write once and drops what a busy terminal did not accept: the screen loses parts of its frames.
    """
    raw = getattr(stream, "buffer", None)
    if stream is None or not isinstance(raw, io.RawIOBase):
        return stream
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors)


def guess_theme(environment: Mapping[str, str]) -> str:
    """Return "mono" if TERM promises no color, "light" if COLORFGBG says so, "ansi" if TERM promises 16 colors, else "dark"."""
    term = environment.get("TERM", "") if not environment.get("COLORTERM") else ""
    if term in ("vt100", "vt102", "vt220", "dumb"):
        return "mono"
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    if background in ("7", "15"):
        return "light"
    if term in ("linux", "ansi", "xterm", "screen"):
        return "ansi"
    return "dark"
