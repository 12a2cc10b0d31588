"""Signals to chosen processes: which ones may get them, and the result for each. Imports no Textual.

A process is the listed one only if it has the same start time: a reused PID is never signaled.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

from gputop.errors import GputopError
from gputop.jobs import identity
from gputop.snapshot import Process
from gputop.tui.screens.stopping import job_of, refusal_of, send_signal
from gputop.tui.state.view import View

SIGNALS = (
    (signal.SIGINT, "what Ctrl-C sends: Python can clean up"),
    (signal.SIGTERM, "asks it to end"),
    (signal.SIGKILL, "ends it at once: nothing is saved"),
)
"""The signals on offer and what each does."""
START_TOLERANCE_S = 2.0
"""Two readings of one process's start on the wall clock differ by less; a PID is not reused this soon after its start."""


@dataclass(frozen=True, slots=True)
class Recipient:
    """A process that may get a signal. ``refusal`` says why it gets none; empty if it does."""

    pid: int
    user: str
    command: str
    start_ticks: int | None = None
    refusal: str = ""


def recipient(process: Process, view: View) -> Recipient:
    """Return who would get a signal for this process, found now by its PID and its start."""
    command = " ".join(process.command or ()) or process.name or "N/A"
    user = process.user or "N/A"
    refusal = refusal_of(process, view)
    job_id = job_of(process, view)
    if not refusal and job_id is not None:
        refusal = f"It belongs to job {job_id}, which stops as a whole: press k without tags, or run gputop stop {job_id}."
    if refusal:
        return Recipient(process.pid, user, command, refusal=refusal)
    ticks = identity.start_ticks(process.pid)
    if ticks is None:
        return Recipient(process.pid, user, command, refusal="It has ended.")
    if process.started_at is not None and abs(identity.started_at(ticks) - process.started_at) > START_TOLERANCE_S:
        return Recipient(process.pid, user, command, refusal="It has ended, and another process has its PID.")
    return Recipient(process.pid, user, command, ticks)


def send(to: Recipient, number: signal.Signals) -> tuple[bool, str]:
    """Send a signal; return whether it was sent, and the result in words."""
    if to.refusal:
        return False, to.refusal
    try:
        send_signal(to.pid, to.start_ticks, number)
    except GputopError as error:
        return False, error.message
    return True, f"{number.name} was sent."
