"""The records of a process: how it was started, which devices it uses, and how it runs. See ``snapshot``.

A screen asks for what a snapshot does not carry: ``ProcessQuestion`` goes to the sampler, ``ProcessAnswer`` comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gputop.whereabouts.records import Doing, Holdings, RankPlace
from gputop.wire import AnswerLine

ProcessKey: TypeAlias = "tuple[int, float | None]"
"""PID and start of a process, on the wall clock, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """One process's use of one device. ``contexts`` is a subset of "C", "G", "M" (compute, graphics, MPS)."""

    device_uuid: str
    memory_used_bytes: int | None = None
    sm_utilization_percent: float | None = None
    contexts: str = ""


@dataclass(frozen=True, slots=True)
class LaunchEnvironment:
    """The environment at launch, from /proc/<pid>/environ: later changes inside Python are not visible there."""

    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    local_world_size: int | None = None
    cuda_visible_devices: str | None = None
    cuda_device_order: str | None = None
    torchelastic_run_id: str | None = None
    gputop_run_id: str | None = None
    gputop_job_id: str | None = None
    gputop_launch_id: str | None = None
    """Set by ``gputop run``."""
    gputop_name: str | None = None
    """The name that ``gputop run --name`` or the launch screen gave the run."""
    gputop_state_dir: str | None = None
    """The directory of the runs of a process that gputop started; None if tracking is turned off."""
    virtual_devices: str | None = None
    """GPUTOP_VIRTUAL_DEVICES: the virtual GPUs that this process may use, like CUDA_VISIBLE_DEVICES ("0,1")."""
    master_port: int | None = None
    settings: tuple[tuple[str, str], ...] = ()
    """Variables that change how torch, CUDA or NCCL run (OMP_NUM_THREADS, CUDA_LAUNCH_BLOCKING, NCCL_P2P_DISABLE ...)."""


