"""What one ``gputop run`` recorded, in one line, from the beginnings and ends of its journals.

The only part of this package that a tracked process imports: at its very end, and only on a terminal (``site/end_line.py``).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gputop import units
from gputop.places import runs_dir
from gputop.snapshot import FormatError, loss_metric
from gputop.terminal_text import printable
from gputop.tracking.journal import places
from gputop.tracking.journal.format import SEGMENT_BYTES
from gputop.tracking.reader.rank_log import RankLog

NO_STEP = "gputop: saw no training step: no optimizer of torch stepped, and no line with a loss was printed."
RUNS_MOST, RANKS_MOST = 20, 16
"""So many of the newest runs, and of a run's ranks, are looked at."""
_ALL_POINTS = 1 << 20
_CLOCK_SLACK_S = 1.0


@dataclass(frozen=True, slots=True)
class _Recorded:
    name: str
    steps: int | None
    loss: float | None


def end_line(launch_id: str, started_at: float, is_command: bool) -> str | None:
    """Return what the runs of a launch have recorded since ``started_at`` (seconds since the epoch).

    Where there is none: ``NO_STEP`` for the command itself, None for a process that the command started.
    """
    found = list(_recorded(launch_id, started_at))
    if not found:
        return NO_STEP if is_command else None
    run = found[0]
    steps = "no training step" if not run.steps else f"{run.steps} step{'s' if run.steps != 1 else ''}"
    loss = "" if run.loss is None else f", loss {units.metric(run.loss)}"
    others = len(found) - 1
    more = f" (and {others} more run{'s' if others != 1 else ''})" if others else ""
    return printable(f"gputop: run {run.name}: {steps}{loss}{more} -> gputop runs show {shlex.quote(run.name)}")


def _recorded(launch_id: str, started_at: float) -> Iterator[_Recorded]:
    """Yield the runs of a launch, newest first."""
    changed: list[tuple[float, Path]] = []
    for root in places.archive_roots(runs_dir()):
        if root == runs_dir() or places.is_ours(root):
            changed += [(entry.stat().st_mtime, Path(entry.path)) for entry in _entries(root) if entry.is_dir()]
    # A file system's times are coarse; a journal says exactly when it was begun.
    recent = [(at, path) for at, path in changed if at >= started_at - _CLOCK_SLACK_S]
    for _, directory in sorted(recent, reverse=True)[:RUNS_MOST]:
        ranks = [log for path in _newest_attempts(directory) if (log := _ends_of(path)) is not None]
        if any(log.card.get("launch") == launch_id and log.identity.created_ns / 1e9 >= started_at for log in ranks):
            yield _summary(directory.name, ranks)


def _summary(run_id: str, ranks: list[RankLog]) -> _Recorded:
    steps = [log.step + (log.first_step == 0) for log in ranks if log.step is not None]
    name = loss_metric(name for log in ranks for name in log.metrics)
    losses = [log.metrics[name] for log in ranks if name in log.metrics] if name is not None else []
    return _Recorded(ranks[0].text("name") or run_id, min(steps, default=None), units.mean(losses) if losses else None)


def _newest_attempts(directory: Path) -> list[Path]:
    """Return the newest journal of each rank; ``rank-00000-1.gpr`` is the second attempt of rank 0."""
    newest: dict[str, tuple[int, Path]] = {}
    for entry in _entries(directory):
        rank, _, attempt = entry.name.removesuffix(".gpr").removeprefix("rank-").partition("-")
        if entry.name.endswith(".gpr") and rank.isdigit() and (attempt.isdigit() or not attempt):
            newest[rank] = max(newest.get(rank, (-1, Path())), (int(attempt or 0), Path(entry.path)))
    return [path for _, (_, path) in sorted(newest.items())][:RANKS_MOST]


def _ends_of(archive: Path) -> RankLog | None:
    """Return what the beginning and the end of a journal say: names and the card, and the last values."""
    try:
        log = RankLog(archive)
    except (OSError, FormatError):
        return None
    try:
        log.poll(SEGMENT_BYTES, _ALL_POINTS, _ALL_POINTS)
        log.skip_to_end()
        log.poll(1 << 62, _ALL_POINTS, _ALL_POINTS)
        return log
    finally:
        log.close()


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return list(found)
    except OSError:
        return []
