"""The evidence that rules judge by: the newest snapshot, grouped into jobs, and the last two minutes of snapshots.

Incremental: one observation costs one pass over the newest snapshot. No clock: time comes from the snapshots.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from gputop.doctor.evidence.device_history import DeviceHistory
from gputop.doctor.evidence.group_past import GroupPast
from gputop.doctor.evidence.levels import Levels, is_pace
from gputop.doctor.evidence.memory_growth import MemoryGrowth
from gputop.doctor.evidence.rank_groups import Member, RankGroup, RankGroups
from gputop.doctor.evidence.stillness import Stillness
from gputop.doctor.facts import stated
from gputop.groups import compute_uses
from gputop.history.points import EMPTY, PointSeries
from gputop.history.series import MetricMemory
from gputop.snapshot import LIVE_STATES, Communicator, Device, LogMatch, Process, Rank, Snapshot, names_a_loss

KEPT_S = 120.0
KEPT_SAMPLES = 1200
LOAD_WINDOW_S = 12.0
"""Contexts, not utilization, tell who owns a GPU, so 12 s are enough: a fault is named within 15 s."""
LOAD_SPAN_MIN_S = 9.5
EARLY_SPAN_S = 9.5
"""From this span on a mean is good enough to go on watching, though not for a verdict."""
BUSY_PERCENT = 10.0
"""Average utilization of a GPU that works (docs/rules.md#measures)."""
IDLE_PERCENT = 3.0
IDLE_SHARE = 0.95
"""A GPU is idle when 95% of its readings are below 3% (docs/rules.md#measures)."""
FREE_MEMORY_BYTES = 2**30
"""A GPU is free below this memory use, as the driver counts it: an idle data-center GPU with driver reserve shows up to 0.6
GiB."""
WARM_UP_S = 30.0
WARM_UP_STEPS = 20
"""No finding about utilization in the first 30 s or 20 steps, in which cuDNN, NCCL and compilers start."""
PROGRESS_S = 60.0
CPU_BUSY_PERCENT = 80.0
CPU_WORKS_PERCENT = 25.0
"""What a process that computes on a crowded machine still gets of a core (our choice)."""


_is_a_loss = lru_cache(maxsize=1024)(names_a_loss)
"""The same names come with every snapshot."""


@dataclass(frozen=True, slots=True)
class Load:
    """A device's load over the last ``span_s`` seconds: mean utilization, and the share of samples in which it idled."""

    mean_percent: float
    idle_share: float
    span_s: float

    @property
    def busy(self) -> bool:
        """Whether the device works."""
        return self.mean_percent >= BUSY_PERCENT

    @property
    def idle(self) -> bool:
        """Whether the device idles, and was observed long enough to tell."""
        return self.idle_share >= IDLE_SHARE and self.span_s >= LOAD_SPAN_MIN_S


@dataclass(slots=True)
class _ProcessTrack:
    first_seen: float
    cpu_busy_since: float | None = None
    worked: bool = False
    backward_s: float = 0.0
    backward_at: float | None = None


@dataclass(slots=True)
class _RankTrack:
    step: int | None = None
    moved_at: float | None = None
    seen_at: float = 0.0
    calls: deque[tuple[float, int, int, int]] = field(default_factory=lambda: deque(maxlen=KEPT_SAMPLES))


def _raise(what: str, error: Exception) -> None:
    raise error


class Evidence:
    """A bounded memory of the stream, with the queries that rules need."""

    def __init__(self, lost: Callable[[str, Exception], None] = _raise, memory: MetricMemory | None = None) -> None:
        """Start without any snapshot.

        Args:
            lost: Receives each part of a snapshot that could not be processed, and why; the rest is processed. It may raise.
            memory: The metrics of this stream, where somebody else keeps them: they hold a snapshot before it is observed here.
        """
        self._lost = lost
        self._own_memory = memory is None
        self.memory = memory if memory is not None else MetricMemory(buckets=0, ended_runs=0)
        self.now = -math.inf
        self.snapshot: Snapshot | None = None
        self.history = DeviceHistory()
        self.still = Stillness()
        self.past = GroupPast()
        self.memory_growth = MemoryGrowth()
        self.memo: dict[str, Any] = {}
        """Results that rules compute from this snapshot and share; cleared with each snapshot."""
        self.groups: tuple[RankGroup, ...] = ()
        self._rank_groups = RankGroups()
        self.early = False
        """A rule asked for a mean over a longer span than was observed so far: what it suspects cannot be told yet."""
        self._first = -math.inf
        self._devices: dict[str, Device] = {}
        self._samples: dict[str, deque[tuple[float, float]]] = {}
        self._processes: dict[tuple[int, float | None], _ProcessTrack] = {}
        self._ranks: dict[tuple[str, int], _RankTrack] = {}
        self._ended: dict[tuple[str, int], float] = {}
        self._loads: dict[str, Load | None] = {}
        self._owners: dict[str, list[Process]] = {}
        self._levels: dict[tuple[str, int, str], Levels] = {}

    def observe(self, snapshot: Snapshot) -> None:
        """Process the next snapshot of the stream."""
        self.now, self.snapshot = snapshot.monotonic_s, snapshot
        self._first = self.now if math.isinf(self._first) else self._first
        stated.forget()
        self._devices, self._loads, self._owners, self.memo, self.groups = {}, {}, {}, {}, ()
        for what, take in (
            ("the devices", self._observe_devices),
            ("the processes", self._observe_processes),
            ("the history of the devices", self.history.observe),
            ("what stands still", self.still.observe),
            ("the memory of processes", self.memory_growth.observe),
            ("the runs", self._observe_runs),
            ("the metrics", self._observe_points),
            ("the jobs", self._observe_groups),
        ):
            try:
                take(self.snapshot)
            except Exception as error:  # noqa: BLE001 - one bad snapshot ends neither the screen nor the other rules
                self._lost(what, error)

    def _observe_groups(self, snapshot: Snapshot) -> None:
        self.groups = self._rank_groups.of(snapshot, lambda error: self._lost("a job", error))
        self.past.observe(self.groups, self.now)

    def _observe_devices(self, snapshot: Snapshot) -> None:
        self._devices = {device.uuid: device for device in snapshot.devices}
        for device in snapshot.devices:
            value = device.utilization_percent
            if device.state != "ok" or value is None or not math.isfinite(value):
                continue
            samples = self._samples.setdefault(device.uuid, deque(maxlen=KEPT_SAMPLES))
            samples.append((self.now, value))
            while samples[0][0] < self.now - KEPT_S:
                samples.popleft()
        for uuid in self._samples.keys() - self._devices.keys():
            del self._samples[uuid]

    def _observe_processes(self, snapshot: Snapshot) -> None:
        seen = {}
        kept = []
        for process in snapshot.processes:
            try:
                for use in compute_uses(process):
                    self._owners.setdefault(use.device_uuid, []).append(process)
                seen[process.pid, process.started_at] = self._followed(process)
                kept.append(process)
            except Exception as error:  # noqa: BLE001 - one process takes none of the others with it
                self._lost("a process", error)
        self._processes = seen
        if len(kept) < len(snapshot.processes):
            self.snapshot = replace(snapshot, processes=tuple(kept))

    def _followed(self, process: Process) -> _ProcessTrack:
        known = self._processes.get((process.pid, process.started_at))
        track = known or _ProcessTrack(self.now)
        busy = process.cpu_percent is not None and process.cpu_percent > CPU_BUSY_PERCENT
        track.cpu_busy_since = (track.cpu_busy_since if track.cpu_busy_since is not None else self.now) if busy else None
        track.worked = track.worked or (process.cpu_percent is not None and process.cpu_percent >= CPU_WORKS_PERCENT)
        seconds = 0.0
        for _, value in process.autograd_threads:
            seconds += value if math.isfinite(value) else 0.0
        if seconds > track.backward_s and known is not None:
            track.backward_at = self.now
        track.backward_s = seconds
        return track

    def _observe_runs(self, snapshot: Snapshot) -> None:
        seen: dict[tuple[str, int], _RankTrack] = {}
        ended: dict[tuple[str, int], float] = {}
        for run in snapshot.runs:
            for rank in run.ranks if run.state != "finished" else ():
                try:
                    self._observe_rank((run.run_id, rank.rank), rank, seen, ended)
                except Exception as error:  # noqa: BLE001 - as above
                    self._lost("a rank", error)
        self._ranks, self._ended = seen, ended

    def _observe_rank(
        self, key: tuple[str, int], rank: Rank, seen: dict[tuple[str, int], _RankTrack], ended: dict[tuple[str, int], float]
    ) -> None:
        if rank.state not in LIVE_STATES:
            ended[key] = self._ended.get(key, self.now)
            return  # no rule looks at the recent past of an ended run
        known = self._ranks.get(key)
        track = seen[key] = known or _RankTrack(rank.steps_taken, seen_at=self.now)
        if known is not None and rank.steps_taken is not None and rank.steps_taken != track.step:
            track.step, track.moved_at = rank.steps_taken, self.now
        fact = stated.data_parallel(rank)
        if fact is None:
            return
        counted = (fact.calls, fact.underused_calls, fact.uneven_calls)
        if not track.calls or track.calls[-1][1:] != counted:
            track.calls.append((self.now, *counted))
        while len(track.calls) > 1 and track.calls[1][0] < self.now - KEPT_S:
            track.calls.popleft()

    def _observe_points(self, snapshot: Snapshot) -> None:
        alive = {run.run_id for run in snapshot.runs}
        for key in [key for key in self._levels if key[0] not in alive]:
            del self._levels[key]
        if self._own_memory:
            self.memory.begin(snapshot)
        for points in snapshot.points:
            try:
                if self._own_memory:
                    self.memory.add(points)
                if _is_a_loss(points.metric) or (points.rank == 0 and is_pace(points.metric)):
                    key = (points.run_id, points.rank, points.metric)
                    self._levels.setdefault(key, Levels()).extend(points.steps, points.values)
            except Exception as error:  # noqa: BLE001 - as above
                self._lost("a metric", error)

    @property
    def observed_s(self) -> float:
        """The seconds of the stream that were observed."""
        return self.now - self._first

    def spans(self, uuid: str, needed_s: float) -> bool:
        """Return whether a device was observed for long enough for a mean.

        From ``EARLY_SPAN_S`` on, a rule may suspect; before ``needed_s`` the suspicion stays undecided (``early``).
        """
        span_s = self.history.span_s(uuid)
        self.early = self.early or span_s < needed_s
        return span_s >= min(EARLY_SPAN_S, needed_s)

    def series(self, run_id: str | None, rank: int, metric: str) -> PointSeries:
        """Return the newest values of a rank's metric, else of its automatic one, oldest first; empty if there are none."""
        found = self.memory.series(run_id or "", rank, metric)
        return found.newest if found is not None else EMPTY

    def levels(self, run_id: str | None, rank: int, metric: str) -> Levels:
        """Return the course of a rank's loss, or of rank 0's pace, since the run began; empty for any other metric."""
        return self._levels.get((run_id or "", rank, metric)) or Levels()

    def logs(self, group: RankGroup) -> tuple[LogMatch, ...]:
        """Return the known error texts in the job's output, first failure first."""
        if self.snapshot is None:
            return ()
        groups = {group.run_id, *(p.environment.gputop_job_id for p in group.processes if p.environment is not None)} - {None}
        return tuple(
            match
            for match in self.snapshot.logs
            if (match.run_id is not None and match.run_id == group.run_id)
            or (match.job_id is not None and match.job_id in groups)
        )

    def communicators(self, group: RankGroup) -> tuple[Communicator, ...]:
        """Return the NCCL communicators that a process of the job belongs to, matched by PID."""
        pids = {process.pid for process in group.processes} | set(group.pids)
        found = self.snapshot.communicators if self.snapshot is not None else ()
        return tuple(item for item in found if any(rank.pid in pids for rank in item.ranks))

    def load(self, uuid: str) -> Load | None:
        """Return the device's load over the window; None if its utilization is unknown."""
        if uuid not in self._loads:
            self._loads[uuid] = self._load(uuid)
        return self._loads[uuid]

    def _load(self, uuid: str) -> Load | None:
        device, samples = self._devices.get(uuid), self._samples.get(uuid)
        if device is None or device.utilization_percent is None or not samples:
            return None
        values = []
        begin = self.now
        for time, value in reversed(samples):
            if time < self.now - LOAD_WINDOW_S:
                break
            values.append(value)
            begin = time
        if not values:
            return None
        idle = sum(value < IDLE_PERCENT for value in values)
        return Load(sum(values) / len(values), idle / len(values), self.now - begin)

    def owners(self, uuid: str) -> list[Process]:
        """Return the processes that compute on the device."""
        return self._owners.get(uuid, [])

    def device(self, uuid: str) -> Device | None:
        """Return the newest reading of a device."""
        return self._devices.get(uuid)

    def is_free(self, device: Device) -> bool | None:
        """Return whether the device idles and nobody uses it; None while that is unknown."""
        if self.owners(device.uuid):
            return False
        if device.kind == "gpu" and (device.memory_used_bytes or 0) >= FREE_MEMORY_BYTES:
            return False
        load = self.load(device.uuid)
        if load is None or device.state != "ok" or load.span_s < LOAD_SPAN_MIN_S:
            return None
        return load.idle

    def free(self, devices: Iterable[Device]) -> tuple[Device, ...]:
        """Return the devices that are certainly free."""
        return tuple(device for device in devices if self.is_free(device))

    def works(self, group: RankGroup) -> bool | None:
        """Return whether one of the job's devices is busy or its steps advance; None when neither is known yet."""
        if self.progressing(group):
            return True
        loads = [self.load(uuid) for uuid in group.used]
        if any(load is not None and load.busy for load in loads):
            return True
        return None if not loads or any(load is None or load.span_s < LOAD_SPAN_MIN_S for load in loads) else False

    def progressing(self, group: RankGroup) -> bool:
        """Return whether a rank's step advanced within the last minute of the stream."""
        return any(self._moved(group, member) for member in group.members)

    def _moved(self, group: RankGroup, member: Member) -> bool:
        track = self._ranks.get((group.run_id, member.journal.rank)) if group.run_id and member.journal else None
        return track is not None and track.moved_at is not None and self.now - track.moved_at <= PROGRESS_S

    def stood_s(self, run_id: str, rank: int) -> float:
        """Return for how many observed seconds a live rank has made no step; 0 for an unknown rank."""
        track = self._ranks.get((run_id, rank))
        if track is None:
            return 0.0
        return self.now - (track.moved_at if track.moved_at is not None else track.seen_at)

    def ended_s(self, run_id: str, rank: int) -> float:
        """Return for how many seconds a rank is known to have ended; 0 if it has not."""
        return self.now - self._ended.get((run_id, rank), self.now)

    def trains(self, group: RankGroup) -> bool:
        """Return whether the job trains: steps advance or were just logged, or its backward threads use the CPU."""
        if self.progressing(group) or any(self._logged_lately(member.journal) for member in group.members):
            return True
        return any(
            track.backward_at is not None and self.now - track.backward_at <= PROGRESS_S
            for track in map(self._track, group.processes)
            if track is not None
        )

    def no_backward_s(self, process: Process) -> float | None:
        """Return for how many observed seconds the process's backward threads have used no CPU; None if it has none."""
        track = self._track(process)
        if track is None or track.backward_s <= 0:
            return None
        return self.now - (track.backward_at if track.backward_at is not None else track.first_seen)

    def _logged_lately(self, journal: Rank | None) -> bool:
        if journal is None or self.snapshot is None or not journal.step or journal.last_log_at is None:
            return False
        return journal.state == "running" and abs(self.snapshot.time - journal.last_log_at) <= PROGRESS_S

    def is_warm(self, group: RankGroup) -> bool:
        """Return whether the warm-up is over: 20 steps, or 30 s since every rank began."""
        taken = [member.journal.steps_taken for member in group.members if member.journal]
        steps = [step for step in taken if step is not None]
        if steps and min(steps) >= WARM_UP_STEPS:
            return True
        return all(self.age_s(process) >= WARM_UP_S for process in group.processes)

    def age_s(self, process: Process) -> float:
        """Return for how many seconds the process has run, or at least been observed."""
        track = self._track(process)
        seen = self.now - track.first_seen if track is not None else 0.0
        if process.started_at is None or self.snapshot is None:
            return seen
        lived = self.snapshot.time - process.started_at
        return max(seen, lived) if math.isfinite(lived) else seen

    def cpu_busy_s(self, process: Process) -> float:
        """Return for how many seconds the process has used more than 80% of a core without a pause."""
        track = self._track(process)
        return self.now - track.cpu_busy_since if track is not None and track.cpu_busy_since is not None else 0.0

    def has_worked(self, process: Process) -> bool:
        """Return whether the process was ever observed to use a quarter of a core or more."""
        track = self._track(process)
        return track is not None and track.worked

    def _track(self, process: Process) -> _ProcessTrack | None:
        return self._processes.get((process.pid, process.started_at))

    def recent_calls(self, group: RankGroup, member: Member, least: int) -> tuple[int, int, int]:
        """Return (calls, underused, uneven) of DataParallel over the last two minutes; since the start if those are too
        few."""
        track = self._ranks.get((group.run_id, member.journal.rank)) if group.run_id and member.journal else None
        if track is None or not track.calls:
            return 0, 0, 0
        first, last = track.calls[0][1:], track.calls[-1][1:]
        recent = tuple(new - old for new, old in zip(last, first, strict=True))
        return (recent[0], recent[1], recent[2]) if recent[0] >= least and min(recent) >= 0 else last
