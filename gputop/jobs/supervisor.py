"""Supervises one job: starts its command, forwards stop requests, ends leftover processes, and records the exit.

``python -m gputop.jobs.supervisor JOBDIR`` is a small process in its own session, because only a parent learns a command's
exit code and because the job must outlive whoever started it. It has one thread and imports no third-party package.
``--sweep`` stops a job whose supervisor is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from gputop import units
from gputop.jobs import identity, job_processes, record, waiting
from gputop.jobs.job_processes import Member
from gputop.jobs.keeper import Keeper, rescue
from gputop.places import check_parents

DEFAULT_GRACE_S = 10.0
GRACE_MAX_S = 86_400.0
"""How long a command may take to end after a stop request, unless the request says otherwise; and the longest such time."""
TERM_PATIENCE_S = 3.0
"""How long leftover processes may take to exit after TERM before they get KILL."""
KILL_PATIENCE_S = 5.0
"""How long to wait for killed processes: one in state D cannot be killed and is reported as a survivor."""
STATUS_PATIENCE_S = 60.0
"""How long to retry the last status, for example on a full disk."""
OUTPUT_PATIENCE_S = 3.0
"""How long to try to write the last output before the end is recorded."""
_TICK_S = 1.0
"""How often requests, and the jobs to wait for, are checked."""
_REQUESTS = frozenset((signal.SIGTERM, signal.SIGINT))


class Supervisor:
    """One job from start to end. ``status`` is the intended content of status.json."""

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
        self._keeper: Keeper | None = None
        self._members: list[Member] = []
        """The job's processes at the time of the first stop request."""
        self._unsaved = False
        self._kill_at: float | None = None
        self._starter: Any = spec.get("starter")
        """The process with which the job ends, until it says that the job is kept."""

    def run(self) -> None:
        """Start the command, wait for its end, and record it."""
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
        # A launcher that succeeded leaves no process behind, or does so on purpose. One that was stopped, failed or was killed
        # leaves ranks behind: torchrun gives each its own session, so they keep training under init.
        if code != 0 or self.status["asked"]:
            self.sweep(child.pid)
        self._end(code)

    def sweep(self, session: int | None = None) -> None:
        """End every process of the job, see ``sweep``, and record those that were ended and those that survive."""
        self.status["swept"], self.status["survivors"] = sweep(self.job_id, session, self._members)

    def _start(self) -> subprocess.Popen[bytes] | None:
        environment = {
            **os.environ,
            **self.spec["env"],
            identity.JOB_VARIABLE: self.job_id,
            "GPUTOP_RUN_ID": self.spec.get("launch_id") or self.job_id,
            "PYTHONUNBUFFERED": "1",
            # torchrun also reads options from PET_ variables. One file per rank, because its --tee breaks progress bars.
            "PET_LOG_DIR": str(self.directory / record.RANKS),
            "PET_REDIRECTS": "3",
        }
        try:
            log = record.open_log(self.directory / record.OUT_LOG)
        except OSError as error:
            self.status["problem"] = f"The log cannot be written: {error.strerror}."
            return None
        output = self._open_output() or os.dup(log)
        try:
            child = subprocess.Popen(
                self.spec["argv"],
                cwd=self.spec["cwd"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                # Safe between fork and exec, as this process has one thread. The command must not inherit blocked signals.
                preexec_fn=_unblock,
            )
            if self._keeper is not None:
                self._keeper.start()
            return child
        except OSError as error:
            self.status["problem"] = f"{self.spec['argv'][0]} cannot be started in {self.spec['cwd']}: {error.strerror}."
            os.write(log, f"gputop: {self.status['problem']}\n".encode())
            return None
        finally:
            os.close(output)
            os.close(log)

    def _open_output(self) -> int | None:
        """Return the descriptor that the command writes to; None if it can only be the log itself."""
        try:
            self._keeper = Keeper(self.directory, self.job_id)
            return self._keeper.open_for_job()
        except (OSError, AttributeError):
            self._keeper = None
            return None

    def _waited(self) -> bool:
        """Wait for the jobs in ``spec["after"]``; return False if a stop was requested meanwhile."""
        before = [self.directory.parent / str(job_id) for job_id in self.spec.get("after") or ()]
        if not before:
            return True
        self._save(state="waiting")
        while not all(map(record.has_ended, before)):
            received = waiting.for_signal(_REQUESTS, _TICK_S / 2)
            if received is not None:
                self._note_asked(signal.Signals(received.si_signo), received.si_pid, received.si_uid)
                return False
        return True

    def _wait(self, child: subprocess.Popen[bytes]) -> int:
        while (code := child.poll()) is None:
            wait_s = _TICK_S if self._kill_at is None else min(_TICK_S, max(0.0, self._kill_at - time.monotonic()))
            received = waiting.for_signal({*_REQUESTS, signal.SIGCHLD}, wait_s)
            if received is not None and received.si_signo != signal.SIGCHLD:
                self._asked(child, signal.Signals(received.si_signo), received.si_pid, received.si_uid)
            elif self._is_abandoned():
                starter, self._starter = self._starter, None
                if not self.status["asked"]:  # a second request would kill it at once
                    self._asked(child, signal.SIGTERM, starter["pid"], os.getuid())
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                child.kill()
                self._kill_at = time.monotonic() + _TICK_S
            if self._unsaved:
                self._save()
            if self._keeper is not None:
                self._keeper.start()
        # A supervisor that was suspended finds the request and the end of its command at the same time.
        while code != 0 and (received := waiting.for_signal(_REQUESTS, 0.0)) is not None:
            self._note_asked(signal.Signals(received.si_signo), received.si_pid, received.si_uid)
        return code

    def _is_abandoned(self) -> bool:
        """Return whether the process that started the job is gone and has not kept it."""
        if not self._starter or identity.is_alive(self._starter):  # checked first: it may keep the job, and then end
            return False
        try:
            os.stat(self.directory / record.KEPT)
        except FileNotFoundError:
            return True
        except OSError:  # the disk does not say: ask it again
            return False
        self._starter = None
        return False

    def _asked(self, child: subprocess.Popen[bytes], number: signal.Signals, pid: int, uid: int) -> None:
        """Forward a stop request to the launcher; the second one kills it."""
        self._kill_at = time.monotonic() + (0.0 if self.status["asked"] else self.grace_s())
        self._note_asked(number, pid, uid)
        self._save()
        self._members = self._members or job_processes.of_job(self.job_id, child.pid)
        child.send_signal(number)
        child.send_signal(signal.SIGCONT)  # a suspended command would not notice the request

    def grace_s(self) -> float:
        """Return how long the command may take to end, according to the stop request."""
        wanted = (record.read_json(self.directory / record.STOP) or {}).get("grace_s")
        return wanted if isinstance(wanted, int | float) and 0 <= wanted < GRACE_MAX_S else DEFAULT_GRACE_S

    def _note_asked(self, number: signal.Signals, pid: int, uid: int) -> None:
        self.status["asked"].append({"signal": number.name, "at": time.time(), "pid": pid, "uid": uid})

    def _end(self, code: int) -> None:
        exit_code = code if code >= 0 else None
        name = None if code >= 0 else units.signal_name(-code)
        if self._keeper is not None:
            self._keeper.finish(OUTPUT_PATIENCE_S)
        deadline = time.monotonic() + STATUS_PATIENCE_S
        self._save(state="ended", ended_at=time.time(), exit_code=exit_code, signal=name)
        while self._unsaved and time.monotonic() < deadline:
            time.sleep(_TICK_S)
            self._save()

    def _save(self, **changes: Any) -> None:
        """Write the status. If it can be neither replaced nor overwritten, retry later: the job is more important."""
        self.status.update(changes)
        path = self.directory / record.STATUS
        for write in (record.write_json, record.overwrite_json):
            try:
                write(path, self.status)
            except OSError:
                continue
            self._unsaved = False
            return
        self._unsaved = self.directory.is_dir()


def sweep(job_id: str, session: int | None = None, known: Collection[Member] = ()) -> tuple[list[int], list[int]]:
    """End every process of a job: TERM, then KILL. Return the PIDs of those that were found, and of those that survive.

    ``session`` is the PID of the job's command, unless another process may have it by now. ``known`` are processes found
    earlier: once their parents have ended, those that cleared their environment can no longer be recognized.
    """
    swept = set(job_processes.alive(known))
    for number, patience_s in ((signal.SIGTERM, TERM_PATIENCE_S), (signal.SIGKILL, KILL_PATIENCE_S)):
        deadline = time.monotonic() + patience_s
        while found := _still_there(job_id, session, swept):
            job_processes.send(found, number)
            swept.update(found)
            # TERM once, then wait. Repeat KILL, to catch processes that were forked meanwhile.
            while number == signal.SIGTERM and _still_there(job_id, session, swept) and time.monotonic() < deadline:
                time.sleep(0.05)
            if time.monotonic() >= deadline:
                break
            time.sleep(0.05)
    return sorted(member.pid for member in swept), sorted(member.pid for member in _still_there(job_id, session, swept))


def _still_there(job_id: str, session: int | None, known: Collection[Member]) -> set[Member]:
    return {*job_processes.of_job(job_id, session), *job_processes.alive(known)}


def sweep_orphans(directory: Path, spec: dict[str, Any]) -> None:
    """End the remaining processes of a job whose supervisor is gone, and record that it was stopped."""
    supervisor = Supervisor(directory, spec)
    known = record.read_json(directory / record.STATUS) or {}
    supervisor.status.update(
        known,
        asked=[*known.get("asked", []), {"signal": "SIGTERM", "at": time.time(), "pid": os.getppid(), "uid": os.getuid()}],
    )
    command = known.get("child")
    with contextlib.suppress(OSError):
        rescue(directory, spec["id"], [member.pid for member in job_processes.of_job(spec["id"])])
    supervisor.sweep(command["pid"] if command and identity.is_alive(command) else None)
    supervisor._save(state="ended", ended_at=time.time())


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


def main(arguments: list[str]) -> int:
    """Supervise the job in a directory; see the module."""
    # The job outlives the terminal, so ignore its hangup. Requests are taken one at a time; no other signal ends this process.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    directory = Path(arguments[0])
    sweeping = "--sweep" in arguments
    try:
        if not sweeping:
            check_parents(directory / record.SPEC)
        spec = record.load_json(directory / record.SPEC, private=not sweeping)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{directory} contains no job that can be run: {error}\n")
        return 2
    if sweeping:
        sweep_orphans(directory, spec)
    else:
        Supervisor(directory, spec).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
