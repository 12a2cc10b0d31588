"""Searches some folders for files that may hold a run's curve: bounded in depth, number and time; follows no link."""

from __future__ import annotations

import heapq
import os
import re
import stat
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gputop.untracked.kinds import METRICS_DIR, Kind, kind_of

DEPTH_MAX = 10
UNLIKELY_MAX = 5
"""Maximum number of levels below the start, and how many of these may have an unlikely name."""
METRICS = 500
"""Maximum number of metrics of an MLflow run."""
_LIKELY = re.compile(
    r"runs?|logs?|.*_logs|logging|wandb|(?:offline-)?run-.*|mlruns|tb.*|tensorboard.*"
    r"|out|outputs?|work_dirs|results?|exp.*|ckpt.*|checkpoint.*|version_\d+|\d[\dT._:-]*"
)
"""Such folders come first."""
_PASSED_OVER = re.compile(r"\..*|__pycache__|site-packages|node_modules|venv|env|conda.*|proc|sys|dev")


class Bounds(NamedTuple):
    """When a search ends."""

    entries: int
    entries_of_a_folder: int
    """A folder with more entries holds a data set."""
    seconds: float
    files: int


LIVE = Bounds(entries=20_000, entries_of_a_folder=3000, seconds=2.0, files=200)
"""For the search of a live run, which is repeated."""


@dataclass(slots=True)
class Walked:
    """The result of a search. ``runs_of_mlflow``: the folder of a run -> the files of its metrics."""

    files: list[tuple[Path, Kind]] = field(default_factory=list)
    runs_of_mlflow: dict[Path, list[Path]] = field(default_factory=dict)


class _Listed(NamedTuple):
    """The contents of a folder that matter to a search; ``changed`` are its change times when it was listed."""

    changed: tuple[int, int]
    entries: int
    files: tuple[tuple[str, Kind], ...]
    folders: tuple[tuple[str, int], ...]
    """The names of folders in it, and by how many steps each is unlikely."""
    of_mlflow: bool


SETTLED_S = 2.0
"""A folder that changed more recently is listed again: a second change within a tick of the clock would not show."""
KNOWN_MAX = 4096
"""How many folders are kept."""
_known: dict[tuple[int, int], _Listed] = {}
"""By device and inode. The same folders are searched every few seconds, for each run that works in them."""


def walk(folders: Sequence[Path], since: float, uid: int | None, bounds: Bounds = LIVE) -> Walked:
    """Return the files below the folders that were written at or after ``since`` (wall clock, seconds).

    ``uid``: only this user's files; None for any user's.
    """
    found, seen, left = Walked(), set[tuple[int, int]](), bounds.entries
    until = time.monotonic() + bounds.seconds
    waiting = [(0, place, 0, str(folder)) for place, folder in enumerate(folders)]
    heapq.heapify(waiting)
    order = len(waiting)
    while waiting and left > 0 and len(found.files) < bounds.files and time.monotonic() < until:
        unlikely, _, depth, folder = heapq.heappop(waiting)
        try:
            here = os.stat(folder, follow_symlinks=False)
            if (here.st_dev, here.st_ino) in seen or not stat.S_ISDIR(here.st_mode):
                continue
            seen.add((here.st_dev, here.st_ino))
            listed = _listed(folder, here, min(left, bounds.entries_of_a_folder))
        except OSError:
            continue
        left -= listed.entries
        for name, kind in listed.files:
            path = os.path.join(folder, name)
            if _is_fresh(path, since, uid):
                found.files.append((Path(path), kind))
        if listed.of_mlflow:
            metrics = _metrics(os.path.join(folder, METRICS_DIR), since, uid)
            if metrics:
                found.runs_of_mlflow[Path(folder)] = metrics
        for name, more in listed.folders if depth < DEPTH_MAX else ():
            steps = unlikely + more
            if steps <= UNLIKELY_MAX:
                order += 1
                heapq.heappush(waiting, (steps, order, depth + 1, os.path.join(folder, name)))
    return found


