"""What has stopped, and for how long: NCCL's counts of collective operations, a process's disk I/O.

Also how often a process or its loader workers waited for a disk, and what its main thread waited for. ``Evidence`` keeps one
``Stillness`` and feeds it each snapshot; an observation costs one pass over the processes. Pure: no clock.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import NamedTuple

from gputop.snapshot import Communicator, Process, Snapshot

WINDOW_S = 60.0
"""Window over which disk waits are judged (docs/rules.md#d07)."""
KEPT_READINGS = 600
"""Maximum number of readings of a process: a minute at ten per second."""
RUNS = "runs"
"""Stands for a sample in which the main thread ran, next to the waits of ``sources/host/waits.py``."""
GLOO_THREAD = "pt_gloo_runloop"
"""gloo starts these threads once every rank is connected to every other one."""
SPAN_MIN_S = 7.5
"""Shares of time are reported once this much of the window was observed."""
MOVED_BYTES = 2**20
"""Less I/O than this between two readings is a log line or a library's page, not a data set (our choice)."""
BURST_APART_S = 3.0
"""Disk counters are read every two seconds: bytes that are further apart are separate writes (our choice)."""
BURSTS = 32
"""The newest writes of a process that are kept, however long ago they were."""
_Counts = tuple[tuple[int, str | None, tuple[tuple[str, int], ...]], ...]


class Burst(NamedTuple):
    """Bytes that a process wrote to disks without a pause. Times are ``Snapshot.monotonic_s``."""

    began_s: float
    ended_s: float
    bytes: int


@dataclass(slots=True)
class _Traffic:
    moved_at: float
    bytes: int | None = None
    waits: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=KEPT_READINGS))
    """(time, share of the workers, or 1.0 for the process itself, that waits for a disk)."""
    samples: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=KEPT_READINGS))
    """(time, what the main thread did at that moment)."""
    moved: deque[tuple[float, int, int, int]] = field(default_factory=lambda: deque(maxlen=KEPT_READINGS))
    """(time, bytes read from disks, bytes written, bytes read by any call) when they changed; the first is older than the
    window."""
    written: tuple[float, int] | None = None
    """When the bytes written were last known, and how many there were."""
    bursts: deque[Burst] = field(default_factory=lambda: deque(maxlen=BURSTS))
    runs: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT_READINGS))
    """Times of the snapshots in which the main thread ran."""
    ran: int = 0
    """In how many samples it ran, since it was connected to other ranks."""


