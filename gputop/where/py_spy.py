"""Asks py-spy for the stack of a process in which gputop does not run: only on request, one process at a time.

py-spy reads a process with ptrace. ``--nonblocking`` keeps it from stopping the process, yet it has left processes stopped. So
it is killed at a deadline, and a process that is stopped afterwards and was not before is continued.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

from gputop.errors import UsageError
from gputop.process import DEAD_STATES
from gputop.sources.host import procfs
from gputop.tracking.standing.stack import Frame, where
from gputop.whereabouts.activities import is_library
from gputop.whereabouts.records import RankPlace
from gputop.wire import FormatError, parse_json

DEADLINE_S = 5.0
"""py-spy is killed if it takes longer."""
CHECKED_S = 0.5
"""How long a process may take to continue by itself after py-spy has ended: the kernel detaches it."""


def program() -> str:
    """Return the path of py-spy.

    Raises:
        UsageError: it is not installed.
    """
    found = shutil.which("py-spy")
    if found is None:
        raise UsageError("py-spy is not installed.", "Install it (pip install py-spy), or leave out --py-spy.")
    return found


def ask(place: RankPlace) -> RankPlace:
    """Return a place with the line that py-spy sees, or with what py-spy said instead."""
    pid = place.pid
    before = _state(pid) if pid is not None else None
    if pid is None or before is None or before[1] in "TtD":
        return place  # a process that is stopped or waits for a disk is not touched
    text, problem = _dump(pid)
    _let_go_on(pid, before[0])
    frames = _main_thread(text, pid)
    if not frames:
        return replace(place, doing=place.doing or problem or "py-spy reports nothing")
    found = where(frames, is_library)
    return replace(
        place, source="py-spy", line=found.line, function=found.function, operation=found.operation, stack=found.stack
    )


def _dump(pid: int) -> tuple[str, str | None]:
    """Return what py-spy printed, or else in short why it printed nothing."""
    command = [program(), "dump", "--nonblocking", "--json", "--pid", str(pid)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=DEADLINE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return "", f"py-spy did not end within {DEADLINE_S:.0f} s"
    except OSError as error:
        return "", f"py-spy cannot be started: {error.strerror}"
    why = (done.stderr.strip().splitlines() or [""])[-1]
    return done.stdout, f"py-spy failed: {why[:200]}" if done.returncode else None


def _let_go_on(pid: int, start_ticks: int) -> None:
    """Continue the process if py-spy has left it stopped; it was not stopped before."""
    deadline = time.monotonic() + CHECKED_S
    while (now := _state(pid)) is not None and now == (start_ticks, "T") and time.monotonic() < deadline:
        time.sleep(0.02)
    if now == (start_ticks, "T"):
        with suppress(OSError):
            os.kill(pid, signal.SIGCONT)


def _state(pid: int) -> tuple[int, str] | None:
    with suppress(OSError):
        stat = procfs.read_stat(pid)
        return None if stat is None or stat.state in DEAD_STATES else (stat.start_ticks, stat.state)
    return None


def _main_thread(text: str, pid: int) -> list[Frame]:
    try:
        threads: Any = parse_json(text) if text else []
        first = next(thread for thread in threads if thread.get("os_thread_id") in (pid, None) or len(threads) == 1)
        return [Frame(str(call["filename"]), int(call["line"]), str(call["name"])) for call in first["frames"]]
    except (FormatError, json.JSONDecodeError, StopIteration, LookupError, TypeError, ValueError, AttributeError):
        return []