@dataclass(frozen=True, slots=True)
class StatedRank:
    """The numbers that a script reads from its own command line: ``--rank 0 --world-size 2``, ``--machine-rank 1``. Or those of
    ranks whose first one started the others: it has given them a local rank.

    ``node`` and ``nodes`` are those of a script that spawns the ranks of its machine, and also those of each of these.
    """

    rank: int | None = None
    world_size: int | None = None
    local_rank: int | None = None
    node: int | None = None
    nodes: int | None = None
    option: str | None = None
    """How the command writes the rank's or the node's number: "--rank"."""
    meets_at: str | None = None
    """Where the ranks meet: "127.0.0.1:23456"; None if the command does not say."""


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A parent in the chain from a process up to init, nearest first."""

    pid: int
    name: str


@dataclass(frozen=True, slots=True)
class Workers:
    """The DataLoader worker processes (named pt_data_worker) of one process."""

    count: int
    cpu_percent: float | None = None
    """Sum over all workers; 100 is one core."""
    blocked: int = 0
    """Number of workers that were waiting for a disk (state D) at this reading."""
    cores_allowed: int | None = None
    """Number of cores that at least one worker may run on."""
    pids: tuple[int, ...] = ()


WokenBy = Literal["nothing", "time limit", "others"]
"""What may end the wait of a main thread for a lock or a child: nothing if all other threads wait for threads of the process,
and it has no child process, or waits for one while its children wait until it reads from a pipe; the time limit with which one
of these threads waits; or another thread or process that does something else."""
_FOR_DEBUGGERS = frozenset(("waits_for", "doing", "held", "all_locked", "woken_by"))
"""What the kernel shows only to whom it would let debug the process."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process that uses a device, belongs to a run, looks like training on the CPU, or was started as a rank.

    ``hidden`` names the fields that the operating system hides (another user's process); they are None.
    ``autograd_threads`` are (device index as the process sees it, CPU seconds) of its ``pt_autograd_<i>`` threads.
    ``in_namespace`` is False if the driver reports a PID that does not exist in this PID namespace (containers).
    """

    pid: int
    devices: tuple[DeviceUse, ...] = ()
    ppid: int | None = None
    uid: int | None = None
    user: str | None = None
    name: str | None = None
    command: tuple[str, ...] | None = None
    state: str | None = None
    cpu_percent: float | None = None
    memory_rss_bytes: int | None = None
    started_at: float | None = None
    """Wall clock, seconds since the epoch."""
    environment: LaunchEnvironment | None = None
    ancestors: tuple[Ancestor, ...] = ()
    launcher: Ancestor | None = None
    """The nearest ancestor that launches ranks: torchrun, accelerate, deepspeed, srun, mpirun."""
    container: str | None = None
    torch_mapped: bool | None = None
    torch_cuda_mapped: bool | None = None
    nvidia_open: bool | None = None
    """True if the process has a /dev/nvidia* file open."""
    autograd_threads: tuple[tuple[int, float], ...] = ()
    in_namespace: bool = True
    hidden: tuple[str, ...] = ()
    run_id: str | None = None
    rank: int | None = None
    """Rank in ``run_id``: from the journal, else from the environment at launch, else from the command line."""
    threads: tuple[tuple[str, int], ...] = ()
    """(name, number) of threads with known names: pt_nccl_watchdg, pt_gloo_runloop, NCCL Service, pt_data_pin ..."""
    thread_count: int | None = None
    """Number of all its threads."""
    main_thread_cpu_percent: float | None = None
    cores_allowed: int | None = None
    """Number of cores in the process's affinity mask."""
    cores_used: tuple[int, ...] = ()
    """The cores on which its busiest threads last ran."""
    read_bytes: int | None = None
    """Bytes read from disks since the process started, cumulative."""
    written_bytes: int | None = None
    """Bytes written to disks since the process started, also by Python processes that it started (no workers, no ranks)."""
    any_read_bytes: int | None = None
    """Bytes returned by read calls since the process started, also from the page cache and pipes; in whole units of 16 MiB."""
    involuntary_switches: int | None = None
    waits_in: str | None = None
    """The kernel function in which the main thread sleeps (/proc/<pid>/wchan); None while it runs or if hidden."""
    waits_for: str | None = None
    """What the main thread waits for, by its system call: "sleep", "file", "file lock", "pipe", "socket", "terminal", "output"
    (until somebody reads what it prints), "events" (several at once), "lock" (another thread) or "child"; None while it runs,
    or if hidden."""
    waits_read_s: float | None = None
    """When ``waits_for`` was read, on the clock of ``Snapshot.monotonic_s``; None: for this snapshot, so that the record of a
    process at rest stays the same."""
    all_locked: bool | None = None
    """Whether every thread waits for another thread of the process, and none has used the CPU for two seconds."""
    woken_by: WokenBy | None = None
    """What may end the main thread's wait for a lock or a child. Known of a Python that uses torch, at rest."""
    listens: bool | None = None
    """Whether it has a TCP socket that waits for connections. Known of a Python that uses torch once it has rested."""
    lock_held_by: int | None = None
    """The process that holds the file lock that the main thread waits for."""
    files_written: tuple[str, ...] = ()
    """Regular files open for writing only, without gputop's own logs and journals; at most 16."""
    workers: Workers | None = None
    """Its DataLoader workers; None if there are none."""
    doing: Doing | None = None
    """What the main thread of a Python that uses torch did when ``waits_for`` was read, by its stack; None
    for another user's process, and where the stack could not be read."""
    held: Holdings | None = None
    """What the code of an untracked training holds: models and loader, from its variables; None as for ``doing``."""
    in_rendezvous: bool | None = None
    """Whether multiprocessing spawned it with others, of which one listens for connections, or all joined a process group, by
    their stacks, and none of which computed then. On a later node (``stated``), none has to listen."""
    stated: StatedRank | None = None
    """What its command line says, or that of the script that spawned it, if the environment does not number it."""

    @property
    def world_size(self) -> int | None:
        """The number of ranks of its run: from the environment at launch, else from the command line."""
        if self.environment is not None and self.environment.world_size is not None:
            return self.environment.world_size
        return self.stated.world_size if self.stated is not None else None

    @property
    def is_anothers(self) -> bool:
        """Whether the system hides what it shows of this user's own processes, even where it allows no debugger (Yama)."""
        return any(name not in _FOR_DEBUGGERS for name in self.hidden)

    @property
    def key(self) -> ProcessKey:
        """A key that distinguishes the process from a later one with the same PID."""
        return self.pid, self.started_at


@dataclass(frozen=True, slots=True)
class ProcessRank:
    """One rank of a ``ProcessRun``. ``devices`` are the UUIDs of the devices that it computes on, as the driver lists them.

    They are None if it has a GPU open and the driver does not say which one (no permission, or a container without the
    host's PIDs).
    """

    pid: int
    rank: int | None = None
    local_rank: int | None = None
    devices: tuple[str, ...] | None = ()
    place: RankPlace | None = None
    """Where it is: before its first step as it reports itself; in an untracked run as /proc shows it, if that shows for which
    rank the others may wait. None while it moves, or if nothing shows it."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """How often an output contains each of its newest training losses."""

    times: int
    values: int
    """How many different values were each printed ``times`` times."""


OUTPUT = "its output"
"""The source of the curve that a run prints."""
DEAD_STATES = frozenset("ZXx")
"""Zombie and dead: such a process has a PID and nothing else, though the driver may still hold its memory."""


@dataclass(frozen=True, slots=True)
class ProcessCurve:
    """A curve read from a run's files; ``Snapshot.runs`` contains it under ``run_id``."""

    run_id: str
    source: str
    """What wrote the files: "TensorBoard", "W&B", "CSV", ``OUTPUT`` …"""
    files: tuple[str, ...] = ()
    shared: bool = False
    """Whether the files may belong to another run: nothing shows which run writes them."""


@dataclass(frozen=True, slots=True)
class ProcessRun:
    """A run without a journal, as its processes on this machine show it: ``gputop/untracked`` finds them.

    gputop does not track it, or (``starting``) waits for its first training step.

    Whether it trains is unknown: any program that computes on a GPU counts. ``ranks`` are those on this machine, without the
    launcher and the workers of a rank.
    """

    key: str
    """What its processes have in common: "launcher:4242", "pid:4243" …"""
    name: str
    """The script's name, else the program's."""
    ranks: tuple[ProcessRank, ...] = ()
    launcher: Ancestor | None = None
    """What started the ranks: torchrun, accelerate, deepspeed, srun, mpirun, ray, or multiprocessing."""
    world_size: int | None = None
    local_world_size: int | None = None
    user: str | None = None
    started_at: float | None = None
    """When the oldest of its processes started: wall clock, seconds since the epoch."""
    command: tuple[str, ...] = ()
    """The script with its arguments; empty if it is not known."""
    run_id: str | None = None
    """The run in ``Snapshot.runs`` that contains its curve; None while no curve is known."""
    output_id: str | None = None
    """The ``run_id`` of the texts in its output (``Snapshot.logs``), whether or not a curve is known; None until it is read."""
    outputs: tuple[str, ...] = ()
    """The files from which that curve is read; of a run that has ended without a curve, those that it printed to."""
    curves: tuple[ProcessCurve, ...] = ()
    """All its curves, the best first; that of ``run_id`` is one of them."""
    starting: bool = False
    """Whether gputop started it and has not seen a training step yet."""
    ended_at: float | None = None
    """When it was seen to have ended: wall clock; None while it is alive."""
    failed: bool = False
    """Whether its output shows that it failed. Otherwise, nothing shows how it ended."""
    connected: bool | None = None
    """Whether a rank holds a TCP connection to another one, their launcher, or where they meet; None: unknown."""
    repeated: Repeated | None = None
    """Equal losses in an output that all ranks share; None if each value comes once, or too few are known."""

    @property
    def devices(self) -> tuple[str, ...]:
        """The UUIDs of the devices that its ranks compute on, each once, in the order of the ranks."""
        return tuple(dict.fromkeys(uuid for rank in self.ranks for uuid in rank.devices or ()))

    @property
    def curve_ids(self) -> frozenset[str]:
        """The runs in ``Snapshot.runs`` that contain its curves."""
        return frozenset(curve.run_id for curve in self.curves) | ({self.run_id} if self.run_id is not None else set())

    @property
    def missing_local_ranks(self) -> tuple[int, ...]:
        """The local ranks that should be on this machine and were not found; empty if that is not known."""
        seen = {rank.local_rank for rank in self.ranks}
        if self.local_world_size is None or None in seen:
            return ()
        return tuple(number for number in range(min(self.local_world_size, LOCAL_RANKS_MOST)) if number not in seen)

    @property
    def ranks_elsewhere(self) -> int | None:
        """The number of ranks on other machines; None if it is not known."""
        if self.world_size is None or self.local_world_size is None:
            return None
        return max(0, self.world_size - self.local_world_size)


LOCAL_RANKS_MOST = 4096
"""Maximum number of ranks of one machine that are looked for: LOCAL_WORLD_SIZE may be any number."""
NODES_START_S = 60.0
"""Nodes do not start at once, least of all by hand: launchers that wait are reported after this time (our choice)."""


@dataclass(frozen=True, slots=True)
class WaitingLauncher:
    """A torchrun or accelerate launch that needs other nodes and has no rank yet, by its command and its environment."""

    pid: int
    name: str
    """The script's name."""
    nodes: int
    """The fewest nodes with which it starts."""
    meets_at: str | None = None
    """The address of the rendezvous, "gpu1:29500"; None if torchrun chooses it."""
    rendezvous_id: str | None = None
    slurm_job_id: str | None = None
    gputop_job_id: str | None = None
    """The job of gputop that started it."""
    started_at: float | None = None
    """Wall clock, seconds since the epoch."""
    launcher: str = "torchrun"
    """Or "accelerate"."""
    user: str | None = None
    """Its user, if that is not the one who runs gputop: then only its command is known, and not its environment."""

    @property
    def words(self) -> str:
        """The launcher, and whose it is: "torchrun of alice"."""
        return self.launcher if self.user is None else f"{self.launcher} of {self.user}"


@dataclass(frozen=True, slots=True)
class ProcessDetails:
    """Details of one process, read on demand. ``cpu_affinity`` lists the cores that it may run on."""

    threads: int | None = None
    open_files: int | None = None
    niceness: int | None = None
    cpu_affinity: tuple[int, ...] | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    involuntary_switches: int | None = None
    working_directory: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessQuestion:
    """A screen's question to the sampler about one process: its details, or its environment at launch."""

    pid: int
    environment: bool = False


@dataclass(frozen=True, slots=True)
class ProcessAnswer(AnswerLine):
    """The sampler's answer: one line of its stream that is not a snapshot, written only to the screen that asked.

    The values are None if the process has ended or the operating system hides them. ``environment`` has its secrets masked
    and is bounded in size; ``omitted`` counts the variables left out.
    """

    KEY = "process_answer"

    question: ProcessQuestion
    details: ProcessDetails | None = None
    environment: Mapping[str, str] | None = None
    omitted: int = 0
    problem: str | None = None
    """Why nothing could be read, if the failure was unexpected."""
