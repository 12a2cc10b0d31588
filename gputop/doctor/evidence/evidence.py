"""The evidence that rules judge by: the newest snapshot, with its groups of ranks, and the last two minutes of snapshots.

Incremental: one observation costs one pass over the newest snapshot. No clock: time comes from the snapshots.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from gputop.doctor.evidence.device_history import DeviceHistory
from gputop.doctor.evidence.device_loads import LOAD_SPAN_MIN_S, DeviceLoads, Load
from gputop.doctor.evidence.doings import Doings
from gputop.doctor.evidence.group_past import GroupPast
from gputop.doctor.evidence.held import HeldPast
from gputop.doctor.evidence.memory_growth import MemoryGrowth
from gputop.doctor.evidence.paces import Paces
from gputop.doctor.evidence.process_past import ProcessPast
from gputop.doctor.evidence.rank_groups import Member, RankGroup, RankGroups
from gputop.doctor.evidence.rank_past import RankPast
from gputop.doctor.evidence.stillness import Stillness
from gputop.doctor.facts import stated
from gputop.history.metrics import MetricMemory
from gputop.history.points import EMPTY, PointSeries
from gputop.levels import STEP_TIME, Levels, is_pace
from gputop.losses import is_short_loss, names_a_loss
from gputop.snapshot import Communicator, Device, LogMatch, Process, Rank, Snapshot

EARLY_SPAN_S = 7.5
"""From this span on, a mean is good enough to keep watching, but not for a verdict."""
FREE_MEMORY_BYTES = 2**30
"""A GPU is free below this memory use, as the driver counts it: an idle data-center GPU shows up to 0.6 GiB for the driver."""
WARM_UP_S = 30.0
WARM_UP_STEPS = 20
"""No finding about utilization in the first 30 s or 20 steps, while cuDNN, NCCL and compilers start."""
_PHASES = frozenset(("phase/data", "phase/forward", "phase/backward", "phase/optimizer"))
PROGRESS_S = 60.0
"""A run progresses if a step has ended, or the backward pass has run, within this time (our choice)."""


@lru_cache(maxsize=1024)
def _is_a_loss(metric: str) -> bool:
    """Return whether a metric may be a training loss. Every snapshot has the same names."""
    return names_a_loss(metric) or is_short_loss(metric)


def _raise(what: str, error: Exception) -> None:
    raise error


class Evidence:
    """A bounded memory of the stream, with the queries that rules need."""

    def __init__(self, lost: Callable[[str, Exception], None] = _raise, memory: MetricMemory | None = None) -> None:
        """Start without any snapshot.

        Args:
            lost: Receives each part of a snapshot that could not be processed, and why; the rest is processed. It may raise.
            memory: The metrics of this stream if they are kept elsewhere; they contain each snapshot before it is observed
                here.
        """
        self._lost = lost
        self._own_memory = memory is None
        self.memory = memory if memory is not None else MetricMemory(buckets=0, ended_runs=0)
        self.now = -math.inf
        self.snapshot: Snapshot | None = None
        self.history = DeviceHistory()
        self.still = Stillness()
        self.doings = Doings()
        self.held = HeldPast()
        self.past = GroupPast()
        self.memory_growth = MemoryGrowth()
        self.memo: dict[str, Any] = {}
        """Results that rules compute from this snapshot and share; cleared with each snapshot."""
        self.groups: tuple[RankGroup, ...] = ()
        self._rank_groups = RankGroups()
        self.early = False
        """A rule asked for a mean over a longer span than observed so far, so its suspicion stays undecided."""
        self._first = -math.inf
        self._devices = DeviceLoads()
        self._processes = ProcessPast()
        self._ranks = RankPast()
        self._levels: dict[tuple[str, int, str], Levels] = {}
        self._paces: dict[tuple[str, int, str], Paces] = {}

    def observe(self, snapshot: Snapshot) -> None:
        """Process the next snapshot of the stream."""
        self.now, self.snapshot = snapshot.monotonic_s, snapshot
        self._first = self.now if math.isinf(self._first) else self._first
        stated.forget()
        self.memo, self.groups = {}, ()
        self._devices.begin()
        self._processes.begin()
        for what, take in (
            ("the devices", self._devices.observe),
            ("the processes", self._observe_processes),
            ("the history of the devices", self.history.observe),
            ("the hang times", self.still.observe),
            ("the stacks", self.doings.observe),
            ("the variables", self.held.observe),
            ("the memory of processes", self.memory_growth.observe),
            ("the runs", self._observe_runs),
            ("the metrics", self._observe_points),
            ("the jobs", self._observe_groups),
        ):
            try:
                take(self.snapshot)
            except Exception as error:  # noqa: BLE001 - one bad snapshot stops neither the screen nor the other rules
                self._lost(what, error)

    def _observe_processes(self, snapshot: Snapshot) -> None:
        self.snapshot = self._processes.observe(snapshot, self._lost)

    def _observe_runs(self, snapshot: Snapshot) -> None:
        self._ranks.observe(snapshot, self._lost)

    def _observe_groups(self, snapshot: Snapshot) -> None:
        self.groups = self._rank_groups.of(snapshot, lambda error: self._lost("a job", error))
        self.past.observe(self.groups, self.now)

    def _observe_points(self, snapshot: Snapshot) -> None:
        alive = {run.run_id for run in snapshot.runs}
        for known in (self._levels, self._paces):
            for key in [key for key in known if key[0] not in alive]:
                del known[key]
        untracked = snapshot.untracked_ids if snapshot.points else frozenset()
        if self._own_memory:
            self.memory.begin(snapshot)
        for points in snapshot.points:
            try:
                if self._own_memory:
                    self.memory.add(points)
                if _is_a_loss(points.metric) or (points.rank == 0 and (is_pace(points.metric) or points.metric in _PHASES)):
                    key = (points.run_id, points.rank, points.metric)
                    self._levels.setdefault(key, Levels()).extend(points.steps, points.values)
                    if points.run_id in untracked:
                        self._paces.setdefault(key, Paces()).extend(points.steps, points.times)
                    elif points.rank == 0 and points.metric == STEP_TIME:  # the last of each look is enough
                        self._paces.setdefault(key, Paces()).extend(points.steps[-1:], points.times[-1:])
            except Exception as error:  # noqa: BLE001 - one metric takes none of the others with it
                self._lost("a metric", error)

    @property
    def observed_s(self) -> float:
        """The observed seconds of the stream."""
        return self.now - self._first

    def spans(self, uuid: str, needed_s: float) -> bool:
        """Return whether a device was observed for long enough for a mean.

        From ``EARLY_SPAN_S`` on, a rule may suspect; before ``needed_s`` the suspicion stays undecided (``early``).
        """
        span_s = self.history.span_s(uuid)
        self.early = self.early or span_s < needed_s
        return span_s >= min(EARLY_SPAN_S, needed_s)

    def series(self, run_id: str | None, rank: int, metric: str) -> PointSeries:
        """Return the newest values of a rank's metric, else of its automatic metric, oldest first; empty if there are none."""
        found = self.memory.series(run_id or "", rank, metric)
        return found.newest if found is not None else EMPTY

    def not_finite_since(self, run_id: str | None, rank: int, metric: str) -> tuple[int | None, tuple[int, float] | None]:
        """Return the step from which on a rank's metric is NaN or infinite, and its last finite value (step, value).

        Both are None if unknown. They reach back further than the newest values.
        """
        found = self.memory.series(run_id or "", rank, metric)
        return (found.not_finite_since, found.last_finite) if found is not None else (None, None)

    def about_before(self, run_id: str | None, rank: int, metric: str, step: int) -> tuple[int, float] | None:
        """Return (step, value) of a rank's metric shortly before a step: a mean, which reaches back further than the newest."""
        found = self.memory.series(run_id or "", rank, metric)
        return found.about_before(step) if found is not None else None

    def levels(self, run_id: str | None, rank: int, metric: str) -> Levels:
        """Return the course of a rank's loss, or of rank 0's pace and phases, since the run began; else empty."""
        return self._levels.get((run_id or "", rank, metric)) or Levels()

    def paces(self, run_id: str | None, rank: int, metric: str) -> Paces:
        """Return the course of a run by the times of its losses or rates, if it is untracked, else of rank 0's step times.

        Empty for any other metric.
        """
        return self._paces.get((run_id or "", rank, metric)) or Paces()

    def logs(self, group: RankGroup) -> tuple[LogMatch, ...]:
        """Return the known error texts in the group's output, first failure first; also those of an untracked run."""
        if self.snapshot is None or not self.snapshot.logs:
            return ()
        run = group.shown.run_id if group.run_id is None and group.shown is not None else group.run_id
        names = {run, group.output_id} - {None}
        groups = {run, *(p.environment.gputop_job_id for p in group.processes if p.environment is not None)} - {None}
        return tuple(
            match
            for match in self.snapshot.logs
            if match.run_id in names or (match.job_id is not None and match.job_id in groups)
        )

    def communicators(self, group: RankGroup) -> tuple[Communicator, ...]:
        """Return the NCCL communicators that a process of the group belongs to, matched by PID."""
        found = self.snapshot.communicators if self.snapshot is not None else ()
        if not found:
            return ()
        pids = {process.pid for process in group.processes} | set(group.pids)
        return tuple(item for item in found if any(rank.pid in pids for rank in item.ranks))

    def device(self, uuid: str) -> Device | None:
        """Return the newest reading of a device."""
        return self._devices.device(uuid)

    def load(self, uuid: str) -> Load | None:
        """Return the device's load over the window; None if its utilization is unknown."""
        return self._devices.load(uuid)

    def owners(self, uuid: str) -> list[Process]:
        """Return the processes that compute on the device."""
        return self._processes.owners(uuid)

    def is_free(self, device: Device) -> bool | None:
        """Return whether the device is idle and unused; None while that is unknown."""
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
        """Return whether one of the group's devices is busy or its steps advance; None when neither is known yet."""
        if self.progressing(group):
            return True
        loads = [self.load(uuid) for uuid in group.used]
        if any(load is not None and load.busy for load in loads):
            return True
        return None if not loads or any(load is None or load.span_s < LOAD_SPAN_MIN_S for load in loads) else False

    def progressing(self, group: RankGroup) -> bool:
        """Return whether a rank's step advanced within the last minute of the stream."""
        run_id = group.run_id
        if not run_id:
            return False
        return any(self._ranks.moved(run_id, member.journal.rank, PROGRESS_S) for member in group.members if member.journal)

    def trains(self, group: RankGroup) -> bool:
        """Return whether the group trains: steps advance or were just logged, or its backward threads use the CPU.

        The steps of a run without a journal are those in its files or output.
        """
        memo: dict[str, bool] = self.memo.setdefault("trains", {})
        if group.key not in memo:
            memo[group.key] = self._trains(group)
        return memo[group.key]

    def _trains(self, group: RankGroup) -> bool:
        if self.progressing(group) or any(self._logged_lately(member.journal) for member in group.members):
            return True
        if group.shown is not None and self.has_moved(group.shown.run_id, PROGRESS_S):
            return True
        return any(self._processes.ran_backward(process, PROGRESS_S) for process in group.processes)

    def _logged_lately(self, journal: Rank | None) -> bool:
        if journal is None or self.snapshot is None or not journal.step or journal.stepped_at is None:
            return False
        return journal.state == "running" and abs(self.snapshot.time - journal.stepped_at) <= PROGRESS_S

    def is_warm(self, group: RankGroup) -> bool:
        """Return whether the warm-up is over: 20 steps, or 30 s since every rank began."""
        memo: dict[str, bool] = self.memo.setdefault("is_warm", {})
        if group.key not in memo:
            memo[group.key] = self._is_warm(group)
        return memo[group.key]

    def _is_warm(self, group: RankGroup) -> bool:
        taken = [member.journal.steps_taken for member in group.members if member.journal]
        steps = [step for step in taken if step is not None]
        if steps and min(steps) >= WARM_UP_STEPS:
            return True
        return all(self._processes.age_s(process) >= WARM_UP_S for process in group.processes)

    def stood_s(self, run_id: str, rank: int) -> float:
        """Return for how many observed seconds a live rank has completed no step; 0 for an unknown rank."""
        return self._ranks.stood_s(run_id, rank)

    def has_moved(self, run_id: str, within_s: float) -> bool:
        """Return whether a rank of a run, tracked or not, was seen to make a step within the last ``within_s`` seconds."""
        return self._ranks.any_moved(run_id, within_s)

    def pauses(self, run_id: str, rank: int) -> tuple[int, float]:
        """Return how often a live rank was seen to make a step, and the longest time in seconds that one took."""
        return self._ranks.pauses(run_id, rank)

    def ended_s(self, run_id: str, rank: int) -> float:
        """Return for how many seconds a rank is known to have ended; 0 if it has not."""
        return self._ranks.ended_s(run_id, rank)

    def recent_calls(self, group: RankGroup, member: Member, least: int) -> tuple[int, int, int]:
        """Return (calls, underused, uneven) of DataParallel over the last two minutes; since the start if those are too
        few."""
        if not group.run_id or member.journal is None:
            return 0, 0, 0
        return self._ranks.recent_calls(group.run_id, member.journal.rank, least)

    def no_backward_s(self, process: Process) -> float | None:
        """Return for how many observed seconds the process's backward threads have used no CPU; None if it has none."""
        return self._processes.no_backward_s(process)

    def backward_shares(self, process: Process, span_s: float, parts: int) -> tuple[float, ...] | None:
        """Return which share of a core a process's backward threads used in each part of the last ``span_s`` seconds."""
        return self._processes.backward_shares(process, span_s, parts)

    def age_s(self, process: Process) -> float:
        """Return for how many seconds the process has run, or at least been observed."""
        return self._processes.age_s(process)

    def cpu_busy_s(self, process: Process) -> float:
        """Return for how many seconds the process has used more than 80% of a core without a pause."""
        return self._processes.cpu_busy_s(process)

    def stopped_s(self, process: Process) -> float:
        """Return for how many observed seconds a signal has stopped the process without a pause; 0 if it is not stopped."""
        return self._processes.stopped_s(process)

    def interrupted_per_s(self, process: Process) -> float | None:
        """Return how often a second the main thread was last stopped to let others run; None if that is not known yet."""
        return self._processes.interrupted_per_s(process)

    def has_worked(self, process: Process) -> bool:
        """Return whether the process was ever observed to use a quarter of a core or more."""
        return self._processes.has_worked(process)
