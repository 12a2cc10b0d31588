"""Finds processes that report nothing before the first step, next to those that do, and inspects them through /proc.

A rank that has not imported torch reports nothing yet, and a forked process reports nothing until its first step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from gputop.command_line import is_spawned
from gputop.groups import NUMBERS_BY_LAUNCHER, WORKER_NAME
from gputop.process import DEAD_STATES
from gputop.sources.host import procfs
from gputop.tracking.journal import identity
from gputop.where import outside
from gputop.whereabouts.records import PlaceState, RankPlace

_OF_ONE_LAUNCH = ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "GPUTOP_RUN_ID", "GPUTOP_LAUNCH_ID")
"""The variables that ranks of one launch have in common."""
_STEPS_MOST = 1 << 31
"""Slurm numbers the steps that run a job's script or shell from here on: these are no ranks."""


class Unreported(NamedTuple):
    """A process that reports nothing, and why."""

    pid: int
    rank: int | None
    state: PlaceState


def unreported(telling: Mapping[int, int]) -> list[Unreported]:
    """Return the processes of a launch that report nothing; ``telling``: PID -> rank of those that do."""
    parents: dict[int, int] = {}
    for pid in procfs.list_pids():
        with suppress(OSError):
            stat = procfs.read_stat(pid)
            if stat is not None and stat.state not in DEAD_STATES and stat.comm != WORKER_NAME:
                parents[pid] = stat.ppid
    above = {parents[pid] for pid in telling if parents.get(pid, 0) > 1}
    found = [Unreported(pid, None, "forked") for pid, parent in parents.items() if _is_forked(pid, parent, telling)]
    launch = [_launch_of(pid) for pid in telling]
    ranks = set(telling.values())
    for pid, parent in sorted(parents.items()):
        if pid in telling or parent not in above or (own := _launch_of(pid)) is None or own not in launch:
            continue
        rank = rank_of(pid)
        maps = procfs.read_torch_maps(pid) if rank is not None and rank not in ranks else None
        if rank is not None and maps is not None and not maps.torch:
            ranks.add(rank)
            found.append(Unreported(pid, rank, "before_torch"))
    return found


def _is_forked(pid: int, parent: int, telling: Collection[int]) -> bool:
    """Return whether a process is a copy of one that reports: it runs the same command, as its child."""
    return pid not in telling and parent in telling and procfs.command_line_of(pid) == procfs.command_line_of(parent)


def _launch_of(pid: int) -> tuple[str | None, ...] | None:
    """Return what a rank has in common with the others of its launch; None if it is no rank."""
    with suppress(OSError):
        environment = procfs.read_environ(pid) or {}
        if "RANK" in environment:
            return tuple(environment.get(name) for name in _OF_ONE_LAUNCH)
    return None


def rank_of(pid: int) -> int | None:
    """Return the rank in a process's environment at launch, from torch's variable or its launcher's, if there is one."""
    with suppress(OSError):
        environment = procfs.read_environ(pid) or {}
        if "RANK" in environment:
            return _number(environment["RANK"])
        # What Python's multiprocessing starts has the variables of its parent.
        if not is_spawned(procfs.command_line_of(pid)):
            step = _number(environment.get("SLURM_STEP_ID", ""), 10)
            launchers = ("mpirun", "srun") if step is not None and step < _STEPS_MOST else ("mpirun",)
            names = (name for launcher in launchers for name in NUMBERS_BY_LAUNCHER[launcher][0])
            return next((_number(environment[name]) for name in names if name in environment), None)
    return None


def _number(text: str, digits: int = 9) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None


_Seen = Mapping[int, outside.Outside | None]


def places_of(found: Collection[Unreported], before: _Seen, passed_s: float, seen: _Seen | None = None) -> list[RankPlace]:
    """Return what /proc shows of them now, or showed in ``seen``; ``before``: what it showed ``passed_s`` seconds earlier."""
    places = []
    for pid, rank, state in found:
        now = outside.observe(pid) if seen is None else seen.get(pid)
        if now is not None:
            # One that was forked may be no rank at all: it is listed, but not judged.
            known = state if state == "forked" else outside.HELD_STATES.get(now.state, state)
            place = RankPlace(rank, pid, identity.hostname(), known)
            places.append(with_outside(place, now, before.get(pid), passed_s))
    return places


def with_outside(place: RankPlace, now: outside.Outside, before: outside.Outside | None, passed_s: float) -> RankPlace:
    """Return a place with what /proc shows of its process, and its CPU use since ``before``."""
    same = before is not None and before.start_ticks == now.start_ticks and passed_s > 0
    used = 100 * (now.ticks - before.ticks) / procfs.TICKS_PER_S / passed_s if before is not None and same else None
    return replace(
        place,
        doing=now.doing,
        process_state=now.state,
        kernel_function=now.kernel_function,
        cpu_percent=used,
        still=before.turns == now.turns if before is not None and same and now.turns is not None else None,
    )
