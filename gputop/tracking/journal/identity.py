"""Identifies this process: rank, run id, and what makes a PID unique. Read when ``init`` is called, never at import.

Never calls a collective: ranks derive the same run id from what their launcher passed to all of them.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import time
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from gputop.tracking.journal import places
from gputop.tracking.journal.format import Identity, file_stem

_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "JSM_NAMESPACE_RANK")
_LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "JSM_NAMESPACE_LOCAL_RANK")
_WORLDS = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "JSM_NAMESPACE_SIZE")

_inits = 0


@dataclass(frozen=True, slots=True)
class Place:
    """A process's place in its job. ``world_size`` is 1 unless something indicates that there are more processes."""

    rank: int
    local_rank: int | None
    world_size: int
    restart_count: int
    siblings: str | None = None
    """What the processes of one ``torch.multiprocessing.spawn`` call have in common, if nothing else groups them."""


def place() -> Place:
    """Return rank, local rank and world size: from torch.distributed if it is initialized, else from the environment.

    If neither knows, a process of ``torch.multiprocessing.spawn`` has the rank that it was started with.
    """
    rank, world = _first(_RANKS), _first(_WORLDS)
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        rank, world = int(distributed.get_rank()), int(distributed.get_world_size())
    local_rank, restarts = _first(_LOCAL_RANKS), _first(("TORCHELASTIC_RESTART_COUNT",)) or 0
    if rank is None and world is None:
        spawned = _spawned()
        if spawned is not None:
            return Place(spawned[0], local_rank, 1, restarts, spawned[1])
    return Place(rank or 0, local_rank, world or 1, restarts)


def _spawned() -> tuple[int, str] | None:
    """Return the rank that ``torch.multiprocessing.spawn`` gave to this process, and what its siblings share; else None."""
    multiprocessing: Any = sys.modules.get("multiprocessing.process")
    if multiprocessing is None or multiprocessing.parent_process() is None:
        return None
    process = multiprocessing.current_process()
    arguments: Any = getattr(process, "_args", ())
    number: Any = getattr(process, "_identity", ())
    if getattr(getattr(process, "_target", None), "__module__", None) != "torch.multiprocessing.spawn":
        return None
    if len(arguments) < 2 or type(arguments[1]) is not int or arguments[1] < 0 or not number:
        return None
    # A process numbers its children one by one, so the first number of a call distinguishes it from other calls.
    return arguments[1], f"{_mark(multiprocessing.parent_process().pid)}:{number[-1] - arguments[1]}"


def is_launched() -> bool:
    """Return whether ``gputop run``, a job, or a launcher of ranks started this process, as its environment says."""
    return bool(os.environ.get("GPUTOP_LAUNCH_ID") or os.environ.get("GPUTOP_JOB_ID")) or _first(_RANKS) is not None


def is_worker() -> bool:
    """Return whether this is a process of multiprocessing that does not train: none that torch's ``spawn`` started."""
    multiprocessing: Any = sys.modules.get("multiprocessing.process")
    return multiprocessing is not None and multiprocessing.parent_process() is not None and _spawned() is None


def is_fork_server() -> bool:
    """Return whether multiprocessing only forks its children from this process, as it does by default from Python 3.14 on."""
    multiprocessing: Any = sys.modules.get("multiprocessing.process")
    serves = any("multiprocessing.forkserver import main" in word for word in getattr(sys, "orig_argv", ()))
    return serves and (multiprocessing is None or multiprocessing.parent_process() is None)


def shared_id(where: Place) -> str | None:
    """Return the id that the run of this job will have; None for a single process, whose run has no id yet."""
    launched = launched_id()
    return clean(launched) if launched else _shared(where)


def run_id(where: Place, resume: str | None) -> str:
    """Return the id that all ranks of this job share; a second ``init`` in the same process gets "-2", and so on."""
    global _inits
    _inits += 1
    if resume:
        return clean(resume)
    shared = _shared(where)
    if shared is None:
        return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}"
    return shared if _inits == 1 else f"{shared}-{_inits}"


def untaken(run_id: str, runs_dir: Path, rank: int) -> str:
    """Return this id; if this rank has already recorded under it, append the first free number."""
    root = places.archive_root(runs_dir)
    first = f"{file_stem(rank, 0)}.gpr"
    found, number = clean(run_id), 1
    while (root / found / first).exists():
        number += 1
        found = clean(f"{run_id[:58]}-{number}")
    return found


