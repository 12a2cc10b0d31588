"""Finds the runs without a journal among the processes of a machine. Pure: processes in, ``ProcessRun``s out.

A run is a group of processes (``gputop.groups``) in which a rank computes on a device, has a rank's environment, or looks like
training on the CPU. A process that writes or has written a journal belongs to a tracked run instead. Whether a program on a GPU
is training is unknown, so nothing here claims it; but tools such as test runners and installers are no runs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from gputop.command_line import is_spawned, is_tool, script_name, script_words
from gputop.groups import (
    NUMBERS_BY_LAUNCHER,
    GroupKeys,
    ProcessViews,
    compute_uses,
    is_copy,
    ray_daemon,
    unnumbered_ranks,
)
from gputop.process import DEAD_STATES, Ancestor, Process, ProcessRank, ProcessRun
from gputop.tracking.journal.command import KERNELS

RAY = "ray"
MULTIPROCESSING = "multiprocessing"
_NO_RUNS = (
    *("Xorg", "X", "Xwayland", "gnome-shell", "kwin_wayland", "kwin_x11", "cinnamon", "mutter"),
    *("nvidia-cuda-mps", "nv-hostengine", "dcgm-exporter", "dcgmproftester", "nvidia-persiste", "nvidia-smi"),
)
"""Programs that use a GPU to draw the display, to serve others, or to monitor it, by the kernel's 15-character names."""

_Size = tuple[int, int, float, str]
_Known = dict[str, tuple[list[tuple[Any, ...]], ProcessRun | None, _Size]]
_SEEN_ONCE = operator.attrgetter(
    *("pid", "ppid", "name", "command", "environment", "launcher", "ancestors", "user", "started_at", "stated"),
    *("in_namespace", "torch_mapped", "nvidia_open"),
)
"""What identifies the run of a process and rarely changes."""


class ProcessRuns:
    """Finds the runs of one machine repeatedly; a group whose processes have not changed keeps its run."""

    def __init__(self) -> None:
        self._known: _Known = {}
        self._keys = GroupKeys()
        self._views = ProcessViews(_seen)

    def find(
        self,
        processes: Sequence[Process],
        written: Mapping[int, float] | None = None,
        command_of: Callable[[int], Sequence[str] | None] = lambda pid: None,
        state_dir: str | None = None,
        listed: Collection[str] | None = None,
    ) -> tuple[ProcessRun, ...]:
        """Return what ``process_runs`` returns."""
        views = self._views.of(processes)
        groups: dict[str, list[int]] = {}
        for position, key in self._keys.of(processes).items():
            groups.setdefault(key, []).append(position)
        before, self._known = self._known, {}
        found: list[tuple[_Size, ProcessRun]] = []
        for key, positions in groups.items():
            group = [processes[position] for position in positions]
            if _is_ours(group, written or {}, listed):
                continue
            seen = [views[position] for position in positions]
            known = before.get(key)
            if known is None or known[0] != seen:
                run = _run(key, group, command_of, state_dir)
                known = seen, run, _largest_first(run) if run is not None else (0, 0, 0.0, "")
            self._known[key] = seen, *known[1:]
            if known[1] is not None:
                found.append((known[2], known[1]))
        found.sort(key=operator.itemgetter(0))
        return tuple([run for _, run in found])


def _seen(process: Process) -> tuple[Any, ...]:
    """Return everything about a process that ``_run`` judges by."""
    uses = [(use.device_uuid, use.contexts) for use in process.devices]
    return *_SEEN_ONCE(process), process.state in DEAD_STATES, bool(process.autograd_threads), uses


def process_runs(
    processes: Sequence[Process],
    written: Mapping[int, float] | None = None,
    command_of: Callable[[int], Sequence[str] | None] = lambda pid: None,
    state_dir: str | None = None,
    listed: Collection[str] | None = None,
) -> tuple[ProcessRun, ...]:
    """Return the runs that have no journal: the most devices first, then the most ranks, then the oldest.

    Args:
        processes: the processes of one reading.
        written: PID -> when the newest run began that this process writes or wrote, wall clock in seconds. A process that has
            finished its run and continues is still tracked.
        command_of: returns the command line of a process that is not in ``processes`` (the parent of spawned ranks); None if
            it is unknown.
        state_dir: the folder with the runs that this gputop reads.
        listed: the ids of the runs that have a journal or a printed curve here; None: every id counts as one of them. A run
            stored elsewhere is not tracked here, and a job has an id before it has a journal.
    """
    return ProcessRuns().find(processes, written, command_of, state_dir, listed)


def _largest_first(run: ProcessRun) -> _Size:
    return -len(run.devices), -len(run.ranks), run.started_at or 0.0, run.key


def _is_ours(group: Sequence[Process], written: Mapping[int, float], listed: Collection[str] | None) -> bool:
    """Return whether one of the processes writes a journal that is read here, or has written one.

    The id that gputop assigns to what it starts does not show that: the journal may begin later, or be where this gputop does
    not look, in a container or under another state directory.
    """
    return any(
        (process.run_id is not None and (listed is None or process.run_id in listed))
        # A reused PID belongs to a process that started after the run.
        or (process.started_at is not None and process.started_at <= written.get(process.pid, -math.inf))
        for process in group
    )


