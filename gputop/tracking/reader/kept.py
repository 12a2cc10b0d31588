"""The summary kept next to an ended journal, so that the run opens without reading the journal again.

A journal of ten million values takes seconds to read, and so do a thousand journals. A reader that reaches the end of an ended
journal leaves one small file: a line with the rank's facts and state, and, for a large journal, a line with its decimated
points. It is valid while the journal has the size and time that the file names; otherwise, or if it is damaged, the journal is
read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from gputop.places import open_regular, replace_file
from gputop.snapshot import ENDED_STATES, Points, Rank
from gputop.stream import point_rows, points_of
from gputop.tracking.journal.places import is_ours
from gputop.tracking.reader.decimate import Decimator
from gputop.tracking.reader.rank_log import RankLog, Text
from gputop.wire import FormatError, decode, encode, parse_json

VERSION = 1
SUFFIX = ".kept"
KEPT_POINTS = 2000
"""Points kept of each metric, as many as a screen asks for; a reader that wants more reads the journal."""
POINTS_FROM_BYTES = 1 << 20
"""No points of a smaller journal are kept: they would take more space than the journal, which is read in milliseconds."""
NONE_BELOW = 8
"""A reader that wants fewer points than this is listing runs, and gets none."""
KEPT_BYTES = 64 << 20
"""A larger file is not gputop's."""
_HEAD_BYTES = 256 << 10
"""The most that the first line of a kept file may have."""


@dataclass(frozen=True, slots=True)
class Who:
    """The parts of a journal's identity that a run is assembled from."""

    run_id: str
    rank: int
    attempt: int
    created_ns: int


@dataclass(frozen=True, slots=True)
class Head:
    """The first line. ``journal_bytes`` and ``journal_ns`` are the journal's size and modification time."""

    version: int
    journal_bytes: int
    journal_ns: int
    identity: Who
    state: Rank
    card: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    texts: tuple[Text, ...] = ()
    has_points: bool = False


class KeptLog:
    """An ended journal as it was kept; offers what ``RankLog`` does."""

    ring = None
    done = True
    alive = False

    def __init__(self, archive: Path, head: Head, points: Sequence[Points]) -> None:
        self.archive = archive
        self.identity = head.identity
        self.config = dict(head.config)
        self.texts = head.texts
        self._head = head
        self._points = list(points)

    def poll(self, budget: int, backlog_points: int | None, poll_points: int) -> int:
        """Read nothing: everything is known."""
        return 0

    def take_points(self) -> list[Points]:
        """Return the points, once."""
        points, self._points = self._points, []
        return points

    def rank(self) -> Rank:
        """Return the rank as its journal left it."""
        return self._head.state

    def text(self, name: str) -> str | None:
        """Return an entry of the card if it is a string."""
        value = self._head.card.get(name)
        return value if isinstance(value, str) else None

    @property
    def command(self) -> tuple[str, ...] | None:
        """The command line that the process was started with."""
        value = self._head.card.get("command")
        return tuple(str(part) for part in value) if isinstance(value, list) else None

    def ended_at(self) -> float | None:
        """Return when the journal was last written."""
        seconds, nanoseconds = divmod(self._head.journal_ns, 10**9)
        return seconds + 1e-9 * nanoseconds  # rounded like the journal's own time

    def close(self) -> None:
        """Do nothing: no file is open."""


def load(archive: Path, points: int) -> KeptLog | None:
    """Return what is kept of a journal; None if there is nothing, or if it belongs to another journal, is damaged, or has too
    few points."""
    if points > KEPT_POINTS:
        return None
    try:
        with open_regular(_path_of(archive)) as file:
            found = os.fstat(file.fileno())
            if found.st_uid != os.geteuid() or found.st_size > KEPT_BYTES:
                return None
            head = decode(Head, parse_json(file.readline(_HEAD_BYTES)))
            journal = archive.lstat()
            stamp = (VERSION, journal.st_size, journal.st_mtime_ns, archive.parent.name)
            if stamp != (head.version, head.journal_bytes, head.journal_ns, head.identity.run_id):
                return None
            if head.state.state not in ENDED_STATES:
                return None
            if points < NONE_BELOW:
                return KeptLog(archive, head, ())
            if not head.has_points:
                return None
            tail = parse_json(file.readline(KEPT_BYTES))
            points_kept = points_of(tail.get("points") if isinstance(tail, dict) else None)
            if any(not len(part.steps) == len(part.times) == len(part.values) for part in points_kept):
                return None
            return KeptLog(archive, head, points_kept)
    except (OSError, FormatError):
        return None


