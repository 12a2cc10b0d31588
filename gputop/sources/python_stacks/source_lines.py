"""Reads the source line that another process executes, from the user's own file, for as long as it is the file that was loaded.

A file is read if it belongs to the process's user, is a regular file of moderate size, and has not changed since the process
started. It may be on a file system that hangs, so it is read on a thread of its own. Long strings are left out of a line,
because they may be secrets.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from contextlib import suppress

from gputop.terminal_text import strip_controls

FILE_MAX_BYTES = 2**20
CHARACTERS_MAX = 60
LINES_MAX = 512
"""Number of lines to remember of one process."""
_STRING_MAX = 12
_STRING_OR_COMMENT = re.compile(
    r"(?P<f>\b[rR]?[fF][rR]?)?(?P<quote>\"\"\"|'''|\"|')(?P<inside>(?:\\.|(?!(?P=quote)).)*)(?P<end>(?P=quote)|$)|#.*"
)
"""A string that is not closed on its line ends with the line."""
_FIELD = re.compile(r"\{[^{}]*\}")
_LINE_MAX_BYTES = 2000
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC


class SourceLines:
    """The source lines of one process."""

    def __init__(self, pid: int, started_at: float) -> None:
        """``started_at`` is when the process started, in seconds since the epoch."""
        self._pid = pid
        self._started_at = started_at
        self._known: dict[tuple[str, int], str | None] = {}
        self._reading: threading.Thread | None = None

    def text(self, path: str, line: int) -> str | None:
        """Return what a line of a file says, as the process sees the file; None if that is not known, or not yet."""
        key = path, line
        if key not in self._known and (self._reading is None or not self._reading.is_alive()):
            if len(self._known) >= LINES_MAX:
                self._known.clear()
            self._reading = threading.Thread(target=self._note, args=key, daemon=True, name="source-lines")
            with suppress(RuntimeError):  # no thread can be started
                self._reading.start()
        return self._known.get(key)

    def _note(self, path: str, line: int) -> None:
        self._known[path, line] = self._read(path, line)

    def _read(self, path: str, line: int) -> str | None:
        seen = f"/proc/{self._pid}/root{path}" if path.startswith("/") else f"/proc/{self._pid}/cwd/{path}"
        with suppress(OSError, ValueError):
            if not self._is_meant(os.lstat(seen)):  # before it is opened: opening a device may have effects
                return None
            handle = os.open(seen, _FLAGS)
            try:
                if not self._is_meant(os.fstat(handle)):
                    return None
                lines = os.read(handle, FILE_MAX_BYTES).split(b"\n", line)
            finally:
                os.close(handle)
            if 0 < line <= len(lines) and len(lines[line - 1]) <= _LINE_MAX_BYTES:
                return shown(lines[line - 1].decode("utf-8", "replace"))
        return None

    def _is_meant(self, found: os.stat_result) -> bool:
        return (
            stat.S_ISREG(found.st_mode)
            and found.st_uid == os.stat(f"/proc/{self._pid}").st_uid
            and 0 < found.st_size < FILE_MAX_BYTES
            and found.st_mtime < self._started_at
        )


def shown(line: str) -> str | None:
    """Return a source line as it is quoted: shortened, without indent, comment and long strings; None if nothing is left."""
    text = " ".join(strip_controls(_STRING_OR_COMMENT.sub(_without_secret, line)).split())
    if not text or not text.isprintable():
        return None
    return text if len(text) <= CHARACTERS_MAX else f"{text[: CHARACTERS_MAX - 1].rstrip()}…"


def _without_secret(found: re.Match[str]) -> str:
    """Return what stands for a string or a comment. What an f-string inserts is code, and stays."""
    quote, inside = found["quote"], found["inside"]
    if quote is None:
        return ""
    if len(inside) <= _STRING_MAX and found["end"]:
        return found[0]
    fields = _FIELD.findall(inside) if found["f"] else []
    return f"{found['f'] or ''}{quote}…{''.join(f'{field}…' for field in fields)}{quote}"
