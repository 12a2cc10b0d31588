"""Finds the files that may hold the curve of an untracked run.

A file belongs to the run for certain if one of its processes has it open, or if a TensorBoard file's name holds its PID. A file
below the working directory of such a process, or below a folder that its command line or environment names, and written since
the process started, may also be another run's. Everything here may hang if a network file system does.
"""

from __future__ import annotations

import math
import os
import re
import stat
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from gputop.process import ProcessRun
from gputop.sources.host import procfs
from gputop.untracked.files import mlflow_database
from gputop.untracked.kinds import MLFLOW, MLFLOW_DATABASE, TENSORBOARD, TRAINER_STATE, Kind, kind_of
from gputop.untracked.outputs import is_writable, opened
from gputop.untracked.walk import walk_together

SLACK_S = 0.05
"""A process's start is known to the clock tick, the time of a write to the kernel tick."""
FOLDERS = 20
"""Maximum number of folders to search of each sort: those that are named, and those in which a process works."""
BIRTHS_MAX = 1024
"""Of how many processes is remembered what never changes: reading it takes a fifth of a search."""
_ENVIRONMENT = ("TENSORBOARD_LOGGING_DIR", "WANDB_DIR", "MLFLOW_TRACKING_URI", "OUTPUT_DIR", "LOG_DIR")
_TOO_GENERAL = ("/", "/tmp", "/home", "/root", "/mnt", "/data", "/usr", "/var", "/etc", "/proc", "/sys", "/dev")
"""Shared folders are searched only if a process works in them."""
_SPLITS = frozenset(("train", "training", "validation", "val", "valid", "eval", "test", "dev"))
"""Sibling folders that belong to one run, such as those of Keras."""
_EVENT_FILE = re.compile(r"events\.out\.tfevents\.\d+\.(?P<host>.+)\.(?P<pid>\d+)\.\d+(?:\.\D.*)?")


class Found(NamedTuple):
    """Files that make one curve. ``paths``: path -> the prefix of its metrics' names; of a database, the id of the run."""

    kind: Kind
    root: Path
    paths: Mapping[Path, str]
    rank: int | None
    """The rank that writes them; None if unknown."""
    certain: bool
    """Whether a process of the run is known to write them."""
    contested: bool = False
    """Whether a tracked run works in the same place and may also write them."""


def search(run: ProcessRun, tracked: Collection[int] = ()) -> list[Found]:
    """Return the sources of a run's curve. ``tracked``: processes of tracked runs, which may write files as well."""
    ranks = {rank.pid: rank.rank if rank.rank is not None else place for place, rank in enumerate(run.ranks)}
    launcher = [run.launcher.pid] if run.launcher is not None else []
    births = {pid: birth for pid in (*ranks, *launcher) if (birth := _own_birth(pid)) is not None}
    pids = list(births)
    if not any(pid in ranks for pid in pids):
        return []
    names = {own: ranks.get(pid) for pid, birth in births.items() for own in birth.pids}
    since = min((_started(birth) for pid, birth in births.items() if pid in ranks), default=math.inf) - SLACK_S
    certain: dict[Path, int | None] = {}
    for pid in pids:
        for owner in (pid, *_children(pid)):
            certain.update({path: ranks.get(pid) for path in _open_files(owner)})
    walked = walk_together(_folders(run, pids), since, os.geteuid())
    files = dict(walked.files) | {path: kind for path in certain if (kind := kind_of(path.name))}
    for path in [path for path, kind in files.items() if kind is TENSORBOARD]:
        written_by = _EVENT_FILE.fullmatch(path.name)
        if written_by is None:
            continue
        if int(written_by["pid"]) in names and _same_host(written_by["host"], pids[0]):
            certain[path] = names[int(written_by["pid"])]
        elif path not in certain:
            del files[path]
    shared = set(_working_folders(tracked))
    found = list(grouped(files, certain, since))
    found += [Found(MLFLOW, root, dict.fromkeys(paths, ""), None, False) for root, paths in walked.runs_of_mlflow.items()]
    return [
        item._replace(contested=not item.certain and any(folder in (item.root, *item.root.parents) for folder in shared))
        for item in found
    ]


def grouped(files: Mapping[Path, Kind], certain: Mapping[Path, int | None], since: float = 0.0) -> Iterable[Found]:
    """Yield files that belong together as one source: TensorBoard's of one folder tree, the Trainer's of one output.

    A database is a source for each of its runs that began at or after ``since`` (wall clock, seconds). Who has it open may
    write any of them.
    """
    alone: list[tuple[Path, Kind]] = []
    events: dict[tuple[bool, int | None], list[Path]] = defaultdict(list)
    states: dict[Path, list[Path]] = defaultdict(list)
    for path, kind in sorted(files.items()):
        if kind is TENSORBOARD:
            events[path in certain, certain.get(path)].append(path)
        elif kind is TRAINER_STATE:
            states[path.parent.parent if path.parent.name.startswith("checkpoint-") else path.parent].append(path)
        elif kind is MLFLOW_DATABASE:
            for run_id in mlflow_database.run_ids(path, since):
                yield Found(kind, path / run_id, {path: run_id}, None, False)
        else:
            alone.append((path, kind))
    for (known, rank), paths in events.items():
        for root, members in _trees(paths).items():
            yield Found(TENSORBOARD, root, members, rank, known)
    for path, kind in alone:
        yield Found(kind, path, {path: ""}, certain.get(path), path in certain)
    for root, paths in states.items():
        newest = sorted(paths, key=_written_at)
        owner = next((path for path in paths if path in certain), None)
        yield Found(TRAINER_STATE, root, dict.fromkeys(newest, ""), certain.get(owner) if owner else None, owner is not None)


