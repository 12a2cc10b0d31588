"""Details of one process beyond a snapshot: read on demand, for the details screen.

Reads through psutil, which is imported when the first process is opened, because it would slow the first reading by 30 ms. If
psutil is missing, because gputop traveled to this host (``hosts.traveling``), the details are unknown.
"""

from __future__ import annotations

from gputop.snapshot import ProcessDetails
from gputop.sources.host import procfs
from gputop.startup.light_imports import for_psutil


def details_of(pid: int) -> ProcessDetails | None:
    """Return the details of a process, or None if it is gone."""
    try:
        with for_psutil():
            import psutil
    except ImportError:
        return ProcessDetails() if procfs.read_stat(pid) is not None else None
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            values = process.as_dict(
                ["num_threads", "num_fds", "nice", "cpu_affinity", "io_counters", "num_ctx_switches", "cwd"], ad_value=None
            )
    except psutil.NoSuchProcess:
        return None
    disk, switches, affinity = values["io_counters"], values["num_ctx_switches"], values["cpu_affinity"]
    return ProcessDetails(
        threads=values["num_threads"],
        open_files=values["num_fds"],
        niceness=values["nice"],
        cpu_affinity=None if affinity is None else tuple(affinity),
        read_bytes=None if disk is None else disk.read_bytes,
        written_bytes=None if disk is None else disk.write_bytes,
        involuntary_switches=None if switches is None else switches.involuntary,
        working_directory=values["cwd"] or None,
    )
