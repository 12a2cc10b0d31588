"""Starts the supervisors of jobs, each in a session of its own, and reaps those that this process started."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gputop.jobs import identity, record

if TYPE_CHECKING:
    import subprocess

_PACKAGE_PARENT = Path(__file__).resolve().parents[2]
started: list[subprocess.Popen[bytes]] = []
"""The supervisors that this process started and has not reaped."""


def supervisor(directory: Path, *options: str) -> int:
    """Start a supervisor in its own session, with all signals blocked until it can handle them; return its PID."""
    import subprocess  # the sampler starts nothing

    environment = {name: value for name, value in os.environ.items() if name not in (identity.JOB_VARIABLE, "GPUTOP_RUN_ID")}
    log = record.open_log(directory / record.SUPERVISOR_LOG)
    # The supervisor inherits this thread's mask: a stop request before its first line is not lost.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "gputop.jobs.supervisor", str(directory.absolute()), *options],
            cwd=_PACKAGE_PARENT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(log)
    started.append(process)
    return process.pid


def reap() -> None:
    """Reap the supervisors that this process started, so that they do not become zombies."""
    started[:] = [process for process in started if process.poll() is None]
