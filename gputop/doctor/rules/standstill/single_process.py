"""Judges a single untracked process that makes no step and uses no CPU, disk or GPU: what does it wait for? (G01)

That it makes no step shows in what it logs, or in its stack: it was seen to train, and then at one line in every look. A wait
that nothing can end shows it by itself, also if the process was never seen to train.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from gputop import units
from gputop.command_line import is_session
from gputop.doctor.evidence.doings import AtOneLine
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
from gputop.process import WokenBy
from gputop.snapshot import Process, Workers

WAITS_SHARE = 0.8
"""The main thread waits for one and the same thing in this share of the samples (our choice)."""
OTHERS_HOLD_S = 15.0
"""Added to the time for which no step has ended, if it waits for something outside of it (our choice)."""
FIRST_HOLD_S = 60.0
"""The same before the first step, if its loader workers use no CPU: they may download (our choice)."""
OWN_HOLD_S = 90.0
"""The same if the process waits for a thread or a program of its own, which may upload, save or evaluate (our choice). Also for
anything else if only its stack shows that no step ends: it may wait for work."""
LONGER_THAN_BREAKS = 5.0
"""It stays at one line for this many times the longest time between two looks at its computation (our choice, as by steps)."""
SURE_AFTER_S = 60.0
"""A wait for a thread that nothing can end is reported as a likely hang after this time at one line (our choice): a script that
has ended its training, or waits for work, waits for something else."""


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


_FOR_ITS_READER = _Wait(
    "for a process that waits for it",
    "A process that it started has written more into a pipe than fits, and ends only once somebody reads the rest. That would "
    "be the training, which waits for the end: join() before get() of a queue, or wait() before the output is read.",
)
_READ_FIRST = """\
made = queue.get(); process.join()  # first everything that the process has put, then its end
out, _ = process.communicate()  # instead of process.wait(), with stdout=subprocess.PIPE
"""
_FOR_WORKERS = _Wait(
    "for its loader workers, which use no CPU",
    "A worker hangs: it has inherited a lock that a thread held when it was forked (OpenCV, tokenizers, logging, a thread of "
    "the script), or it waits for a file, a server or a queue.",
)
_FROM_WORKERS = ("events", "pipe")
"""What a process waits for whose loader workers bring no batch."""


class _Call(NamedTuple):
    """What a line of the script that waits for a thread says about the wait."""

    pattern: re.Pattern[str]
    title: str
    cause: str
    fix: str
    """Whole lines."""
    unless: tuple[WokenBy, ...]
    """It may wait like this on purpose, for work or at its end, if one of these may end the wait."""


_CONSUMES = "whatever takes items from it has ended, hangs, or is slower than the training"
_CALLS = (
    _Call(
        re.compile(r"\.put\("),
        "for room in a queue",
        f"The queue is full: {_CONSUMES}. A thread that dies of an exception prints it, and is not missed.",
        "# in the thread that takes the items: catch exceptions, and report them to the training, such as by an Event\n"
        "# before each put: if not consumer.is_alive(): raise RuntimeError('the consumer has ended')\n",
        (),
    ),
    _Call(
        re.compile(r"\.get\("),
        "for an item of a queue",
        "The queue is empty, and whatever should fill it has ended or hangs: a thread that dies of an exception puts nothing "
        "more.",
        "# in the thread that makes the items: put a sentinel in a finally block, also after an exception\n"
        "# before each get: if not producer.is_alive(): raise RuntimeError('the producer has ended')\n",
        ("time limit", "others"),
    ),
    _Call(
        re.compile(r"\.acquire\(|^with .*lock", re.IGNORECASE),
        "for a lock",
        "Whoever has the lock does not release it: the same thread took it before, or another one ended or waits while it has "
        "it.",
        "with lock: ...  # releases it also after an exception\n# one thread takes it twice: threading.RLock()\n",
        (),
    ),
    _Call(
        re.compile(r"\.join\("),
        "for a thread or process to end",
        "What it waits for does not end: it waits itself, such as for a queue, or for a flag that nobody sets.",
        "thread.join(timeout=60)  # then look whether it is_alive(), and print where it is: faulthandler.dump_traceback()\n",
        ("others",),
    ),
)
_ON_PURPOSE = re.compile(r"serve|accept\(|listen|interact\(|\.show\(|run_forever|uvicorn|\.poll\(|select\(")
"""What a script that waits for requests, or shows what it has made, says."""
_FOR_WORK = re.compile(r"\.get\w*\(|\.wait\w*\(|recv|read")
"""How a script may wait for work: then only what it logs shows that it should be training."""


def single_process_hangs(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge G01 for a single untracked process: no step ends, and it computes, reads and writes nothing.

    A question at the terminal stops it before its first step, too: whether to run a model's code, or which account to use. So
    do loader workers that hang.
    """
    process = group.members[0].process if len(group.members) == 1 else None
    if group.run is not None or process is None or tracked.world(group) > 1:
        return None  # a rank may wait for ranks on other machines
    # First what is quickly seen of a process that computes: this judges every snapshot.
    if not uses_no_processor(process) or not at_rest.is_still(evidence, process):
        return None
    # What waits for itself does so whatever others do on the GPU, or may make for it.
    if not _is_awaited(process, process.waits_for) and not _gpus_rest(evidence, group):
        return None
    if is_session(process.command):
        return None
    stands = standing(evidence, group)
    samples = evidence.still.samples(process, STOOD_MIN_S, at_rest.SAMPLES_MIN)
    word, number = next(iter(samples.most_common(1)), ("", 0))
    at = _stands_at(evidence, process, word)
    workers = process.workers if word in _FROM_WORKERS else None
    is_awaited = _is_awaited(process, word) and (at is not None or number == samples.total())
    begins = stands is None and at is None and not any(rank.step for rank in logged.ranks_of(group))
    if (
        word not in _WAITS
        or (stands is None and at is None and not is_awaited and not (begins and (word == "terminal" or workers is not None)))
        or samples.total() < at_rest.SAMPLES_MIN
        or number < WAITS_SHARE * samples.total()
    ):
        return None
    if not is_awaited and (_is_served(process) or at_rest.may_be_fed(evidence, group)):
        return None
    wait = _FOR_ITS_READER if is_awaited else _WAITS[word] if workers is None else _FOR_WORKERS
    call = _call_of(at, word)
    alone = is_awaited or (
        call is not None and process.woken_by in ("nothing", "time limit") and process.woken_by not in call.unless
    )
    sure = alone and process.woken_by == "nothing" and at is not None and at.seconds >= SURE_AFTER_S
    sure = sure and (is_awaited or stands is not None or (at is not None and at.trained is True))
    title = wait.title if call is None else call.title
    does = "hangs" if sure else "may hang" if is_awaited or stands is not None or at is not None else "has not begun"
    finding = tracked.about(
        group,
        "G01",
        "error" if sure else "warning",
        "likely" if sure else "possible",
        f"The training {does}: process {process.pid} waits {title}{f', at {at.at.line}' if at is not None else ''}",
        [
            *([stands.fact] if stands is not None else []),
            *([_line(process, at)] if at is not None else []),
            Fact(
                f"its main thread waits {wait.title} in {number} of {words.count(samples.total(), 'sample')}",
                number,
                f"/proc/{process.pid}/syscall",
            ),
            *([] if process.lock_held_by is None else [_held(process.lock_held_by)]),
            *([_in_a_circle(process) if is_awaited else _nobody(process)] if alone else []),
            Fact(f"it uses {process.cpu_percent:.0f}% of a core", process.cpu_percent, f"/proc/{process.pid}/stat"),
            *(seen_at(evidence, [process], STOOD_MIN_S) if at is None else []),
            *utilization(evidence, tracked.used_devices(group)),
        ],
        wait.cause if call is None else call.cause,
        f"{_READ_FIRST if is_awaited else '' if call is None else call.fix}"
        f"py-spy dump --pid {process.pid}  # the line that waits\n"
        f"{_look_further(process, workers)}",
        "It is done and waits on purpose, or the next round of work has yet to begin.",
    )
    if workers is not None and begins:
        return Suspicion(finding, FIRST_HOLD_S)
    return Suspicion(finding, OTHERS_HOLD_S if alone else OWN_HOLD_S if stands is None and not begins else wait.hold_s)