class Stillness:
    """How long counts and disk I/O have not changed, as far as the stream shows."""

    def __init__(self) -> None:
        self._now = self._before = self._oldest = -math.inf
        self._counts: dict[str, tuple[_Counts, float]] = {}
        self._traffic: dict[tuple[int, float | None], _Traffic] = {}

    def observe(self, snapshot: Snapshot) -> None:
        """Process the next snapshot of the stream."""
        self._before, self._now = self._now, snapshot.monotonic_s
        self._oldest = self._now - WINDOW_S
        counts: dict[str, tuple[_Counts, float]] = {}
        for item in snapshot.communicators:
            said = _counts(item)
            known = self._counts.get(item.communicator_id)
            counts[item.communicator_id] = known if known is not None and known[0] == said else (said, self._now)
        self._counts = counts
        traffic: dict[tuple[int, float | None], _Traffic] = {}
        for process in snapshot.processes:
            key = (process.pid, process.started_at)
            track = traffic[key] = self._traffic.get(key) or _Traffic(self._now)
            self._observe_process(track, process)
        self._traffic = traffic

    def _observe_process(self, track: _Traffic, process: Process) -> None:
        read, written = process.read_bytes, process.written_bytes
        if read is not None or written is not None:
            total = (read or 0) + (written or 0)
            if track.bytes is not None and abs(total - track.bytes) >= MOVED_BYTES:
                track.moved_at = self._now
            if track.bytes is None or abs(total - track.bytes) >= MOVED_BYTES:
                track.bytes = total
        self._note_moved(track, read, written, process.any_read_bytes or 0)
        self._note_burst(track, written)
        workers = process.workers
        if workers is not None and workers.count:
            track.waits.append((self._now, workers.blocked / workers.count))
        elif process.state is not None:
            track.waits.append((self._now, float(process.state == "D")))
        if process.state == "R":
            track.runs.append(self._now)
        # The state is read for each snapshot, the wait less often: they count together only if both are new.
        if process.waits_read_s is None or process.waits_read_s > self._before:
            self._sample(track, process)
        oldest = self._oldest
        for kept in (track.waits, track.samples):
            while kept and kept[0][0] < oldest:
                kept.popleft()
        while track.runs and track.runs[0] < oldest:
            track.runs.popleft()

    def _note_moved(self, track: _Traffic, read: int | None, written: int | None, called: int) -> None:
        moved = track.moved
        if read is None or written is None or (moved and moved[-1][1:] == (read, written, called)):
            return
        moved.append((self._now, read, written, called))
        while len(moved) > 1 and moved[1][0] < self._oldest:
            moved.popleft()

    def _note_burst(self, track: _Traffic, written: int | None) -> None:
        """Note what was written since the counters were last known."""
        if written is None:
            return
        before, track.written = track.written, (self._now, written)
        if before is None or written == before[1]:
            if before is not None and self._now - before[0] <= BURST_APART_S:
                track.written = before  # the counters may not have been read since
            return
        grown = written - before[1]
        if grown < MOVED_BYTES:
            return
        last = track.bursts[-1] if track.bursts else None
        if last is not None and before[0] - last.ended_s <= BURST_APART_S:
            track.bursts[-1] = Burst(last.began_s, self._now, last.bytes + grown)
        else:
            track.bursts.append(Burst(before[0], self._now, grown))

    def _sample(self, track: _Traffic, process: Process) -> None:
        doing = RUNS if process.state == "R" else "file" if process.state == "D" else process.waits_for
        if doing is not None:
            track.samples.append((self._now, doing))
            track.ran += doing == RUNS and any(name == GLOO_THREAD for name, _ in process.threads)

    def counts_s(self, communicator: Communicator) -> float:
        """Return for how many seconds the counts of a communicator's ranks have not changed; 0 for an unknown one."""
        known = self._counts.get(communicator.communicator_id)
        return self._now - known[1] if known is not None else 0.0

    def disks_s(self, process: Process) -> float:
        """Return for how many seconds a process has read and written less than ``MOVED_BYTES``; inf if that is unknown."""
        track = self._traffic.get((process.pid, process.started_at))
        if track is None or track.bytes is None:
            return math.inf
        return self._now - track.moved_at

    def waits_for_disk(self, process: Process) -> float | None:
        """Return the share of the last minute that the process, or one of its workers, waited for a disk (state D).

        For workers this is the mean: half of them waiting all the time gives 0.5. None before ``SPAN_MIN_S`` were observed.
        """
        track = self._traffic.get((process.pid, process.started_at))
        if track is None or not track.waits or self._now - track.waits[0][0] < SPAN_MIN_S:
            return None
        return sum(share for _, share in track.waits) / len(track.waits)

    def moved_bytes(self, process: Process) -> tuple[int, int]:
        """Return how many bytes a process has read and written within about the last minute, as far as was observed."""
        track = self._traffic.get((process.pid, process.started_at))
        if track is None or not track.moved:
            return 0, 0
        _, read, written, _ = track.moved[0]
        return max(0, (process.read_bytes or 0) - read), max(0, (process.written_bytes or 0) - written)

    def bursts(self, process: Process) -> tuple[Burst, ...]:
        """Return the newest writes of a process to disks, each without a pause, oldest first."""
        track = self._traffic.get((process.pid, process.started_at))
        return tuple(track.bursts) if track is not None else ()

    def steady_per_s(self, process: Process, span_s: float, parts: int) -> tuple[float, float]:
        """Return how many bytes per second a process writes, and reads by any call, in the slowest of ``parts`` equal parts.

        Both are 0 if it was not observed throughout the last ``span_s`` seconds.
        """
        track = self._traffic.get((process.pid, process.started_at))
        if track is None or not track.moved or track.moved[0][0] > self._now - span_s:
            return 0.0, 0.0
        part_s = span_s / parts
        edges = [self._now - part_s * number for number in range(parts, -1, -1)]
        at = [next(item for item in reversed(track.moved) if item[0] <= edge) for edge in edges]
        grown = [(after[2] - before[2], after[3] - before[3]) for before, after in itertools.pairwise(at)]
        return max(0.0, min(item[0] for item in grown) / part_s), max(0.0, min(item[1] for item in grown) / part_s)

    def samples(self, process: Process, within_s: float = WINDOW_S, least: int = 0) -> Counter[str]:
        """Count the samples in which the main thread ran (``RUNS``) or waited, by what it waited for.

        Each reading is one sample. Old recordings do not say when they were read: there, each snapshot is one. A process whose
        waits are hidden has no samples.

        Args:
            process: The process.
            within_s: How far back samples count, in seconds.
            least: This many of the newest samples count even if they are older, up to ``WINDOW_S``: with many processes, each
                is read less often.
        """
        track = self._traffic.get((process.pid, process.started_at))
        kept = track.samples if track is not None else ()
        first = len(kept) - least
        return Counter(doing for place, (at, doing) in enumerate(kept) if place >= first or at >= self._now - within_s)

    def seen_in_each(self, process: Process, doing: str, span_s: float, parts: int) -> bool:
        """Return whether the main thread did something in each of ``parts`` equal parts of the last ``span_s`` seconds."""
        track = self._traffic.get((process.pid, process.started_at))
        kept = track.samples if track is not None else ()
        ages = {int((self._now - at) / span_s * parts) for at, what in kept if what == doing and at > self._now - span_s}
        return len(ages) == parts

    def times_seen_running(self, process: Process, within_s: float) -> int:
        """Return in how many snapshots the main thread ran: ``samples`` shows fewer if waits are read less often."""
        track = self._traffic.get((process.pid, process.started_at))
        return sum(at >= self._now - within_s for at in (track.runs if track is not None else ()))

    def times_run(self, process: Process) -> int:
        """Return in how many samples the main thread ran since the rank was connected to others over gloo.

        On a crowded machine, a rank that computes is seen to run, whatever share of a core it gets.
        """
        track = self._traffic.get((process.pid, process.started_at))
        return track.ran if track is not None else 0


def _counts(communicator: Communicator) -> _Counts:
    return tuple((rank.rank, rank.state, tuple(sorted(rank.counts.items()))) for rank in communicator.ranks)
