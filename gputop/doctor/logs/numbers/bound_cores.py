"""Processes that are pinned to the same one or two cores, by what ``taskset -cp`` prints. Pure."""

from __future__ import annotations

import re
from collections import Counter

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line

PROCESSES_MIN, CORES_MAX = 3, 2
"""A finding needs at least this many processes, on at most this many cores (our choice)."""
LISTS_MAX = 1024
_LIST = re.compile(r"\bpid (\d{1,9})'s (?:current |new )?affinity list: ([\d,-]{1,200})\s*$")


class BoundCores:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first list."""
        self._lists: dict[str, str] = {}

    def read(self, line: Line) -> None:
        """Take the next line."""
        found = _LIST.search(line.text) if "affinity list" in line.text else None
        if found is not None and (found[1] in self._lists or len(self._lists) < LISTS_MAX):
            self._lists[found[1]] = found[2]

    def findings(self) -> tuple[Finding, ...]:
        """Return that several processes share few cores."""
        cores, processes = next(iter(Counter(self._lists.values()).most_common(1)), ("", 0))
        if processes < PROCESSES_MIN or _number(cores) > CORES_MAX:
            return ()
        return (
            Finding(
                id="D03",
                severity="warning",
                confidence="likely",
                title=f"{processes} processes share {words.count(_number(cores), 'core')}: {cores}",
                evidence=(Fact(f"affinity list: {cores}, of {processes} processes", cores, "taskset, in the log"),),
                cause="A process inherits its cores from the one that starts it. A library for OpenMP, numactl or the batch "
                "system has bound the main process to a core, and its workers with it.",
                fix="os.sched_setaffinity(0, range(os.cpu_count()))  # before the workers start\n"
                "# Slurm: --cpus-per-task; OpenMP: unset OMP_PROC_BIND, GOMP_CPU_AFFINITY, KMP_AFFINITY",
                refuted_by="These processes are not those of the loader, or they hardly compute.",
            ),
        )


def _number(cores: str) -> int:
    """Return how many cores a list names: "0-3,8" are five."""
    number = 0
    for part in cores.split(","):
        first, _, last = part.partition("-")
        number += int(last or first) - int(first) + 1 if first else 0
    return number
