"""``gputop runs prune``: deletes ended runs on request. Nothing else in gputop deletes a run."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from gputop import units
from gputop.cli.stored.shelf import Shelf
from gputop.errors import GputopError, UsageError
from gputop.places import runs_dir
from gputop.snapshot import LIVE_STATES, Run
from gputop.terminal_text import printable
from gputop.tracking.gpus import record as gpus
from gputop.tracking.journal import places
from gputop.tracking.reader import labels

_JOURNAL = re.compile(r"rank-\d{5,}(?:-\d+)?\.gpr(?:\.kept)?")
_PROFILE = re.compile(r"profile-rank-\d+-[\d-]+\.json\.gz")


def prune(older_than: str | None, keep: int | None, *, yes: bool) -> None:
    """Delete the runs that ended longer ago than ``older_than`` ("30d") and are not among the ``keep`` newest.

    Raises:
        UsageError: neither limit is given, one is not valid, or there is no terminal to ask on.
        GputopError: files cannot be deleted.
    """
    if older_than is None and keep is None:
        raise UsageError("Say which runs to delete.", "Write --older-than 30d, or --keep 20, or both.")
    if keep is not None and keep < 0:
        raise UsageError(f"{keep} runs cannot be kept.", "Write --keep 20.")
    shelf = Shelf(backlog_points=2)
    chosen = choose(shelf.poll().runs, units.parse_duration(older_than) if older_than else None, keep, time.time())
    shelf.tell_unreadable()
    if not chosen:
        if "" not in shelf.unreadable():
            print("No run to delete.")
        return
    print("\n".join(printable(f"{run.run_id}  {run.name}  {run.state}") for run in chosen))
    size = units.bytes_text(sum(path.lstat().st_size for run in chosen for path in _files(run)))
    if not yes and not _confirmed(f"Delete {'this run' if len(chosen) == 1 else f'these {len(chosen)} runs'}, {size}? [y/N] "):
        print("Nothing was deleted.")
        return
    # A run may have resumed while the question was on screen.
    alive = {run.run_id for run in shelf.poll().runs if _is_live(run)}
    shelf.reader.close()
    gone = [run for run in chosen if run.run_id not in alive]
    failed: list[GputopError] = []
    for run in gone:
        try:
            _delete(run)
        except GputopError as error:  # the others are deleted
            failed.append(error)
    print(
        f"{len(gone) - len(failed)} deleted."
        + (f" {len(chosen) - len(gone)} kept: running again." if len(gone) < len(chosen) else "")
    )
    if failed:
        raise failed[0]


def choose(runs: tuple[Run, ...], older_than_s: float | None, keep: int | None, now: float) -> list[Run]:
    """Return the runs to delete: never one with a rank that is live, or may be live on another machine."""
    newest = sorted(runs, key=lambda run: run.created_at or 0.0, reverse=True)
    return [
        run
        for place, run in enumerate(newest)
        if not _is_live(run)
        and (keep is None or place >= keep)
        and (older_than_s is None or now - (run.ended_at or run.created_at or now) > older_than_s)
    ]


def _is_live(run: Run) -> bool:
    return any(rank.state in LIVE_STATES for rank in run.ranks)


def _confirmed(question: str) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError("Cannot ask: standard input is not a terminal.", "Add --yes to delete them.")
    return input(question).strip().lower() in ("y", "yes")


def _files(run: Run) -> list[Path]:
    """Return the run's journals, the readings of its GPUs, and its labels; skip directories that are links."""
    found: list[Path] = []
    for root in places.archive_roots(runs_dir()):
        directory = root / run.run_id
        if places.is_ours(directory):
            found += sorted(path for path in directory.iterdir() if _is_ours(path.name))
    return found


def _is_ours(name: str) -> bool:
    return any(form.fullmatch(name) for form in (_JOURNAL, _PROFILE, gpus.FILE_NAME)) or name == labels.FILE


def _delete(run: Run) -> None:
    """Delete the journals and labels, then the directory if it contains nothing else.

    Raises:
        GputopError: something cannot be deleted.
    """
    try:
        files = _files(run)
        for path in files:
            path.unlink()
        for directory in {path.parent for path in files}:
            if not any(directory.iterdir()):
                directory.rmdir()
            else:
                print(printable(f"{directory} contains other files and was kept."))
    except OSError as error:
        raise GputopError(
            f"{run.run_id} cannot be deleted: {error.filename}: {error.strerror}.", "Check who owns its directory."
        ) from error
