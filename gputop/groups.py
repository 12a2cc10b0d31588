"""Which processes belong together, and which of them are ranks: pure functions of a list of processes.

Processes are grouped by run id, else by launcher, else by the launch that gputop made, else by what started them: ranks that
a script starts by itself, with RANK and WORLD_SIZE, belong together by that script's shell.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gputop.command_line import is_spawned
from gputop.process import DEAD_STATES, Ancestor, DeviceUse, Process

WORKER_NAME = "pt_data_worker"
"""What torch calls the worker processes of a DataLoader."""
GROUP_THREADS = ("pt_nccl_watchdg", "pt_gloo_runloop", "NCCL Service", "NCCL Progress", "NCCL RAS")
"""How the names of threads begin that NCCL and gloo start in a process group, also in one of a single rank."""
RAY_DAEMON = "raylet"
NUMBERS_BY_LAUNCHER = {
    "srun": (("SLURM_PROCID",), ("SLURM_LOCALID",), ("SLURM_NTASKS", "SLURM_NPROCS"), ()),
    "mpirun": (
        ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "JSM_NAMESPACE_RANK"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_RANK"),
        ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "JSM_NAMESPACE_SIZE"),
        (),
    ),
}
"""The variables that hold rank, local rank and world size under launchers that do not set torch's."""


_GROUPED_BY = operator.attrgetter("pid", "ppid", "run_id", "launcher", "ancestors", "environment", "command", "stated", "uid")
"""The fields that ``group_keys`` depends on, besides whether a process computes."""


def compute_uses(process: Process) -> tuple[DeviceUse, ...]:
    """Return the process's device uses except pure graphics."""
    uses = process.devices
    if len(uses) == 1:  # nearly every process
        return uses if uses[0].contexts != "G" else ()
    return tuple([use for use in uses if use.contexts != "G"])


def ray_daemon(process: Process) -> Ancestor | None:
    """Return the daemon of Ray that started a process; None if Ray did not."""
    return next((ancestor for ancestor in process.ancestors if ancestor.name == RAY_DAEMON), None)


def group_keys(processes: Sequence[Process]) -> dict[int, str]:
    """Return the key of each process's group, by its position: "run:…", "launcher:PID", "shell:PID:…", "meet:…" …"""
    by_pid = {process.pid: process for process in processes}
    launchers = {process.launcher.pid for process in processes if process.launcher is not None}
    names = [_names(process, launchers) for process in processes]
    by_hand = _ranks_by_hand(processes, names, by_pid)
    # Two names of the same group (a run and its launcher): map the weaker name to the stronger one.
    stronger: dict[str, str] = {}
    for own in names:
        for name in own[1:]:
            stronger.setdefault(name, own[0])
    keys = {}
    for position, process in enumerate(processes):
        own = names[position] or _inherited(process, by_pid, launchers, by_hand)
        keys[position] = stronger.get(own[0], own[0])
    return keys


class ProcessViews:
    """Part of each process of one machine: made again only when the process has a new record, as it has after each change."""

    def __init__(self, view: Callable[[Process], tuple[Any, ...]]) -> None:
        self._view = view
        self._known: dict[int, tuple[Process, tuple[Any, ...]]] = {}

    def of(self, processes: Iterable[Process]) -> list[tuple[Any, ...]]:
        """Return the views in the order of the processes."""
        before, self._known = self._known, {}
        views = []
        for process in processes:
            known = before.get(process.pid)
            if known is None or known[0] is not process:
                known = process, self._view(process)
            self._known[process.pid] = known
            views.append(known[1])
        return views


def _grouped_by(process: Process) -> tuple[Any, ...]:
    return (*_GROUPED_BY(process), bool(compute_uses(process)))


class GroupKeys:
    """Caches ``group_keys`` of one machine; computes them again only when a field that they depend on has changed."""

    def __init__(self) -> None:
        self._views = ProcessViews(_grouped_by)
        self._seen: list[tuple[Any, ...]] = []
        self._keys: dict[int, str] = {}

    def of(self, processes: Sequence[Process]) -> dict[int, str]:
        """Return what ``group_keys`` returns; the caller must not change it."""
        seen = self._views.of(processes)
        if seen != self._seen:
            self._keys = group_keys(processes)
        self._seen = seen
        return self._keys


def unnumbered_ranks(group: Iterable[Process]) -> list[Process]:
    """Return the processes of a group that are ranks, judging by their parents: for a group without RANK.

    The children that multiprocessing spawned are the ranks if several compute and their parent does not train itself, or if
    all of them wait for each other; so are copies of a parent that only waits, if any computes; else the processes whose parent
    is not in the group.
    """
    alive = [process for process in group if process.state not in DEAD_STATES]
    pids = {process.pid: process for process in alive}
    spawned = [process for process in alive if is_spawned(process.command) and process.name != WORKER_NAME]
    computing = [process for process in spawned if compute_uses(process)]
    parents = {process.ppid for process in spawned}
    parent = pids.get(next(iter(parents)) or 0) if len(parents) == 1 else None
    if len(computing) > 1 and parent is not None and not parent.autograd_threads:
        return spawned
    if len(spawned) > 1 and all(process.in_rendezvous for process in spawned):
        return spawned
    return _computing_copies(alive, pids) or [process for process in alive if process.ppid not in pids]


