"""The first picture: header and GPUs, drawn plainly from the sampler's first lines while Textual is still being imported.

The lines are those of the dashboard, in the terminal's own colors. It enters the alternate screen with the first line that it
draws, and Textual continues there. Imports no Textual.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

from gputop import device, wire  # noqa: F401 - what the feed reads a first look with, imported while the sampler looks
from gputop.agent.live import LiveFeed
from gputop.history.history import History
from gputop.settings.values import Settings
from gputop.tui.drawing.gpus.pane import draw_gpus, lines_wanted
from gputop.tui.drawing.header import header_line
from gputop.tui.drawing.line import Line, ascii_line, clean_row, fit, line, plain, width
from gputop.tui.state.view import View

if TYPE_CHECKING:
    from gputop.device import FirstLook
    from gputop.snapshot import Snapshot

_ENTER = "\x1b[?1049h\x1b[?25l"
_LEAVE = "\x1b[?1049l\x1b[?25h"
PATIENCE_S = 0.1
"""How long the imports wait for a first look, which usually arrives sooner."""
_SWITCH_S = 0.0005
"""How long the importing thread may keep the others waiting; Python's own value is ten times that."""
_NO_KEY = b"\0"


class _App(Protocol):
    driver_class: type[Any]

    def hold(self, picture: Callable[[int, int, bool], str]) -> None:
        """Draw nothing but this for now."""


class FirstPicture:
    """A context: until it is left, each line of the feed is drawn at once, and typed keys wait without an echo."""

    def __init__(self, feed: LiveFeed, settings: Settings, stream: TextIO, keys: int) -> None:
        """``stream`` is where Textual will draw, and ``keys`` the descriptor from which it will read."""
        self.shown = False
        self._feed = feed
        self._settings = settings
        self._stream = stream
        self._keys = keys
        self._before: list[Any] | None = None
        self._ended = False
        self._resized = False
        self._known: tuple[int, int, Sequence[str]] | None = None
        """What the terminal shows: its columns and rows, and their texts."""
        self._nothing_new = threading.Lock()
        """Held until there is something to draw. A handler of a signal may interrupt another, and releasing this waits for
        nothing; an event's ``set`` holds a lock of its own."""
        self._nothing_new.acquire()
        self._drawn = threading.Event()
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._draw_all, name="first-picture", daemon=True)
        self._switch_s = sys.getswitchinterval()

    def __enter__(self) -> FirstPicture:
        with contextlib.suppress(termios.error):
            self._before = termios.tcgetattr(self._keys)
            termios.tcsetattr(self._keys, termios.TCSANOW, _unseen(self._before))
        signal.signal(signal.SIGWINCH, self._on_resize)
        sys.setswitchinterval(_SWITCH_S)
        self._thread.start()
        self._feed.start(self._wake)
        # The imports that follow would take turns with the drawing, and double what it takes.
        self._drawn.wait(PATIENCE_S if self._feed.looks_first else 0.0)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        signal.signal(signal.SIGWINCH, signal.SIG_DFL)
        sys.setswitchinterval(self._switch_s)
        self._ended = True
        self._wake()
        self._thread.join()
        if self._before is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._keys, termios.TCSANOW, self._before)
        if error is not None:
            self.leave()

    def _on_resize(self, number: int, frame: object) -> None:
        self._resized = True
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # it is awake
            self._nothing_new.release()

    def leave(self) -> None:
        """Leave the alternate screen, if it was entered, for good. Any thread may call this."""
        with self._writing:
            self._ended = True
            if self.shown:
                self._write(_LEAVE)

    def hand_over(self, app: _App) -> None:
        """Have the app start on the alternate screen, and leave the picture there until it has a snapshot to draw."""
        app.driver_class = _on_screen(app.driver_class)
        app.hold(self._again)

    def _again(self, columns: int, rows: int, whole: bool) -> str:
        """Return what to write to show the picture with its age; ``whole``: all of it, whatever the terminal shows."""
        newest = self._feed.newest()
        if whole:
            self._known = None
        return self._frame(newest, columns, rows, time.time() - newest.time) if newest is not None else ""

    def _frame(self, seen: Snapshot | FirstLook, columns: int, rows: int, stale_s: float | None = None) -> str:
        texts = picture(seen, self._settings, columns, rows, stale_s)
        before, self._known = self._known, (columns, rows, texts)
        return written(texts, before[2] if before is not None and before[:2] == (columns, rows) else None)

    def _draw_all(self) -> None:
        while self._nothing_new.acquire() and not self._ended:
            if self._resized:
                self._resized, self._known = False, None
            newest = self._feed.newest()
            if newest is not None:
                columns, rows = shutil.get_terminal_size()
                frame = self._frame(newest, columns, rows)
                with self._writing:
                    if not self._ended:
                        self._write((_ENTER if not self.shown else "") + frame)
                        self.shown = True
                self._drawn.set()

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone, which another thread notices
            self._stream.write(text)
            self._stream.flush()


def picture(seen: Snapshot | FirstLook, settings: Settings, columns: int, rows: int, stale_s: float | None = None) -> list[str]:
    """Return the rows of a picture of the GPUs at the places where the dashboard will have them.

    ``stale_s``: its age in seconds if it is to say it.
    """
    snapshot = cast("Snapshot", seen)  # importing its class takes as long as everything drawn here
    history = History()
    history.observe(snapshot)
    view = View(snapshot, history, settings=settings, loading=True, stale_s=stale_s)
    inner = max(1, columns - 2)
    drawing = draw_gpus(view, inner, lines_wanted(view, inner, max(1, rows - 3)))
    name = line("─ 1 ", *drawing.title, " ")
    rule = (*name, *line("─" * max(0, columns - width(name))))
    lines = [header_line(view, columns), (), rule, *((line(" ")) + part for part in drawing.lines)]
    return [plain(_gated(part, columns, settings.ascii)).rstrip() for part in lines[:rows]]


def written(texts: Sequence[str], before: Sequence[str] | None) -> str:
    """Return what to write to show these rows; ``before``: the rows that are shown, None if that is not known.

    On a slow machine, a picture may be drawn many times before the dashboard.
    """
    if before is None or len(before) != len(texts):
        return "\x1b[H\x1b[2J" + "".join(f"\x1b[{place};1H{text}" for place, text in enumerate(texts, 1))
    changed = [(place, text) for place, (text, was) in enumerate(zip(texts, before, strict=True), 1) if text != was]
    return "".join(f"\x1b[{place};1H\x1b[K{text}" for place, text in changed)


def _gated(part: Line, columns: int, ascii_only: bool) -> Line:
    row = clean_row(fit(part, columns), columns)
    return ascii_line(row) if ascii_only else row


def _unseen(attributes: list[Any]) -> list[Any]:
    """Return a terminal's attributes changed so that keys wait for the screen as they are typed; Ctrl-C still ends gputop."""
    changed = list(attributes)
    changed[0] &= ~termios.ICRNL
    changed[3] &= ~(termios.ECHO | termios.ICANON)
    changed[6] = list(changed[6])
    changed[6][termios.VSUSP] = _NO_KEY  # the screen suspends itself
    return changed


def _on_screen(driver: type[Any]) -> type[Any]:
    """Return a driver of Textual's that does not enter the alternate screen at its first start: it would clear it."""

    class OnScreen(driver):  # type: ignore[misc]
        """Starts on the alternate screen."""

        _entered = False

        def write(self, data: str) -> None:
            if data == "\x1b[?1049h" and not self._entered:
                self._entered = True
                return
            super().write(data)

    return OnScreen
