"""Keeps one job: starts its command, forwards requests to stop, sweeps what is left, and writes down how it ended.

``python -m gputop.jobs.supervisor JOBDIR`` is a tiny process in its own session, so that the job outlives whoever
started it; only a parent learns the exit code of a command. It runs one thread and imports the standard library alone.
``--sweep`` stops a job whose supervisor is gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gputop import units
from gputop.jobs import identity, record

DEFAULT_GRACE_S = 10.0
TERM_PATIENCE_S = 3.0
"""How long what the launcher left behind may take to end after TERM, before KILL."""
KILL_PATIENCE_S = 5.0
"""How long to wait for killed processes: one in the D state cannot be killed, and is reported as left over."""
STATUS_PATIENCE_S = 60.0
"""How long to keep trying to write the last status, as on a full disk."""
_TICK_S = 1.0
_WATCHED = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}


class Supervisor:
    """One job from start to end. ``status`` is what status.json should hold."""

    def __init__(self, directory: Path, spec: dict[str, Any]) -> None:
        self.directory = directory
        self.spec = spec
        self.job_id: str = spec["id"]
        self.status: dict[str, Any] = {
            "state": "starting",
            "supervisor": identity.describe(os.getpid()),
            "child": None,
            "ended_at": None,
            "exit_code": None,
            "signal": None,
            "asked": [],
            "swept": [],
            "survivors": [],
            "problem": None,
        }
        self._unsaved = False
        self._kill_at: float | None = None

    def run(self) -> None:
        """Start the command, wait for its end, write it down."""
        self._save()
        if not self._waited():
            self._save(state="ended", ended_at=time.time(), exit_code=None, signal="SIGTERM")
            return
        child = self._start()
        if child is None:
            self._end(127)
            return
        self._save(state="running", began_at=time.time(), child=identity.describe(child.pid))
        code = self._wait(child)
        # A launcher that ended well has nothing left, or means to leave it. One that was stopped, failed or was killed
        # leaves ranks: torchrun gives each a session of its own, so that they live on under init and train.
        if code != 0 or self.status["asked"]:
            self.sweep()
        self._end(code)

    def sweep(self) -> None:
        """End every process that carries the job's mark: TERM, then KILL; note what could not be ended."""
        swept: set[int] = set()
        for number, patience_s in ((signal.SIGTERM, TERM_PATIENCE_S), (signal.SIGKILL, KILL_PATIENCE_S)):
            deadline = time.monotonic() + patience_s
            while found := identity.signal_marked(self.job_id, number):
                swept.update(found)
                # TERM once, and wait; KILL again and again, so that what was forked meanwhile is caught too.
                while number == signal.SIGTERM and identity.marked(self.job_id) and time.monotonic() < deadline:
                    time.sleep(0.05)
                if time.monotonic() >= deadline:
                    break
                time.sleep(0.05)
        self.status["swept"] = sorted(swept)
        self.status["survivors"] = identity.marked(self.job_id)

    def _start(self) -> subprocess.Popen[bytes] | None:
        environment = {
            **os.environ,
            **self.spec["env"],
            identity.JOB_VARIABLE: self.job_id,
            "GPUTOP_RUN_ID": self.job_id,
            "PYTHONUNBUFFERED": "1",
            # torchrun reads its options from PET_ variables too. A file for each rank: its --tee breaks progress bars.
            "PET_LOG_DIR": str(self.directory / record.RANKS),
            "PET_REDIRECTS": "3",
        }
        try:
            log = record.open_log(self.directory / record.OUT_LOG)
        except OSError as error:
            self.status["problem"] = f"The log cannot be written: {error.strerror}."
            return None
        try:
            return subprocess.Popen(
                self.spec["argv"],
                cwd=self.spec["cwd"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                # This process has one thread, so code between fork and exec is safe. The command gets its signals back.
                preexec_fn=_unblock,
            )
        except OSError as error:
            self.status["problem"] = f"{self.spec['argv'][0]} cannot be started in {self.spec['cwd']}: {error.strerror}."
            os.write(log, f"gputop: {self.status['problem']}\n".encode())
            return None
        finally:
            os.close(log)

    def _waited(self) -> bool:
        """Wait for the jobs that this one comes after (``spec["after"]``); False when it was asked to stop meanwhile."""
        before = [self.directory.parent / str(job_id) for job_id in self.spec.get("after") or ()]
        if not before:
            return True
        self._save(state="waiting")
        while not all(map(record.has_ended, before)):
            received = signal.sigtimedwait(_WATCHED - {signal.SIGCHLD}, _TICK_S / 2)
            if received is not None:
                self._note_asked(received)
                return False
        return True

    def _wait(self, child: subprocess.Popen[bytes]) -> int:
        while (code := child.poll()) is None:
            wait_s = _TICK_S if self._kill_at is None else min(_TICK_S, max(0.0, self._kill_at - time.monotonic()))
            received = signal.sigtimedwait(_WATCHED, wait_s)
            if received is not None and received.si_signo != signal.SIGCHLD:
                self._asked(child, received)
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                child.kill()
                self._kill_at = time.monotonic() + _TICK_S
            if self._unsaved:
                self._save()
        return code

    def _asked(self, child: subprocess.Popen[bytes], received: signal.struct_siginfo) -> None:
        """Pass a request to stop on to the launcher; the second one kills it."""
        number = signal.Signals(received.si_signo)
        grace_s = (record.read_json(self.directory / record.STOP) or {}).get("grace_s", DEFAULT_GRACE_S)
        self._kill_at = time.monotonic() + (0.0 if self.status["asked"] else float(grace_s))
        self._note_asked(received)
        self._save()
        child.send_signal(number)

    def _note_asked(self, received: signal.struct_siginfo) -> None:
        name = signal.Signals(received.si_signo).name
        asked = {"signal": name, "at": time.time(), "pid": received.si_pid, "uid": received.si_uid}
        self.status["asked"].append(asked)

    def _end(self, code: int) -> None:
        exit_code = code if code >= 0 else None
        name = None if code >= 0 else units.signal_name(-code)
        deadline = time.monotonic() + STATUS_PATIENCE_S
        self._save(state="ended", ended_at=time.time(), exit_code=exit_code, signal=name)
        while self._unsaved and time.monotonic() < deadline:
            time.sleep(_TICK_S)
            self._save()

    def _save(self, **changes: Any) -> None:
        """Write the status; on a full disk remember to try again, since the job matters more than its record."""
        self.status.update(changes)
        try:
            record.write_json(self.directory / record.STATUS, self.status)
            self._unsaved = False
        except OSError:
            self._unsaved = self.directory.is_dir()


def sweep_orphans(directory: Path, spec: dict[str, Any]) -> None:
    """Stop what is left of a job whose supervisor is gone, and write that it was stopped."""
    supervisor = Supervisor(directory, spec)
    known = record.read_json(directory / record.STATUS) or {}
    supervisor.status.update(
        known,
        asked=[*known.get("asked", []), {"signal": "SIGTERM", "at": time.time(), "pid": os.getppid(), "uid": os.getuid()}],
    )
    supervisor.sweep()
    supervisor._save(state="ended", ended_at=time.time())


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


def main(arguments: list[str]) -> int:
    """Supervise the job of a directory; see the module."""
    # A hangup is for the terminal's programs. TERM and INT are taken one by one, when there is time for them.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    directory = Path(arguments[0])
    spec = record.read_json(directory / record.SPEC)
    if spec is None:
        sys.stderr.write(f"{directory} holds no job\n")
        return 2
    if "--sweep" in arguments:
        sweep_orphans(directory, spec)
    else:
        Supervisor(directory, spec).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
