"""Finds runs and follows them: ``RunReader.poll`` returns every run's state and the new points.

Polling is cheap: one ``stat`` per directory, and for each live rank one ``pread`` and its /proc entry. Ended runs are read
once. Nothing in a file is trusted; a file that is not a journal is remembered as a problem and skipped until it changes. A file
that cannot be read does not hide the others.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import NoReturn, TypeAlias

from gputop.errors import describe_unexpected
from gputop.places import runs_dir as default_runs_dir
from gputop.places import why_unlisted
from gputop.snapshot import FormatError, Points
from gputop.tracking.journal import places
from gputop.tracking.reader import kept, leftovers
from gputop.tracking.reader import labels as run_labels
from gputop.tracking.reader.followed import Followed, describe, stamp_of
from gputop.tracking.reader.kept import KeptLog
from gputop.tracking.reader.labels import Labels
from gputop.tracking.reader.rank_log import RankLog, Text
from gputop.tracking.reader.update import POLL_POINTS, RunUpdate

POLL_BYTES = 64 << 20
"""At most this much is read per poll, about half a second of work; the next polls read the rest."""
OPENING_S = 5.0
"""For this long after a ring was made, its live process may be opening its empty archive; later, the disk is full."""
Lost: TypeAlias = Callable[[str, Exception], object]
"""Is called with a run's id and an unexpected error in reading it."""
_RANK_FILE = re.compile(r"rank-\d{5,}(?:-\d+)?\.gpr")


def raise_lost(run_id: str, error: Exception) -> NoReturn:
    """Raise ``error``: the default for ``RunReader.poll``."""
    raise error


