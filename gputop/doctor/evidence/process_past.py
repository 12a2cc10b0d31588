"""What each process has done since it was first seen, and which processes compute on a device.

``Evidence`` keeps one ``ProcessPast`` and feeds it each snapshot. Pure: no clock.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gputop.groups import compute_uses
from gputop.snapshot import Process, Snapshot

CPU_BUSY_PERCENT = 80.0
"""Above this share of a core, a process computes without a pause (docs/rules.md#a12)."""
BACKWARD_KEPT_S = 60.0
"""How far back the CPU time of backward threads is kept."""
CPU_WORKS_PERCENT = 25.0
"""The share of a core, in percent, that a computing process still gets on a crowded machine (our choice)."""
STOPPED_STATE = "T"
"""The state of a process that a signal has stopped."""
STOPPED_CPU_PERCENT = 1.0
"""A process that used more than this since the last reading was not stopped all the time: cpulimit stops one again and again
(our choice)."""


@dataclass(slots=True)
class _Track:
    """What is known of one process. Times are ``Snapshot.monotonic_s``."""

    first_seen: float
    cpu_busy_since: float | None = None
    stopped_since: float | None = None
    worked: bool = False
    backward_s: float = 0.0
    backward_at: float | None = None
    backwards: deque[tuple[float, float]] = field(default_factory=deque)
    """The CPU seconds of its backward threads at the times when they were read."""
    switches: int | None = None
    switched_at: float = 0.0
    interrupted: tuple[int, float] | None = None
    """By how much the number of involuntary switches grew last, and over how many seconds."""


class ProcessPast:
    """The processes of the newest snapshot, and what each was seen to do."""

    def __init__(self) -> None:
        self._now = self._time = -math.inf
        self._tracks: dict[tuple[int, float | None], _Track] = {}
        self._owners: dict[str, list[Process]] = {}

    def begin(self) -> None:
        """Forget who computed on which device: the next snapshot may turn out to be unreadable."""
        self._owners = {}

    def observe(self, snapshot: Snapshot, lost: Callable[[str, Exception], None]) -> Snapshot:
        """Process the next snapshot of the stream; return it without the processes that could not be processed.

        Args:
            snapshot: The next snapshot.
            lost: Receives each process that could not be processed, and why.
        """
        self._now, self._time = snapshot.monotonic_s, snapshot.time
        seen = {}
        kept = []
        for process in snapshot.processes:
            try:
                for use in compute_uses(process):
                    self._owners.setdefault(use.device_uuid, []).append(process)
                key = process.pid, process.started_at
                seen[key] = self._followed(process, self._tracks.get(key))
                kept.append(process)
            except Exception as error:  # noqa: BLE001 - one bad process must not stop the others
                lost("a process", error)
        self._tracks = seen
        return replace(snapshot, processes=tuple(kept)) if len(kept) < len(snapshot.processes) else snapshot

    def _followed(self, process: Process, known: _Track | None) -> _Track:
        track = known or _Track(self._now)
        busy = process.cpu_percent is not None and process.cpu_percent > CPU_BUSY_PERCENT
        track.cpu_busy_since = (track.cpu_busy_since if track.cpu_busy_since is not None else self._now) if busy else None
        if process.state != STOPPED_STATE or (process.cpu_percent or 0.0) >= STOPPED_CPU_PERCENT:
            track.stopped_since = None
        elif track.stopped_since is None:
            track.stopped_since = self._now
        track.worked = track.worked or (process.cpu_percent is not None and process.cpu_percent >= CPU_WORKS_PERCENT)
        seconds = 0.0
        for _, value in process.autograd_threads:
            seconds += value if math.isfinite(value) else 0.0
        if seconds > track.backward_s and known is not None:
            track.backward_at = self._now
        track.backward_s = seconds
        if process.autograd_threads:
            track.backwards.append((self._now, seconds))
            while track.backwards[0][0] < self._now - BACKWARD_KEPT_S:
                track.backwards.popleft()
        if process.involuntary_switches != track.switches:
            self._count_switches(track, process.involuntary_switches)
        return track

    def _count_switches(self, track: _Track, count: int | None) -> None:
        """Note how fast the switches grew. They are read every few seconds: several snapshots in a row show the same number."""
        before, span_s = track.switches, self._now - track.switched_at
        if count is None or before is None or count < before or span_s <= 0:
            track.interrupted = None
        else:
            track.interrupted = (count - before, span_s)
        track.switches, track.switched_at = count, self._now

    def _track(self, process: Process) -> _Track | None:
        return self._tracks.get((process.pid, process.started_at))

    def owners(self, uuid: str) -> list[Process]:
        """Return the processes that compute on the device."""
        return self._owners.get(uuid, [])

    def ran_backward(self, process: Process, within_s: float) -> bool:
        """Return whether the process's backward threads have used the CPU within the last ``within_s`` seconds."""
        track = self._track(process)
        return track is not None and track.backward_at is not None and self._now - track.backward_at <= within_s

    def no_backward_s(self, process: Process) -> float | None:
        """Return for how many observed seconds the process's backward threads have used no CPU; None if it has none."""
        track = self._track(process)
        if track is None or track.backward_s <= 0:
            return None
        return self._now - (track.backward_at if track.backward_at is not None else track.first_seen)

    def backward_shares(self, process: Process, span_s: float, parts: int) -> tuple[float, ...] | None:
        """Return which share of a core its backward threads used in each of ``parts`` equal parts of the last ``span_s``
        seconds.

        None if it was not observed throughout. On a GPU, these threads launch the kernels of the backward pass.
        """
        track = self._track(process)
        if track is None or not track.backwards or track.backwards[0][0] > self._now - span_s:
            return None
        part_s = span_s / parts
        edges = [self._now - part_s * number for number in range(parts, -1, -1)]
        at = [next(used for read, used in reversed(track.backwards) if read <= edge) for edge in edges]
        return tuple((after - before) / part_s for before, after in itertools.pairwise(at))

    def age_s(self, process: Process) -> float:
        """Return for how many seconds the process has run, or at least been observed."""
        track = self._track(process)
        seen = self._now - track.first_seen if track is not None else 0.0
        if process.started_at is None:
            return seen
        lived = self._time - process.started_at
        return max(seen, lived) if math.isfinite(lived) else seen

    def cpu_busy_s(self, process: Process) -> float:
        """Return for how many seconds the process has used more than 80% of a core without a pause."""
        track = self._track(process)
        return self._now - track.cpu_busy_since if track is not None and track.cpu_busy_since is not None else 0.0

    def stopped_s(self, process: Process) -> float:
        """Return for how many observed seconds a signal has stopped the process without a pause; 0 if it is not stopped."""
        track = self._track(process)
        return self._now - track.stopped_since if track is not None and track.stopped_since is not None else 0.0

    def interrupted_per_s(self, process: Process) -> float | None:
        """Return how often a second the main thread was last stopped to let others run; None if that is not known yet."""
        track = self._track(process)
        if track is None or track.interrupted is None:
            return None
        times, span_s = track.interrupted
        return times / max(span_s, self._now - track.switched_at)

    def has_worked(self, process: Process) -> bool:
        """Return whether the process was ever observed to use a quarter of a core or more."""
        track = self._track(process)
        return track is not None and track.worked
