"""Whether the process that a journal names can be looked up here, and by which PID: a container names it by its own PIDs."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from gputop.tracking.journal import format as form
from gputop.tracking.journal import identity
from gputop.tracking.journal.read import open_checked

_INITIAL = 4026531836
"""The kernel's PROC_PID_INIT_INO: the machine's own PID namespace, in which every process has a PID."""
_LISTED_NS = 1_000_000_000
"""Journals that are opened one after the other share one list of processes, unless one of them is younger than the list."""
_F_SETSIG = 10
"""As in <fcntl.h>; Python does not name it."""
_listed: tuple[int, dict[int, list[int]]] = (0, {})
"""When the processes were listed (wall clock), and the PIDs by start time in clock ticks."""


def is_elsewhere(who: form.Identity, *, shared: bool = False) -> bool:
    """Return whether a journal's process cannot be looked up here: it belongs to another machine or PID namespace.

    ``shared``: the journal lies on a file system that other machines share. There, another boot under this machine's name may
    be another machine of that name, and not this one before it was restarted.
    """
    boot = identity.boot_id()
    if not boot or not who.boot_id:
        return who.hostname != identity.hostname()
    if who.boot_id != boot:
        return shared or who.hostname != identity.hostname()
    return who.pid_namespace != identity.pid_namespace()


def pid_here(who: form.Identity) -> int | None:
    """Return the PID, in the namespace of this gputop, of the process that wrote a journal in a namespace below it.

    None if it has ended, runs on another machine, or is not visible here.
    """
    if not who.boot_id or who.boot_id != identity.boot_id() or not who.start_ticks:
        return None
    return next((pid for pid in _started_at(who.start_ticks, who.created_ns) if _is(pid, who)), None)


def is_gone(who: form.Identity) -> bool:
    """Return whether the process of another PID namespace of this machine has ended: no process here started when it did.

    False where that cannot be known: below the machine's own namespace, or where /proc hides the processes of others.
    """
    if not who.boot_id or who.boot_id != identity.boot_id() or not who.start_ticks:
        return False
    if identity.pid_namespace() != _INITIAL or identity.process_state(1) is None:
        return False
    return not _started_at(who.start_ticks, who.created_ns)


def is_left(ring: Path) -> bool:
    """Return whether no process of this machine, in any PID namespace, has a ring open or mapped to write to it.

    The kernel says so: it grants a lease on a file for reading only then. Where it grants none at all, False.
    """
    with suppress(OSError):
        fd = open_checked(ring)
        try:
            fcntl.fcntl(fd, _F_SETSIG, signal.SIGURG)  # SIGIO would end this process if another one opened the file just now
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            return True
        finally:
            os.close(fd)
    return False


def is_alive(pid: int, who: form.Identity) -> bool:
    """Return whether a PID of this namespace is still the process that ``pid_here`` has found."""
    found = identity.process_state(pid)
    return found is not None and found[0] == who.start_ticks and found[1] not in "ZX"


def _started_at(ticks: int, before_ns: int) -> list[int]:
    global _listed
    at_ns, found = _listed
    now_ns = time.time_ns()
    if not max(before_ns, now_ns - _LISTED_NS) <= at_ns <= now_ns:
        found = {}
        for name in os.listdir("/proc"):
            state = identity.process_state(int(name)) if name.isdigit() else None
            if state is not None:
                found.setdefault(state[0], []).append(int(name))
        _listed = now_ns, found
    return found.get(ticks, [])


def _is(pid: int, who: form.Identity) -> bool:
    try:
        if os.stat(f"/proc/{pid}/ns/pid").st_ino != who.pid_namespace:
            return False
        with open(f"/proc/{pid}/status", "rb") as file:
            line = next((line for line in file if line.startswith(b"NSpid:")), b"")
        return int(line.split()[-1]) == who.pid
    except (OSError, ValueError, IndexError):  # it has ended, or is another user's
        return False
