"""When NCCL's RAS service may be asked: asking it has crashed trainings, so never while one trains, starts or ends.

By default, gputop asks about a run only if it seems to hang: no rank has recorded anything for much longer than the run's
longest recent step. It asks about processes without a journal only on request, and never within ``QUIET_S`` of the start or end
of a rank or a communicator. Several jobs share one port, and the kernel picks the process that answers, so one process that
must be left alone protects all at its address. ``sources/nccl/listeners`` protects those that listen there unknown to gputop.

Decides from records only: no I/O and no clock.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from gputop.snapshot import LIVE_STATES, Points, Process, Run
from gputop.sources.nccl.address import Address, nccl_threads, ras_address

WhenToAsk: TypeAlias = Literal["stood still", "requested", "never"]
QUIET_S = 60.0
"""How long ranks and communicators must have been unchanged (our choice; NCCL builds its rings within seconds)."""
STILL_MIN_S = 30.0
"""A run with short steps may pause for this long, for instance for a checkpoint (our choice)."""
STILL_STEPS = 20.0
"""A run may pause for this many times its longest recent step (our choice)."""
RECENT_STEPS = 1000
"""How many of a rank's newest steps the longest one is taken from."""


@dataclass(slots=True)
class _Pace:
    """The pace of one run, and when its set of ranks last changed."""

    ranks: tuple[tuple[int, int | None, bool], ...] = ()
    changed_at: float = -math.inf
    last: dict[tuple[int, str], tuple[int, float]] = field(default_factory=dict)
    steps_s: array[float] = field(default_factory=lambda: array("d"))
    """Those of the newest ``RECENT_STEPS``."""

    def add(self, items: Sequence[Points]) -> None:
        """Process the seconds per step between neighboring points; if there are many, only the newest count."""
        before: list[tuple[int, float] | None] = []
        for points in items:
            before.append(self.last.get((points.rank, points.metric)))
            if points.steps:
                self.last[points.rank, points.metric] = points.steps[-1], points.times[-1]
        found: list[list[float]] = []
        number = 0
        for last, points in zip(reversed(before), reversed(items), strict=True):
            found.append(_seconds_per_step(last, points))
            number += len(found[-1])
            if number >= RECENT_STEPS:
                break
        for seconds in reversed(found):
            self.steps_s.extend(seconds)
        del self.steps_s[:-RECENT_STEPS]

    def forget(self) -> None:
        """Drop what says how long a step may take: hundreds of runs that have ended stay listed."""
        self.last.clear()
        del self.steps_s[:]


def _seconds_per_step(last: tuple[int, float] | None, points: Points) -> list[float]:
    found = []
    for now in zip(points.steps, points.times, strict=True):
        if last is not None and now[0] > last[0]:
            found.append((now[1] - last[1]) / (now[0] - last[0]))
        last = now
    return found


class NcclTurns:
    """Decides for each snapshot which processes may be asked. All times are wall-clock seconds."""

    def __init__(self, when: WhenToAsk = "stood still") -> None:
        self._when = when
        self._paces: dict[str, _Pace] = {}
        self._still: set[str] = set()
        self._unsteady: set[str] = set()
        self._threads: dict[tuple[int, float | None], tuple[Address, int, float]] = {}
        self._ended_at: dict[Address, float] = {}

    def observe_runs(self, runs: Iterable[Run], points: Iterable[Points], now: float) -> None:
        """Process the runs that keep journals, and their points since the last call."""
        known, self._paces = self._paces, {}
        alive: set[str] = set()
        for run in runs:
            pace = self._paces[run.run_id] = known.get(run.run_id) or _Pace()
            if any(rank.state in LIVE_STATES for rank in run.ranks):
                alive.add(run.run_id)
            else:
                pace.forget()
        by_run: dict[str, list[Points]] = {}
        for item in points:
            if item.run_id in alive:
                by_run.setdefault(item.run_id, []).append(item)
        for run_id, items in by_run.items():
            self._paces[run_id].add(items)
        self._still, self._unsteady = set(), set()
        for run in runs:
            pace = self._paces[run.run_id]
            ranks = tuple((rank.rank, rank.pid, rank.state in LIVE_STATES) for rank in run.ranks)
            if ranks != pace.ranks:
                # A rank that ended before the first look may have ended only a moment ago.
                if pace.ranks or not all(alive for _, _, alive in ranks):
                    pace.changed_at = now
                pace.ranks = ranks
            if now - pace.changed_at < QUIET_S:
                self._unsteady.add(run.run_id)
            if _stands_still(run, pace, now):
                self._still.add(run.run_id)

    def askable(self, processes: Sequence[Process], now: float) -> tuple[Process, ...]:
        """Return the processes whose RAS service may be asked now."""
        users = [(process, address) for process in processes if (address := ras_address(process)) is not None]
        changed_at = self._observe_threads(users, now)
        if self._when == "never":
            return ()
        chosen: list[tuple[Process, Address]] = []
        protected = {address for address, ended_at in self._ended_at.items() if now - ended_at < QUIET_S}
        for (process, address), since in zip(users, changed_at, strict=True):
            wanted = self._when == "requested" or process.run_id in self._still
            if wanted and now - since >= QUIET_S and process.run_id not in self._unsteady:
                chosen.append((process, address))
            elif nccl_threads(process) or len(process.devices) > 1:
                protected.add(address)
        return tuple(process for process, address in chosen if address not in protected)

    def _observe_threads(self, users: Sequence[tuple[Process, Address]], now: float) -> list[float]:
        """Return when each process's NCCL threads, and thus its communicators, last changed."""
        known, self._threads = self._threads, {}
        found = []
        for process, address in users:
            key, threads = (process.pid, process.started_at), nccl_threads(process)
            before = known.pop(key, None)
            if before is None:
                since = process.started_at if process.started_at is not None else now
            else:
                since = before[2] if before[1] == threads else now
            self._threads[key] = (address, threads, since)
            found.append(since)
        for address, threads, _ in known.values():
            if threads:
                self._ended_at[address] = now
        return found


def _stands_still(run: Run, pace: _Pace, now: float) -> bool:
    """Return whether no rank has recorded a step for too long; never before the first record."""
    last = max((rank.stepped_at for rank in run.ranks if rank.stepped_at is not None), default=None)
    if last is None or not any(rank.state in LIVE_STATES for rank in run.ranks):
        return False
    # The first step counts from the run's start.
    longest = max(pace.steps_s, default=last - run.created_at if run.created_at is not None else math.inf)
    return now - last > max(STILL_MIN_S, STILL_STEPS * longest)
