"""The ranks of an untracked run that a screen has seen: one that has ended stays, with its last values. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from gputop.snapshot import Process, ProcessRank, ProcessRun, Snapshot

GONE_KEPT = 128
"""Maximum number of ended ranks to keep: ranks without numbers could accumulate endlessly."""


class SeenRank(NamedTuple):
    """A rank, its process when last listed, and when it was found to have ended (seconds since the epoch)."""

    rank: ProcessRank
    process: Process | None
    gone_at: float | None = None


def ranks_now(run: ProcessRun, snapshot: Snapshot) -> tuple[SeenRank, ...]:
    """Return the ranks of a run, as they are in a snapshot."""
    wanted = {rank.pid for rank in run.ranks}
    found = {process.pid: process for process in snapshot.processes if process.pid in wanted and process.in_namespace}
    return tuple(SeenRank(rank, found.get(rank.pid)) for rank in run.ranks)


def with_gone(before: Collection[SeenRank], now: Collection[SeenRank], time: float) -> tuple[SeenRank, ...]:
    """Return the ranks that are there now and those of ``before`` that are not, by number.

    A restarted rank replaces its former process.
    """
    pids, numbers = {seen.rank.pid for seen in now}, {seen.rank.rank for seen in now} - {None}
    gone = [
        seen if seen.gone_at is not None else seen._replace(gone_at=time)
        for seen in before
        if seen.rank.pid not in pids and seen.rank.rank not in numbers
    ]
    return tuple(sorted((*now, *gone[-GONE_KEPT:]), key=_by_number))


def _by_number(seen: SeenRank) -> tuple[bool, int, int]:
    number = seen.rank.rank
    return number is None, -1 if number is None else number, seen.rank.pid
