"""Looks for files that may hold a run's curve below some folders: bounded in depth, number and time; follows no link."""

from __future__ import annotations

import heapq
import os
import re
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gputop.foreign.kinds import METRICS_DIR, Kind, kind_of

DEPTH_MAX = 10
UNLIKELY_MAX = 5
"""How many levels below the start, and how many of them without a likely name."""
METRICS = 500
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
    """A folder with more of them holds a data set."""
    seconds: float
    files: int


LIVE = Bounds(entries=20_000, entries_of_a_folder=3000, seconds=2.0, files=200)


@dataclass(slots=True)
class Walked:
    """What a search found. ``runs_of_mlflow``: the folder of a run -> the files of its metrics."""

    files: list[tuple[Path, Kind]] = field(default_factory=list)
    runs_of_mlflow: dict[Path, list[Path]] = field(default_factory=dict)


def walk(folders: Sequence[Path], since: float, uid: int | None, bounds: Bounds = LIVE) -> Walked:
    """Return the files below the folders that were written at or after ``since`` (wall clock, seconds).

    ``uid``: only files of this user; None for anybody's.
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
            with os.scandir(folder) as listing:
                entries = [entry for entry, _ in zip(listing, range(min(left, bounds.entries_of_a_folder)), strict=False)]
        except OSError:
            continue
        left -= len(entries)
        names = {entry.name for entry in entries}
        for entry in entries:
            kind = kind_of(entry.name)
            if kind is not None:
                if _is_fresh(entry, since, uid):
                    found.files.append((Path(entry.path), kind))
            elif entry.name == METRICS_DIR and "meta.yaml" in names:
                metrics = _metrics(entry.path, since, uid)
                if metrics:
                    found.runs_of_mlflow[Path(folder)] = metrics
            elif depth < DEPTH_MAX and not _PASSED_OVER.fullmatch(entry.name) and _is_folder(entry):
                steps = unlikely + (not _LIKELY.fullmatch(entry.name))
                if steps <= UNLIKELY_MAX:
                    order += 1
                    heapq.heappush(waiting, (steps, order, depth + 1, entry.path))
    return found


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_fresh(entry: os.DirEntry[str], since: float, uid: int | None) -> bool:
    try:
        if not entry.is_file(follow_symlinks=False):
            return False
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return found.st_mtime >= since and uid in (None, found.st_uid)


def _metrics(folder: str, since: float, uid: int | None, depth: int = 3) -> list[Path]:
    """Return the files of the metrics of a run of MLflow; a name with "/" is a file in a folder."""
    found: list[Path] = []
    try:
        with os.scandir(folder) as listing:
            entries = [entry for entry, _ in zip(listing, range(METRICS), strict=False)]
    except OSError:
        return []
    for entry in sorted(entries, key=lambda entry: entry.name):
        if _is_fresh(entry, since, uid):
            found.append(Path(entry.path))
        elif depth and _is_folder(entry):
            found += _metrics(entry.path, since, uid, depth - 1)
    return found[:METRICS]
