"""Judges a single untracked process that makes no step and uses no CPU, disk or GPU: what does it wait for? (G01, possible)"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gputop.command_line import is_session
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.group_past import RESTS_CPU_PERCENT, uses_no_processor
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.standstill import at_rest
from gputop.doctor.rules.standstill.progress import STOOD_MIN_S, standing
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.doctor.rules.support.shared import seen_at, utilization
from gputop.snapshot import Process, Workers

WAITS_SHARE = 0.8
"""The main thread waits for one and the same thing in this share of the samples (our choice)."""
OTHERS_HOLD_S = 15.0
"""Added to the time for which no step has ended, if it waits for something outside of it (our choice)."""
FIRST_HOLD_S = 60.0
"""The same before the first step, if its loader workers use no CPU: they may download (our choice)."""
OWN_HOLD_S = 90.0
"""The same if the process waits for a thread or a program of its own, which may upload, save or evaluate (our choice)."""


class _Wait(NamedTuple):
    title: str
    """What it waits for, after "waits"."""
    cause: str
    hold_s: float = OTHERS_HOLD_S


_WAITS: Mapping[str, _Wait] = {
    "socket": _Wait(
        "for an answer over the network",
        "Another machine or service (a storage server, a tracker, a data base) does not answer, and the call has no time "
        "limit.",
    ),
    "pipe": _Wait(
        "for another process, through a pipe",
        "The process at the other end sends nothing any more: it has ended, it hangs, or it has nothing left to send.",
    ),
    "terminal": _Wait("for input from its terminal", "An input(), a debugger or a prompt waits for the user."),
    "sleep": _Wait(
        "for time to pass, again and again",
        "A loop looks for something that does not come: a file, a lock, a free port, another job's result.",
    ),
    "file": _Wait("for a file", "A file system does not answer."),
    "file lock": _Wait(
        "for the lock of a file", "Another process holds the lock, here or on another machine: it works, or hangs."
    ),
    "events": _Wait(
        "for an event that does not come",
        "It waits for several things at once: loader workers, connections, or other processes.",
    ),
    "lock": _Wait(
        "for a thread of its own",
        "A thread that should end, or put something into a queue, does not: it hangs, or has died with an exception.",
        OWN_HOLD_S,
    ),
    "child": _Wait(
        "for a program that it started",
        "The program does not end: it hangs, waits for input, or writes into a pipe that nobody reads.",
        OWN_HOLD_S,
    ),
}


_FOR_WORKERS = _Wait(
    "for its loader workers, which use no CPU",
    "A worker hangs: it has inherited a lock that a thread held when it was forked (OpenCV, tokenizers, logging, a thread of "
    "the script), or it waits for a file, a server or a queue.",
)
_FROM_WORKERS = ("events", "pipe")
"""What a process waits for whose loader workers bring no batch."""


def single_process_hangs(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge G01 for a single untracked process: no step ends, and it computes, reads and writes nothing.

    A question at the terminal stops it before its first step, too: whether to run a model's code, or which account to use. So
    do loader workers that hang.
    """
    process = group.members[0].process if len(group.members) == 1 else None
    if group.run is not None or process is None or tracked.world(group) > 1 or is_session(process.command):
        return None  # a rank may wait for ranks on other machines
    stands = standing(evidence, group)
    if not uses_no_processor(process) or not at_rest.is_still(evidence, process):
        return None
    samples = evidence.still.samples(process, STOOD_MIN_S, at_rest.SAMPLES_MIN)
    word, number = next(iter(samples.most_common(1)), ("", 0))
    workers = process.workers if word in _FROM_WORKERS else None
    begins = stands is None and not any(rank.step for rank in logged.ranks_of(group))
    if (
        word not in _WAITS
        or (stands is None and not (begins and (word == "terminal" or workers is not None)))
        or samples.total() < at_rest.SAMPLES_MIN
        or number < WAITS_SHARE * samples.total()
    ):
        return None
    if _is_served(process) or at_rest.may_be_fed(evidence, group) or not _gpus_rest(evidence, group):
        return None
    wait = _WAITS[word] if workers is None else _FOR_WORKERS
    finding = tracked.about(
        group,
        "G01",
        "warning",
        "possible",
        f"The training {'may hang' if stands is not None else 'has not begun'}: process {process.pid} waits {wait.title}",
        [
            *([stands.fact] if stands is not None else []),
            Fact(
                f"its main thread waits {wait.title} in {number} of {words.count(samples.total(), 'sample')}",
                number,
                f"/proc/{process.pid}/syscall",
            ),
            *([] if process.lock_held_by is None else [_held(process.lock_held_by)]),
            Fact(f"it uses {process.cpu_percent:.0f}% of a core", process.cpu_percent, f"/proc/{process.pid}/stat"),
            *seen_at(evidence, [process], STOOD_MIN_S),
            *utilization(evidence, tracked.used_devices(group)),
        ],
        wait.cause,
        f"py-spy dump --pid {process.pid}  # the line that waits\n{_look_further(process, workers)}",
        "It is done and waits on purpose, or the next round of work has yet to begin.",
    )
    return Suspicion(finding, FIRST_HOLD_S if workers is not None and begins else wait.hold_s)


def _look_further(process: Process, workers: Workers | None) -> str:
    if workers is not None and workers.pids:
        return f"py-spy dump --pid {workers.pids[0]}  # a worker's; if it is a lock: multiprocessing_context='spawn'"
    return f"ss -tnp | grep pid={process.pid},  # and whom it is connected to"


def _held(pid: int) -> Fact:
    return Fact(f"process {pid} holds the lock", pid, "/proc/locks")


def _is_served(process: Process) -> bool:
    """Return whether loader workers still work for it."""
    workers = process.workers
    return workers is not None and ((workers.cpu_percent or 0.0) >= RESTS_CPU_PERCENT or workers.blocked > 0)


def _gpus_rest(evidence: Evidence, group: RankGroup) -> bool:
    loads = [evidence.load(device.uuid) for device in tracked.used_devices(group)]
    return group.virtual or all(load is None or load.idle for load in loads)
