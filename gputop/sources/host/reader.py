"""Reads the machine and its processes from the operating system.

Owns ``HostReader``: the processes that use a device, belong to a run, look like training on the CPU, or are waiting ranks,
with every field of ``Process``. What changes rarely is read rarely (``process_cache``); reading 8 processes takes a fraction
of a millisecond. Reads /proc directly (``procfs``). Sends no signals.
"""

from __future__ import annotations

import math
import os
import pwd
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from gputop.errors import reraise
from gputop.process import DEAD_STATES
from gputop.snapshot import Ancestor, DeviceUse, Host, HostSource, Process, WaitingLauncher
from gputop.sources.host import procfs
from gputop.sources.host.evidence import Evidence
from gputop.sources.host.launchers import ancestry
from gputop.sources.host.machine import Machine, MachineReader
from gputop.sources.host.process_cache import Facts, ProcessCache, reread_after_s
from gputop.sources.host.threads import Threads
from gputop.sources.host.unlisted import UnlistedTrainings

CROWD = 64
"""With more processes than this, expensive values (disks, files, threads, details) are read less often: half as often for
twice as many. State, CPU and memory are always from the newest reading, and so is everything about tracked runs."""
SPREAD_MAX = 8.0
"""No value is read less often than once in this many of its intervals."""
HIDDEN_BY_HIDEPID = (
    *("all_locked", "any_read_bytes", "command", "container", "cores_allowed", "cores_used", "cpu_percent", "environment"),
    *("doing", "files_written", "held", "in_rendezvous", "involuntary_switches", "listens", "lock_held_by"),
    *("main_thread_cpu_percent", "memory_rss_bytes", "name", "nvidia_open", "ppid", "read_bytes"),
    *("started_at", "state", "stated", "thread_count", "threads", "torch_cuda_mapped", "torch_mapped", "uid", "user"),
    *("waits_in", "woken_by", "workers"),
    *("waits_for", "waits_read_s", "written_bytes"),
)
"""What /proc hides from us if it is mounted with hidepid: everything."""
_MACHINE_FIELDS = tuple(each.name for each in fields(Machine))


@dataclass(slots=True)
class _Life:
    """What the reader keeps about one process between readings."""

    facts: Facts
    started_at: float
    uid: int | None = None
    user: str | None = None
    command: tuple[str, ...] | None = None
    container: str | None = None
    ppid: int = -1
    ancestors: tuple[Ancestor, ...] = ()
    launcher: Ancestor | None = None
    evidence: Evidence = field(default_factory=Evidence)
    threads: Threads | None = None
    details_due_s: float = 0.0
    ticks: int = 0
    ticks_at_s: float | None = None
    cpu_percent: float | None = None
    values: tuple[Any, ...] = ()
    record: Process | None = None
    """The record of the last reading, made of ``values``."""
    seen: tuple[Any, ...] = ()
    due_s: float = 0.0
    """Until then, ``record`` stays as it is, as long as ``_seen`` returns ``seen``."""


