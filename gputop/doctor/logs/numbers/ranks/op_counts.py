"""Collectives that the ranks of one communicator call in another order, by what NCCL prints with NCCL_DEBUG_SUBSYS=COLL. Pure.

Each communicator counts its collectives: the same number is the same collective on every rank.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line

CALLS_MAX = 20_000
"""At most this many calls are kept."""
_CALL = re.compile(
    r"(?P<process>[\w.-]{1,80}:\d{1,9}):\d{1,9} \[(?P<device>\d{1,3})\] NCCL INFO (?P<name>[A-Z]\w{2,30}): "
    r"opCount (?P<number>[0-9a-f]{1,16}) sendbuff \S{1,20} recvbuff \S{1,20} count (?P<count>\d{1,15}) .{0,80}?"
    r"comm (?P<communicator>0x[0-9a-f]{1,16}) \[nranks=(?P<ranks>\d{1,6})\]"
)
"""src/enqueue.cc, since 2.4."""


class _Call(NamedTuple):
    name: str
    elements: str


class _Process(NamedTuple):
    """One communicator of a process; ``name`` is the host and the PID."""

    name: str
    device: str
    ranks: str


class OpCounts:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first call."""
        self._calls: dict[_Process, dict[str, _Call]] = {}
        self._communicators: dict[_Process, set[str]] = {}
        self._kept = 0

    def read(self, line: Line) -> None:
        """Take the next line."""
        call = _CALL.search(line.printed) if "opCount" in line.printed else None
        if call is None or self._kept >= CALLS_MAX:
            return
        process = _Process(call["process"], call["device"], call["ranks"])
        self._communicators.setdefault(process, set()).add(call["communicator"])
        self._calls.setdefault(process, {})[call["number"]] = _Call(call["name"], call["count"])
        self._kept += 1

    def findings(self) -> tuple[Finding, ...]:
        """Return the first collective that is another one on some rank; nothing if a process has several communicators of the
        same size, as those of several processes cannot be told apart then."""
        if any(len(found) > 1 for found in self._communicators.values()):
            return ()
        for ranks in sorted({process.ranks for process in self._calls}):
            group = {process: calls for process, calls in self._calls.items() if process.ranks == ranks}
            common = set.intersection(*map(set, group.values())) if 1 < len(group) <= int(ranks) else set()
            for number in sorted(common, key=lambda text: int(text, 16)):
                if len({calls[number].name for calls in group.values()}) > 1:
                    return (_finding(number, ranks, {process: calls[number] for process, calls in group.items()}),)
        return ()


def _finding(number: str, ranks: str, calls: dict[_Process, _Call]) -> Finding:
    named = sorted((call.name, process) for process, call in calls.items())
    names = " and ".join(sorted({name for name, _ in named}))
    return Finding(
        id="C08",
        severity="error",
        confidence="likely",
        title=f"Ranks call different collectives: {names}, both number {number} of a communicator of {ranks} ranks",
        evidence=tuple(
            Fact(f"{process.name}, GPU {process.device}: {name} of {calls[process].elements} elements", name, "log")
            for name, process in named[:4]
        ),
        cause="A branch that depends on the rank, or a loop that ends earlier on one, makes a rank leave out a collective or "
        "call another one. NCCL does not notice: the ranks wait for each other, or exchange the wrong data.",
        fix="# every rank calls each collective, in the same order; keep them out of: if rank == 0\n"
        "TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun ...  # torch then names the call that differs",
        refuted_by="The lines are those of two jobs on one host.",
    )
