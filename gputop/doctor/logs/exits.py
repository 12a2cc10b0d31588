"""What an exit code or a signal says about how a process ended. Pure.

Sources: wait(2) and bash(1): a shell reports 128 + n for signal n; Python and torchrun report -n.
"""

from __future__ import annotations

from typing import NamedTuple

from gputop import units
from gputop.doctor.findings.finding import Confidence
from gputop.doctor.logs.patterns.process_end import BUS_CAUSE, BUS_FIX, BUS_REFUTED

_SHELL_BASE = 128
"""A shell reports this plus the number of the signal (bash(1), "EXIT STATUS")."""
_LAST_SIGNAL = 31
"""The last standard signal of Linux (signal(7)); the numbers above are real-time signals."""
_NATIVE = (
    "A C, C++ or CUDA extension crashed, not Python code.",
    "PYTHONFAULTHANDLER=1 python train.py  # prints the Python line at which it crashes",
    "The process that crashed does not belong to the training run.",
)
_STOPPED = (
    "A user, the batch system or the cluster ended it: a time limit, a preemption, a deleted pod, or kill.",
    "sacct -j JOB --format=JobID,State,ExitCode,Elapsed,Timelimit  # Kubernetes: kubectl describe pod POD",
    "Another rank failed earlier, and the launcher ended this process because of that.",
)


class Meaning(NamedTuple):
    """The texts of a finding about how a process ended. ``id`` is the rule's, or None if no rule has it."""

    name: str
    """"SIGKILL"."""
    cause: str
    fix: str
    refuted_by: str
    confidence: Confidence = "likely"
    id: str | None = None


_MEANINGS = {
    1: Meaning(
        "SIGHUP",
        "The terminal or SSH session that the run was started from was closed, and the run ended with it.",
        "tmux new -s train  # start the run in it; or: nohup torchrun ... > train.log 2>&1 &",
        "The run was started under nohup, tmux, screen, or a batch system.",
    ),
    6: Meaning(
        "SIGABRT",
        "Native code called abort(): an assertion, a C++ exception that nothing caught, or NCCL's watchdog after a timeout.",
        "PYTHONFAULTHANDLER=1 python train.py  # prints the Python line at which it aborts",
        "Another rank failed earlier, and this one aborted because of that.",
    ),
    9: Meaning(
        "SIGKILL",
        "SIGKILL comes from outside: from the memory limit of the kernel or the batch system, or from somebody's kill -9.",
        "sudo dmesg --ctime | grep -i -E 'killed process|oom' | tail",
        "dmesg and the batch system record no out-of-memory kill at that time.",
        id="H05",
    ),
    15: Meaning("SIGTERM", *_STOPPED),
    **{number: Meaning(units.signal_name(number), *_NATIVE, id="signal_crash") for number in (4, 8, 11)},
    7: Meaning("SIGBUS", BUS_CAUSE, BUS_FIX, BUS_REFUTED, id="D08"),
}


def signal_of(code: int) -> int | None:
    """Return the signal behind an exit code; None if the process ended by itself."""
    number = -code if code < 0 else code - _SHELL_BASE
    return number if 1 <= number <= _LAST_SIGNAL else None


def meaning_of(code: int) -> Meaning | None:
    """Return what an exit code says; None if it says only that the process failed."""
    number = signal_of(code)
    return _MEANINGS.get(number) if number is not None else None
