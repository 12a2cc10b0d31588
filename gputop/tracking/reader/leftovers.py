"""Frees what dead trainings left on tmpfs: rings whose run no reader follows, profiles that were not fetched, and empty
directories.

A reader frees the rings of its own runs directory. A training that was killed may have had another one (``GPUTOP_DIR``,
``dir=``), which no reader ever visits again, and its ring would take memory until the machine restarts.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path

from gputop.tracking.journal import places
from gputop.tracking.reader.rank_log import RankLog
from gputop.wire import FormatError

LEFT_S = 3600.0
"""Only older files are freed: a reader that follows a killed run frees them sooner."""
_MARK = re.compile("[0-9a-f]{8}")
_PROFILE = re.compile(r"\.?(.+)\.(?:[0-9a-f]{16}-\d+\.trace|profile-(?:request|answer)(?:-[0-9a-f]+)?)")
"""The files of a profile (``tracking/profiling/exchange``); the group is the name of the ring without its suffix."""


def free() -> None:
    """Copy rings of dead processes to their archives and remove them, as well as empty directories. Takes 1 ms for each ring.

    A ring stays if its process may be alive, or if it has no archive and so is the only copy.
    """
    before = time.time() - LEFT_S
    for parent in {directory.parent for directory in places.live_dirs(Path())}:
        if not places.is_ours(parent):
            continue
        for directory in _children(parent):
            if not _MARK.fullmatch(directory.name) or not places.is_ours(directory):
                continue
            for ring in _children(directory):
                if ring.suffix == ".ring":
                    with suppress(OSError, FormatError):  # no ring, or gone: another reader was faster
                        found = ring.lstat()
                        if found.st_mtime < before:
                            _free_ring(ring, found.st_size)
            _free_profiles(directory, before)
            with suppress(OSError):  # not empty, or gone
                if directory.lstat().st_mtime < before:
                    directory.rmdir()


def _free_ring(ring: Path, size: int) -> None:
    if not size:  # its process was killed before it wrote anything
        ring.unlink()
        return
    log = RankLog(None, ring)
    log.close()
    partner = log.reader.header.partner
    if log.alive or not partner:
        return
    archive = Path(partner)
    if not (archive.exists() and log.reader.live.head):
        if not log.elsewhere:  # a container's archive may only be visible there
            ring.unlink()  # the run was deleted, or it wrote no record
        return
    settle(log, ring, archive)


def settle(log: RankLog, ring: Path, archive: Path) -> None:
    """Free the ring of a dead process: copy it to its archive, or remove it if a later run of the same id has that place.

    Raises:
        OSError, FormatError: the archive cannot be read.
    """
    kept = RankLog(archive)
    if kept.identity == log.identity:
        kept.settle()
        return
    kept.close()
    if not log.elsewhere:  # a container's archive may only be visible there
        ring.unlink()


def _free_profiles(directory: Path, before: float) -> None:
    """Remove the files of profiles whose ring is gone."""
    for path in _children(directory):
        found = _PROFILE.fullmatch(path.name)
        if found is not None and not os.path.lexists(directory / f"{found[1]}.ring"):
            with suppress(OSError):  # gone: another reader was faster
                if path.lstat().st_mtime < before:
                    path.unlink()


def _children(directory: Path) -> list[Path]:
    try:
        return [directory / name for name in os.listdir(directory)]
    except OSError:
        return []
