"""The threads of one process: those whose names tell of something, what backward costs, and where they run.

Thread names are torch's and NCCL's own; the kernel keeps 15 characters of each. NCCL names its threads only where
NCCL_SET_THREAD_NAME=1 is set; torch's own are always named. Standard library alone. Measured: listing 60 threads 0.06 ms,
a stat line 0.01 ms, a name 0.007 ms.
"""

from __future__ import annotations

import re
from collections import Counter

from gputop.sources.host import procfs

SCAN_S = 2.0
"""How often new threads are looked for, and the main thread's CPU time is read."""
CORES_S = 10.0
"""How often it is looked on which cores the threads run."""
EVERY_THREAD_LOOKS = 6
"""At every sixth such look all threads are read, and in between those that ran then: most of a process's threads sleep."""
MOST_THREADS = 128
"""Of a process with more threads, that many are looked at: the oldest, which the main thread is one of."""
BUSY_SHARE = 0.1
"""Of one core: a thread that takes less between two looks says nothing of where the work is."""
MOST_BUSY = 8
TELLING = ("pt_", "NCCL ")
"""How telling names begin: pt_autograd_0, pt_nccl_watchdg, pt_nccl_heartbt, pt_gloo_runloop, pt_data_pin, pt_tcpstore_uv,
NCCL Service, NCCL Progress, NCCL RAS."""
_DEVICE_NUMBER = re.compile(r"\s+\d+$")


class Threads:
    """What is known of one process's threads; kept as long as the process lives."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.named: tuple[tuple[str, int], ...] = ()
        """(name, number) of the telling threads."""
        self.autograd: tuple[tuple[int, float], ...] = ()
        """(device as the process counts, CPU seconds) of each thread that computes gradients."""
        self.main_cpu_percent: float | None = None
        self.cores: tuple[int, ...] = ()
        """On which cores the busiest threads ran last; empty until two looks have been taken."""
        self._looked: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._scan_due_s = 0.0
        self._cores_due_s = 0.0
        self._main: tuple[int, float] | None = None
        self._ticks: dict[int, int] = {}
        self._ticks_at_s = 0.0
        self._idle: set[int] = set()
        self._looks = 0

    def read(self, now_s: float) -> None:
        """Read what is due."""
        if now_s >= self._scan_due_s:
            self._scan_due_s = now_s + SCAN_S
            self._scan()
            self._read_main(now_s)
        if not self._cores_due_s:  # not at first sight, when everything else is read for the first time as well
            self._cores_due_s = now_s + SCAN_S
        elif now_s >= self._cores_due_s:
            self._cores_due_s = now_s + CORES_S
            self._read_cores(now_s)
        self._read_autograd()

    def _scan(self) -> None:
        """Look at the names of threads that are new; each twice, as a thread takes its name a moment after it starts."""
        looked = self._looked
        self._looked = {thread: looked.get(thread, 0) for thread in procfs.list_threads(self.pid)}
        self._names = {thread: name for thread, name in self._names.items() if thread in self._looked}
        for thread, times in self._looked.items():
            if times < 2:
                self._looked[thread] = times + 1
                name = procfs.read_thread_name(self.pid, thread) or ""
                if name.startswith(TELLING):
                    self._names[thread] = _DEVICE_NUMBER.sub("", name)
        self.named = tuple(sorted(Counter(self._names.values()).items()))

    def _read_main(self, now_s: float) -> None:
        stat = _thread_stat(self.pid, self.pid)
        if stat is None:
            self._main = self.main_cpu_percent = None
            return
        before, self._main = self._main, (stat.cpu_ticks, now_s)
        if before is not None and now_s > before[1]:
            self.main_cpu_percent = 100 * max(0, stat.cpu_ticks - before[0]) / procfs.TICKS_PER_S / (now_s - before[1])

    def _read_cores(self, now_s: float) -> None:
        before, passed = self._ticks, (now_s - self._ticks_at_s) * procfs.TICKS_PER_S
        self._ticks_at_s = now_s
        self._looks += 1
        if self._looks % EVERY_THREAD_LOOKS == 0:
            self._idle.clear()
        busy = []
        for thread in sorted(self._looked.keys() - self._idle)[:MOST_THREADS]:
            stat = _thread_stat(self.pid, thread)
            if stat is None:
                continue
            used = stat.cpu_ticks - before.get(thread, stat.cpu_ticks)
            if thread in before and not used:
                self._idle.add(thread)
            self._ticks[thread] = stat.cpu_ticks
            if used > BUSY_SHARE * passed:
                busy.append((used, stat.core))
        self._ticks = {thread: ticks for thread, ticks in self._ticks.items() if thread in self._looked}
        self.cores = tuple(sorted({core for _, core in sorted(busy, reverse=True)[:MOST_BUSY]}))

    def _read_autograd(self) -> None:
        found = []
        for thread, name in self._names.items():
            index = autograd_index(name)
            stat = None if index is None else _thread_stat(self.pid, thread)
            if index is not None and stat is not None and autograd_index(stat.comm) == index:
                found.append((index, stat.cpu_ticks / procfs.TICKS_PER_S))
        self.autograd = tuple(sorted(found))


def autograd_index(name: str) -> int | None:
    """Return the device of an autograd thread, "pt_autograd_1": the index that the process itself counts by."""
    number = name.removeprefix("pt_autograd_")
    return int(number) if number != name and number.isascii() and number.isdigit() else None


def _thread_stat(pid: int, thread_id: int) -> procfs.Stat | None:
    try:
        return procfs.read_stat(pid, thread_id)
    except OSError:
        return None