class HostReader:
    """Reads the machine and its processes. Not thread-safe: only one thread may read."""

    def __init__(self) -> None:
        self._cache = ProcessCache()
        self._lives: dict[int, _Life] = {}
        self._unlisted = UnlistedTrainings(self._cache)
        self._cpu: procfs.CpuTicks | None = None
        self._cpu_percent: float | None = None
        self._cpu_at_s = 0.0
        self._boot_id = procfs.read_boot_id()
        self._users: dict[int, str] = {}
        self._ancestries: dict[int, tuple[tuple[Ancestor, ...], Ancestor | None]] = {}
        self._ancestries_at_s = 0.0
        self._machine = MachineReader()
        self._mps_server_pid: int | None = None
        self._spread = 1.0

    def read_host(self, source: HostSource) -> Host:
        """Read the machine.

        The CPU share covers all cores since the previous call (``None`` at first). Memory in use is what is not available to
        new programs, as ``free`` shows it. The caller fills in driver, simulation and problem. The MPS server is looked up
        among the processes of the last ``read_processes``.
        """
        memory = procfs.read_meminfo()
        total, available = memory.get("MemTotal"), memory.get("MemAvailable")
        return Host(
            hostname=os.uname().nodename,
            boot_id=self._boot_id,
            source=source,
            cpu_count=os.cpu_count(),
            cpu_percent=self._read_cpu_percent(),
            memory_total_bytes=total,
            memory_used_bytes=None if total is None or available is None else total - available,
            load_1m=_load_1m(),
            memory_available_bytes=available,
            mps_server_pid=self._mps_server_pid,
            **_values_of(self._machine.read(time.monotonic())),
        )

    def _read_cpu_percent(self) -> float | None:
        now_s = time.monotonic()
        if self._cpu is not None and now_s - self._cpu_at_s < procfs.MIN_PERIOD_S:
            return self._cpu_percent
        before, self._cpu, self._cpu_at_s = self._cpu, procfs.read_cpu_ticks(), now_s
        if before is None or self._cpu is None or self._cpu.total <= before.total:
            self._cpu_percent = None
        else:  # the kernel's idle time occasionally runs backwards by a tick
            share = (self._cpu.busy - before.busy) / (self._cpu.total - before.total)
            self._cpu_percent = 100 * min(1.0, max(0.0, share))
        return self._cpu_percent

    @property
    def waiting_launchers(self) -> tuple[WaitingLauncher, ...]:
        """The torchruns that wait for other nodes, as of the last call of ``read_processes``."""
        return self._unlisted.launchers

    @property
    def own_launchers(self) -> frozenset[int]:
        """This user's torchruns and the like, other than jobs', as of the last call of ``read_processes``."""
        return self._unlisted.own_launchers

    @property
    def young(self) -> frozenset[int]:
        """This user's processes that have just begun to import torch, as of the last call of ``read_processes``."""
        return self._unlisted.young

    def own_memory_bytes(self) -> int | None:
        """Return this process's resident memory."""
        return procfs.read_own_memory()

    def read_processes(
        self,
        uses: Mapping[int, tuple[DeviceUse, ...]],
        run_pids: Mapping[int, tuple[str, int]],
        on_error: Callable[[Exception], None] = reraise,
        elsewhere: Collection[int] = (),
    ) -> tuple[Process, ...]:
        """Read every process that uses a device, every live rank, what looks like training on the CPU, and waiting ranks.

        Args:
            uses: PID -> its use of each device, from the device source.
            run_pids: PID -> (run id, rank), from the journals.
            on_error: Called with an unexpected error while one process was read; the others are still read.
            elsewhere: PIDs that use only devices that are not shown: they do not train on the CPU, and do not wait.

        Returns:
            The processes by PID. CPU shares cover the time since the previous call (100% is one core); ``None`` at first.
        """
        now_s = time.monotonic()
        wanted = uses.keys() | run_pids.keys()
        own = (None, os.geteuid())
        others = (pid for pid, life in self._lives.items() if life.uid not in own)
        wanted |= self._unlisted.pids(now_s, wanted, others, run_pids) - set(elsewhere)
        self._spread = min(SPREAD_MAX, max(1.0, len(wanted) / CROWD))
        found = []
        for pid in sorted(wanted):
            try:
                process = self._read(pid, uses.get(pid, ()), run_pids.get(pid), now_s)
            except Exception as error:  # noqa: BLE001 - the caller reports it
                on_error(error)
                continue
            if process is not None:
                found.append(process)
        self._lives = {pid: life for pid, life in self._lives.items() if pid in wanted}
        self._mps_server_pid = next((process.pid for process in found if is_mps_server(process)), None)
        return tuple(found)

    def _read(self, pid: int, devices: tuple[DeviceUse, ...], of_run: tuple[str, int] | None, now_s: float) -> Process | None:
        run_id, rank = of_run or (None, None)
        try:
            facts = self._cache.look_up(pid, now_s)
        except PermissionError:
            return _hidden_process(pid, devices, run_id, rank)
        if facts is None:
            return self._read_missing(pid, devices, run_id, rank)
        life = self._life(facts)
        seen = self._seen(facts, devices, of_run)
        cpu_percent = _cpu_percent(life, now_s)
        if now_s < life.due_s and seen == life.seen and life.record is not None and life.record.cpu_percent == cpu_percent:
            return life.record  # hundreds of processes rest: making the values of each again would take most of a reading
        environment = self._cache.environment(facts)
        if environment is not None:
            run_id = run_id or environment.gputop_run_id
            rank = environment.rank if rank is None else rank
        stated = self._unlisted.stated.get(pid)
        if stated is not None and rank is None:
            rank = stated.rank
        spread = 1.0 if of_run is not None else self._spread
        self._refresh_details(life, now_s, spread)
        self._cache.torch_mapped(facts, now_s, spread)
        evidence, stat = life.evidence, facts.stat
        with_stack = bool(facts.torch_mapped) and life.uid == os.geteuid()
        evidence.read(facts, now_s, spread, with_stack=with_stack, with_variables=with_stack and run_id is None)
        threads = self._threads(life, bool(devices), now_s, spread)
        values = (
            pid,
            devices,
            stat.ppid,
            life.uid,
            life.user,
            stat.comm,
            life.command,
            stat.state,
            cpu_percent,
            stat.rss_bytes,
            life.started_at,
            environment,
            life.ancestors,
            life.launcher,
            life.container,
            facts.torch_mapped,
            facts.torch_cuda_mapped,
            evidence.nvidia_open,
            threads.autograd if threads else (),
            True,  # in_namespace
            tuple(sorted(facts.hidden)) if facts.hidden else (),
            run_id,
            rank,
            threads.named if threads else (),
            stat.threads,
            threads.main_cpu_percent if threads else None,
            evidence.cores_allowed,
            threads.cores if threads else (),
            evidence.read_bytes,
            None if evidence.written_bytes is None else evidence.written_bytes + self._unlisted.written_by_children.get(pid, 0),
            evidence.any_read_bytes,
            evidence.involuntary_switches,
            evidence.waits_in,
            evidence.waits_for,
            evidence.waits_read_s,
            evidence.all_locked,
            evidence.woken_by,
            evidence.listens,
            evidence.lock_held_by,
            evidence.files_written,
            self._unlisted.workers.of(pid),
            evidence.doing,
            evidence.held,
            pid in self._unlisted.in_rendezvous,
            stated,
        )
        if life.record is None or life.values != values:
            life.values, life.record = values, Process(*values)
        life.seen = self._seen(facts, devices, of_run)
        life.due_s = min(life.details_due_s, facts.maps_due_s, evidence.due_s, threads.due_s if threads else math.inf)
        return life.record

    def _seen(self, facts: Facts, devices: tuple[DeviceUse, ...], of_run: tuple[str, int] | None) -> tuple[Any, ...]:
        """Return all that the record is made of and that may change before anything of the process is due to be read."""
        pid, unlisted = facts.stat.pid, self._unlisted
        return (
            facts.line,
            devices,
            of_run,
            facts.torch_mapped,
            facts.torch_cuda_mapped,
            facts.hidden,
            unlisted.written_by_children.get(pid, 0),
            unlisted.workers.of(pid),
            pid in unlisted.in_rendezvous,
        )

    def _life(self, facts: Facts) -> _Life:
        life = self._lives.get(facts.stat.pid)
        if life is not None and life.facts is facts:
            return life
        if life is None or life.facts.key != facts.key:
            life = self._lives[facts.stat.pid] = _Life(facts, time.time() - facts.age_s)
        else:  # the same process after an exec: its CPU time continues
            life = _Life(facts, life.started_at, ticks=life.ticks, ticks_at_s=life.ticks_at_s, cpu_percent=life.cpu_percent)
            self._lives[facts.stat.pid] = life
        return life

    def _read_missing(self, pid: int, devices: tuple[DeviceUse, ...], run_id: str | None, rank: int | None) -> Process | None:
        """Return what is still known about a PID that /proc does not have."""
        if not devices:
            return None  # a rank that ended between two readings
        if _exists(pid):
            return _hidden_process(pid, devices, run_id, rank)
        life = self._lives.get(pid)
        if life is None:
            return Process(pid=pid, devices=devices, in_namespace=False)
        return Process(  # the process has ended, but the driver does not know yet or keeps its memory
            pid=pid,
            devices=devices,
            uid=life.uid,
            user=life.user,
            name=life.facts.stat.comm,
            command=life.command,
            state="X",
            started_at=life.started_at,
            environment=life.facts.environment,
            run_id=run_id,
            rank=rank,
        )

    def _refresh_details(self, life: _Life, now_s: float, spread: float) -> None:
        facts = life.facts
        dead = facts.stat.state in DEAD_STATES
        if now_s < life.details_due_s and life.ppid == facts.stat.ppid:
            return
        life.details_due_s = now_s + spread * reread_after_s(facts.age_s)
        life.ppid = facts.stat.ppid
        above = self._ancestry(life, now_s)
        if above != (life.ancestors, life.launcher):  # equal records stay the same ones, which is seen at once
            life.ancestors, life.launcher = above
        if life.uid is None or not dead:
            life.uid = facts.try_read(("uid", "user"), procfs.read_uid)
            life.user = None if life.uid is None else self._user(life.uid)
        if dead:
            return  # a zombie has nothing else; keep what was read during its lifetime
        command = facts.try_read(("command",), procfs.read_command)
        if command != life.command:
            life.command = command
        life.container = facts.try_read(("container",), procfs.read_container)

    def _ancestry(self, life: _Life, now_s: float) -> tuple[tuple[Ancestor, ...], Ancestor | None]:
        """Walk up only once per reading for all ranks of one launcher."""
        if self._ancestries_at_s != now_s:
            self._ancestries, self._ancestries_at_s = {}, now_s
        if life.ppid not in self._ancestries:
            self._ancestries[life.ppid] = ancestry(life.facts.stat.pid, life.ppid)
        return self._ancestries[life.ppid]

    def _user(self, uid: int) -> str:
        name = self._users.get(uid)
        if name is None:
            try:
                name = pwd.getpwuid(uid).pw_name
            except KeyError:  # a user of the host, seen from a container
                name = str(uid)
            self._users[uid] = name
        return name

    def _threads(self, life: _Life, uses_device: bool, now_s: float, spread: float) -> Threads | None:
        if not (life.facts.torch_mapped or uses_device):
            return None
        if life.threads is None:
            life.threads = Threads(life.facts.stat.pid)
        life.threads.read(now_s, spread)
        return life.threads


