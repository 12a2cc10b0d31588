"""A process whose threads all wait for each other, while its steps stand still: shows a deadlock from outside (G01)."""

from __future__ import annotations

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.standstill.progress import STOOD_MIN_S, standing
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.doctor.rules.support.shared import seen_at

DEADLOCK_HOLD_S = 15.0
"""A thread that waits with a time limit, such as a progress bar's, has run by then (our choice)."""


def deadlock(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge G01 for a process without a journal: no step ends, and no thread is left that could release another one.

    Ranks of one run wait in collectives, where a thread of the backend waits for the network; so none of them looks like this.
    """
    locked = [member.process for member in group.members if member.process is not None and member.process.all_locked]
    stands = standing(evidence, group) if locked else None
    if stands is None:
        return None
    process = locked[0]
    number = process.thread_count
    threads = "all of its threads wait" if number is None or number > 1 else "its only thread waits"
    finding = tracked.about(
        group,
        "G01",
        "error",
        "likely",
        f"Process {process.pid} hangs: {threads}{'' if number == 1 else ' for each other'}",
        [
            stands.fact,
            Fact(f"{threads} for a lock of this process, and no CPU is used", number, f"/proc/{process.pid}/task/*/syscall"),
            *seen_at(evidence, [process], STOOD_MIN_S),
        ],
        "A deadlock: a thread holds a lock and waits for what only another can do, which waits for that lock. Or a thread "
        "waits for a queue item that no thread will put there.",
        f"py-spy dump --pid {process.pid}  # which thread holds the lock, and what does it wait for?",
        "It has finished its work and waits on purpose to be ended by a signal.",
        pids=[process.pid],
    )
    return Suspicion(finding, DEADLOCK_HOLD_S)
