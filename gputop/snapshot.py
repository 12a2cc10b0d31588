"""The frozen records that travel from a machine to a screen, and their JSON form.

A ``Snapshot`` is all that is known about one machine at one moment. Unknown values are ``None``, never 0; the unit of a value
is in the field's name. The JSON form (``wire``) is one object per line with the same names.

This module imports only the standard library and the ground floor, because every other package imports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gputop.device import Device, DeviceKind, DeviceState, Host, HostSource, Problem
from gputop.losses import AUTOMATIC_PREFIX, LOSS_METRICS, is_training_loss, loss_metric, names_a_loss, own_or_automatic
from gputop.network.records import Interface, NetworkPath
from gputop.process import (
    Ancestor,
    DeviceUse,
    LaunchEnvironment,
    Process,
    ProcessCurve,
    ProcessDetails,
    ProcessRank,
    ProcessRun,
    WaitingLauncher,
    Workers,
)
from gputop.wire import FormatError, decode, encode, parse_json, to_plain

__all__ = [
    "AUTOMATIC_PREFIX",
    "ENDED_STATES",
    "FAILED_STATES",
    "JOB_ACTIVE",
    "JOB_ENDED_BADLY",
    "LIVE_STATES",
    "LOSS_METRICS",
    "SCHEMA_VERSION",
    "WAITING_FOR_GPU_SCREEN",
    "Ancestor",
    "Communicator",
    "CommunicatorRank",
    "Device",
    "DeviceKind",
    "DeviceState",
    "DeviceUse",
    "FormatError",
    "Host",
    "HostSource",
    "Interface",
    "JobState",
    "LaunchEnvironment",
    "LaunchPart",
    "LogMatch",
    "NetworkPath",
    "Points",
    "Problem",
    "Process",
    "ProcessCurve",
    "ProcessDetails",
    "ProcessRank",
    "ProcessRun",
    "Rank",
    "Run",
    "RunState",
    "SamplerCost",
    "Snapshot",
    "WaitingLauncher",
    "Workers",
    "encode",
    "is_training_loss",
    "loss_metric",
    "names_a_loss",
    "own_or_automatic",
    "worst",
]

SCHEMA_VERSION = 1

RunState = Literal["starting", "running", "stalled", "unheard", "finished", "failed", "killed", "stopped", "ended"]
"""State of a run and of each of its ranks.

"starting": nothing logged yet; "stalled": a signal has stopped the process; "unheard": it runs on another machine that shares
the directory and has not written to its journal for long, so it may have ended; "finished": ended with exit code 0;
"failed": ended with another exit code; "killed": ended by a signal or without notice; "stopped": ended on request or by Ctrl-C;
"ended": an untracked run whose processes are gone: nothing shows how it ended.
"""
LIVE_STATES: frozenset[RunState] = frozenset({"starting", "running", "stalled", "unheard"})
"""The process exists, or may exist."""
FAILED_STATES: frozenset[RunState] = frozenset({"failed", "killed"})
"""The run or rank ended, and nobody asked for that."""
ENDED_STATES: frozenset[RunState] = FAILED_STATES | {"finished", "stopped", "ended"}

WORST_FIRST: tuple[RunState, ...] = (
    "failed",
    "killed",
    "stalled",
    "running",
    "starting",
    "unheard",
    "stopped",
    "ended",
    "finished",
)
"""A run's state is the first of these that one of its ranks has."""

JobState = Literal["waiting", "starting", "running", "finished", "failed", "stopped", "killed", "lost"]
"""State of a launched job; ``jobs/job.py`` defines each."""
JOB_ACTIVE: frozenset[JobState] = frozenset({"waiting", "starting", "running"})
"""The job has not ended."""
JOB_ENDED_BADLY: frozenset[JobState] = frozenset({"failed", "killed", "lost", "stopped"})
"""The job has ended, and the other hosts of its launch may wait for it."""

# A stream of another version may carry states and kinds that are not listed above. They are read unchanged, so code that
# depends on one needs a branch for all others.

NOT_READ = "not_read"
"""``Problem.code`` for what the sampler failed to read because of a bug in gputop."""


def worst(states: Iterable[RunState]) -> RunState:
    """Return the state of a run whose ranks have these states, at least one. An unknown state counts least."""
    found = set(states)
    return next((state for state in WORST_FIRST if state in found), min(found))


