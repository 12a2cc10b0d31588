"""The memory of each process on each GPU since it was first seen, as the driver counts it, and in the machine. Pure: no clock.

The course is kept as means of stretches, at a resolution that halves as they grow: a leak shows over hours.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from gputop.levels import Levels, Stretch
from gputop.snapshot import Process, Snapshot

EVERY_S = 2.0
"""How often the memory counts. A leak shows over minutes; many readings tell it from what a step holds for a moment."""
_JITTER_S = 0.25
"""Tolerance for snapshots that arrive a little early."""
UNSEEN_MAX_S = 120.0
"""A process whose memory is unknown for longer has ended. The driver sometimes fails to report it."""


HOST = "host"
"""Stands for the machine's own memory in place of a device."""
_STEPS = "steps"
"""Stands for the steps that the process's rank had made at its readings in ``HOST``."""
_MACHINE = (0, None, HOST)


class MemoryGrowth:
    """The memory of every live process that uses a device; ``Evidence`` feeds it each snapshot."""

    def __init__(self) -> None:
        self._courses: dict[tuple[int, float | None, str], Levels] = {}
        self._seen_at: dict[tuple[int, float | None, str], float] = {}
        self._due_s = -math.inf

    def observe(self, snapshot: Snapshot) -> None:
        """Process the next snapshot of the stream."""
        now = snapshot.monotonic_s
        if now < self._due_s:
            return
        self._due_s = now + EVERY_S - _JITTER_S
        if snapshot.host.memory_available_bytes is not None:
            self._add(_MACHINE, now, snapshot.host.memory_available_bytes)
        steps: dict[tuple[str | None, int | None], int | None] = {
            (run.run_id, rank.rank): rank.step for run in snapshot.runs for rank in run.ranks
        }
        for process in snapshot.processes:
            for use in process.devices:
                if use.memory_used_bytes is not None:
                    self._add((process.pid, process.started_at, use.device_uuid), now, use.memory_used_bytes)
            if process.devices and process.memory_rss_bytes is not None:
                self._add((process.pid, process.started_at, HOST), now, process.memory_rss_bytes)
                step = steps.get((process.run_id, process.rank))
                if step is not None:
                    self._add((process.pid, process.started_at, _STEPS), now, step)
        for key in [key for key, seen_at in self._seen_at.items() if now - seen_at > UNSEEN_MAX_S]:
            del self._courses[key], self._seen_at[key]

    def _add(self, key: tuple[int, float | None, str], now: float, size: float) -> None:
        self._courses.setdefault(key, Levels()).extend((int(now),), (float(size),))
        self._seen_at[key] = now

    def of(self, process: Process, uuid: str) -> Sequence[Stretch]:
        """Return the process's bytes on a GPU, oldest first; ``Stretch.step`` is a monotonic clock in seconds."""
        course = self._courses.get((process.pid, process.started_at, uuid))
        return course.stretches if course is not None else ()

    def in_host(self, process: Process) -> Sequence[Stretch]:
        """Return the process's resident bytes, oldest first, as ``of`` does."""
        return self.of(process, HOST)

    def knows_steps(self, process: Process) -> bool:
        """Return whether the steps of the process's rank were known at readings of its memory."""
        return (process.pid, process.started_at, _STEPS) in self._courses

    def in_host_by_steps(self, process: Process) -> Sequence[Stretch]:
        """Return the same by a clock that advances with the steps of the process's rank, and no faster in between.

        Memory that each step takes grows evenly by it, however long the steps are. It is the usual clock before the first
        known step, at the newest reading, and for a process that reports no steps.
        """
        memory, steps = self.in_host(process), self.of(process, _STEPS)
        at = {item.step: item.mean for item in steps}
        known = [item for item in memory if item.step in at]
        made = [at[item.step] for item in known]
        if len(known) < 2 or made[-1] <= made[0] or made != sorted(made):
            return memory
        first, last = known[0].step, known[-1].step
        per_s = (made[-1] - made[0]) / (last - first)
        return [
            *(item for item in memory if item.step < first),
            *(replace(item, mean=_between(made, known, made[0] + (item.step - first) * per_s)) for item in known),
        ]

    def range_of(self, process: Process, where: str) -> float:
        """Return by how many bytes a process's largest and smallest readings differ, on a GPU or in ``HOST``."""
        course = self._courses.get((process.pid, process.started_at, where))
        return course.highest - course.lowest if course is not None and course.stretches else 0.0

    @property
    def available(self) -> Sequence[Stretch]:
        """The machine's available bytes, oldest first, as ``of`` does."""
        course = self._courses.get(_MACHINE)
        return course.stretches if course is not None else ()


def _between(made: Sequence[float], memory: Sequence[Stretch], step: float) -> float:
    """Return the memory at a step, on a straight line between the two readings around it."""
    place = min(max(1, bisect_left(made, step)), len(made) - 1)
    before, after = made[place - 1], made[place]
    share = (step - before) / (after - before) if after > before else 1.0
    return memory[place - 1].mean + share * (memory[place].mean - memory[place - 1].mean)
