"""A run of one process that was killed, or crashed in native code: no exception says why (G04)."""

from __future__ import annotations

import signal

from gputop import units
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts import model as model_facts
from gputop.doctor.findings import fixes
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.support.outputs import Output
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.snapshot import Run

CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)
"""Signals that nobody sends on purpose."""
KERNEL_LOG = (
    "sudo dmesg --ctime | grep -i -E 'killed process|oom|xid|segfault' | tail  # out of memory, a driver error, or a crash"
)


def killed_alone(run: Run, output: Output | None, group: RankGroup | None) -> Judgement:
    """Judge a run whose only rank is gone without having ended, unless its output says why."""
    (rank,) = run.ranks
    if rank.state != "killed" or model_facts.failure(rank) is not None or (output is not None and output.matches):
        return None
    code = rank.exit_code
    crashed = code is not None and -code in CRASHES
    how = f"was ended by {units.signal_name(-code)}" if code is not None and code < 0 else "was killed, or crashed"
    facts = [Fact(f"process {rank.pid} is gone, and neither an exception nor an exit is recorded", rank.exit_code, "journal")]
    if rank.step is not None:
        facts.append(Fact(f"its last step was {units.count(rank.step)}", rank.step, "journal"))
    command = fixes.own_command(group) if group is not None else fixes.shell_join(run.command or ())
    finding = Finding(
        "G04",
        "warning",
        "likely" if crashed else "possible",
        f"The process of the run {how}",
        tuple(facts),
        "A signal ended it: SIGKILL from the out-of-memory killer, a scheduler or kill -9; SIGTERM; or a segmentation fault in "
        "native code, which only the shell reports.",
        f"{KERNEL_LOG}\n# if that says nothing: python -X faulthandler prints where native code crashed\n{command}".rstrip(),
        "Somebody stopped it on purpose, or a search ended a trial that was no longer promising.",
        run=run.run_id,
    )
    return Suspicion(finding, 2.0)
