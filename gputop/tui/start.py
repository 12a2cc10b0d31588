"""Starts the app: sets what Textual reads at import, runs it, and on exit reports the jobs that keep running."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TextIO

from gputop.agent.feed import Feed
from gputop.errors import GputopError
from gputop.tui.gc_freeze import long_lived
from gputop.tui.state.settings import Settings
from gputop.tui.terminal_watch import watch

FRAMES_PER_S = "15"
"""Keys still feel immediate, and a burst of changes becomes one frame: a slow link gets few, small writes."""


def run_app(feed: Feed, settings: Settings) -> int:
    """Run the screen until the user quits; return the exit code.

    Raises:
        GputopError: there is no terminal to read keys from.
    """
    try:
        take_terminal()
    except GputopError:
        feed.close()
        raise
    os.environ["TEXTUAL_ANIMATIONS"] = "none"
    os.environ.setdefault("TEXTUAL_FPS", FRAMES_PER_S)
    if settings.theme == "auto":
        settings = replace(settings, theme=guess_theme(os.environ))
    if not settings.color or settings.theme in ("ansi", "mono"):
        os.environ.setdefault("TEXTUAL_COLOR_SYSTEM", "standard")
    with long_lived():
        from gputop.tui.app import GputopApp

        app = GputopApp(feed, settings)
    watch(sys.__stdin__.fileno() if sys.__stdin__ is not None else -1, lambda: app.call_from_thread(app.exit))
    try:
        app.run(mouse=settings.mouse)
    finally:
        feed.close()
        app.keeper.finish()
    if app.farewell:
        print(app.farewell, file=sys.stderr)  # noqa: T201 - the screen is closed; this prints to the plain terminal
    return app.return_code or 0


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
