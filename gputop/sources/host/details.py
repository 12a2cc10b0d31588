"""Details of one process beyond a snapshot: read on demand from /proc, for the details screen."""

from __future__ import annotations

import contextlib
import os

from gputop.snapshot import ProcessDetails
from gputop.sources.host import procfs


def details_of(pid: int) -> ProcessDetails | None:
    """Return the details of a process, or None if it is gone. What only its owner may read is None for others."""
    status = procfs.read_of_process(f"/proc/{pid}/status")
    if status is None:
        return None
    counts = _numbers(status)
    disk: dict[str, int] = {}
    files = niceness = affinity = directory = None
    with contextlib.suppress(OSError):
        disk = _numbers(procfs.read_bytes(f"/proc/{pid}/io"))
    with contextlib.suppress(OSError):
        files = len(os.listdir(f"/proc/{pid}/fd"))
    with contextlib.suppress(OSError):
        niceness = os.getpriority(os.PRIO_PROCESS, pid)
    with contextlib.suppress(OSError):
        affinity = tuple(sorted(os.sched_getaffinity(pid)))
    with contextlib.suppress(OSError):
        directory = os.readlink(f"/proc/{pid}/cwd")
    return ProcessDetails(
        threads=counts.get("Threads"),
        open_files=files,
        niceness=niceness,
        cpu_affinity=affinity,
        read_bytes=disk.get("read_bytes"),
        written_bytes=disk.get("write_bytes"),
        involuntary_switches=counts.get("nonvoluntary_ctxt_switches"),
        working_directory=directory,
    )


def _numbers(data: bytes) -> dict[str, int]:
    """Return the lines of a file of /proc that are a name and a whole number."""
    found = {}
    for line in data.decode("ascii", "replace").splitlines():
        name, _, value = line.partition(":")
        if value.strip().isdigit():
            found[name] = int(value)
    return found
