"""What one ``gputop run`` recorded, in one line, from the first and last records of its journals.

The only part of this package that a tracked process imports, at its very end (``site/end_line.py``). So it imports as little as
possible: not the snapshot's records, which take tens of milliseconds to load.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gputop import units
from gputop.losses import loss_metric
from gputop.places import runs_dir
from gputop.terminal_text import printable
from gputop.tracking.journal import notice, places
from gputop.tracking.journal.format import EVENT, PHASE, SEGMENT_BYTES
from gputop.tracking.journal.read import JournalReader
from gputop.wire import FormatError

NO_STEP = "gputop: saw no training step: no optimizer of torch stepped, and no line with a loss was printed."
write = notice.write
RUNS_MOST, RANKS_MOST = 20, 16
"""How many of the newest runs, and of a run's ranks, are read."""
_CLOCK_SLACK_S = 1.0
"""How much earlier than the start a directory's time may be."""


class _Ends:
    """The first and last records of a journal: the card, and the last values. A ``Sink`` of ``journal/read``."""

    def __init__(self, archive: Path) -> None:
        """Read them.

        Raises:
            OSError, FormatError: the journal cannot be read.
        """
        self.card: dict[str, Any] = {}
        self.first_step: int | None = None
        self.step: int | None = None
        self.metrics: dict[str, float] = {}
        reader = JournalReader(archive)
        try:
            self.created_at = reader.header.identity.created_ns / 1e9
            reader.poll(self, SEGMENT_BYTES)
            reader.skip_to_end()
            reader.poll(self)
        finally:
            reader.close()

    def scalars(
        self, names: Sequence[str], steps: Sequence[int], times_ns: Sequence[int], columns: Sequence[Sequence[float]]
    ) -> None:
        """Keep the last values."""
        self.metrics.update((name, column[-1]) for name, column in zip(names, columns, strict=True))
        if not all(name.startswith(PHASE) for name in names):
            self.first_step = steps[0] if self.first_step is None else self.first_step
            self.step = max(*steps, self.step or 0)

    def event(self, kind: int, step: int, time_ns: int, value: Any) -> None:
        """Keep the card."""
        if kind == EVENT and isinstance(value, dict) and value.get("type") == "card" and isinstance(value.get("value"), dict):
            self.card = value["value"]


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What one run has recorded."""

    name: str
    steps: int | None
    loss: float | None


def end_line(launch_id: str, started_at: float, is_command: bool, unseen_only: bool = False) -> str | None:
    """Return what the runs of a launch have recorded since ``started_at`` (seconds since the epoch). Without a run: ``NO_STEP``
    for the command itself, None for a process that the command started. ``unseen_only``: return None unless no step was seen at
    all.
    """
    found = list(_recorded(launch_id, started_at))
    if unseen_only and any(run.steps for run in found):
        return None
    if not found:
        return NO_STEP if is_command else None
    run = found[0]
    steps = "no training step" if not run.steps else f"{units.count(run.steps)} step{'s' if run.steps != 1 else ''}"
    loss = "" if run.loss is None else f", loss {units.metric(run.loss)}"
    others = len(found) - 1
    more = f" (and {others} more run{'s' if others != 1 else ''})" if others else ""
    return printable(f"gputop: run {run.name}: {steps}{loss}{more} -> gputop runs show {shlex.quote(run.name)}")


def _recorded(launch_id: str, started_at: float) -> Iterator[_Recorded]:
    """Yield the runs of a launch, newest first."""
    changed: list[tuple[float, Path]] = []
    for root in places.archive_roots(runs_dir()):
        if root == runs_dir() or places.is_ours(root):
            changed += [(entry.stat().st_mtime, Path(entry.path)) for entry in places.entries(root) if entry.is_dir()]
    # A file system's times are coarse; a journal holds its exact start time.
    recent = [(at, path) for at, path in changed if at >= started_at - _CLOCK_SLACK_S]
    for _, directory in sorted(recent, reverse=True)[:RUNS_MOST]:
        ranks = [rank for path in _newest_attempts(directory) if (rank := _ends_of(path)) is not None]
        if any(rank.card.get("launch") == launch_id and rank.created_at >= started_at for rank in ranks):
            yield _summary(directory.name, ranks)


def _summary(run_id: str, ranks: list[_Ends]) -> _Recorded:
    steps = [rank.step + (rank.first_step == 0) for rank in ranks if rank.step is not None]
    loss = loss_metric(name for rank in ranks for name in rank.metrics)
    losses = [rank.metrics[loss] for rank in ranks if loss in rank.metrics] if loss is not None else []
    name = ranks[0].card.get("name")
    return _Recorded(str(name or run_id), min(steps, default=None), units.mean(losses) if losses else None)


def _newest_attempts(directory: Path) -> list[Path]:
    """Return the newest journal of each rank; ``rank-00000-1.gpr`` is the second attempt of rank 0."""
    newest: dict[str, tuple[int, Path]] = {}
    for entry in places.entries(directory):
        rank, _, attempt = entry.name.removesuffix(".gpr").removeprefix("rank-").partition("-")
        if entry.name.endswith(".gpr") and rank.isdigit() and (attempt.isdigit() or not attempt):
            newest[rank] = max(newest.get(rank, (-1, Path())), (int(attempt or 0), Path(entry.path)))
    return [path for _, (_, path) in sorted(newest.items())][:RANKS_MOST]


def _ends_of(archive: Path) -> _Ends | None:
    try:
        return _Ends(archive)
    except (OSError, FormatError):
        return None