SHARED_S = 1.0
"""How long runs in the same folders share a walk."""
SINCE_S = 60.0
"""Runs that started within the same interval of this length share a walk; each takes the files that are new enough for it."""


class _SharedWalk:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        """Held while the folders are walked: other requests for the same walk wait for it."""
        self.walked: Walked | None = None
        self.began_s = 0.0


_shared: dict[tuple[tuple[Path, ...], float, int | None], _SharedWalk] = {}
_shared_lock = threading.Lock()


def walk_together(folders: Sequence[Path], since: float, uid: int | None) -> Walked:
    """Return what ``walk`` returns, or returned up to ``SHARED_S`` ago for another run; may be called from any thread."""
    stretch = since // SINCE_S
    with _shared_lock:
        for key, item in [*_shared.items()]:
            if not item.lock.locked() and time.monotonic() - item.began_s > SHARED_S:
                del _shared[key]
        shared = _shared.setdefault((tuple(folders), stretch, uid), _SharedWalk())
    with shared.lock:
        if shared.walked is None or time.monotonic() - shared.began_s > SHARED_S:
            shared.began_s = time.monotonic()
            shared.walked = walk(folders, stretch * SINCE_S, uid)
        walked = shared.walked
    of_mlflow = {root: [path for path in paths if _is_fresh(path, since, uid)] for root, paths in walked.runs_of_mlflow.items()}
    return Walked(
        [(path, kind) for path, kind in walked.files if _is_fresh(path, since, uid)],
        {root: paths for root, paths in of_mlflow.items() if paths},
    )


def _listed(folder: str, here: os.stat_result, most: int) -> _Listed:
    """Return the contents of a folder, from memory if nothing was added or removed since it was listed.

    Raises:
        OSError: it cannot be listed.
    """
    key, changed = (here.st_dev, here.st_ino), (here.st_mtime_ns, here.st_ctime_ns)
    known = _known.get(key)
    if known is not None and known.changed == changed and known.entries < most:
        return known
    with os.scandir(folder) as listing:
        entries = [entry for entry, _ in zip(listing, range(most), strict=False)]
    kinds = [(entry, kind_of(entry.name)) for entry in entries]
    of_mlflow = {METRICS_DIR, "meta.yaml"} <= {entry.name for entry in entries}
    folders = [
        (entry.name, _steps(entry.name))
        for entry, kind in kinds
        if kind is None and not (of_mlflow and entry.name == METRICS_DIR) and _is_folder(entry)
    ]
    found = _Listed(
        changed,
        len(entries),
        tuple((entry.name, kind) for entry, kind in kinds if kind is not None),
        tuple((name, steps) for name, steps in folders if steps <= UNLIKELY_MAX),
        of_mlflow,
    )
    if len(entries) < most and time.time() - here.st_mtime > SETTLED_S:
        if len(_known) >= KNOWN_MAX:
            _known.clear()
        _known[key] = found
    return found


def _steps(name: str) -> int:
    """Return how unlikely a folder of this name is to hold a run's files: 0, 1, or more than any search accepts."""
    return UNLIKELY_MAX + 1 if _PASSED_OVER.fullmatch(name) else int(not _LIKELY.fullmatch(name))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_fresh(path: str | Path, since: float, uid: int | None) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_mtime >= since and uid in (None, found.st_uid)


def _metrics(folder: str, since: float, uid: int | None, depth: int = 3) -> list[Path]:
    """Return the files of an MLflow run's metrics; a name with "/" is a file in a folder."""
    found: list[Path] = []
    try:
        with os.scandir(folder) as listing:
            entries = [entry for entry, _ in zip(listing, range(METRICS), strict=False)]
    except OSError:
        return []
    for entry in sorted(entries, key=lambda entry: entry.name):
        if _is_fresh(entry.path, since, uid):
            found.append(Path(entry.path))
        elif depth and _is_folder(entry):
            found += _metrics(entry.path, since, uid, depth - 1)
    return found[:METRICS]
