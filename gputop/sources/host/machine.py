"""What limits the machine besides its load: shared memory, pressure, the cgroup's quota, OOM kills, the IOMMU.

Reads a dozen small files every READ_S seconds (0.2 ms) and returns the last values in between. Imports only the standard
library and its neighbors; ``root`` replaces "/" in tests.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from gputop.sources.host import procfs
from gputop.sources.host.cgroup import Cgroup, CpuLimit

READ_S = 2.0
"""How often to read the files. Pressure is an average over 10 s, so that is often enough."""


@dataclass(slots=True)
class Machine:
    """The newest readings, with the field names of ``Host``."""

    shm_total_bytes: int | None = None
    shm_used_bytes: int | None = None
    cpu_quota: float | None = None
    cpu_throttled_share: float | None = None
    cpu_pressure_percent: float | None = None
    io_pressure_percent: float | None = None
    memory_pressure_percent: float | None = None
    oom_kills: int | None = None
    iommu_enabled: bool | None = None


class MachineReader:
    """Reads the values of a ``Machine``. Not thread-safe."""

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self._cgroup = Cgroup(root)
        self._machine = Machine(iommu_enabled=self._read_iommu())
        self._limit: CpuLimit | None = None
        self._due_s = 0.0

    def read(self, now_s: float) -> Machine:
        """Return the newest readings; ``now_s`` is monotonic seconds."""
        if now_s < self._due_s:
            return self._machine
        self._due_s = now_s + READ_S
        machine = self._machine
        machine.shm_total_bytes, machine.shm_used_bytes = self._read_shm()
        machine.cpu_pressure_percent = self._read_pressure("cpu")
        machine.io_pressure_percent = self._read_pressure("io")
        machine.memory_pressure_percent = self._read_pressure("memory")
        before, self._limit = self._limit, self._cgroup.read_cpu()
        machine.cpu_quota = self._limit.cores if self._limit else None
        machine.cpu_throttled_share = throttled_share(before, self._limit)
        kills = self._cgroup.read_oom_kills()
        machine.oom_kills = self._read_oom_kills_since_boot() if kills is None else kills
        return machine

    def _path(self, path: str) -> str:
        return os.path.join(self._root, path)

    def _read_shm(self) -> tuple[int | None, int | None]:
        try:
            found = os.statvfs(self._path("dev/shm"))
        except OSError:
            return None, None
        return found.f_blocks * found.f_frsize, (found.f_blocks - found.f_bfree) * found.f_frsize

    def _read_pressure(self, resource: str) -> float | None:
        """Read pressure stall information; ``None`` if the kernel does not record it (psi=0)."""
        return parse_pressure(self._read(f"proc/pressure/{resource}"))

    def _read_oom_kills_since_boot(self) -> int | None:
        found = re.search(r"^oom_kill (\d+)$", self._read("proc/vmstat"), re.MULTILINE)
        return int(found.group(1)) if found else None

    def _read_iommu(self) -> bool | None:
        """Return whether an IOMMU is active: the kernel lists each one that it has set up. ``None`` without /sys."""
        try:
            return bool(os.listdir(self._path("sys/class/iommu")))
        except FileNotFoundError:
            return False if os.path.isdir(self._path("sys/class")) else None
        except OSError:
            return None

    def _read(self, path: str) -> str:
        try:
            return procfs.read_bytes(self._path(path)).decode(errors="replace")
        except OSError:
            return ""


def parse_pressure(text: str) -> float | None:
    """Return "some avg10" of a file in /proc/pressure, in percent; ``None`` if it is absent."""
    found = re.search(r"^some avg10=([\d.]+)", text, re.MULTILINE)
    return float(found.group(1)) if found else None


def throttled_share(before: CpuLimit | None, now: CpuLimit | None) -> float | None:
    """Return the share of periods between two readings that hit the quota; ``None`` if no period passed."""
    if before is None or now is None:
        return None
    if before.periods is None or now.periods is None or before.throttled is None or now.throttled is None:
        return None
    periods = now.periods - before.periods
    return min(1.0, max(0.0, (now.throttled - before.throttled) / periods)) if periods > 0 else None
