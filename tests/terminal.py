"""A real pseudo-terminal with a program in it, and pyte to read the screen as a user would."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pyte

from tests.patience import DEADLINE_S, pause_s

KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "tab": "\t",
    "shift+tab": "\x1b[Z",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "pagedown": "\x1b[6~",
    "pageup": "\x1b[5~",
    "f2": "\x1bOQ",
    "f5": "\x1b[15~",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "f9": "\x1b[20~",
    "f10": "\x1b[21~",
    "ctrl+c": "\x03",
    "ctrl+l": "\x0c",
    "ctrl+s": "\x13",
    "space": " ",
}
_NAMED_ESCAPE = "\x1b[27u"
_NAMES_KEYS = re.compile(rb"\x1b\[([<>])\d*u")
"""A program's requests to the terminal: from now on (``>``), or no longer (``<``), name keys that begin a sequence."""
QUIET_S = 0.1
"""A terminal that receives nothing for this long shows a complete frame: a loaded machine paints it in several writes."""
STILL_S = 0.3
"""A screen that is still receives nothing for this long: longer than a program waits between parts of what it draws."""
SETTLED_WITHIN_S = 1.0
"""A screen that never stops changing is read as it is after this long."""


def terminal_environment(changes: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program in a terminal; COLUMNS and LINES of the test runner would override its size."""
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    changed = {name: value for name, value in changes.items() if name not in ("COLUMNS", "LINES")}
    return {**kept, "TERM": "xterm-256color", "COLORTERM": "truecolor", **changed}


def _is_awake(pid: int) -> bool:
    """Return whether a thread of a process, or of one below it, runs or waits for a core."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            if state in "RD" or any(_is_awake(int(child)) for child in (task / "children").read_text().split()):
                return True
    return False


class Terminal:
    """Runs a command in a terminal of ``columns`` x ``rows``."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, columns: int = 160, rows: int = 50
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._lock = threading.Lock()
        self.received = b""
        self._lines: list[str] = []
        self._cells: list[list[tuple[object, ...]]] = []
        self._cells_at: tuple[int, ...] = ()
        self._master, slave = pty.openpty()
        self._resize(slave, columns, rows)
        self.process = subprocess.Popen(
            list(command),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env=terminal_environment(environment or {}),
        )
        os.close(slave)
        self._closed, self._close = os.pipe()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @staticmethod
    def _resize(descriptor: int, columns: int, rows: int) -> None:
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read(self) -> None:
        while True:
            try:
                if self._closed in select.select((self._master, self._closed), (), ())[0]:
                    return
                data = os.read(self._master, 65536)
            except OSError:
                return
            if not data:
                return
            with self._lock:
                self.received += data
                self._stream.feed(data)

    def resize(self, columns: int, rows: int) -> None:
        """Change the terminal's size, as a user does by dragging its corner."""
        with self._lock:
            self.screen.resize(rows, columns)
        self._resize(self._master, columns, rows)
        os.killpg(self.process.pid, signal.SIGWINCH)

    def press(self, *keys: str) -> None:
        """Press keys one after another, by name or as characters."""
        for key in keys:
            named = key == "escape" and self._names_keys()
            os.write(self._master, (_NAMED_ESCAPE if named else KEYS.get(key, key)).encode())
            # A bare escape with a key right after it means Alt and that key; a user is slower.
            time.sleep(0.3 if key == "escape" else 0.05)

    def _names_keys(self) -> bool:
        """Return whether the program wants keys by name (the kitty protocol): however busy it is, an escape is an escape."""
        asked = _NAMES_KEYS.findall(self.received)
        return bool(asked) and asked[-1] == b">"

    def click(self, column: int, row: int) -> None:
        """Press and release the left button on a cell (from 0)."""
        os.write(self._master, f"\x1b[<0;{column + 1};{row + 1}M\x1b[<0;{column + 1};{row + 1}m".encode())

    def lines(self) -> list[str]:
        """Return the screen's lines."""
        with self._lock:
            # pyte takes 10 ms for them, and who waits asks for them many times a second.
            if self.screen.dirty:
                self._lines = [line.rstrip() for line in self.screen.display]
                self.screen.dirty.clear()
            return list(self._lines)

    def cells(self) -> list[list[tuple[object, ...]]]:
        """Return the screen's cells by row, each with its character and its style."""
        with self._lock:
            screen = self.screen
            now = (len(self.received), screen.columns, screen.lines)
            if now != self._cells_at:  # 8,000 of them, and who waits asks many times a second
                columns = range(screen.columns)
                self._cells = [[*map(screen.buffer[row].__getitem__, columns)] for row in range(screen.lines)]
                self._cells_at = now
            return [list(row) for row in self._cells]

    def text(self) -> str:
        """Return the screen as text."""
        return "\n".join(self.lines())

    def find(self, text: str) -> tuple[int, int] | None:
        """Return (column, row) of the first occurrence of ``text``."""
        for row, line in enumerate(self.lines()):
            if text in line:
                return line.index(text), row
        return None

    def wait_for(self, wanted: str | Callable[[str], object], timeout_s: float = DEADLINE_S) -> str:
        """Wait until the screen shows ``wanted`` (or satisfies it), and return the screen once its frame is complete.

        Raises:
            AssertionError: it does not within ``timeout_s``; the message is the screen.
        """

        def shows(text: str) -> object:
            return wanted in text if isinstance(wanted, str) else wanted(text)

        end = time.monotonic() + timeout_s
        while True:
            began = time.monotonic()
            text = self.text()
            if shows(text):
                settled = self._settled()
                return settled if shows(settled) else text
            now = time.monotonic()
            if now > end or (self.process.poll() is not None and not self._thread.is_alive()):
                what = wanted if isinstance(wanted, str) else "what was waited for"
                raise AssertionError(f"{what!r} never came (exit {self.process.poll()}):\n{text}")
            time.sleep(pause_s(now - began, 0.05))

    def _settled(self) -> str:
        """Return the screen once nothing has been written to it for a moment."""
        end = time.monotonic() + SETTLED_WITHIN_S
        size, since = len(self.received), time.monotonic()
        while time.monotonic() < min(end, since + QUIET_S):
            time.sleep(0.02)
            if len(self.received) != size:
                size, since = len(self.received), time.monotonic()
        return self.text()

    def wait_until_still(self) -> str:
        """Return the screen once nothing has come for a moment, and the program and all that it started are asleep.

        Silence alone may be that of a program that waits for a core.
        """
        size, since = -1, 0.0
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < since + STILL_S or _is_awake(self.process.pid) or size != len(self.received):
            if size != len(self.received):
                size, since = len(self.received), time.monotonic()
            assert time.monotonic() < deadline, f"the screen never was still:\n{self.text()}"
            time.sleep(0.02)
        return self.text()

    def wait_exit(self, timeout_s: float = DEADLINE_S) -> int:
        """Wait for the program's end and return its exit code."""
        code = self.process.wait(timeout_s)
        self._thread.join(2.0)
        return code

    def hang_up(self) -> None:
        """Close the terminal, as a lost connection does. Further calls do nothing."""
        if self._close >= 0:
            # The thread must end first: otherwise it would read from the next terminal, whose descriptor has the same number.
            os.close(self._close)
            self._close = -1
            self._thread.join()
            os.close(self._closed)
            os.close(self._master)

    def close(self) -> None:
        """Hang up and make sure that the program is gone."""
        self.hang_up()
        try:
            self.process.wait(30.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(30.0)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()
