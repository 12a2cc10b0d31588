"""Reads repeatedly, without asking, where ranks report to be before their first step.

They report it every 2 s, in memory that /proc shows to their user (``before_steps``). A process that reports nothing is
checked less and less often.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from gputop.process import ProcessRank, ProcessRun
from gputop.tracking.standing import page
from gputop.where.asking import with_report
from gputop.where.before_steps import memory_files, open_memory
from gputop.whereabouts.records import RankPlace

ASK_S = 2.0
ASK_MAX_S = 60.0
"""How often a process without such memory is checked: at first, and at the least."""
RANKS_MAX = 256
"""A run with more processes on one machine than that is a pool rather than a training: nothing reads where they are unless a
user asks. No machine has as many GPUs or MIG instances, and reading 500 processes takes a third of a second."""
MUTE_S = 10.0
"""Python does not run in a rank that has reported nothing for this long."""


@dataclass(slots=True)
class _Known:
    """The file that shows a process's memory, once found; before that, when to search next, and how long to wait after that."""

    path: Path | None = None
    due_s: float = 0.0
    wait_s: float = ASK_S


class EarlyPlaces:
    """Adds to runs of several ranks the places of the ranks that stand still before their first step."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, float | None], _Known] = {}
        self._unreported: dict[str, tuple[ProcessRun, float]] = {}
        """By key: a run whose ranks all report nothing, and when to check one of them again."""

    def add(self, runs: Sequence[ProcessRun]) -> tuple[ProcessRun, ...]:
        """Return the runs with the places of their ranks. Costs three system calls per rank that reports."""
        before, self._known = self._known, {}
        unreported_before, self._unreported = self._unreported, {}
        found = []
        for run in runs:
            if (run.world_size or len(run.ranks)) < 2 or len(run.ranks) > RANKS_MAX:
                found.append(run)
                continue
            keys = [(rank.pid, run.started_at) for rank in run.ranks]
            self._known |= {key: before.get(key) or _Known() for key in keys}
            unreported = unreported_before.get(run.key)
            if unreported is not None and unreported[0].ranks is run.ranks and time.monotonic() < unreported[1]:
                self._unreported[run.key] = unreported
                found.append(run)
                continue
            places = [_read(rank, run, self._known[key]) for rank, key in zip(run.ranks, keys, strict=True)]
            if all(self._known[key].path is None for key in keys):
                self._unreported[run.key] = run, min(self._known[key].due_s for key in keys)
                found.append(run)
                continue
            ranks = [
                replace(rank, place=place) if place is not None else rank for rank, place in zip(run.ranks, places, strict=True)
            ]
            found.append(replace(run, ranks=tuple(ranks)))
        return tuple(found)


def _read(rank: ProcessRank, run: ProcessRun, known: _Known) -> RankPlace | None:
    if known.path is None:
        now_s = time.monotonic()
        if now_s < known.due_s:
            return None
        known.path = _file_of(rank.pid)
        known.due_s, known.wait_s = now_s + known.wait_s, min(ASK_MAX_S, 2 * known.wait_s)
    with suppress(OSError):
        ring = open_memory(known.path, rank.pid) if known.path is not None else None
        if ring is not None:
            try:
                said = ring.read()
                return None if said is None else _place(RankPlace(ring.identity.rank, rank.pid), run, said)
            finally:
                ring.close()
    known.path = None
    return None


def _file_of(pid: int) -> Path | None:
    for path in memory_files(pid):
        with suppress(OSError):
            ring = open_memory(path, pid)
            if ring is not None:
                ring.close()
                return path
    return None


def _place(known: RankPlace, run: ProcessRun, said: page.Page) -> RankPlace | None:
    """Return where a rank is, if it has been there long enough for a rank with a ring to report it; None while it moves."""
    place = with_report(replace(known, state="answers", world_size=run.world_size), said)
    if place.at is None or place.stands_s is None:
        return None
    if time.time() - place.at > MUTE_S:
        return replace(place, state="silent")
    return place if place.stands_s >= page.STILL_S else None