class Keeper:
    """Keeps what one reader reads from journals that had ended when it opened them."""

    def __init__(self, points: int | None) -> None:
        """``points`` is how many points of each metric the reader wants; None: none at all, only the runs."""
        self.points = points
        # A journal that is not followed after all is forgotten with its log.
        self._taken: WeakKeyDictionary[RankLog, list[Points]] = WeakKeyDictionary()
        self._whole: WeakSet[RankLog] = WeakSet()
        """The logs of which as many points are read as are kept."""

    def began(self, log: RankLog) -> None:
        """Follow the reading of a journal."""
        if (self.points or 0) > KEPT_POINTS or log.alive or log.archive is None:
            return
        self._taken[log] = []
        with suppress(OSError):
            # For a list, a large journal is read in full. Whoever opens the run next would wait for the same again.
            if self.points == KEPT_POINTS or (self.points is not None and log.archive.stat().st_size >= POINTS_FROM_BYTES):
                self._whole.add(log)

    def backlog(self, log: RankLog | KeptLog) -> int | None:
        """Return how many points of each metric to read of a journal's past."""
        return KEPT_POINTS if log in self._whole else self.points

    def took(self, log: RankLog | KeptLog, points: Sequence[Points]) -> None:
        """Add what was read of it; at its end, write the file."""
        if not isinstance(log, RankLog) or log not in self._taken:
            return
        if log in self._whole:
            self._taken[log] += points
        if not log.done:
            return
        taken = self._taken.pop(log)
        if log.read_to_end:
            # A full disk, or another user's directory: the journal is read again next time.
            with suppress(OSError):
                _write(log, taken, log in self._whole)


def _write(log: RankLog, points: Iterable[Points], whole: bool) -> None:
    archive = log.archive
    if archive is None or not is_ours(archive.parent) or (log.ring is not None and log.ring.exists()):
        return
    journal, directory = archive.lstat(), archive.parent.lstat()
    who = log.identity
    head = Head(
        VERSION,
        journal.st_size,
        journal.st_mtime_ns,
        Who(who.run_id, who.rank, who.attempt, who.created_ns),
        log.rank(),
        log.card,
        log.config,
        tuple(log.texts),
        whole and journal.st_size >= POINTS_FROM_BYTES,
    )
    lines = [json.dumps(encode(head))]
    if len(lines[0]) >= _HEAD_BYTES or head.state.state not in ENDED_STATES:
        return
    if head.has_points:
        lines.append(json.dumps({"points": point_rows(_joined(points), encode)}))
    try:
        replace_file(_path_of(archive), ("\n".join(lines) + "\n").encode())
    finally:
        # The newest runs are those whose directory changed last, and reading one does not make it new.
        os.utime(archive.parent, ns=(directory.st_atime_ns, directory.st_mtime_ns))


def _joined(points: Iterable[Points]) -> list[Points]:
    """Return one series per metric: a large journal was read, and decimated, in several parts."""
    series: dict[str, list[Points]] = {}
    for part in points:
        series.setdefault(part.metric, []).append(part)
    return [parts[0] if len(parts) == 1 else decimated(parts, KEPT_POINTS) for parts in series.values()]


def decimated(parts: Sequence[Points], limit: int) -> Points:
    """Return consecutive points of one metric as one series of at most ``limit`` points; no spike is lost."""
    whole = Decimator(limit)
    for part in parts:
        nanoseconds = [int(time * 1e9) for time in part.times]
        whole.extend(part.steps, nanoseconds, part.values, lambda at: at / 1e9)
    steps, times, values = whole.columns()
    return replace(parts[0], steps=steps, times=times, values=values)


def _path_of(archive: Path) -> Path:
    return archive.with_name(archive.name + SUFFIX)
