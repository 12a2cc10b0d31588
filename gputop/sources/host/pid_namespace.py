"""Whether this process sees the same PIDs as the driver, and why processes that the driver lists are not found here."""

from __future__ import annotations

import os
from collections.abc import Iterable

from gputop.snapshot import Problem, Process

_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""The kernel's PROC_PID_INIT_INO: the machine's own namespace, in which the driver's PIDs are valid."""


def pid_namespace_is_initial() -> bool:
    """Return whether this process sees the machine's own PIDs, as the driver does."""
    try:
        return os.readlink("/proc/self/ns/pid") == _INITIAL_PID_NAMESPACE
    except OSError:
        return True


def namespace_note(processes: Iterable[Process]) -> Problem | None:
    """Explain why processes that the driver lists are not found here; ``None`` if all are found."""
    missing = [process.pid for process in processes if not process.in_namespace]
    if not missing:
        return None
    pids = ", ".join(str(pid) for pid in missing[:4]) + (" …" if len(missing) > 4 else "")
    many = f"{len(missing)} processes (PIDs {pids})" if len(missing) > 1 else f"a process (PID {pids})"
    if pid_namespace_is_initial():
        return Problem(
            "other",
            f"The driver lists {many} that this machine no longer has.",
            "If their GPU memory stays in use, find what is left of them with: fuser -v /dev/nvidia*",
        )
    return Problem(
        "no_permission",
        f"The driver lists {many} outside this container; they cannot be identified from inside.",
        "Start the container with --pid=host, or run gputop on the host.",
    )
