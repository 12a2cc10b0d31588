"""Processes that cannot go on before another one acts: nobody reads what they print, or a rank holds a file lock (G01)."""

from __future__ import annotations

from gputop.command_line import is_session
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.group_past import uses_no_processor
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.standstill import at_rest
from gputop.doctor.rules.standstill.progress import STOOD_MIN_S
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.snapshot import Process

WAITS_SHARE = 0.8
"""The main thread waits for one and the same thing in this share of the samples (our choice)."""
UNREAD_HOLD_S = 10.0
"""Added to the time over which it is sampled: a reader may pause for a moment, or a user may scroll (our choice)."""
CROSSED_HOLD_S = 15.0
"""The same for two ranks that wait for each other (our choice)."""


def unread_output(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge G01 for a process that prints into a pipe or a terminal from which nothing is read: it hangs in write()."""
    process = next((each for each in _waiting(evidence, group, "output") if not is_session(each.command)), None)
    if process is None:
        return None
    pid = process.pid
    finding = tracked.about(
        group,
        "G01",
        "error",
        "likely",
        f"The training stands still: nobody reads what process {pid} prints",
        [
            Fact("its main thread waits until it can write its output", pid, f"/proc/{pid}/syscall"),
            Fact(f"it uses {process.cpu_percent:.0f}% of a core", process.cpu_percent, f"/proc/{pid}/stat"),
        ],
        "It prints into a pipe or a terminal that takes no more: a pipe holds 64 KiB. The program that started it with "
        "stdout=PIPE waits for its end before it reads, a pager waits for a key, Ctrl-S has stopped the terminal, or the "
        "reader hangs.",
        f"ls -l /proc/{pid}/fd/1 /proc/{pid}/fd/2  # where it prints to\n"
        "# in a terminal: press Ctrl-Q; in a script, print to a file, or read while it runs:\n"
        'subprocess.run(command, stdout=open("train.log", "w"), stderr=subprocess.STDOUT)',
        "The reader pauses on purpose, such as a pager.",
        pids=[pid],
    )
    return Suspicion(finding, UNREAD_HOLD_S)


def crossed_locks(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge G01 for a rank that waits for a file lock, which a rank holds that waits for the others in a collective."""
    members = {member.process.pid: member for member in group.members if member.process is not None}
    for waiting in _waiting(evidence, group, "file lock") if len(members) > 1 else ():
        holder = members.get(waiting.lock_held_by or 0)
        holding = holder.process if holder is not None else None
        if holder is None or holding is None or not _rests(evidence, holding) or not at_rest.is_locked(evidence, holding):
            continue
        late, holds = _named(members[waiting.pid].rank, waiting), _named(holder.rank, holding)
        finding = tracked.about(
            group,
            "G01",
            "error",
            "likely",
            f"The training hangs: {late} waits for a file lock that {holds} holds, which waits for the others",
            [
                Fact(f"{late} waits for the lock of a file", waiting.pid, f"/proc/{waiting.pid}/syscall"),
                Fact(f"{holds} holds that lock", holding.pid, "/proc/locks"),
                Fact(f"{holds} waits for another thread and uses no CPU", holding.pid, f"/proc/{holding.pid}/syscall"),
            ],
            f"{tracked.capital(holds)} called a collective operation, such as a barrier, while it holds the lock, and "
            f"{late} cannot call it before it gets the lock.",
            f"py-spy dump --pid {holding.pid}  # release the lock before this line\n"
            "# or let one rank prepare the data, and the others wait in the barrier",
            f"{tracked.capital(holds)} waits for a thread of its own that still works.",
            pids=[waiting.pid, holding.pid],
        )
        return Suspicion(finding, CROSSED_HOLD_S)
    return None


def _waiting(evidence: Evidence, group: RankGroup, word: str) -> list[Process]:
    """Return the group's processes that do nothing but wait for this."""
    found = []
    for member in group.members:
        process = member.process
        if process is not None and process.waits_for == word and _rests(evidence, process):
            samples = evidence.still.samples(process, STOOD_MIN_S, at_rest.SAMPLES_MIN)
            if samples.total() >= at_rest.SAMPLES_MIN and samples[word] >= WAITS_SHARE * samples.total():
                found.append(process)
    return found


def _rests(evidence: Evidence, process: Process) -> bool:
    return uses_no_processor(process) and at_rest.is_still(evidence, process)


def _named(rank: int | None, process: Process) -> str:
    return f"rank {rank}" if rank is not None else f"process {process.pid}"