def _shared(where: Place) -> str | None:
    own = os.environ.get("GPUTOP_RUN_ID")
    if own and clean(own):
        return clean(own)
    elastic = os.environ.get("TORCHELASTIC_RUN_ID")
    if elastic:
        address, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
        # torchrun's own id is "none" unless one is given, and its default port is the same for every job: a mark of this agent
        # distinguishes two jobs, if all ranks have the same agent.
        agent = _agent_mark() if os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE") else ""
        return _digest("elastic", elastic, address, port, str(where.restart_count), agent)
    slurm = os.environ.get("SLURM_JOB_ID")
    if slurm and where.world_size > 1:
        return clean(f"slurm-{slurm}.{os.environ.get('SLURM_STEP_ID', '0')}")
    if where.world_size > 1:
        address, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
        return _digest("spawn", address, port, _starter_mark())
    return None if where.siblings is None else _digest("spawned", where.siblings)


def _agent_mark() -> str:
    # torchrun passes …/torchelastic_<random>/<id>_<random>/attempt_<n>/<local rank>/error.json to each of its workers.
    errors = os.environ.get("TORCHELASTIC_ERROR_FILE", "").split("/attempt_")
    return errors[0] if len(errors) == 2 else _parent_mark()


def _parent_mark() -> str:
    return _mark(os.getppid())


def _starter_mark() -> str:
    """Return a mark of the process that started the ranks: this process's parent, or this process itself.

    Lightning's first rank starts the others and sets its own LOCAL_RANK, which is therefore not in its initial environment.
    """
    multiprocessing: Any = sys.modules.get("multiprocessing")
    is_child = multiprocessing is not None and multiprocessing.parent_process() is not None
    if "LOCAL_RANK" in os.environ and not is_child and b"LOCAL_RANK" not in _initial_variables():
        return _mark(os.getpid())
    return _parent_mark()


def _initial_variables() -> set[bytes]:
    try:
        raw = Path("/proc/self/environ").read_bytes()
    except OSError:
        return {b"LOCAL_RANK"}
    return {entry.partition(b"=")[0] for entry in raw.split(b"\0")}


def _mark(pid: int) -> str:
    found = process_state(pid)
    return f"{pid}:{found[0] if found else 0}:{boot_id()}"


def _digest(*parts: str) -> str:
    raw = "\0".join(parts).encode("utf-8", "replace")
    return f"{zlib.crc32(raw):08x}{zlib.adler32(raw):08x}"


def clean(text: str) -> str:
    """Return a run id that is safe as a directory name."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)[:64].lstrip(".")


def _first(names: tuple[str, ...]) -> int | None:
    for name in names:
        value = os.environ.get(name, "")
        if value.isascii() and value.isdigit():
            return int(value)
    return None


def hostname() -> str:
    """Return this machine's name, as journals store it."""
    return socket.gethostname()[:64]


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Return the kernel's id of this boot; "" if there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:36]
    except OSError:
        return ""


@lru_cache(maxsize=1)
def pid_namespace() -> int:
    """Return the inode of this process's PID namespace; 0 if unknown."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def process_state(pid: int) -> tuple[int, str] | None:
    """Return (start time in clock ticks since boot, state letter) of a process; None if there is no such process."""
    try:
        # A file object would make three more system calls; the kernel returns the line in one read.
        handle = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            fields = os.read(handle, 4096).rpartition(b")")[2].split()
        finally:
            os.close(handle)
        return int(fields[19]), fields[0].decode("ascii")
    except (OSError, ValueError, IndexError):
        return None


def identify(where: Place, run: str) -> Identity:
    """Return the identity of this process in the run ``run``."""
    pid = os.getpid()
    own = process_state(pid)
    return Identity(
        run_id=run,
        rank=where.rank,
        local_rank=where.local_rank,
        world_size=where.world_size if where.siblings is None else None,
        restart_count=where.restart_count,
        attempt=0,
        pid=pid,
        start_ticks=own[0] if own else 0,
        pid_namespace=pid_namespace(),
        uid=os.geteuid(),
        boot_id=boot_id(),
        hostname=hostname(),
        created_ns=time.time_ns(),
    )


def launched_id() -> str | None:
    """Return the id shared by the ranks that one ``gputop run`` started without torchrun; else None.

    A single process gets its own id instead, because one command may train several times.
    """
    env = os.environ
    launched = env.get("GPUTOP_LAUNCH_ID")
    if not launched or env.get("GPUTOP_RUN_ID") or env.get("TORCHELASTIC_RUN_ID") or env.get("SLURM_JOB_ID"):
        return None
    if place().world_size <= 1:
        return None
    port = env.get("MASTER_PORT", "")
    return f"{launched}-{port}" if port else launched