class RunReader:
    """Follows the runs below a directory: the newest ``recent_runs``, and all live ones."""

    def __init__(
        self,
        runs_dir: Path | None = None,
        *,
        backlog_points: int | None = 2000,
        recent_runs: int = 20,
        only: Container[str] | None = None,
    ) -> None:
        """Read nothing yet: ``poll`` does, and directories may be created later. With ``only``, follow no other run ids.

        ``backlog_points`` is how many points of each metric the past is reduced to. With None, no points are passed on, only
        the runs with their newest values: that takes half the time.
        """
        self._only = only
        self._runs_dir = Path(os.path.abspath(runs_dir or default_runs_dir()))
        self._keeper = kept.Keeper(backlog_points)
        self._recent_runs = recent_runs
        self._followed: dict[str, Followed] = {}
        self._directories: dict[str, Path] = {}
        self._mtimes: dict[Path, int] = {}
        self._rings: dict[Path, tuple[int, int]] = {}
        self._roots = places.archive_roots(self._runs_dir)
        self._live_dirs = places.live_dirs(self._runs_dir)
        self._is_shared = places.is_network(places.file_system(self._runs_dir))
        """Whether other machines may write there: then only their own journals show the state of their processes."""
        self._first = True
        self._unlisted: str | None = None
        """Why the directory of all runs cannot be listed, although something is in its place."""
        self.problems: dict[Path, str] = {}
        """Files that are not journals, and why."""
        self._empty: set[Path] = set()
        """Files without a byte so far: a rank opens them just now, or was killed as it did."""
        self._lost: Lost = raise_lost

    def unreadable(self) -> dict[str, str]:
        """Return run id -> file and reason, for the runs with a file that is not a readable journal.

        An empty id stands for the directory of all runs.
        """
        everything = {"": f"{self._runs_dir}: {self._unlisted}"} if self._unlisted is not None else {}
        return everything | {
            path.parent.name if path.suffix == ".gpr" else path.name.partition("-rank-")[0]: f"{path}: {why}"
            for path, why in self.problems.items()
            if os.path.lexists(path)
        }

    def unreadable_labels(self) -> dict[str, str]:
        """Return run id -> file and reason, for the followed runs whose labels cannot be read."""
        found = ((run.run_id, run.labels_problem) for run in self._followed.values())
        return {run_id: why for run_id, why in found if why is not None}

    def poll(self, lost: Lost = raise_lost) -> RunUpdate:
        """Return all followed runs, and the new points since the last poll.

        The contents of files never make it raise. ``lost`` is called with an unexpected error in one run; the others are
        still read.
        """
        self._lost = lost
        self._find_runs()
        for run_id, directory in self._directories.items():
            followed = self._followed.get(run_id)
            if followed is not None:
                self._find_ranks(followed, directory)
        self._find_rings()
        points: list[Points] = []
        budget = POLL_BYTES
        for followed in sorted(self._followed.values(), key=lambda run: (not run.alive, -run.changed_ns)):
            try:
                # A resumed run's oldest attempt first: its points are passed on in the order of its steps.
                for _, log in sorted(followed.logs.items()):
                    if budget > 0:
                        budget -= log.poll(budget, self._keeper.backlog(log), POLL_POINTS)
                        found = log.take_points()
                        points.extend(found)
                        self._keeper.took(log, found)
            except Exception as error:  # noqa: BLE001 - the caller reports it
                lost(followed.run_id, error)
        self._forget()
        runs = []
        for followed in self._followed.values():
            try:
                if followed.logs:
                    runs.append(describe(followed))
            except Exception as error:  # noqa: BLE001 - as above
                lost(followed.run_id, error)
        runs.sort(key=lambda run: run.created_at or 0.0, reverse=True)
        return RunUpdate(tuple(runs), tuple(points))

    def directory(self, run_id: str) -> Path | None:
        """Return where a run's journals are kept; None if there is only a ring."""
        return self._directories.get(run_id)

    def labels(self, run_id: str) -> Labels:
        """Return the labels that the user gave a run from outside."""
        followed = self._followed.get(run_id)
        return run_labels.NONE if followed is None else followed.labels

    def texts(self, run_id: str) -> list[tuple[int, Text]]:
        """Return the last lines of text of each rank of a run, oldest first: the rank, and the text."""
        followed = self._followed.get(run_id)
        found = [] if followed is None else [(rank, text) for (rank, _), log in followed.logs.items() for text in log.texts]
        return sorted(found, key=lambda item: item[1].time)

    def close(self) -> None:
        """Close all files."""
        for followed in self._followed.values():
            for log in followed.logs.values():
                log.close()
        self._followed.clear()

    def _changed(self, directory: Path) -> bool:
        """Return whether a directory's entries changed since the last call."""
        try:
            mtime = os.stat(directory).st_mtime_ns
        except OSError:
            mtime = 0
        if self._mtimes.get(directory) == mtime:
            return False
        self._mtimes[directory] = mtime
        return True

    def _find_runs(self) -> None:
        changed = [root for root in self._roots if self._changed(root)]
        if not changed:
            return
        self._unlisted = why_unlisted(self._runs_dir)
        if self._unlisted is not None:
            self._mtimes.pop(self._runs_dir, None)
        found: dict[str, tuple[int, Path]] = {}
        for root in self._roots:
            is_listed = self._unlisted is None if root == self._runs_dir else places.is_ours(root)
            if not is_listed:
                continue
            for entry in places.entries(root):
                try:
                    if self._wanted(entry.name) and entry.is_dir(follow_symlinks=False):
                        found[entry.name] = (entry.stat(follow_symlinks=False).st_mtime_ns, Path(entry.path))
                except OSError:
                    continue
        self._directories = {run_id: path for run_id, (_, path) in found.items()}
        newest = sorted(found, key=lambda run_id: found[run_id][0], reverse=True)
        for place, run_id in enumerate(newest):
            if run_id in self._followed:
                continue
            followed = Followed(run_id)
            self._find_ranks(followed, found[run_id][1])
            if place < self._recent_runs or followed.alive:
                self._followed[run_id] = followed
            else:
                for log in followed.logs.values():
                    log.close()
                self._mtimes.pop(found[run_id][1], None)

    def _wanted(self, run_id: str) -> bool:
        return self._only is None or run_id in self._only

    def _find_ranks(self, followed: Followed, directory: Path) -> None:
        if not self._changed(directory) and not self._unsettled(followed):
            return
        followed.changed_ns = self._mtimes.get(directory, 0)
        followed.read_labels(directory)
        found = [Path(entry.path) for entry in places.entries(directory) if _RANK_FILE.fullmatch(entry.name)]
        if followed.leave_replaced(found):
            self._mtimes.pop(directory, None)
        for path in found:
            self._open(followed, path, None)

    def _unsettled(self, followed: Followed) -> bool:
        """Return whether a file of this run could not be read (yet): it may have been read while it was being created."""
        return followed.labels_problem is not None or any(self._is_open_question(path) for path in followed.files)

    def _is_open_question(self, path: Path) -> bool:
        return path in self.problems or path in self._empty

    def _open(self, followed: Followed, archive: Path | None, ring: Path | None) -> None:
        path = archive or ring
        assert path is not None
        try:
            found = path.lstat()
            stamp = stamp_of(found)
            if followed.files.get(path) == stamp or (path in followed.files and not self._is_open_question(path)):
                return
            followed.files[path] = stamp
            if self._is_empty(path, found):
                return
            log = self._opened(archive, ring)
            if log.identity.run_id != followed.run_id:
                log.close()
                raise FormatError(f"belongs to run {log.identity.run_id}")
        except Exception as error:  # noqa: BLE001 - one file must not take away the other runs
            self._note_problem(path, followed.run_id, error)
            return
        self.problems.pop(path, None)
        key = (log.identity.rank, log.identity.attempt)
        if key in followed.logs:
            log.close()
        else:
            followed.logs[key] = log

    def _is_empty(self, path: Path, found: os.stat_result) -> bool:
        """Note whether a file holds nothing yet, which is no problem to report."""
        empty = stat.S_ISREG(found.st_mode) and not found.st_size
        (self._empty.add if empty else self._empty.discard)(path)
        return empty

    def _opened(self, archive: Path | None, ring: Path | None) -> RankLog | KeptLog:
        """Return the journal, or what is kept of it."""
        shared = self._is_shared and archive is not None and archive.is_relative_to(self._runs_dir)
        found = kept.load(archive, self._keeper.points or 0) if archive is not None and ring is None and not shared else None
        if found is not None:
            return found
        log = RankLog(archive, ring, shared=shared)
        if not shared:  # nothing is written where other machines write
            self._keeper.began(log)
        return log

    def _find_rings(self) -> None:
        """Find runs that have only rings, because their archive's directory is read-only or deleted."""
        for directory in self._live_dirs:
            if not self._changed(directory) and not self._first:
                continue
            if not places.is_ours(directory):
                continue
            for entry in places.entries(directory):
                path = Path(entry.path)
                if path.suffix == ".ring" and not any(path == log.ring for log in self._logs()):
                    self._open_ring_only(path)
        self._first = False

    def _open_ring_only(self, path: Path) -> None:
        try:
            found = path.lstat()
            stamp = (found.st_mtime_ns, found.st_size)
            if self._rings.get(path) == stamp:
                return
            if self._is_empty(path, found):
                self._look_again(path)
                return
            self._rings[path] = stamp
            log = RankLog(None, path)
        except Exception as error:  # noqa: BLE001 - as in _open
            self._note_problem(path, path.stem, error)
            return
        self.problems.pop(path, None)
        partner = log.reader.header.partner
        size = _size_of(partner) if partner else None
        # A container's archive may only be visible there, so its run counts as deleted no sooner than its ring.
        deleted = size is None and not log.elsewhere
        if size or (partner and not log.alive and (deleted or not log.reader.live.head)):
            self._leave_to_archive(log, path, Path(partner))
            return
        if size == 0 and log.alive and time.time() - log.identity.created_ns / 1e9 < OPENING_S:
            log.close()
            self._look_again(path)
            return
        if not self._wanted(log.identity.run_id):
            log.close()
            return
        followed = self._followed.setdefault(log.identity.run_id, Followed(log.identity.run_id))
        key = (log.identity.rank, log.identity.attempt)
        while key in followed.logs:
            key = (key[0], key[1] + 1)
        followed.logs[key] = log

    def _look_again(self, ring: Path) -> None:
        self._rings.pop(ring, None)
        self._mtimes.pop(ring.parent, None)

    def _leave_to_archive(self, log: RankLog, ring: Path, archive: Path) -> None:
        """Leave a ring to its archive; free its memory if its process is dead, even for a run too old to be followed."""
        log.close()
        if log.alive:
            return
        try:
            if _size_of(archive) is None or not log.reader.live.head:
                ring.unlink()  # the run was deleted, or it wrote no record
            else:
                leftovers.settle(log, ring, archive)
        except Exception as error:  # noqa: BLE001 - as in _open
            self._note_problem(ring, log.identity.run_id, error)

    def _note_problem(self, path: Path, run_id: str, error: Exception) -> None:
        if isinstance(error, OSError | FormatError):
            self.problems[path] = getattr(error, "strerror", None) or str(error)
            return
        self.problems[path] = describe_unexpected(error)
        self._lost(run_id, error)

    def _logs(self) -> Iterable[RankLog | KeptLog]:
        return (log for followed in self._followed.values() for log in followed.logs.values())

    def _forget(self) -> None:
        """Drop runs whose directory is gone, and the oldest ended runs beyond the limit."""
        ended = [run for run in self._followed.values() if not run.alive]
        ended.sort(key=lambda run: run.changed_ns, reverse=True)
        free = max(0, self._recent_runs - (len(self._followed) - len(ended)))
        for index, run in enumerate(ended):
            gone = run.run_id not in self._directories and all(log.archive is not None for log in run.logs.values())
            if index >= free or gone:
                for log in run.logs.values():
                    log.close()
                del self._followed[run.run_id]


def _size_of(path: str | Path) -> int | None:
    """Return the size of a file; None if it is gone."""
    try:
        return os.stat(path).st_size
    except OSError:
        return None
