"""The curves of runs that gputop does not track, from what they print into files (nohup.out, Slurm's -o, torchrun --log-dir).

Which files those are is read from /proc/<pid>/fd/1 and 2 of the ranks and of their launcher. A file is read from its end, as
root too only for processes of this user, and never if two runs write it: whose line is whose cannot be told. Nothing is read
while there is no such run.
"""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from gputop.jobs.output.follower import Backlog
from gputop.jobs.output.printed_rank import PrintedFile, PrintedRank
from gputop.process import ProcessRun
from gputop.snapshot import Points, Rank, Run
from gputop.sources.host import procfs

LOOK_S = 10.0
"""How often to look which files a run writes: a launcher may start its ranks anew."""
READ_BYTES = 1 << 20
TAIL = Backlog(0, READ_BYTES)
"""The newest value counts more than the past: one read brings both, some ten thousand lines."""


class OutputFile(NamedTuple):
    """A regular file to which a process prints; ``identity`` is its device and inode."""

    identity: tuple[int, int]
    path: Path


class Curves(NamedTuple):
    """The untracked runs, with the id of their curve where one is known; and those curves as runs and points."""

    process_runs: tuple[ProcessRun, ...]
    runs: tuple[Run, ...]
    points: tuple[Points, ...]


@dataclass(slots=True)
class _Followed:
    run_id: str
    due_s: float = 0.0
    files: dict[int, tuple[OutputFile, ...]] = field(default_factory=dict)
    """By rank; what all ranks or the launcher write is rank 0's."""
    ranks: dict[int, PrintedRank] = field(default_factory=dict)


class ForeignOutputs:
    """Follows the output of the runs of each poll, and forgets those that are gone."""

    def __init__(self) -> None:
        """Nothing is read before ``poll``."""
        self._followed: dict[str, _Followed] = {}

    def poll(self, found: Sequence[ProcessRun]) -> Curves:
        """Return the runs, their curves and the points since the last poll. Never raises for what a file holds."""
        now_s = time.monotonic()
        before, self._followed = self._followed, {}
        for run in found:
            run_id = _id_of(run)
            if run_id is None:
                continue
            followed = self._followed[run_id] = before.get(run_id) or _Followed(run_id)
            if now_s >= followed.due_s:
                followed.due_s = now_s + LOOK_S
                followed.files = files_of(run)
        writers = Counter(
            identity
            for followed in self._followed.values()
            for identity in {file.identity for files in followed.files.values() for file in files}
        )
        shared = {identity for identity, number in writers.items() if number > 1}
        process_runs, runs, points = [], [], []
        for run in found:
            known = self._followed.get(_id_of(run) or "")
            if known is not None and _read(known, shared):
                paths = tuple(str(path) for number in sorted(known.ranks) for path in known.ranks[number].files)
                run = replace(run, run_id=known.run_id, outputs=paths)
                runs.append(_as_run(run, known))
                for number, printed in sorted(known.ranks.items()):
                    points += printed.take_points(known.run_id, number)
            process_runs.append(run)
        return Curves(tuple(process_runs), tuple(runs), tuple(points))


def output_files(pid: int) -> tuple[OutputFile, ...]:
    """Return the regular files that are a process's standard output and error, each once; none of another user's."""
    found: dict[tuple[int, int], Path] = {}
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return ()
        for handle in ("1", "2"):
            link = f"/proc/{pid}/fd/{handle}"
            path, written = os.readlink(link), os.stat(link)
            identity = (written.st_dev, written.st_ino)
            if not stat.S_ISREG(written.st_mode):
                continue
            here = os.lstat(path)  # another file, or none, where it was deleted or lies in a container
            if (here.st_dev, here.st_ino) == identity:
                found[identity] = Path(path)
    except OSError:
        return tuple(OutputFile(*item) for item in found.items())
    return tuple(OutputFile(*item) for item in found.items())


def files_of(run: ProcessRun) -> dict[int, tuple[OutputFile, ...]]:
    """Return the files that tell a run's progress, by rank.

    Files of one rank alone are that rank's. If ranks share a file, or print through their launcher, it counts as rank 0's.
    """
    numbers = {rank.pid: rank.rank if rank.rank is not None else place for place, rank in enumerate(run.ranks)}
    by_rank = {number: output_files(pid) for pid, number in numbers.items()}
    writers = Counter(file.identity for files in by_rank.values() for file in files)
    launcher = output_files(run.launcher.pid) if run.launcher is not None else ()
    also = {file.identity for file in launcher}
    own = {
        number: tuple(file for file in files if writers[file.identity] == 1 and file.identity not in also)
        for number, files in by_rank.items()
    }
    own = {number: files for number, files in own.items() if files}
    if own:
        return own
    shared = {file.identity: file for files in (*by_rank.values(), launcher) for file in files}
    return {0: tuple(shared.values())} if shared else {}


def _id_of(run: ProcessRun) -> str | None:
    """Return an id that no other run has until the next boot; None if the run is gone."""
    pid = run.launcher.pid if run.launcher is not None else run.ranks[0].pid
    try:
        started = procfs.read_stat(pid)
    except OSError:
        return None
    return f"pid-{pid}-{started.start_ticks}" if started is not None else None


def _read(followed: _Followed, shared: set[tuple[int, int]]) -> bool:
    """Read what is new; return whether a metric is known."""
    for number, files in followed.files.items():
        for file in files:
            if file.identity not in shared:
                printed = followed.ranks.setdefault(number, PrintedRank())
                printed.files.setdefault(file.path, PrintedFile(file.path, TAIL))
    for printed in followed.ranks.values():
        printed.poll(False, READ_BYTES)
    followed.ranks = {number: printed for number, printed in followed.ranks.items() if printed.files}
    return any(printed.metrics for printed in followed.ranks.values())


def _as_run(run: ProcessRun, followed: _Followed) -> Run:
    pids = {rank.rank if rank.rank is not None else place: rank for place, rank in enumerate(run.ranks)}
    ranks = tuple(
        printed.rank(
            Rank(
                rank=number,
                pid=pids[number].pid if number in pids else None,
                local_rank=pids[number].local_rank if number in pids else None,
                world_size=run.world_size,
                state="running",
            )
        )
        for number, printed in sorted(followed.ranks.items())
    )
    return Run(
        run_id=followed.run_id,
        name=run.name,
        state="running",
        created_at=run.started_at,
        world_size=run.world_size,
        command=run.command or None,
        ranks=ranks,
    )