def _stands_at(evidence: Evidence, process: Process, word: str) -> AtOneLine | None:
    """Return the line at which a process hangs; None if it has not for long, or may wait for work.

    One that was hardly seen to train counts as hanging only if nothing can end its wait.
    """
    at = evidence.doings.at_one_line(process)
    if at is None or at.looks < at_rest.SAMPLES_MIN or at.seconds < max(STOOD_MIN_S, LONGER_THAN_BREAKS * at.longest_break_s):
        return None
    if _is_awaited(process, word):
        return at
    text, call = at.at.text or "", _call_of(at, word)
    if at.trained is not True:
        proves = at.trained is None and call is not None and process.woken_by == "nothing" and process.listens is False
        return at if proves else None
    if call is not None and process.woken_by is not None and process.woken_by not in call.unless:
        return at
    if process.listens is not False or _ON_PURPOSE.search(f"{text} {at.at.function}") or word == "sleep":
        return None
    return None if word not in ("terminal", "child") and _FOR_WORK.search(text) else at


def _is_awaited(process: Process, word: str | None) -> bool:
    """Return whether it waits for the end of a process that waits for it. No script does that on purpose."""
    return word == "child" and process.woken_by == "nothing"


def _call_of(at: AtOneLine | None, word: str) -> _Call | None:
    """Return what the line at which it waits for a thread says."""
    text = at.at.text if at is not None and word == "lock" else None
    return next((call for call in _CALLS if call.pattern.search(text)), None) if text is not None else None


def _line(process: Process, at: AtOneLine) -> Fact:
    text = f"been at {at.at.place} in every one of {words.count(at.looks, 'look')} for "
    text = f"it was seen to train, and has {text}" if at.trained else f"it has {text}"
    return Fact(text + units.duration(at.seconds), round(at.seconds), f"/proc/{process.pid}/mem")


def _nobody(process: Process) -> Fact:
    limit = ", one of them with a time limit" if process.woken_by == "time limit" else ""
    others = "it has no other thread" if process.thread_count == 1 else f"all of its other threads wait for threads{limit}"
    return Fact(f"{others}, and it has no child process", process.thread_count, f"/proc/{process.pid}/task/*/syscall, children")


def _in_a_circle(process: Process) -> Fact:
    text = "its child process writes into a full pipe that only it could read, or waits for another one that does"
    return Fact(text, True, f"/proc/{process.pid}/fd, task/*/children, and the child's syscall")


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
