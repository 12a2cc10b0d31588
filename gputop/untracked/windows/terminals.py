"""The terminals to which the processes of a run print, by /proc.

Apart from what reads windows, which is imported only for a run that prints to one.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

from gputop.process import ProcessRun


class Terminal(NamedTuple):
    """A terminal that a process has as its standard output; ``identity``: its device and inode."""

    pid: int
    path: str
    identity: tuple[int, int]


def terminals_of(run: ProcessRun) -> list[Terminal]:
    """Return the terminals of the ranks, then that of the launcher; none of another user's processes."""
    found = []
    for pid in (*(rank.pid for rank in run.ranks), *((run.launcher.pid,) if run.launcher is not None else ())):
        try:
            written = os.stat(f"/proc/{pid}/fd/1")
            if not stat.S_ISCHR(written.st_mode) or os.stat(f"/proc/{pid}").st_uid != os.geteuid():
                continue
            path = os.readlink(f"/proc/{pid}/fd/1")
        except OSError:
            continue
        if path.startswith("/dev/pts/"):
            found.append(Terminal(pid, path, (written.st_dev, written.st_ino)))
    return found
