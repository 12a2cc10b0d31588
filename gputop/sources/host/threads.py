"""The threads of one process: those with telling names, the cost of backward, and the cores that they run on.

Thread names come from torch and NCCL; the kernel keeps 15 characters of each. NCCL names its threads only if
NCCL_SET_THREAD_NAME=1 is set; torch always names its own. Imports only the standard library and ``procfs``. Measured: listing
60 threads 0.06 ms, a stat line 0.01 ms, a name 0.007 ms.
"""

from __future__ import annotations

import re
from collections import Counter

from gputop.sources.host import procfs

SCAN_S = 2.0
"""How often to search for new threads and read the main thread's CPU time."""
CORES_S = 10.0
"""How often to read which cores the threads run on."""
FULL_READ_EVERY = 6
"""Every sixth reading covers all threads; the others cover only those that ran, because most threads sleep."""
MAX_THREADS = 128
"""In a process with more threads, read only this many: the oldest, which include the main thread."""
BUSY_SHARE = 0.1
"""Share of one core. A thread that uses less between two readings does not show where the work is done."""
MAX_BUSY = 8
"""How many of the busiest threads show the cores that a process runs on."""
TELLING_PREFIXES = ("pt_", "NCCL ")
"""Prefixes of telling names: pt_autograd_0, pt_nccl_watchdg, pt_nccl_heartbt, pt_gloo_runloop, pt_data_pin, pt_tcpstore_uv,
NCCL Service, NCCL Progress, NCCL RAS."""
_DEVICE_NUMBER = re.compile(r"\s+\d+$")


class Threads:
    """What is known about one process's threads; kept for as long as the process lives."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.named: tuple[tuple[str, int], ...] = ()
        """(name, number) of the threads with telling names."""
        self.autograd: tuple[tuple[int, float], ...] = ()
        """(device index in the process, CPU seconds) of each thread that computes gradients."""
        self.main_cpu_percent: float | None = None
        self.cores: tuple[int, ...] = ()
        """The cores on which the busiest threads last ran; empty until the second reading."""
        self._name_reads: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._scan_due_s = 0.0
        self._cores_due_s = 0.0
        self._main: tuple[int, float] | None = None
        self._ticks: dict[int, int] = {}
        self._ticks_at_s = 0.0
        self._idle: set[int] = set()
        self._core_reads = 0

    @property
    def due_s(self) -> float:
        """Until when ``read`` reads nothing."""
        return 0.0 if self._names or self.autograd else min(self._scan_due_s, self._cores_due_s)

    def read(self, now_s: float, spread: float = 1.0) -> None:
        """Read what is due. All intervals are multiplied by ``spread``."""
        if now_s >= self._scan_due_s:
            self._scan_due_s = now_s + spread * SCAN_S
            self._scan()
            self._read_main(now_s)
        if not self._cores_due_s:  # not the first time, when everything else is also read for the first time
            self._cores_due_s = now_s + spread * SCAN_S
        elif now_s >= self._cores_due_s:
            self._cores_due_s = now_s + spread * CORES_S
            self._read_cores(now_s)
        if self._names or self.autograd:
            self._read_autograd()

    def _scan(self) -> None:
        """Read the names of new threads, each twice, because a thread takes its name a moment after it starts."""
        name_reads = self._name_reads
        self._name_reads = {thread: name_reads.get(thread, 0) for thread in procfs.list_threads(self.pid)}
        self._names = {thread: name for thread, name in self._names.items() if thread in self._name_reads}
        for thread, times in self._name_reads.items():
            if times < 2:
                self._name_reads[thread] = times + 1
                name = procfs.read_thread_name(self.pid, thread) or ""
                if name.startswith(TELLING_PREFIXES):
                    self._names[thread] = _DEVICE_NUMBER.sub("", name)
        self.named = tuple(sorted(Counter(self._names.values()).items())) if self._names else ()

    def _read_main(self, now_s: float) -> None:
        stat = procfs.read_thread_stat(self.pid, self.pid)
        if stat is None:
            self._main = self.main_cpu_percent = None
            return
        before, self._main = self._main, (stat.cpu_ticks, now_s)
        if before is not None and now_s > before[1]:
            self.main_cpu_percent = 100 * max(0, stat.cpu_ticks - before[0]) / procfs.TICKS_PER_S / (now_s - before[1])

    def _read_cores(self, now_s: float) -> None:
        before, passed = self._ticks, (now_s - self._ticks_at_s) * procfs.TICKS_PER_S
        self._ticks_at_s = now_s
        self._core_reads += 1
        if self._core_reads % FULL_READ_EVERY == 0:
            self._idle.clear()
        busy = []
        for thread in sorted(self._name_reads.keys() - self._idle)[:MAX_THREADS]:
            stat = procfs.read_thread_stat(self.pid, thread)
            if stat is None:
                continue
            used = stat.cpu_ticks - before.get(thread, stat.cpu_ticks)
            if thread in before and not used:
                self._idle.add(thread)
            self._ticks[thread] = stat.cpu_ticks
            if used > BUSY_SHARE * passed:
                busy.append((used, stat.core))
        self._ticks = {thread: ticks for thread, ticks in self._ticks.items() if thread in self._name_reads}
        self.cores = tuple(sorted({core for _, core in sorted(busy, reverse=True)[:MAX_BUSY]}))

    def _read_autograd(self) -> None:
        found = []
        for thread, name in self._names.items():
            index = autograd_index(name)
            stat = None if index is None else procfs.read_thread_stat(self.pid, thread)
            if index is not None and stat is not None and autograd_index(stat.comm) == index:
                found.append((index, stat.cpu_ticks / procfs.TICKS_PER_S))
        self.autograd = tuple(sorted(found))


def autograd_index(name: str) -> int | None:
    """Return the device of an autograd thread ("pt_autograd_1"), in the process's own numbering."""
    number = name.removeprefix("pt_autograd_")
    return int(number) if number != name and number.isascii() and number.isdigit() else None
