"""Launchers and scripts that end before a rank was seen, and what they print: a port that is taken, a missing file.

A rank that fails within a second is not seen either, but its launcher reports it. A script without a launcher is known once it
imports torch, which takes seconds. Only output that goes to a file is read, and only once the process has ended, by a thread of
its own: a network file system that hangs blocks nothing else.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gputop.process import DEAD_STATES
from gputop.snapshot import LogMatch
from gputop.sources.host import procfs
from gputop.untracked.outputs import OutputFile, output_files

RECENT_S = 600.0
"""How long the end of a launcher is explained, as that of a run (``untracked/curves.py``)."""
ENDED_MAX = 8
"""This many are explained: those that ended last."""
READ_S = 10.0
"""The output of a launcher that has ended is read for at most this long."""


@dataclass(slots=True)
class _Alone:
    """A launcher without ranks so far, or a script that has just started.

    ``as_found``: the state of its output when it was first seen.
    """

    run_id: str
    start_ticks: int
    files: tuple[OutputFile, ...]
    as_found: dict[Path, os.stat_result]
    has_ranks: bool = False


@dataclass(slots=True)
class _Ended:
    """One that has ended. ``texts`` is replaced by the thread that reads, which then sets ``is_read``."""

    pid: int
    at_s: float
    texts: tuple[LogMatch, ...] = field(default=())
    is_read: bool = False


class LauncherEnds:
    """Notices launchers that end without ranks, and scripts that end at once, and explains what they print."""

    def __init__(self) -> None:
        """Nothing is read before ``poll``."""
        self._alone: dict[int, _Alone] = {}
        self._ended: list[_Ended] = []
        self._failure: Exception | None = None

    def poll(self, pids: Collection[int], with_ranks: Collection[int], recorded: Collection[int] = ()) -> tuple[LogMatch, ...]:
        """Return the error texts of launchers that have ended lately. An unexpected error of the reading is raised once.

        Args:
            pids: the live launchers and young scripts of this user.
            with_ranks: launchers that are known to have started ranks, and listed processes; their output is that of runs.
            recorded: processes that have written a journal, which says why they ended.
        """
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        self._forget()
        for pid in pids:
            if pid not in self._alone and (found := _found(pid)) is not None:
                self._alone[pid] = found
        for pid, launcher in list(self._alone.items()):
            launcher.has_ranks |= pid in with_ranks
            if pid not in pids and not _lives(pid, launcher.start_ticks):
                del self._alone[pid]
                if launcher.files and not launcher.has_ranks and not self._is_within_another(launcher):
                    self._explain(pid, launcher)
        return tuple(match for item in self._ended if item.pid not in recorded for match in item.texts)

    def _forget(self) -> None:
        """Keep the last few that have a reason, and those that are being read: scripts that end well push nothing out."""
        since = time.monotonic() - RECENT_S
        explained: list[_Ended] = []
        reading: list[_Ended] = []
        for item in self._ended:
            was_read = item.is_read  # before its texts, which another thread sets first
            if item.at_s >= since and item.texts:
                explained.append(item)
            elif item.at_s >= since and not was_read:
                reading.append(item)
        self._ended = [*explained[-ENDED_MAX:], *reading]

    def _is_within_another(self, launcher: _Alone) -> bool:
        """Return whether another one prints to the same file: deepspeed starts a second launcher. The last of them counts."""
        own = {file.identity for file in launcher.files}
        return any(not own.isdisjoint(file.identity for file in other.files) for other in self._alone.values())

    def _explain(self, pid: int, launcher: _Alone) -> None:
        ended = _Ended(pid, time.monotonic())
        self._ended.append(ended)
        threading.Thread(target=self._try_to_read, args=(launcher, pid, ended), name="launcher-ends", daemon=True).start()

    def _try_to_read(self, launcher: _Alone, pid: int, ended: _Ended) -> None:
        try:
            ended.texts = _texts(launcher, pid)
        except Exception as error:  # noqa: BLE001 - the sampler tells the user
            self._failure = error
        ended.is_read = True


def _found(pid: int) -> _Alone | None:
    try:
        stat = procfs.read_stat(pid)
    except OSError:
        return None
    if stat is None or stat.state in DEAD_STATES:
        return None
    files = output_files(pid)
    as_found: dict[Path, os.stat_result] = {}
    for file in files:
        with suppress(OSError):
            as_found[file.path] = file.path.stat()
    return _Alone(f"pid-{pid}-{stat.start_ticks}", stat.start_ticks, files, as_found)


def _lives(pid: int, start_ticks: int) -> bool:
    try:
        stat = procfs.read_stat(pid)
    except OSError:
        return False
    return stat is not None and stat.start_ticks == start_ticks and stat.state not in DEAD_STATES


def _texts(launcher: _Alone, pid: int) -> tuple[LogMatch, ...]:
    from gputop.untracked.errors import OutputErrors

    errors = OutputErrors(launcher.run_id)
    errors.follow({0: launcher.files}, as_found=launcher.as_found)
    errors.read([pid], time.monotonic())
    until = time.monotonic() + READ_S
    while True:
        errors.read([], time.monotonic(), ended=True)
        if errors.at_end or time.monotonic() >= until:
            return tuple(match for match in errors.matches if match.job_state == "failed")