def _trees(paths: Sequence[Path]) -> dict[Path, dict[Path, str]]:
    """Return root -> its files, each with the prefix that distinguishes it from files in other folders below that root."""
    roots: list[Path] = []
    found: dict[Path, dict[Path, str]] = {}
    for path in sorted(paths, key=lambda path: (len(path.parts), path)):
        folder = path.parent
        own = folder.parent if folder.name in _SPLITS else folder
        root = next((root for root in roots if root == own or root in own.parents), own)
        if root not in found:
            roots.append(root)
        inner = folder.relative_to(root).as_posix()
        found.setdefault(root, {})[path] = "" if inner == "." else f"{inner}/"
    return found


def _folders(run: ProcessRun, pids: Sequence[int]) -> list[Path]:
    """Return where to search: what the environment and the command line name, then where the processes work."""
    working = _working_folders(pids)
    named = [word for pid in pids[:1] for word in _named_in_environment(pid)]
    named += [part for word in run.command for part in (word.partition("=")[2] or word,)]
    found: list[Path] = []
    for word in named:
        for base in working[:1]:
            path = (
                Path(os.path.realpath(base / word.removeprefix("file://").removeprefix("sqlite:///")))
                if 0 < len(word) < 1000 and "\0" not in word
                else None
            )
            if path is not None and not path.is_dir():
                path = path.parent if path.suffix and path.parent.is_dir() and "/" in word else None
            if path is not None and str(path) not in _TOO_GENERAL and path not in base.parents:
                found.append(path)
    return list(dict.fromkeys([*found[:FOLDERS], *working[:FOLDERS]]))


def _named_in_environment(pid: int) -> list[str]:
    try:
        values = procfs.read_environ(pid) or {}
    except OSError:
        return []
    return [values[name] for name in _ENVIRONMENT if name in values]


class _Birth(NamedTuple):
    """What never changes of a process: its PIDs here and in the PID namespaces of its containers, and its start time."""

    pids: tuple[int, ...]
    start_ticks: int | None
    """Ticks since boot; None if that is unknown."""


def _own_birth(pid: int) -> _Birth | None:
    """Return what never changes of a process; None if it is gone, or another user's."""
    try:
        found = os.stat(f"/proc/{pid}")
        if found.st_uid != os.geteuid():
            return None
    except OSError:
        return None
    try:
        return _birth(pid, found.st_ino)
    except OSError:
        return _Birth((pid,), None)


@lru_cache(maxsize=BIRTHS_MAX)
def _birth(pid: int, inode: int) -> _Birth:
    """Read what never changes of a process. ``inode`` is that of its folder in /proc, which another process never has.

    Raises:
        OSError: the process is gone, or cannot be read now.
    """
    del inode
    _, _, rest = procfs.read_bytes(f"/proc/{pid}/status").partition(b"\nNSpid:")
    found = procfs.read_stat(pid)
    if found is None:
        raise ProcessLookupError
    pids = (pid, *(int(word) for word in rest.partition(b"\n")[0].split() if word.isdigit()))
    return _Birth(pids, found.start_ticks)


def _started(birth: _Birth) -> float:
    """Return when a process started, wall clock in seconds. It is exact, because the previous run may have ended just
    before."""
    if birth.start_ticks is None:
        return math.inf
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + birth.start_ticks / procfs.TICKS_PER_S


def _working_folders(pids: Iterable[int]) -> list[Path]:
    """Return the working directories of processes, each once, without those that are deleted, hidden, or in another root."""
    found: dict[tuple[int, int], Path] = {}
    for pid in pids:
        link = f"/proc/{pid}/cwd"
        try:
            here = os.stat(link)
            identity = here.st_dev, here.st_ino
            if identity in found:
                continue
            path = os.readlink(link)
            there = os.stat(path)
        except OSError:
            continue
        if identity == (there.st_dev, there.st_ino):
            found[identity] = Path(path)
    return list(found.values())


def _same_host(host: str, pid: int) -> bool:
    """Return whether a process of this machine may report ``host`` as its host name: a container has its own name."""
    if host == os.uname().nodename:
        return True
    try:
        return os.readlink(f"/proc/{pid}/ns/uts") != os.readlink("/proc/self/ns/uts")
    except OSError:
        return False


def _children(pid: int) -> list[int]:
    """Return the children of a process: wandb writes its file in one."""
    try:
        data = procfs.read_of_process(f"/proc/{pid}/task/{pid}/children") or b""
    except OSError:
        return []
    return [int(word) for word in data.split()[:100] if word.isdigit()]


def _open_files(pid: int) -> list[Path]:
    """Return the files of a known kind that a process has open for writing, if they still exist at their paths."""
    found = []
    for link, path in opened(pid):
        if kind_of(os.path.basename(path)) is None or not is_writable(link):
            continue
        try:
            there, here = os.stat(link), os.lstat(path)
        except OSError:
            continue
        if stat.S_ISREG(here.st_mode) and (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino):
            found.append(Path(path))
    return found


def _written_at(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
