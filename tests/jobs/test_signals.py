"""What signals do to those who supervise: a supervisor and ``gputop demo`` survive each of them, and a stop arrives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gputop.jobs import identity, stopping, store
from gputop.jobs.store import Job
from tests import REPOSITORY
from tests.jobs.printed import printed_lines
from tests.jobs.test_attached import Attached
from tests.jobs.test_store import SLEEP, ended, launch, nothing_left, says, until

pytestmark = [
    pytest.mark.interpreter,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="jobs are known by /proc"),
]
assert nothing_left

UNTIL_FILE = "import os, sys, time\nprint('up', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)"
PAST_ONE_WAIT_S = 1.3
"""A supervisor waits for signals 1 s at a time."""


def supervisor_of(job: Job) -> int:
    pid = store.find(job.id).supervisor_pid
    assert pid is not None
    return pid


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def stop_and_continue(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state(pid) == "T")
    time.sleep(PAST_ONE_WAIT_S)
    os.kill(pid, signal.SIGCONT)


def test_a_supervisor_survives_every_signal_and_learns_the_exit_code(tmp_path: Path) -> None:
    waiting_job = store.start(launch(SLEEP))
    job = store.start(launch(UNTIL_FILE, str(tmp_path / "go")))
    behind = store.start(launch("pass"), after=[waiting_job.id, job.id])
    says(job, "up")
    until(lambda: store.find(behind.id).state == "waiting")
    pids = supervisor_of(job), supervisor_of(behind)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
        until(lambda pid=pid: state(pid) == "T")
    time.sleep(PAST_ONE_WAIT_S)
    deadly = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT}
    for pid in pids:
        for number in sorted(deadly - {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}):
            os.kill(pid, number)
        os.kill(pid, signal.SIGCONT)
    (tmp_path / "go").touch()
    found = ended(job)
    assert (found.state, found.exit_code, found.stop_asked) == ("finished", 0, False)
    assert store.find(behind.id).state == "waiting"
    assert stopping.stop(waiting_job.id).state == "stopped"
    assert ended(behind).state == "finished"


def test_the_command_itself_gets_its_signals_as_usual() -> None:
    code = "import signal; print(*sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())), 'blocked', flush=True)"
    job = ended(store.start(launch(code)))
    assert store.find(job.id).state == "finished"
    says(job, "blocked")
    assert printed_lines(job.id) == ("blocked",)


def test_stop_reaches_a_job_whose_supervisor_is_stopped() -> None:
    job = store.start(launch(SLEEP))
    says(job, "up")
    os.kill(supervisor_of(job), signal.SIGSTOP)
    until(lambda: state(supervisor_of(job)) == "T")
    stopped = stopping.stop(job.id)
    assert (stopped.state, stopped.signal) == ("stopped", "SIGTERM")


def test_a_job_with_a_hanging_supervisor_is_stopped_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "ANSWER_PATIENCE_S", 0.3)
    job = store.start(launch(SLEEP))
    says(job, "up")
    pid = supervisor_of(job)
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state(pid) == "T")
    kill = os.kill
    monkeypatch.setattr(os, "kill", lambda pid, number: None if number == signal.SIGCONT else kill(pid, number))
    assert stopping.stop(job.id).state == "stopped"
    assert identity.marked(job.id) == []
    kill(pid, signal.SIGCONT)
    until(lambda: identity.start_ticks(pid) is None)
    store._ended.clear()
    assert store.find(job.id).state == "stopped", "the supervisor that went on after all says the same"


def test_a_suspended_demo_resumes_when_continued(tmp_path: Path) -> None:
    attached = Attached()
    process = attached.start(sys.executable, "-c", UNTIL_FILE, str(tmp_path / "go"))
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    stop_and_continue(process.pid)
    (tmp_path / "go").touch()
    assert process.communicate()[0] == ""
    assert process.returncode == 0


WAIT = """
import os, signal
from gputop.jobs import waiting
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
assert waiting.for_signal({signal.SIGUSR1}, 0.01) is None
assert waiting.for_signal({signal.SIGUSR1}, 0.0) is None
os.kill(os.getpid(), signal.SIGUSR1)
received = waiting.for_signal({signal.SIGUSR1}, 30.0)
assert (received.si_signo, received.si_pid) == (signal.SIGUSR1, os.getpid())
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
for timeout_s in (0.0, 30.0):
    os.kill(os.getpid(), signal.SIGTERM)
    assert waiting.for_signal({signal.SIGTERM}, timeout_s).si_signo == signal.SIGTERM
assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
assert not signal.sigpending()
assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
assert signal.SIGALRM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
"""


def test_waiting_for_a_signal_ends_in_time_and_leaves_no_alarm() -> None:
    subprocess.run([sys.executable, "-c", WAIT], cwd=REPOSITORY, check=True)  # of its own, as pytest has alarms too
