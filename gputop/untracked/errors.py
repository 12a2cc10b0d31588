"""The error texts in what an untracked run prints: found as it grows, explained as ``gputop doctor --log`` explains a file.

A run that gputop did not start has no exit code. It failed if a text that ends a run stands in its output, nothing of the
training follows it, and a rank that was seen is gone. While all its ranks live, the text is passed on as one that the run
survives.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from gputop.doctor.logs.explain import explain
from gputop.doctor.logs.scan import LogScan
from gputop.jobs.output.matches import READ_BYTES, TICK_BYTES, of_run
from gputop.jobs.output.scan import ScannedLog
from gputop.snapshot import LogMatch
from gputop.untracked.outputs import OutputFile

FILES = 32
"""At most this many files of one run are read: two of each rank of a large node, and its launcher's."""
OUTLIVED_S = 10.0
"""A process that lives on for so long after it printed progress below a traceback caught that error. A script that ends
writes what it had buffered below its traceback, too, and takes seconds to free what it holds."""


class OutputErrors:
    """The error texts of one run. ``matches`` is replaced whole, so that another thread may take it."""

    def __init__(self, run_id: str) -> None:
        """Nothing is read before ``read``."""
        self.run_id = run_id
        self.matches: tuple[LogMatch, ...] = ()
        self.identities: frozenset[tuple[int, int]] = frozenset()
        """Device and inode of the files: what two runs print to one file is neither's."""
        self._files: dict[Path, ScannedLog] = {}
        self._seen: set[int] = set()
        self._followed: dict[tuple[str, int], float] = {}
        self._state: tuple[object, ...] = ()
        self._panes: list[LogScan] = []

    @property
    def pids(self) -> frozenset[int]:
        """Every rank of the run that was seen."""
        return frozenset(self._seen)

    @property
    def reads_something(self) -> bool:
        """Whether the run's output is a file or a window that can be read."""
        return bool(self._files or self._panes)

    def follow(self, printed: Mapping[int, tuple[OutputFile, ...]]) -> None:
        """Read these files, too; ``printed`` has them by rank, and one that several ranks share under one of them."""
        names = [file.path.name for files in printed.values() for file in files]
        for rank, files in printed.items():
            for file in files:
                if file.path in self._files or len(self._files) >= FILES:
                    continue
                name = file.path.name if names.count(file.path.name) == 1 else str(file.path)
                self._files[file.path] = ScannedLog(file.path, name, rank if len(printed) > 1 else None)
                self.identities |= {file.identity}

    def follow_pane(self, scan: LogScan) -> None:
        """Judge what is scanned of a window, too."""
        if scan not in self._panes:
            self._panes = [scan]

    def read(self, pids: Collection[int], now: float, ended: bool = False) -> None:
        """Read the next bytes of each file, at most ``TICK_BYTES`` of all.

        Args:
            pids: the run's ranks that live.
            now: seconds of a steady clock.
            ended: whether nothing writes the files any more.
        """
        self._seen = self._seen.union(pids)  # replaced whole, like ``matches``
        lost = len(self._seen.difference(pids))
        room = TICK_BYTES
        for file in self._files.values():
            if room > 0:
                size = file.read(min(READ_BYTES, room), finished=ended)
                room -= size
                if lost and not size and file.at_end:
                    file.scan.end()  # a traceback whose rank is gone is whole, though no line follows it
        for pane in self._panes if ended else ():
            pane.end()
        scans = [file.scan for file in self._files.values() if file.readable] + self._panes
        if not lost:
            self._outlive(scans, now)
        state = (lost, *((scan.lines, scan.progress, len(scan.observations)) for scan in scans))
        if state != self._state:
            self._state = state
            self.matches = self._judge(scans, alive=bool(pids), lost=bool(lost))

    def _judge(self, scans: list[LogScan], alive: bool, lost: bool) -> tuple[LogMatch, ...]:
        root = explain(scans).root
        if root is not None and alive and root.followed:
            root = None
        others = [item for scan in scans for item in scan.observations if item.pattern is not None]
        kept = [item for item in others if not item.went_on and (not item.failure or root is not None)]
        return of_run(self.run_id, None, "failed" if lost and root is not None else "running", root, kept)

    def _outlive(self, scans: list[LogScan], now: float) -> None:
        """Mark the texts that progress has followed for a while, and that no process ended of."""
        followed = {(scan.name, item.line_number) for scan in scans for item in scan.observations if item.followed}
        self._followed = {key: self._followed.get(key, now) for key in followed}
        for scan in scans:
            scan.outlive({line for (name, line), at in self._followed.items() if name == scan.name and now - at >= OUTLIVED_S})
