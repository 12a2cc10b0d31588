"""What gputop knows about processes, cached so that each expensive item is read once or rarely.

Owns the caches behind ``reader.py`` and ``virtual.py``: one record per (PID, start time), so that a reused PID never inherits
another process's values; and the search for this user's Python processes. Not thread-safe. Imports only the standard library
and gputop's records. Measured on two cores: a stat line 0.01 ms, the maps of a CPU-only torch 0.5 ms, a link in fd/ 0.004 ms.
"""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from gputop.places import state_dir
from gputop.process import DEAD_STATES
from gputop.snapshot import LaunchEnvironment
from gputop.sources.host import procfs
from gputop.sources.host.procfs import Stat
from gputop.sources.host.settings import settings_of

SLOW_S = 10.0
"""How often to reread what rarely changes (maps, open files, title) in an old process."""
YOUNG_SHARE = 3.0
"""Reread a younger process after a third of its age, but at least a second: it is about to import torch."""
FOREIGN_S = 30.0
"""How long to remember that a PID is not one of this user's Python processes."""
HELD_MAX = 512
"""How many files to hold; at most half of what this process may open, which is usually 1,024."""

T = TypeVar("T")


@dataclass(slots=True)
class Facts:
    """What is known about one process while it runs one program. ``hidden`` names what the system does not let us read."""

    stat: Stat
    line: bytes = b""
    """The stat line that was parsed last."""
    hidden: frozenset[str] = frozenset()
    environment: LaunchEnvironment | None = None
    environment_read: bool = False
    torch_mapped: bool | None = None
    torch_cuda_mapped: bool | None = None
    maps_due_s: float = 0.0
    read_s: float | None = None
    """The ``now_s`` of the newest stat line."""
    key: tuple[int, int] = field(init=False)
    """PID and start time."""
    program: tuple[int, int, int] = field(init=False)
    """PID, start time and image: what a process runs is another program after an exec."""

    def __post_init__(self) -> None:
        """Make the keys once: many are looked up for each process in each reading."""
        self.key = self.stat.pid, self.stat.start_ticks
        self.program = *self.key, self.stat.image

    @property
    def age_s(self) -> float:
        """Seconds since the process started."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self.stat.start_ticks / procfs.TICKS_PER_S

    def try_read(self, fields: tuple[str, ...], read: Callable[[int], T]) -> T | None:
        """Call ``read`` with the PID; if the system refuses, record ``fields`` as hidden and return ``None``."""
        try:
            value = read(self.stat.pid)
        except PermissionError:
            self.hidden |= set(fields)
            return None
        except OSError:
            return None  # the process is gone, or exiting
        if self.hidden:
            self.hidden -= set(fields)
        return value


class StatFiles:
    """Reads stat lines from files that it holds open: finding a file in /proc takes as long as reading it (0.006 ms).

    A file stays with its process: once that has ended, the PID may be another's, and its file is opened again.
    """

    def __init__(self) -> None:
        self._held: dict[int, int] = {}
        self._max = min(HELD_MAX, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)

    def __del__(self) -> None:
        self.keep_only(())

    def read_line(self, pid: int, *, again: bool) -> bytes | None:
        """Return what ``procfs.read_stat_line`` returns. ``again``: the process was read before, and may be soon.

        Raises:
            PermissionError: as from ``procfs.read_stat_line``.
        """
        handle = self._held.get(pid)
        if handle is not None:
            with suppress(OSError):
                return os.pread(handle, procfs.LINE_BYTES, 0)
            del self._held[pid]
            os.close(handle)
        if not again or len(self._held) >= self._max:
            return procfs.read_stat_line(pid)
        try:
            handle = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError):
            return None
        self._held[pid] = handle
        with suppress(ProcessLookupError):
            return os.pread(handle, procfs.LINE_BYTES, 0)
        return None

    def keep_only(self, pids: Collection[int]) -> None:
        """Close the files of all other processes."""
        for pid in [pid for pid in self._held if pid not in pids]:
            os.close(self._held.pop(pid))


class ProcessCache:
    """Looks up processes. ``HostReader`` and ``VirtualSource`` may share one cache or have one each."""

    def __init__(self) -> None:
        self._facts: dict[int, Facts] = {}
        self._stat_files = StatFiles()
        self._pythons: dict[int, Facts | None] = {}
        """This user's Python processes, and what is known of those that need not be asked again while it stays the same."""
        self.programs: dict[int, str] = {}
        """This user's processes that are no Python, and the names of their programs, when /proc was last listed."""
        self._foreign: dict[int, float] = {}
        self._listed_s = -FOREIGN_S

    def look_up(self, pid: int, now_s: float | None = None) -> Facts | None:
        """Return what is known about a PID, with a fresh stat line; ``None`` if the process is gone.

        Within one reading, in which every call has the same ``now_s``, the line is read once.

        Raises:
            PermissionError: the process exists, but even its stat line is hidden from us (hidepid=1).
        """
        facts = self._facts.get(pid)
        if facts is not None and now_s is not None and facts.read_s == now_s:
            return facts
        line = self._stat_files.read_line(pid, again=facts is not None)
        if facts is not None and facts.line == line:
            facts.read_s = now_s
            return facts  # it has neither run nor changed
        stat = _parsed(line)
        if line is None or stat is None:
            self._facts.pop(pid, None)
            return None
        if facts is None or facts.stat.start_ticks != stat.start_ticks or 0 != stat.image != facts.stat.image:
            facts = self._facts[pid] = Facts(stat)  # an exec changes the environment, the maps and the name as well
        elif stat.image or not facts.stat.image:
            facts.stat = stat
        else:
            facts.stat = stat._replace(image=facts.stat.image)  # a zombie: keep what is known from its lifetime
        facts.line, facts.read_s = line, now_s
        return facts

    def environment(self, facts: Facts) -> LaunchEnvironment | None:
        """Return the environment at launch; read once, because it never changes."""
        if not facts.environment_read and facts.stat.state not in DEAD_STATES:
            values = facts.try_read(("environment",), procfs.read_environ)
            facts.environment = None if values is None else launch_environment(values)
            facts.environment_read = True
        return facts.environment

    def torch_mapped(self, facts: Facts, now_s: float, spread: float = 1.0) -> bool | None:
        """Return whether PyTorch is mapped; checked at growing intervals, multiplied by ``spread``, until it is.

        The same dlopen maps its CUDA part, so one more check after PyTorch first appears settles both.
        """
        if now_s < facts.maps_due_s or facts.stat.state in DEAD_STATES:
            return facts.torch_mapped
        before = facts.torch_mapped
        found = facts.try_read(("torch_mapped", "torch_cuda_mapped"), procfs.read_torch_maps)
        if found is not None:
            facts.torch_mapped, facts.torch_cuda_mapped = found
        settled = facts.torch_cuda_mapped or (before and facts.torch_mapped)
        facts.maps_due_s = math.inf if settled else now_s + spread * reread_after_s(facts.age_s)
        return facts.torch_mapped

    def pythons(self, now_s: float, every_s: float) -> list[Facts]:
        """Return this user's live Python processes; list /proc at most every ``every_s`` seconds."""
        if now_s - self._listed_s >= every_s:
            self._listed_s = now_s
            self._list(now_s)
        found = []
        for pid in self._pythons:
            facts = self.look_up_if_readable(pid, now_s)
            if facts is not None and facts.stat.state not in DEAD_STATES:
                found.append(facts)
        return found

    def look_up_if_readable(self, pid: int, now_s: float | None = None) -> Facts | None:
        """Look up a PID; treat a hidden process as gone."""
        try:
            return self.look_up(pid, now_s)
        except PermissionError:
            return None

    def _list(self, now_s: float) -> None:
        pids = procfs.list_pids()
        own = os.geteuid()
        self._foreign = {pid: until for pid, until in self._foreign.items() if pid in pids and until > now_s}
        self._facts = {pid: facts for pid, facts in self._facts.items() if pid in pids}
        self._stat_files.keep_only(pids)
        before, self._pythons, self.programs = self._pythons, {}, {}
        for pid in pids:
            if pid in self._foreign:
                continue
            known = before.get(pid)
            if known is not None and self.look_up_if_readable(pid, now_s) is known:
                self._pythons[pid] = known
                continue
            kind = _program(pid, own)
            if kind is None:
                self._foreign[pid] = now_s + FOREIGN_S
            elif kind.startswith(("python", "pypy")):
                # Looked up before its program was read: if it changes its program now, these are not its facts any more.
                earlier = self._facts.get(pid)
                self._pythons[pid] = earlier if earlier is not None and earlier.stat.image else None
            else:
                self.programs[pid] = kind


