"""MLflow's database: an SQLite file that holds all runs, with a row for each value. Opened only to read, and without a lock.

A lock would block a training run that is about to write. SQLite is therefore told that the file never changes, and its answer
counts only if that was true: no transaction is open, and the change counter is the same before and after.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from gputop.untracked.files.values import Value, metric_name, number, step_number, wall_time

ROWS = 20_000
"""How many values one turn reads."""
RUNS = 100
"""Maximum number of runs of a file, the newest."""
PAUSES_S = (0.01, 0.02, 0.04)
"""A transaction takes some milliseconds: after each of these pauses, the question is asked again."""
SECONDS = 1.0
"""How long one question may take."""
_INSTRUCTIONS = 10_000
"""How often SQLite asks whether the time is over, in its own instructions."""
_COUNTER = slice(24, 28)
"""Where the header has the counter of transactions."""
_TEXT_BYTES = 10_000
"""A longer text is cut."""
_RUNS = "SELECT run_uuid FROM runs WHERE start_time >= ? AND lifecycle_stage = 'active' ORDER BY start_time DESC LIMIT ?"
_VALUES = (
    "SELECT rowid, key, step, timestamp, value, is_nan FROM metrics WHERE run_uuid = ? AND rowid > ? ORDER BY rowid LIMIT ?"
)


def run_ids(path: Path, since: float) -> list[str]:
    """Return the runs that began at or after ``since`` (wall clock, seconds), the newest first; none if it cannot be read."""
    rows = asked(path, lambda ask: ask(_RUNS, (1000 * since if since > 0 else 0, RUNS))) or ()
    return [found for (found,) in rows if isinstance(found, str) and found.isalnum()]


def described(path: Path, run_id: str) -> tuple[str | None, list[tuple[str, str]]]:
    """Return the name and the parameters of a run."""
    names = asked(path, lambda ask: ask("SELECT name FROM runs WHERE run_uuid = ?", (run_id,))) or ()
    settings = asked(path, lambda ask: ask("SELECT key, value FROM params WHERE run_uuid = ? LIMIT 1000", (run_id,))) or ()
    name = next((found for (found,) in names if isinstance(found, str)), None)
    return name, [(key, value) for key, value in settings if isinstance(key, str) and isinstance(value, str)]


class DatabaseFile:
    """Reads the values of one run as they are added."""

    counts_lines = False
    total_steps = None

    def __init__(self, path: Path, run_id: str) -> None:
        self.path = path
        self._run_id = run_id
        self._last_row = 0
        self._seen: object = None

    def read(self, finished: bool = False) -> tuple[list[Value], bool]:
        """Return new values, and whether the file is read to its end. Never raises on its contents.

        ``finished``: nothing writes the file any more, which changes nothing here: every value has its time.
        """
        state = _state(self.path)
        if state is not None and state == self._seen:
            return [], True
        rows = asked(self.path, lambda ask: ask(_VALUES, (self._run_id, self._last_row, ROWS)))
        if rows is None:
            return [], True
        if len(rows) < ROWS:
            self._seen = state
        if rows:
            self._last_row = rows[-1][0]
        return [value for row in rows if (value := _value(*row[1:])) is not None], len(rows) < ROWS


def asked(path: Path, question: Callable[[Callable[..., list[Any]]], list[Any]]) -> list[Any] | None:
    """Return the rows that answer a question; None if the file is being written, or is no such database."""
    try:
        import sqlite3
    except ImportError:  # some builds of Python lack it
        return None
    until = time.monotonic() + SECONDS
    unlocked = f"{path.as_uri()}?mode=ro&immutable=1"
    for pause_s in (0.0, *PAUSES_S):
        time.sleep(pause_s)
        before, rows = _state(path), None
        if before is None:
            continue
        try:
            with closing(sqlite3.connect(unlocked, uri=True)) as opened:
                opened.set_progress_handler(lambda: time.monotonic() > until, _INSTRUCTIONS)
                opened.text_factory = lambda data: data[:_TEXT_BYTES].decode("utf-8", "replace")
                rows = question(lambda sql, values: opened.execute(sql, values).fetchall())
        except (sqlite3.Error, OSError, ValueError, OverflowError):
            rows = None
        if _state(path) == before:
            return rows
    return None


def _state(path: Path) -> Sequence[object] | None:
    """Return what changes with every transaction; None while one is open, or if there is no file."""
    with suppress(OSError):
        journal = Path(f"{path}-journal")
        if journal.exists() and journal.stat().st_size:
            return None
        found = path.stat()
        with path.open("rb") as file:
            return found.st_ino, found.st_size, found.st_mtime_ns, file.read(_COUNTER.stop)[_COUNTER]
    return None


def _value(key: object, step: object, at_ms: object, value: object, is_nan: object) -> Value | None:
    name = metric_name(key) if isinstance(key, str) else None
    place, found, at = step_number(step), number(value), number(at_ms)
    if name is None or place is None or found is None:
        return None
    return Value(name, place, wall_time(at / 1000) if at is not None else None, float("nan") if is_nan else found)
