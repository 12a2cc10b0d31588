"""A file that an untracked run prints to, split into what it contained when the run was found and what came after.

The first part may be another run's, in a log that is appended to or a file that a batch script shares. Its errors are not
judged, because the ranks were alive after them. Its hints count, unless the file was last written before the run started.
"""

from __future__ import annotations

import os
from pathlib import Path

from gputop.doctor.logs.observation import Observation
from gputop.doctor.logs.scan import LogScan
from gputop.jobs.output.scan import ScannedLog

CLOCK_S = 2.0
"""A file counts as last written before the run only if it was this long before: a process's start is known only to the
second."""


class PrintedLog:
    """One file of a run's output, scanned as it grows."""

    def __init__(
        self, path: Path, name: str, rank: int | None, started_at: float | None, found: os.stat_result | None = None
    ) -> None:
        """``started_at``: wall clock at which the run started, if known. ``found``: the file's state when it was found."""
        self.hints: tuple[Observation, ...] = ()
        """Texts in the first part that are known to be no failure."""
        self.at_end = False
        self._log = ScannedLog(path, name, rank)
        self._before_bytes, self._is_older = 0, False
        try:
            found = found or path.stat()
        except OSError:
            return
        self._before_bytes = found.st_size
        self._is_older = started_at is not None and found.st_mtime < started_at - CLOCK_S

    @property
    def scan(self) -> LogScan:
        """The scan of the run's output since it was found."""
        return self._log.scan

    @property
    def readable(self) -> bool:
        """Whether the file was opened, and read to where the run was found."""
        return self._log.readable and not self._before_bytes

    def read(self, max_bytes: int, finished: bool) -> int:
        """Scan at most ``max_bytes`` more and return how many; ``finished``: no more will be written."""
        before, scan = self._log.offset, self._log.scan
        if self._before_bytes:
            max_bytes = min(max_bytes, self._before_bytes - before)
        size = self._log.read(max_bytes, finished and not self._before_bytes)
        self.at_end = self._log.at_end
        if not self._before_bytes:
            return size
        if self._log.scan is not scan:
            self._before_bytes = 0  # truncated: the run writes it again
        elif self._log.offset >= self._before_bytes:
            self._before_bytes = 0
            old = self._log.begin_anew()
            if not self._is_older:
                self.hints = tuple(item for item in old.observations if _is_hint(item))
        return size


def _is_hint(item: Observation) -> bool:
    return item.pattern is not None and not item.failure and not item.pattern.cascade
