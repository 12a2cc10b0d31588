"""The error texts in the output of an untracked run: found as the output grows, and explained as ``gputop doctor --log`` does.

The exit code of a run that gputop did not start is unknown. Such a run has likely failed if its output contains a text that
ends a run, followed by no progress and few other lines, and if a rank seen before is gone. While all ranks live, the run counts
as having survived the text. Text that a file contained when gputop found the run may be older than the run: it explains no
failure.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from gputop.doctor.logs.last_words import TAIL_LINES
from gputop.doctor.logs.meaning.explain import explain
from gputop.doctor.logs.observation import Observation
from gputop.doctor.logs.scan import LogScan
from gputop.jobs.output.matches import READ_BYTES, Budget, of_run, rotated
from gputop.snapshot import JobState, LogMatch
from gputop.untracked.outputs import OutputFile
from gputop.untracked.printed import PrintedLog
from gputop.untracked.restarts import Ends

FILES = 32
"""Maximum number of files read per run: two for each rank of a large node, and its launcher's."""
OUTLIVED_S = 10.0
"""A process that is still alive this long after printing progress below a traceback has caught that error. A failing script
also writes its buffered output below the traceback, and then takes seconds to free its memory."""

Text = tuple[LogScan, Observation]
"""A text and the scan that found it."""


class OutputErrors:
    """The error texts of one run. ``matches`` is replaced as a whole, so that another thread may read it."""

    def __init__(self, run_id: str, ends: Ends | None = None) -> None:
        """Nothing is read before ``read``. ``ends``: those of the run's starts before this one, if it was read before."""
        self.run_id = run_id
        self.ends = ends or Ends()
        self.matches: tuple[LogMatch, ...] = ()
        self.identities: frozenset[tuple[int, int]] = frozenset()
        """Device and inode of the files and of the window: output that two runs share belongs to neither."""
        self.lasting: frozenset[str] = frozenset()
        """The names of the patterns in ``matches`` whose text stays true while the run continues."""
        self.at_end = False
        """Whether every file was read to its end."""
        self._files: dict[Path, PrintedLog] = {}
        self._losses = Losses(OUTLIVED_S)
        self._followed: dict[tuple[LogScan, int], float] = {}
        self._state: tuple[object, ...] = ()
        self._panes: list[LogScan] = []
        self._reads = 0

    @property
    def pids(self) -> frozenset[int]:
        """All ranks of the run seen so far."""
        return self._losses.seen

    @property
    def reads_something(self) -> bool:
        """Whether the run's output is a readable file or window."""
        return bool(self._files or self._panes)

    def follow(
        self,
        printed: Mapping[int, tuple[OutputFile, ...]],
        started_at: float | None = None,
        as_found: Mapping[Path, os.stat_result] | None = None,
    ) -> None:
        """Read these files, too.

        Args:
            printed: the files by rank; a file that several ranks share is listed under one of them.
            started_at: wall clock at which the run started, if known.
            as_found: the state of the files when they were found, if that was earlier.
        """
        names = [file.path.name for files in printed.values() for file in files]
        for rank, files in printed.items():
            for file in files:
                if file.path in self._files or len(self._files) >= FILES:
                    continue
                name = file.path.name if names.count(file.path.name) == 1 else str(file.path)
                found = (as_found or {}).get(file.path)
                self._files[file.path] = PrintedLog(file.path, name, rank if len(printed) > 1 else None, started_at, found)
                self.identities |= {file.identity}

    def follow_pane(self, scan: LogScan, identity: tuple[int, int]) -> None:
        """Also judge the scanned text of a window; ``identity``: device and inode of its terminal."""
        if scan not in self._panes:
            self._panes = [scan]
        self.identities |= {identity}

    def read(self, pids: Collection[int], now: float, ended: bool = False) -> None:
        """Read the next bytes of the files, as far as one ``Budget`` goes.

        Args:
            pids: the run's live ranks.
            now: seconds of a steady clock.
            ended: whether nothing writes the files any more.
        """
        replaced, are_all = self._losses.update(pids, now), self._losses.all_new
        if replaced:
            self._restart(now if are_all else None)
        was_at_end = self.at_end
        self._read_files(ended)
        scans = self._scans()
        if was_at_end and self.at_end:
            self._losses.note_progress(sum(scan.tail.progress for scan in scans), now)
        lost = self._losses.are_any
        texts = [(scan, item) for scan in scans for item in scan.observations]
        if not lost:
            self._outlive(texts, now)
        _survive([(scan, item) for scan, item in texts if scan.tail.plain - item.plain > TAIL_LINES])
        repeated = self.ends.repeated(now)
        state = (lost, bool(pids), repeated, *((scan, scan.lines, scan.progress, len(scan.observations)) for scan in scans))
        if state != self._state:
            self._state = state
            self.matches = self._judge(scans, alive=bool(pids), lost=lost, repeated=repeated, now=now)

    def _scans(self) -> list[LogScan]:
        return [file.scan for file in self._files.values() if file.readable] + self._panes

    def _read_files(self, ended: bool) -> None:
        """Read the files as far as one ``Budget`` goes; each call begins with a different file."""
        budget = Budget()
        files = list(self._files.values())
        self._reads += 1
        for file in rotated(files, self._reads):
            size = budget.read(file, READ_BYTES, finished=ended)
            if self._losses.are_any and not size and file.at_end:
                file.scan.end()  # the traceback of a rank that has ended is complete, although no line follows it
        self.at_end = all(file.at_end for file in files)
        for pane in self._panes if ended else ():
            pane.end()

    def _judge(
        self, scans: list[LogScan], alive: bool, lost: bool, repeated: Observation | None, now: float
    ) -> tuple[LogMatch, ...]:
        root = explain(scans).root
        if root is not None and alive and root.followed:
            root = None
        if root is not None and lost and not alive:
            self.ends.note(self, root, now)
        if root is None and repeated is not None:
            root, lost = repeated, True
        hints = [item for file in self._files.values() for item in file.hints]
        others = hints + [item for scan in scans for item in scan.observations if item.pattern is not None]
        kept = [
            item for item in others if (alive and _lasts(item)) or (not item.went_on and (not item.failure or root is not None))
        ]
        self.lasting = frozenset(item.pattern.id for item in kept if item.pattern is not None and item.pattern.lasting)
        # The rank that ended first may have printed nothing: then only the consequences show the failure.
        consequence = not alive and any(item.raised_by_another for item in kept)
        state: JobState = "failed" if lost and (root is not None or consequence) else "running"
        return of_run(self.run_id, None, state, root, kept, unproven=True)

    def _restart(self, now: float | None) -> None:
        """Mark all texts as survived: a launcher that replaced the failed ranks has continued after them.

        ``now``: the time, if it has replaced all ranks.
        """
        if now is not None:
            self._read_files(ended=False)
        for file in self._files.values():
            if file.at_end:
                file.scan.end()
        root = explain(self._scans()).root
        if now is not None and root is not None:
            self.ends.note(self, root, now)
        _survive([(scan, item) for scan in self._scans() for item in scan.observations])

    def _outlive(self, texts: list[Text], now: float) -> None:
        """Mark the texts that progress has followed for a while, and that ended no process."""
        followed = [(scan, item) for scan, item in texts if item.followed]
        self._followed = {(scan, item.at): self._followed.get((scan, item.at), now) for scan, item in followed}
        _survive([(scan, item) for scan, item in followed if now - self._followed[scan, item.at] >= OUTLIVED_S])


