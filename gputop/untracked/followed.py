"""Follows the sources of one untracked run on its own thread, so that a hanging network file system blocks nothing else.

The thread reads once per request and ends on request. ``RunCurves`` holds what it has read.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gputop.process import DEAD_STATES, ProcessRun, Repeated
from gputop.snapshot import LogMatch
from gputop.sources.host import procfs
from gputop.untracked.outputs import OutputFile, files_of, log_files
from gputop.untracked.run_curves import RunCurves
from gputop.untracked.search import search

if TYPE_CHECKING:
    from gputop.untracked.errors import OutputErrors
    from gputop.untracked.restarts import Ends

SEARCH_S = 10.0
"""How often to check which files a run writes: a launcher may restart its ranks, and a library may start another file."""
FIRST_SEARCH_S = 2.0
"""How often to search at first, while none of its files is known."""
PATIENCE = 5
"""While no file is known, search again after a fifth of the time that the run was followed, within these limits: searching for
the files of eight such runs costs the sampler as much CPU as everything else."""
SEARCH_SHARE = 50
"""The pause between two searches, as a multiple of the time that one takes."""
TURN_S = 0.5
"""A turn that reads longer leaves the rest to the next one."""
LAST_WORDS_S = 10.0
"""How long to keep reading after a run's last process has ended: its launcher reports on it, and its window shows what the
shell says."""
LAST_READ_S = 1.0
"""The pause between two readings during that time."""
READ_ON_S = 30.0
"""How much longer to read if more output is left then."""
READ_ON_PAUSE_S = 0.1
"""The pause between two readings during that longer time."""
SETTLED_S = 60.0
"""A rank whose process group no other rank has joined for this long is taken to be alone in it (our choice)."""
PANE_S = 5.0
"""How often a pane of tmux or screen is read: each reading starts a process or two."""


def next_search_s(found: bool, followed_s: float, took_s: float) -> float:
    """Return the seconds until the next search.

    Args:
        found: whether a file of the run is known.
        followed_s: how long the run has been followed.
        took_s: how long the last search took.
    """
    wait_s = SEARCH_S if found else min(SEARCH_S, max(FIRST_SEARCH_S, followed_s / PATIENCE))
    return max(wait_s, SEARCH_SHARE * took_s)


class FollowedRun:
    """One run and what was read of its files so far."""

    def __init__(self, run_id: str, *, explained: bool = True, ends: Ends | None = None) -> None:
        """Nothing is read before ``ask``.

        Args:
            run_id: the run.
            explained: whether to search its output for error texts, too.
            ends: what ended its ranks before these, if its launcher has started others.
        """
        self.run_id = run_id
        self._ends = ends
        self.curves = RunCurves()
        self.failure: Exception | None = None
        self.connected: bool | None = None
        """Whether its ranks are connected: what ``connections`` found at the last search."""
        self.errors: OutputErrors | None = None
        """None until the first turn, which is short, is over: importing the modules that judge texts takes long."""
        self._explained = explained
        self._completed: tuple[ProcessRun, tuple[bool | None, Repeated | None, str], ProcessRun] | None = None
        self._due_s = 0.0
        self._first_s: float | None = None
        self._pane_due_s = 0.0
        self._to_judge: Mapping[int, tuple[OutputFile, ...]] = {}
        self._as_found: dict[Path, os.stat_result] = {}
        self._turn = threading.Condition()
        self._asked: tuple[ProcessRun, Collection[int]] | None = None
        self._turns = 0
        self._waited = False
        self._ended = False
        self._dropped = False
        self._rests = False
        self._thread: threading.Thread | None = None

    @property
    def is_new(self) -> bool:
        """Whether no caller has waited for its first turn yet."""
        return not self._waited

    @property
    def is_stuck(self) -> bool:
        """Whether the thread still runs after a request to end, other than to wait for the run's last words."""
        return self._ended and not self._rests and self.lingers

    @property
    def lingers(self) -> bool:
        """Whether the thread still runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def error_texts(self) -> tuple[LogMatch, ...]:
        """What is known about the error texts that the run prints."""
        return self.errors.matches if self.errors is not None else ()

    @property
    def printed_to(self) -> frozenset[tuple[int, int]]:
        """Device and inode of the files and terminals that are searched for error texts."""
        return self.errors.identities if self.errors is not None else frozenset()

    @property
    def pids(self) -> frozenset[int]:
        """All ranks seen since error texts are searched for."""
        return self.errors.pids if self.errors is not None else frozenset()

    @property
    def ends(self) -> Ends | None:
        """What ended its ranks, and those before them; None before any text was read."""
        return self.errors.ends if self.errors is not None else self._ends

    def completed(self, run: ProcessRun) -> ProcessRun:
        """Return the run with what only its follower knows: the same record as before if nothing is new."""
        known = self.connected, self.curves.repeated, self.run_id
        if self._completed is None or self._completed[0] is not run or self._completed[1] != known:
            now = replace(run, connected=known[0], repeated=known[1], output_id=known[2])
            self._completed = run, known, now
        return self._completed[2]

    def ask(self, run: ProcessRun, tracked: Collection[int]) -> None:
        """Request a turn and return at once. There is none while no file is known and no search is due."""
        if self._thread is not None and not self._has_work():
            return
        with self._turn:
            self._asked = run, tracked
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="curves", daemon=True)
                self._thread.start()
            self._turn.notify_all()

    def _has_work(self) -> bool:
        """Return whether there is a file to read or to search for. It takes no lock: at worst, a turn is late."""
        now = time.monotonic()
        return self.curves.has_files or now >= self._due_s or now >= self._pane_due_s

    def wait(self, seconds: float) -> None:
        """Wait until the first turn is done, at most ``seconds``."""
        self._waited = True
        with self._turn:
            self._turn.wait_for(lambda: self._turns > 0, seconds)

    def end(self, dropped: bool = False) -> None:
        """Ask the thread to end once it has read the run's last words; ``dropped``: at once, because the run is tracked now."""
        with self._turn:
            self._ended, self._dropped = True, dropped
            self._turn.notify_all()

    def _work(self) -> None:
        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._ended or self._asked is not None)
                if self._ended or self._asked is None:
                    break
                (run, tracked), self._asked = self._asked, None
            try:
                self._search_and_read(run, tracked)
            except Exception as error:  # noqa: BLE001 - the sampler tells the user, and reads the other runs
                self.failure = error
            with self._turn:
                self._turns += 1
                self._turn.notify_all()
            try:
                self._scan_for_errors(run)
            except Exception as error:  # noqa: BLE001 - as above
                self.failure = error
        try:
            self._read_last_words()
        except Exception as error:  # noqa: BLE001 - as above
            self.failure = error

    def _read_last_words(self) -> None:
        until = time.monotonic() + LAST_WORDS_S
        if not self._dropped:
            self.curves.read_on(time.monotonic() + TURN_S)
        while self.errors is not None and self.errors.reads_something and not self._dropped:
            ended = time.monotonic() >= until
            if self.curves.pane is not None:
                self.curves.pane.read()
            # Surviving ranks now belong to a run with another name, because the first rank is gone.
            alive = [pid for pid in self.errors.pids if _lives(pid)]
            self.errors.read(alive, time.monotonic(), ended)
            if ended and (self.errors.at_end or time.monotonic() >= until + READ_ON_S):
                return
            self._rests = True
            time.sleep(LAST_READ_S if not ended else READ_ON_PAUSE_S)
            self._rests = False

    def _search_and_read(self, run: ProcessRun, tracked: Collection[int]) -> None:
        began = time.monotonic()
        if began >= self._due_s:
            printed = files_of(run)
            own = {file.path for files in printed.values() for file in files}
            found = [item for item in search(run, tracked) if own.isdisjoint(item.paths)]
            took = time.monotonic() - began
            self._first_s = began if self._first_s is None else self._first_s
            self._due_s = began + next_search_s(bool(found), began - self._first_s, took)
            logs = log_files(run, own.union(*(item.paths for item in found)))
            self.curves.take_in(found, printed, logs, min((rank.rank or 0 for rank in run.ranks), default=0))
            if len(run.ranks) > 1 and self.connected is not True:
                from gputop.untracked.connections import connected

                self.connected = connected(run, settled=began - self._first_s >= SETTLED_S)
            if not run.starting:  # gputop reads the output of what it started itself
                self._to_judge = printed
                self._note_sizes(printed)
        self.curves.read_on(time.monotonic() + TURN_S)
        if began >= self._pane_due_s and not self.curves.has_values:
            self._pane_due_s = began + PANE_S
            self.curves.read_pane(run)

    def _note_sizes(self, printed: Mapping[int, tuple[OutputFile, ...]]) -> None:
        """Note what the files contained when they were found: the modules that judge later text are still to be imported."""
        for file in (file for files in printed.values() for file in files):
            if file.path not in self._as_found:
                with contextlib.suppress(OSError):
                    self._as_found[file.path] = file.path.stat()

    def _scan_for_errors(self, run: ProcessRun) -> None:
        if not self._explained:
            return
        if self.errors is None:
            if not self._to_judge and self.curves.pane is None:
                return  # nothing to read: do not import the known texts, which take 2 MiB
            from gputop.untracked.errors import OutputErrors

            self.errors = OutputErrors(self.run_id, self._ends)
        if self._to_judge:
            self.errors.follow(self._to_judge, run.started_at, self._as_found)
            self._to_judge = {}
        if self.curves.pane is not None:
            self.errors.follow_pane(self.curves.pane.scan, self.curves.pane.pane.identity)
        self.errors.read([rank.pid for rank in run.ranks], time.monotonic())


def _lives(pid: int) -> bool:
    try:
        found = procfs.read_stat(pid)
    except OSError:
        return False
    return found is not None and found.state not in DEAD_STATES