def _values_of(machine: Machine) -> dict[str, Any]:
    """Return the fields by name; ``asdict`` would copy each value."""
    return {name: getattr(machine, name) for name in _MACHINE_FIELDS}


def _load_1m() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def _cpu_percent(life: _Life, now_s: float) -> float | None:
    """Return the share of one core since the previous reading, and keep the values for the next one."""
    ticks, before = life.facts.stat.cpu_ticks, life.ticks_at_s
    if before is not None and now_s - before < procfs.MIN_PERIOD_S:
        return life.cpu_percent
    if before is not None:
        life.cpu_percent = 100 * max(0, ticks - life.ticks) / procfs.TICKS_PER_S / (now_s - before)
    life.ticks, life.ticks_at_s = ticks, now_s
    return life.cpu_percent


def _hidden_process(pid: int, devices: tuple[DeviceUse, ...], run_id: str | None, rank: int | None) -> Process:
    """Return a process about which the system shows nothing except that it exists."""
    return Process(pid=pid, devices=devices, hidden=HIDDEN_BY_HIDEPID, run_id=run_id, rank=rank)


def _exists(pid: int) -> bool:
    """Return whether a PID that /proc does not list still exists as another user's (hidepid=2). Sends no signal."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def is_mps_server(process: Process) -> bool:
    """Return whether a process is the server of CUDA's Multi-Process Service, not its control daemon.

    The server owns its clients' contexts.
    """
    name = (process.name or "").startswith("nvidia-cuda-mps")  # the kernel keeps 15 characters, which are the same for both
    return name and process.command is not None and process.command[0].endswith("nvidia-cuda-mps-server")