def _lasts(item: Observation) -> bool:
    return item.pattern is not None and item.pattern.lasting


def _survive(texts: list[Text]) -> None:
    for scan in {scan for scan, _ in texts}:
        scan.outlive({item.at for other, item in texts if other is scan and item.failure})


class Losses:
    """Counts the lost ranks, except for those that were replaced and those after which training continued."""

    def __init__(self, outlived_s: float) -> None:
        """``outlived_s``: after this many seconds of progress, the run counts as continuing without the lost process."""
        self.seen: frozenset[int] = frozenset()
        """All ranks seen so far. Replaced as a whole, so that another thread may read it."""
        self._outlived_s = outlived_s
        self.all_new = False
        """Whether none of the ranks alive was alive at the update before."""
        self._alive: frozenset[int] = frozenset()
        self._lost: dict[int, float] = {}
        self._progress: int | None = None

    @property
    def are_any(self) -> bool:
        """Whether a lost rank is not yet forgiven."""
        return bool(self._lost)

    def update(self, pids: Collection[int], now: float) -> bool:
        """Note which ranks are alive; return whether new ones have replaced lost ones.

        Args:
            pids: the live ranks.
            now: seconds of a steady clock.
        """
        alive = frozenset(pids)
        new = alive - self.seen
        self.all_new = bool(alive) and alive.isdisjoint(self._alive)
        for pid in sorted(self._alive - alive):
            self._lost[pid] = now
        replaced = list(self._lost)[: len(new)]
        for pid in (*replaced, *(alive & self._lost.keys())):
            self._lost.pop(pid, None)
        self._alive = alive
        self.seen |= alive
        return bool(replaced)

    def note_progress(self, lines: int, now: float) -> None:
        """Forgive the losses that progress has followed for a while, if any rank is alive; ``lines``: lines of progress so
        far."""
        grew = self._progress is not None and lines > self._progress
        self._progress = lines
        if grew and self._alive:
            self._lost = {pid: at for pid, at in self._lost.items() if now - at < self._outlived_s}
