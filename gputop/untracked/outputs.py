"""The files to which untracked runs print: nohup.out, Slurm's -o, torchrun's --log-dir.

They are found through /proc/<pid>/fd/1 and 2 of the ranks and of their launcher; even as root, only for this user's processes.
Output into a pipe is followed to one file that ``tee`` or a filter behind the pipe writes.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from gputop.jobs.output.follower import Backlog
from gputop.process import ProcessRun
from gputop.sources.host import procfs
from gputop.untracked.kinds import LOG_NAMES, kind_of
from gputop.untracked.pipelines import Pipelines

READ_BYTES = 1 << 20
TAIL = Backlog(0, READ_BYTES)
"""The newest value matters more than the past: one read, some ten thousand lines, covers both."""
HANDLES = 4096
"""Maximum number of a process's descriptors to examine."""
SRUN = "srun"
"""The name of a launcher, and of the process through which the tasks of a step print."""
LOGS_MAX = 4
"""Maximum number of logs per rank."""


class OutputFile(NamedTuple):
    """A regular file to which a process prints; ``identity`` is its device and inode."""

    identity: tuple[int, int]
    path: Path


def output_files(pid: int, pipelines: Pipelines | None = None) -> tuple[OutputFile, ...]:
    """Return the regular files that hold a process's standard output and error, each once; none for another user's process.

    ``pipelines``: the readers of pipes, to share them among several processes.
    """
    found: dict[tuple[int, int], Path] = {}
    pipelines = pipelines if pipelines is not None else Pipelines()
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return ()
        for handle in ("1", "2"):
            link = f"/proc/{pid}/fd/{handle}"
            written = _stat(link)
            if written is None:
                continue
            if stat.S_ISFIFO(written.st_mode):
                files = map(_regular_file, pipelines.links_behind((written.st_dev, written.st_ino)))
                file = next((file for file in files if file is not None), None)  # the others have the same lines
            else:
                file = _regular_file(link, written)
            if file is not None:
                found[file.identity] = file.path
    except OSError:
        pass
    return tuple(OutputFile(*item) for item in found.items())


def log_files(run: ProcessRun, known: Collection[Path]) -> dict[int, tuple[OutputFile, ...]]:
    """Return the text logs that the ranks have open for writing, by rank; ``known``: files that count as something else.

    ``kinds.LOG_NAMES`` says which names are those of logs. A file that several ranks write counts for the first of them.
    """
    found: dict[int, tuple[OutputFile, ...]] = {}
    seen: set[tuple[int, int]] = set()
    for place, rank in enumerate(run.ranks):
        own: list[OutputFile] = []
        for file in _open_logs(rank.pid):
            if file.identity not in seen and file.path not in known and len(own) < LOGS_MAX:
                seen.add(file.identity)
                own.append(file)
        if own:
            found[rank.rank if rank.rank is not None else place] = tuple(own)
    return found


def _open_logs(pid: int) -> Iterator[OutputFile]:
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return
    except OSError:
        return
    for link, path in opened(pid):
        name = os.path.basename(path)
        if not LOG_NAMES.fullmatch(name) or kind_of(name) is not None:
            continue
        file = _regular_file(link) if is_writable(link) else None
        if file is not None:
            yield file


def opened(pid: int) -> Iterator[tuple[str, str]]:
    """Yield the links in /proc/<pid>/fd and where they lead, without those of standard input, output and error."""
    try:
        handles = os.listdir(f"/proc/{pid}/fd")[:HANDLES]
    except OSError:
        return
    for handle in handles:
        if handle in ("0", "1", "2"):
            continue
        link = f"/proc/{pid}/fd/{handle}"
        try:
            path = os.readlink(link)
        except OSError:
            continue  # closed meanwhile
        yield link, path


def is_writable(link: str) -> bool:
    """Return whether a link in /proc/<pid>/fd is of a descriptor that is open for writing."""
    try:
        return bool(os.lstat(link).st_mode & stat.S_IWUSR)
    except OSError:
        return False


def _stat(link: str) -> os.stat_result | None:
    try:
        return os.stat(link)
    except OSError:
        return None


def _regular_file(link: str, written: os.stat_result | None = None) -> OutputFile | None:
    """Return the regular file that a link in /proc/<pid>/fd leads to; None if there is none under its name.

    ``written`` is what the link leads to, if it is known.
    """
    try:
        written = written or os.stat(link)
        if not stat.S_ISREG(written.st_mode):
            return None
        path = os.readlink(link)
        here = os.lstat(path)  # another file, or none, if it was deleted or is in a container
    except OSError:
        return None
    identity = (written.st_dev, written.st_ino)
    return OutputFile(identity, Path(path)) if (here.st_dev, here.st_ino) == identity else None


def files_of(run: ProcessRun) -> dict[int, tuple[OutputFile, ...]]:
    """Return the files that show a run's progress, by rank.

    Files that only one rank prints to are that rank's. If ranks share a file, or print through their launcher, it counts as
    rank 0's, or as that of the first of them if others have files of their own.
    """
    numbers = {rank.pid: rank.rank if rank.rank is not None else place for place, rank in enumerate(run.ranks)}
    pipelines = Pipelines()
    by_rank = {number: output_files(pid, pipelines) for pid, number in numbers.items()}
    writers = Counter(file.identity for files in by_rank.values() for file in files)
    launcher = output_files(run.launcher.pid, pipelines) if run.launcher is not None else ()
    also = {file.identity for file in launcher}
    own = {
        number: tuple(file for file in files if writers[file.identity] == 1 and file.identity not in also)
        for number, files in by_rank.items()
    }
    own = {number: files for number, files in own.items() if files}
    others = {number: files for number, files in by_rank.items() if number not in own and files}
    if own and others:  # the first rank's may also be its launcher's: Slurm's step daemon has it open
        own[min(others)] = tuple({file.identity: file for files in others.values() for file in files}.values())
    if own:
        return own
    shared = {file.identity: file for files in (*by_rank.values(), launcher) for file in files}
    if not shared and run.launcher is not None and run.launcher.name == SRUN:
        shared = {file.identity: file for pid in _clients_of(run) for file in (*output_files(pid), *_open_logs(pid))}
    return {0: tuple(shared.values())} if shared else {}


def _clients_of(run: ProcessRun) -> list[int]:
    """Return the processes of srun on this machine that belong to the job of a run: its tasks print through them."""
    job = _slurm_job(run.ranks[0].pid)
    pids = (pid for pid in procfs.list_pids() if procfs.read_thread_name(pid, pid) == SRUN)
    return [pid for pid in sorted(pids) if job is not None and _slurm_job(pid) == job]


def _slurm_job(pid: int) -> str | None:
    try:
        return (procfs.read_environ(pid) or {}).get("SLURM_JOB_ID")
    except OSError:
        return None
