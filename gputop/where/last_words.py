"""Makes a rank whose Python does not run write its stack (``tracking/standing/last_words.py``), and reads it.

The signal ends a process that has no handler for it. So it is sent only if, immediately before, the process had a handler,
still had gputop's memory open under the reported number, and was the same process.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress

from gputop.sources.host import procfs
from gputop.tracking.standing.page import Page
from gputop.tracking.standing.stack import Frame

WAIT_S = 0.3
"""How long the handler may take to write the stack."""
_MEMORY = "/memfd:gputop-stack"
_BYTES_MAX = 1 << 20
"""A process that has written more is not asked again."""
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')


def ask(pid: int, start_ticks: int, page: Page) -> list[Frame]:
    """Return the stack of the process's main thread, innermost first; nothing if it could not be asked safely."""
    path = f"/proc/{pid}/fd/{page.descriptor}"
    try:
        if page.signal <= 0 or page.thread != pid or not os.readlink(path).startswith(_MEMORY):
            return []
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        before = os.fstat(fd).st_size
        if before > _BYTES_MAX or not _catches(pid, page.signal) or not _is_same(pid, start_ticks):
            return []
        os.kill(pid, page.signal)
        deadline = time.monotonic() + WAIT_S
        size = before
        while time.monotonic() < deadline:
            time.sleep(0.01)
            now = os.fstat(fd).st_size
            if now > before and now == size:
                break
            size = now
        return parse(os.pread(fd, size - before, before).decode("ascii", "replace"))
    except OSError:
        return []
    finally:
        os.close(fd)


def parse(text: str) -> list[Frame]:
    """Return the frames that faulthandler wrote, innermost first."""
    found = []
    for line in text.splitlines():
        match = _FRAME.match(line)
        if match is not None:
            path, number, function = match.groups()
            found.append(Frame(_unescaped(path), int(number), _unescaped(function)))
    return found


def _unescaped(text: str) -> str:
    with suppress(UnicodeError):
        return text.encode("ascii").decode("unicode_escape")
    return text


def _catches(pid: int, number: int) -> bool:
    data = procfs.read_of_process(f"/proc/{pid}/status") or b""
    _, found, rest = data.partition(b"\nSigCgt:")
    return bool(found) and bool(int(rest.split(None, 1)[0], 16) >> (number - 1) & 1)


def _is_same(pid: int, start_ticks: int) -> bool:
    stat = procfs.read_stat(pid)
    return stat is not None and stat.start_ticks == start_ticks and stat.state not in "TtD"