def _run(
    key: str, group: Sequence[Process], command_of: Callable[[int], Sequence[str] | None], state_dir: str | None
) -> ProcessRun | None:
    alive = [process for process in group if process.state not in DEAD_STATES and process.in_namespace]
    alive = [process for process in alive if process.name not in _NO_RUNS]
    ranks = _ranks(alive)
    if not any(_counts(process) for process in ranks):
        return None
    first = ranks[0]
    parent = next((process for process in group if process.pid == first.ppid), None)
    launcher = _launcher(first, parent)
    command = first.command
    if is_spawned(command) and first.ppid is not None:
        command = parent.command if parent is not None else tuple(command_of(first.ppid) or ())
    if is_tool(command):
        return None
    worlds = [_number(process, 2) for process in ranks]
    started = any(_is_started_by_gputop(process, state_dir) for process in alive)
    given = first.environment.gputop_name if started and first.environment is not None else None
    return ProcessRun(
        key=key,
        name=given or _notebook(command, first) or script_name(command) or first.name or f"process {first.pid}",
        ranks=tuple(
            ProcessRank(
                process.pid,
                _number(process, 0),
                _number(process, 1),
                _devices(process),
            )
            for process in ranks
        ),
        launcher=launcher,
        world_size=max((size for size in worlds if size), default=None),
        local_world_size=max((size for process in ranks if (size := _number(process, 3))), default=None),
        user=first.user,
        started_at=min(
            (process.started_at for process in _since(alive, ranks) if process.started_at is not None), default=None
        ),
        command=script_words(command),
        starting=started,
    )


def _is_started_by_gputop(process: Process, state_dir: str | None) -> bool:
    environment = process.environment
    if environment is None or environment.gputop_state_dir != state_dir:
        return False
    return environment.gputop_job_id is not None or environment.gputop_launch_id is not None


def _devices(process: Process) -> tuple[str, ...] | None:
    uuids = tuple(sorted({use.device_uuid for use in compute_uses(process)}))
    return None if not uuids and process.nvidia_open else uuids


def _ranks(alive: Sequence[Process]) -> list[Process]:
    """Return one process per rank, by rank; if no process has a number, those that are ranks by their parents."""
    pids = {process.pid for process in alive}
    numbered: dict[int, Process] = {}
    for process in alive:
        number = _number(process, 0)
        # DataLoader workers inherit RANK, so the parent comes first.
        if number is not None and (number not in numbered or process.ppid not in pids):
            numbered[number] = process
    if numbered:
        # A task of srun or mpirun, of which there is often one for each machine, may have spawned the ranks.
        spawned = [
            process for process in unnumbered_ranks(alive) if is_spawned(process.command) and _number(process, 0) is None
        ]
        return spawned if len(spawned) > 1 else [numbered[number] for number in sorted(numbered)]
    return sorted(unnumbered_ranks(alive), key=lambda process: process.pid)


def _counts(process: Process) -> bool:
    """Return whether a process makes its group a run: a program that only draws on a GPU does not."""
    return bool(compute_uses(process)) or _number(process, 0) is not None or bool(process.torch_mapped)


def _launcher(process: Process, parent: Process | None) -> Ancestor | None:
    if process.launcher is not None:
        return process.launcher
    daemon = ray_daemon(process)
    if daemon is not None:
        return Ancestor(daemon.pid, RAY)
    started = is_spawned(process.command) or (parent is not None and is_copy(process, parent))
    return Ancestor(process.ppid, MULTIPROCESSING) if started and process.ppid is not None else None


def _notebook(command: Sequence[str] | None, process: Process) -> str | None:
    """Return the file name of the notebook whose kernel has this command; "notebook" if it is unknown, None for others."""
    name = (script_name(command) or "").removesuffix(".py")
    if name not in KERNELS:
        return None
    settings = dict(process.environment.settings) if process.environment is not None else {}
    return settings.get("JPY_SESSION_NAME", "").rpartition("/")[2] or "notebook"


def _since(alive: Sequence[Process], ranks: Sequence[Process]) -> Sequence[Process]:
    """Return the processes with which the run started, without a parent that its ranks are copies of, such as a notebook's
    kernel."""
    pids = {process.pid for process in alive}
    return ranks if all(process.ppid in pids for process in ranks) else alive


def _number(process: Process, which: int) -> int | None:
    """Return a rank's number (0), local rank (1), world size (2) or local world size (3), from its environment at launch, else
    from its command line."""
    environment, stated = process.environment, process.stated
    if stated is not None and (environment is None or environment.rank is None):
        return (stated.rank, stated.local_rank, stated.world_size, None)[which]
    if environment is None:
        return None
    own = (environment.rank, environment.local_rank, environment.world_size, environment.local_world_size)
    names = NUMBERS_BY_LAUNCHER.get(process.launcher.name) if process.launcher is not None else None
    # Under srun, torchrun gives every rank its own number; Slurm's is then the machine's, also of what a task spawns.
    if environment.rank is not None or names is None or is_spawned(process.command):
        return own[which]
    settings = dict(environment.settings)
    values = [settings[name] for name in names[which] if name in settings]
    return int(values[0]) if values and values[0].isascii() and values[0].isdigit() and len(values[0]) <= 9 else own[which]
