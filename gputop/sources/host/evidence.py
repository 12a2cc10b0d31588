"""Further readings from /proc for one listed process: disks, files, cores, and where it sleeps. Read every 1 to 10 s.

Imports only the standard library and gputop's own modules. Measured: io 0.012 ms, wchan and syscall 0.008 ms, status 0.02 ms,
an open file 0.004 ms, and 0.01 ms more if its flags are read; a Python stack of 20 calls 0.1 ms.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from gputop.places import state_dir
from gputop.process import DEAD_STATES, WokenBy
from gputop.sources.host import procfs_activity
from gputop.sources.host.process_cache import Facts, reread_after_s
from gputop.sources.host.waits import (
    FILE_LOCK,
    read_all_locked,
    read_child_woken_by,
    read_lock_holder,
    read_waits_for,
    read_woken_by,
)
from gputop.sources.host.workers import cores_allowed
from gputop.whereabouts.records import Doing, Holdings

if TYPE_CHECKING:
    from gputop.sources.python_stacks.reader import StackReader
    from gputop.sources.python_stacks.source_lines import SourceLines
    from gputop.sources.python_stacks.survey import Survey

READ_S = 2.0
"""How often to read disk counters and where the process sleeps."""
WAITS_S = 0.9
"""How often to read what the main thread waits for: it is known of one moment only, so shares of many readings count."""
WRITES_BYTES = 2**20
"""If a process writes this much between two readings, search its open files at once instead of every ten seconds: writing
a checkpoint may take only seconds."""
CALLS_UNIT_BYTES = 2**24
"""Bytes from read calls are rounded down to a multiple of this: the record of a process that reads little stays the same."""
_WOKEN_BY = {"lock": read_woken_by, "child": read_child_woken_by}
REST_TICKS = 2
"""A process at rest uses at most this much of the CPU between two readings, 1% of a core: a wait with a time limit starts over
again and again."""
MAX_FILES = 16
"""Maximum number of files that a process is reported to write."""


class Evidence:
    """Readings of one process, kept for as long as it runs the same program."""

    def __init__(self) -> None:
        self.read_bytes: int | None = None
        self.written_bytes: int | None = None
        self.any_read_bytes: int | None = None
        self.involuntary_switches: int | None = None
        self.waits_in: str | None = None
        self.waits_for: str | None = None
        self.waits_read_s: float | None = None
        """When ``waits_for`` was read; None if that was the newest reading."""
        self.doing: Doing | None = None
        self.held: Holdings | None = None
        self.all_locked: bool | None = None
        self.woken_by: WokenBy | None = None
        self.listens: bool | None = None
        self.rests = False
        """Whether it used next to no CPU between the newest two readings."""
        self.lock_held_by: int | None = None
        self.cores_allowed: int | None = None
        self.files_written: tuple[str, ...] = ()
        self.nvidia_open: bool | None = None
        self._stacks: StackReader | None = None
        self._has_stacks = True
        self._sources: SourceLines | None = None
        self._survey: Survey | None = None
        self._due_s = 0.0
        self._waits_due_s = self._waits_at_s = 0.0
        self._slow_due_s = 0.0
        self._wrote_bytes: int | None = None
        self._ticks: int | None = None

    @property
    def due_s(self) -> float:
        """Until when ``read`` changes nothing of a process in the same state."""
        return 0.0 if self.waits_read_s is None else min(self._due_s, self._waits_due_s)

    def read(
        self, facts: Facts, now_s: float, spread: float = 1.0, *, with_stack: bool = False, with_variables: bool = False
    ) -> None:
        """Read what is due. All intervals are multiplied by ``spread``.

        ``with_stack``: the Python stack, too. ``with_variables``: also what the code on it holds.
        """
        if facts.stat.state in DEAD_STATES:
            return
        if now_s >= self._waits_due_s:
            self._waits_due_s = now_s + spread * WAITS_S
            self._waits_at_s, self.waits_read_s = now_s, None
            self.waits_for = facts.try_read(("waits_for",), read_waits_for) if facts.stat.state in "SD" else None
            self.doing = self._read_stack(facts, now_s, with_variables=with_variables) if with_stack else None
        else:
            self.waits_read_s = math.floor(100 * self._waits_at_s) / 100
        if now_s < self._due_s:
            return
        self._due_s = now_s + spread * READ_S
        self.lock_held_by = read_lock_holder(facts.stat.pid) if self.waits_for == FILE_LOCK else None
        wrote = self._read_transfers(facts)
        self.waits_in = procfs_activity.read_waits_in(facts.stat.pid) if facts.stat.state in "SD" else None
        slow = now_s >= self._slow_due_s
        self._read_threads(facts, with_stack)
        if with_stack and self.rests and (slow or self.listens is None):
            self.listens = _listens(facts.stat.pid)
        if slow:
            self._slow_due_s = now_s + spread * reread_after_s(facts.age_s)
            self._read_scheduling(facts)
        if slow or wrote >= WRITES_BYTES or self.files_written:
            self._read_files(facts)

    def _read_stack(self, facts: Facts, now_s: float, *, with_variables: bool) -> Doing | None:
        """Read what the main thread does. Of a process that waits for a disk, the memory may have to wait for it, too."""
        if not self._has_stacks or facts.stat.state not in "RS":
            return None
        # Imported with the first stack: most GPUs' processes are in a run that reports itself, or run no Python.
        from gputop.sources.python_stacks.reader import StackReader
        from gputop.sources.python_stacks.source_lines import SourceLines
        from gputop.sources.python_stacks.survey import Survey
        from gputop.whereabouts.activities import doing, own_call

        if self._stacks is None:
            self._stacks = facts.try_read(("doing",), StackReader)
            self._has_stacks = self._stacks is not None and self._stacks.can_read
        if self._stacks is None or not self._has_stacks:
            return None
        calls = facts.try_read(("doing",), lambda _: self._stacks.read() if self._stacks is not None else None)
        if calls is None:
            return None
        own = own_call(calls)
        if self._sources is None:
            self._sources = SourceLines(facts.stat.pid, time.time() - facts.age_s)
        done = doing(calls, None if own is None else self._sources.text(own.path, own.line))
        if with_variables:
            if self._survey is None:
                self._survey = Survey(self._stacks)
            survey = self._survey
            self.held = facts.try_read(("held",), lambda _: survey.look(calls, done.activity, now_s))
        return done

    def _read_threads(self, facts: Facts, of_training: bool) -> None:
        """Read of a process at rest whether all its threads wait for each other; of a training, what may end that."""
        before, self._ticks = self._ticks, facts.stat.cpu_ticks
        used = None if before is None else self._ticks - before
        locked = facts.stat.state == "S" and self.waits_for == "lock"
        if used == 0 and locked:
            self.all_locked = facts.try_read(("all_locked",), read_all_locked)
        else:
            self.all_locked = False if facts.stat.state == "R" or self.waits_for is not None else None
        self.rests = used is not None and used <= REST_TICKS and facts.stat.state == "S"
        read = _WOKEN_BY.get(self.waits_for or "") if of_training and self.rests else None
        self.woken_by = facts.try_read(("woken_by",), read) if read is not None else None

    def _read_scheduling(self, facts: Facts) -> None:
        switches = facts.try_read(("involuntary_switches",), procfs_activity.read_involuntary_switches)
        cores = cores_allowed(facts.stat.pid)
        self.involuntary_switches, self.cores_allowed = switches, None if cores is None else len(cores)

    def _read_transfers(self, facts: Facts) -> int:
        """Read the disk counters; return the bytes written by any means since the previous reading."""
        found = facts.try_read(("read_bytes", "written_bytes", "any_read_bytes", "waits_in"), procfs_activity.read_io)
        if found is None:
            self.read_bytes = self.written_bytes = self.any_read_bytes = self._wrote_bytes = None
            return 0
        before, self._wrote_bytes = self._wrote_bytes, found.any_written_bytes
        self.read_bytes, self.written_bytes = found.read_bytes, found.written_bytes
        self.any_read_bytes = found.any_read_bytes // CALLS_UNIT_BYTES * CALLS_UNIT_BYTES
        return 0 if before is None else found.any_written_bytes - before

    def _read_files(self, facts: Facts) -> None:
        found = facts.try_read(("files_written", "nvidia_open"), procfs_activity.read_open_files)
        if found is None:
            self.files_written = ()
            return
        own = f"{state_dir()}/"
        self.files_written = tuple(sorted({path for path in found.written if not path.startswith(own)}))[:MAX_FILES]
        self.nvidia_open = self.nvidia_open or found.nvidia


def _listens(pid: int) -> bool | None:
    """Return whether a process has a TCP socket that waits for connections; None if that is hidden."""
    held = procfs_activity.read_sockets(pid)
    ports = procfs_activity.read_listening(pid) if held else {}
    return None if ports is None else not held.isdisjoint(ports)