def _parsed(line: bytes | None) -> Stat | None:
    try:
        return None if line is None else procfs.parse_stat(line)
    except ValueError:
        return None


def _program(pid: int, own_uid: int) -> str | None:
    """Return the name of the program file; ``None`` for another user's process and for a kernel thread."""
    try:
        if os.stat(f"/proc/{pid}").st_uid != own_uid:
            return None
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return None


def reread_after_s(age_s: float) -> float:
    """Return how many seconds to wait before the next expensive read of a process of this age."""
    return min(SLOW_S, max(1.0, age_s / YOUNG_SHARE))


def launch_environment(values: dict[str, str]) -> LaunchEnvironment:
    """Extract what gputop uses from an environment; an invalid or negative number (LOCAL_RANK=-1) is unknown."""
    return LaunchEnvironment(
        rank=_number(values.get("RANK")),
        local_rank=_number(values.get("LOCAL_RANK")),
        world_size=_number(values.get("WORLD_SIZE")),
        local_world_size=_number(values.get("LOCAL_WORLD_SIZE")),
        cuda_visible_devices=values.get("CUDA_VISIBLE_DEVICES"),
        cuda_device_order=values.get("CUDA_DEVICE_ORDER"),
        torchelastic_run_id=values.get("TORCHELASTIC_RUN_ID"),
        gputop_run_id=values.get("GPUTOP_RUN_ID"),
        gputop_job_id=values.get("GPUTOP_JOB_ID"),
        gputop_launch_id=values.get("GPUTOP_LAUNCH_ID"),
        gputop_name=values.get("GPUTOP_NAME"),
        gputop_state_dir=_state_dir(values),
        virtual_devices=values.get("GPUTOP_VIRTUAL_DEVICES"),
        master_port=_number(values.get("MASTER_PORT")),
        settings=settings_of(values),
    )


def _state_dir(values: dict[str, str]) -> str | None:
    """Return the directory of the runs of a process that gputop started; None for any other, and if tracking is off."""
    started = "GPUTOP_LAUNCH_ID" in values or "GPUTOP_JOB_ID" in values
    off = "0" in (values.get("GPUTOP"), values.get("GPUTOP_AUTO")) or values.get("GPUTOP_MODE") == "disabled"
    return str(state_dir(values)) if started and not off else None


def _number(text: str | None) -> int | None:
    text = (text or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None