def is_copy(process: Process, parent: Process) -> bool:
    """Return whether a process runs its parent's command, as what Python's multiprocessing forks does."""
    return process.ppid == parent.pid and process.command is not None and process.command == parent.command


def _computing_copies(alive: Sequence[Process], pids: Mapping[int, Process]) -> list[Process]:
    """Return the copies of one parent that compute while it does not; a script or a notebook has forked them."""
    copies = [
        process
        for process in alive
        if process.name != WORKER_NAME and (parent := pids.get(process.ppid or 0)) is not None and is_copy(process, parent)
    ]
    # Without a device, they are listed because they are busy.
    computing = [process for process in copies if compute_uses(process)] if any(map(compute_uses, alive)) else copies
    parents = {process.ppid for process in computing}
    parent = pids.get(next(iter(parents)) or 0) if len(parents) == 1 else None
    works = parent is None or parent.autograd_threads or compute_uses(parent)
    return [] if works else computing


def _names(process: Process, launchers: set[int]) -> list[str]:
    environment = process.environment
    names = []
    if process.run_id is not None:
        names.append(f"run:{process.run_id}")
    daemon = ray_daemon(process)
    if process.launcher is not None:
        names.append(f"launcher:{process.launcher.pid}")
    elif process.pid in launchers:
        names.append(f"launcher:{process.pid}")
    elif daemon is not None:
        # One daemon serves every program that uses this machine through Ray.
        job = dict(environment.settings).get("RAY_JOB_ID", "") if environment is not None else ""
        names.append(f"ray:{daemon.pid}:{job}")
    # "none" is torchrun's default id: two jobs may share it.
    if environment is not None and environment.torchelastic_run_id not in (None, "", "none"):
        names.append(f"elastic:{environment.torchelastic_run_id}")
    if environment is not None and environment.gputop_job_id:
        names.append(f"job:{environment.gputop_job_id}")
    return names


def _ranks_by_hand(processes: Sequence[Process], names: Sequence[list[str]], by_pid: dict[int, Process]) -> dict[int, str]:
    """Return the group's name of each rank that no launcher started, by PID: ``RANK=0 python train.py & RANK=1 …``.

    A rank is named like the others of its shell, even when it is the only one left. Two processes of one rank are two jobs, of
    which nothing shows who belongs to which.
    """
    found: dict[int, str] = {}
    ranks: dict[str, list[int | None]] = {}
    for process, own in zip(processes, names, strict=True):
        number = _number_by_hand(process)
        if own or number is None or (process.world_size or 0) < 2:
            continue
        parent = by_pid.get(process.ppid or 0)
        of_a_rank = parent is not None and _number_by_hand(parent) is not None
        if process.ppid is None or process.ppid <= 1 or of_a_rank or is_spawned(process.command):
            continue
        port = (process.environment.master_port if process.environment is not None else None) or ""
        name = f"shell:{process.ppid}:{process.world_size}:{port}"
        if process.stated is not None and process.stated.meets_at is not None:  # each terminal has its own shell
            name = f"meet:{process.uid}:{process.stated.meets_at}:{process.world_size}"
        found[process.pid] = name
        ranks.setdefault(name, []).append(number)
    return {pid: name for pid, name in found.items() if len(set(ranks[name])) == len(ranks[name])}


def _number_by_hand(process: Process) -> int | None:
    """Return a rank's number in its environment, else on its command line."""
    if process.environment is not None and process.environment.rank is not None:
        return process.environment.rank
    return process.stated.rank if process.stated is not None else None


def _inherited(process: Process, by_pid: dict[int, Process], launchers: set[int], by_hand: dict[int, str]) -> list[str]:
    """Return the names of the nearest listed ancestor that has any: a DataLoader worker belongs to its rank."""
    root = process
    for pid in [ancestor.pid for ancestor in process.ancestors] or ([process.ppid] if process.ppid is not None else []):
        parent = by_pid.get(pid)
        if parent is None or parent.pid == process.pid:
            continue
        names = _names(parent, launchers)
        if names:
            return names
        if _is_a_program_of_its_own(root, parent):
            break
        root = parent
    if root.pid in by_hand:
        return [by_hand[root.pid]]
    if root.ppid is not None and is_spawned(root.command):
        return [f"spawn:{root.ppid}"]
    return [f"pid:{root.pid}"]


def _is_first_rank_of(parent: Process, process: Process) -> bool:
    """Return whether a parent is the rank that started another one, as Lightning's first rank does: see ``StatedRank``."""
    first, other = parent.stated, process.stated
    if first is None or other is None or not other.local_rank:
        return False
    return first.local_rank == 0 and first.world_size == other.world_size


def _is_a_program_of_its_own(process: Process, parent: Process) -> bool:
    """Return whether a parent that does not compute on a GPU itself, such as a notebook, started another program that does."""
    if _is_first_rank_of(parent, process):
        return False
    other = None not in (process.command, parent.command) and process.command != parent.command
    return other and not is_spawned(process.command) and bool(compute_uses(process)) and not compute_uses(parent)