WAITING_FOR_GPU_SCREEN: frozenset[str] = frozenset()
"""Fields of ``Device`` that JSON, streams and recordings carry but the GPU screen does not show yet; none today."""


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank of a run, from its journal."""

    rank: int
    pid: int | None = None
    hostname: str | None = None
    local_rank: int | None = None
    world_size: int | None = None
    state: RunState = "starting"
    exit_code: int | None = None
    step: int | None = None
    """The newest step: in the script's own numbers if it logs values, else the newest optimizer step."""
    optimizer_step: int | None = None
    """The newest optimizer step; the script may number its own values differently (epochs, tokens)."""
    last_log_at: float | None = None
    """Wall clock of the last record, in seconds since the epoch."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The latest value of each metric."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the rank reported about itself: ``devices``, ``data_parallel``, ``progress`` … (listed in tracking/run.py)."""
    elsewhere: bool = False
    """Whether its process is on another machine, or in another PID namespace, than this gputop."""
    last_step_at: float | None = None
    """Wall clock of the last record of another step, in seconds since the epoch; None if it is unknown. It differs from
    ``last_log_at`` if the script logs on, on another thread, while no step ends."""
    restarted_at: float | None = None
    """Wall clock at which the rank started again under the id of its run, in seconds since the epoch; None if it did not. Its
    metrics before that are those of an earlier attempt."""

    @property
    def stepped_at(self) -> float | None:
        """``last_step_at`` if it is known, else ``last_log_at``."""
        return self.last_log_at if self.last_step_at is None else self.last_step_at

    @property
    def local_pid(self) -> int | None:
        """The PID, if the process is on this machine; else None."""
        return None if self.elsewhere else self.pid

    @property
    def steps_taken(self) -> int | None:
        """The newest optimizer step if known, else ``step``: the count to compare calls per step with."""
        return self.step if self.optimizer_step is None else self.optimizer_step


@dataclass(frozen=True, slots=True)
class Run:
    """One training job: all its ranks, joined by run id. ``state`` is the worst state of its ranks."""

    run_id: str
    name: str
    project: str | None = None
    job_id: str | None = None
    state: RunState = "starting"
    created_at: float | None = None
    ended_at: float | None = None
    world_size: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    command: tuple[str, ...] | None = None
    ranks: tuple[Rank, ...] = ()
    tags: tuple[str, ...] = ()
    """The script's own tags, with the user's additions and removals."""
    recipe: str | None = None
    """Id of the recipe that gputop launched it from; None if it was started otherwise."""

    @property
    def step(self) -> int | None:
        """The last step that all participating ranks have finished; None while no rank has logged a step.

        This is the smallest step of the live ranks. A rank that has ended does not delay the others: an elastic run continues
        without it. Once no rank is live, the finished ranks decide; if none finished, all ranks do. A rank without a step never
        counts: many scripts log only on rank 0. If a rank has the script's own numbers, optimizer steps of others do not
        count.
        """
        own = [rank for rank in self.ranks if rank.optimizer_step is not None]
        for states in (LIVE_STATES, {"finished"}, None):
            ranks = (rank for rank in own or self.ranks if states is None or rank.state in states)
            steps = [rank.step for rank in ranks if rank.step is not None]
            if steps:
                return min(steps)
        return None


@dataclass(frozen=True, slots=True)
class Points:
    """New values of one metric of one rank since the previous snapshot: three columns of equal length.

    ``times`` are wall-clock seconds since the epoch. The first snapshot of a stream carries each run's past, decimated so that
    the smallest and largest value of each interval survive.
    """

    run_id: str
    rank: int
    metric: str
    steps: tuple[int, ...]
    times: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class CommunicatorRank:
    """One rank of an NCCL communicator, as NCCL's RAS service reports it. ``counts``: collectives started, by name."""

    rank: int
    pid: int | None = None
    hostname: str | None = None
    nvml_index: int | None = None
    state: str | None = None
    """"running", "init", "finalize", "abort", "missing" (does not respond) or "dead"."""
    async_error: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Communicator:
    """An NCCL communicator with its ranks, from the RAS service of NCCL 2.24 and newer."""

    communicator_id: str
    size: int
    ranks: tuple[CommunicatorRank, ...] = ()
    nccl_version: str | None = None


@dataclass(frozen=True, slots=True)
class LogMatch:
    """A known error text in the output of a run. ``pattern`` is its name ("nccl_watchdog"), ``cause`` a rule's id."""

    pattern: str
    cause: str | None
    line: str
    run_id: str | None = None
    job_id: str | None = None
    rank: int | None = None
    file: str | None = None
    line_number: int | None = None
    time: float | None = None
    """Wall clock at which the line was written, if known."""
    cascade: bool = False
    """Whether the text follows from a failure elsewhere and is never the root cause."""
    job_state: JobState | None = None
    """State of the launched job that wrote the line ("running", "finished": exit code 0, "failed" ...), if known."""
    where: str | None = None
    """The innermost line of the user's own code in the traceback, as "train.py:41 (main)"."""
    followed: bool = False
    """Whether lines of progress follow it: it was caught, or they were printed before and written later."""
    unproven: bool = False
    """Whether neither an exit code nor a traceback proves that it ended the run."""


@dataclass(frozen=True, slots=True)
class LaunchPart:
    """The job of this machine in a launch over several hosts; ``launch_id`` is also the id of the run."""

    launch_id: str
    job_id: str
    name: str
    state: JobState
    nodes: int | None = None
    """How many jobs the launch has; None if an older gputop started it."""
    ended_at: float | None = None


@dataclass(frozen=True, slots=True)
class SamplerCost:
    """The cost of watching: CPU share of the agent, duration of this reading, and NVML calls made for it."""

    cpu_percent: float | None = None
    read_s: float | None = None
    nvml_calls: int | None = None
    memory_rss_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that is known about one machine at one moment."""

    sequence: int
    time: float
    """Wall clock, seconds since the epoch."""
    monotonic_s: float
    interval_s: float
    host: Host
    devices: tuple[Device, ...] = ()
    processes: tuple[Process, ...] = ()
    runs: tuple[Run, ...] = ()
    points: tuple[Points, ...] = ()
    cost: SamplerCost = SamplerCost()
    notes: tuple[Problem, ...] = ()
    """Problems of the whole machine that hide something (process list denied, container without host PIDs)."""
    communicators: tuple[Communicator, ...] = ()
    logs: tuple[LogMatch, ...] = ()
    """Known error texts in the output of the listed runs; the first failure comes first."""
    process_runs: tuple[ProcessRun, ...] = ()
    """Untracked runs, as their processes show them: the one on the most devices first.

    Where curves are known, ``runs`` holds them under ``ProcessRun.curve_ids``.
    """
    ended_runs: tuple[ProcessRun, ...] = ()
    """Untracked runs that have ended since gputop began to watch, the newest first; ``runs`` holds their curves, too."""
    interfaces: tuple[Interface, ...] = ()
    """Network interfaces and RDMA ports; read only while a run has ranks on other machines."""
    paths: tuple[NetworkPath, ...] = ()
    """What the ranks of such runs exchange with other addresses over TCP."""
    launches: tuple[LaunchPart, ...] = ()
    """This machine's jobs in launches over several hosts: those that have not ended, or ended badly a short while ago."""
    waiting_launchers: tuple[WaitingLauncher, ...] = ()
    """The launchers that need other nodes and have started no rank yet."""
    schema_version: int = SCHEMA_VERSION

    @property
    def untracked_ids(self) -> frozenset[str]:
        """The runs that exist only as curves of untracked runs."""
        return frozenset().union(*(run.curve_ids for run in (*self.process_runs, *self.ended_runs)))

    def to_json(self, compact: bool = False) -> str:
        """Return the snapshot as one line of JSON, without a newline.

        ``compact`` omits default values, which halves the work of the sampler and of the screen that reads it.
        """
        import json

        try:
            return json.dumps(to_plain(self, compact), separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError):
            # A value is not finite, or not JSON: check every value, which takes several times as long.
            return json.dumps(encode(self, compact), separators=(",", ":"), allow_nan=False)

    @staticmethod
    def from_json(line: str | bytes) -> Snapshot:
        """Parse a snapshot.

        Raises:
            FormatError: the line is not a snapshot, or its schema is newer.
        """
        return decode(Snapshot, checked_version(parse_json(line)))


def checked_version(data: Any) -> dict[str, Any]:
    """Return decoded JSON if it is a snapshot that this gputop reads.

    Raises:
        FormatError: it is no snapshot, or its schema is newer.
    """
    version = data.get("schema_version") if isinstance(data, dict) else None
    if not isinstance(version, int):
        raise FormatError("a snapshot is a JSON object with a schema_version")
    if version > SCHEMA_VERSION:
        raise FormatError(f"schema_version {version} is newer than this gputop reads ({SCHEMA_VERSION})")
    return dict(data)
