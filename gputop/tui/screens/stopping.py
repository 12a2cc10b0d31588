"""Stopping a process or a run: what may be stopped, and the signal that does it. Imports no Textual.

gputop stops only the user's own processes, only on this machine, and only after confirmation (``screens/stop.py``). A launched
run is stopped through its launcher, which takes its ranks down too; a gputop job through its own record.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gputop.errors import GputopError
from gputop.jobs import identity
from gputop.places import state_dir
from gputop.snapshot import ENDED_STATES, Process, ProcessRun, Run
from gputop.tui.state.view import View

IN_ANOTHER_CONTAINER = "It runs in another container, under a PID that means another process here."
_NOT_YOURS = "It belongs to another user; gputop stops your own processes only."


@dataclass(frozen=True, slots=True)
class StopTarget:
    """What would be stopped and how, in words. ``refusal`` says why it cannot be stopped; empty if it can."""

    title: str
    what_happens: str
    pid: int | None = None
    start_ticks: int | None = None
    job_id: str | None = None
    refusal: str = ""
    slow: bool = False
    """Whether the request may take seconds to be answered, because another program is asked."""
    ask: Callable[[], str] | None = None
    """Stops it elsewhere and returns a sentence; raises GputopError."""


def target_of_process(process: Process, view: View) -> StopTarget:
    """Return the target for this process: its job, the launcher of its run, or only the process itself."""
    job_id = job_of(process, view)
    run = next((run for run in view.snapshot.runs if run.run_id == process.run_id), None)
    name = f"run {run.name}" if run else f"process {process.pid}"
    refusal = refusal_of(process, view)
    if refusal:
        return StopTarget(name, "", refusal=refusal)
    if job_id is not None:
        return target_of_job(job_id, run.name if run else job_id, view)
    if process.launcher is not None:
        ranks = f" and its {len(run.ranks)} ranks" if run and run.ranks else " and the ranks that it started"
        return _checked(
            f"{name} through its launcher", f"SIGTERM goes to {process.launcher.name}{ranks} end with it.", process.launcher.pid
        )
    rank = f" (rank {process.rank} of {run.name})" if run and process.rank is not None else ""
    others = {other.rank for other in view.snapshot.processes if run and other.run_id == run.run_id}
    others -= {None, process.rank}
    alone = f" only: {len(others)} other rank{'s get' if len(others) > 1 else ' gets'} no signal" if others else ""
    return _checked(f"process {process.pid}{rank}", f"SIGTERM goes to this process{alone}.", process.pid)


def target_of_run(run: Run, view: View) -> StopTarget:
    """Return the target for this run."""
    if run.job_id is not None and not _refusal_of_view(view):
        ended = _end_of(run.job_id) if run.state in ENDED_STATES else ""
        if ended:
            return StopTarget(f"job {run.job_id} ({run.name})", "", refusal=ended)
        return target_of_job(run.job_id, run.name, view)
    pids = {rank.local_pid for rank in run.ranks}
    found = next((process for process in view.snapshot.processes if process.run_id == run.run_id or process.pid in pids), None)
    if found is None:
        return StopTarget(
            f"run {run.name}", "", refusal=_refusal_of_view(view) or "None of its processes is alive on this machine."
        )
    return target_of_process(found, view)


def ranks_of(run: ProcessRun, view: View) -> tuple[Process, ...]:
    """Return the processes of an untracked run's ranks, as they are now."""
    pids = {rank.pid for rank in run.ranks}
    return tuple(process for process in view.snapshot.processes if process.pid in pids)


def target_of_process_run(run: ProcessRun, view: View) -> StopTarget:
    """Return the target for an untracked run whose ranks a launcher or a job has started."""
    processes = ranks_of(run, view)
    if not processes:
        refusal = _refusal_of_view(view) or "None of its processes is alive on this machine."
        return StopTarget(f"run {run.name}", "", refusal=refusal)
    target = target_of_process(processes[0], view)
    if target.refusal or target.job_id is not None or processes[0].launcher is None:
        return target
    ranks = "the rank" if len(run.ranks) == 1 else f"its {len(run.ranks)} ranks"
    happens = f"SIGTERM goes to {processes[0].launcher.name}, and {ranks} end{'s' if len(run.ranks) == 1 else ''} with it."
    return replace(target, title=f"run {run.name} through its launcher", what_happens=happens)


def _end_of(job_id: str) -> str:
    """Return how a job has ended, as a sentence; "" if it is still running, as it may after its run, or is unknown."""
    from gputop.jobs import store

    try:
        job = store.find(job_id)
    except GputopError:
        return ""
    return "" if job.active or job.left else f"It has ended: {job.state}."


def target_of_job(job_id: str, name: str, view: View, left: Sequence[int] = (), elsewhere: str = "") -> StopTarget:
    """Return the target for a gputop job.

    ``left``: its processes, if supervisor and launcher are gone. ``elsewhere``: where it runs under Slurm, in words.
    """
    text = "SIGTERM goes to the job's launcher; if the job does not end, its supervisor kills it."
    if left:
        pids = ", ".join(map(str, left))
        text = f"Its launcher is gone. SIGTERM goes to what it left behind, then SIGKILL: processes {pids}."
    if elsewhere:
        text = f"Slurm cancels it (scancel) and ends all its processes: {elsewhere}."
    title = f"job {job_id} ({name})" if name != job_id else f"job {job_id}"
    return StopTarget(title, text, job_id=job_id, refusal=_refusal_of_view(view), slow=bool(elsewhere))


def stop(target: StopTarget) -> str:
    """Stop the target and return a sentence that says what was done.

    Raises:
        GputopError: the target has already ended or may not be stopped.
    """
    if target.refusal:
        raise GputopError(f"{target.title} cannot be stopped from here.", target.refusal)
    if target.ask is not None:
        return target.ask()
    if target.job_id is not None:
        from gputop.jobs import stopping

        stopping.request_stop(target.job_id)
        return f"{target.title[:1].upper()}{target.title[1:]} was asked to stop."
    if target.pid is None:
        raise GputopError("There is nothing to stop.", "Choose a process or a run first.")
    send_signal(target.pid, target.start_ticks, signal.SIGTERM)
    return f"SIGTERM was sent to process {target.pid}."


def _checked(title: str, what_happens: str, pid: int) -> StopTarget:
    """Record which process has the PID now, so that a later process with the same PID is never signaled."""
    ticks = identity.start_ticks(pid)
    refusal = ""
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.getuid():
            refusal = _NOT_YOURS
        elif ticks is None:
            refusal = "It has ended."
    except OSError:
        refusal = "It has ended."
    return StopTarget(title, what_happens, pid=pid, start_ticks=ticks, refusal=refusal)


def send_signal(pid: int, start_ticks: int | None, number: signal.Signals) -> None:
    """Signal the process that started at ``start_ticks``, in clock ticks since boot.

    Raises:
        GputopError: it has ended, its PID belongs to a process that started at another time, or it may not be signaled.
    """
    gone = GputopError(f"Process {pid} has ended already.", "Nothing is left to do.")
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError as error:
        raise gone from error
    except OSError:
        handle = None  # kernels before 5.3 have no process handles; a race of microseconds remains
    try:
        if start_ticks is None or identity.start_ticks(pid) != start_ticks:
            raise gone
        if handle is not None:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(pid, number)
    except PermissionError as error:
        raise GputopError(f"The system does not permit it: process {pid} belongs to another user.", _NOT_YOURS) from error
    except ProcessLookupError as error:
        raise gone from error
    finally:
        if handle is not None:
            os.close(handle)


def job_of(process: Process, view: View) -> str | None:
    """Return the id of the gputop job that a process belongs to; None for a job under another state directory.

    Such a job is not known here, so that it cannot be stopped as a job.
    """
    run = next((run for run in view.snapshot.runs if run.run_id == process.run_id), None)
    if run is not None and run.job_id is not None:
        return run.job_id
    environment = process.environment
    if environment is None or environment.gputop_state_dir not in (None, str(state_dir())):
        return None
    return environment.gputop_job_id


def refusal_of(process: Process, view: View) -> str:
    """Return why this process may not be stopped or signaled from here; "" if it may."""
    return _refusal_of_view(view) or _refusal_of_process(process)


def _refusal_of_view(view: View) -> str:
    return "gputop was started with --readonly." if view.settings.readonly else not_here(view)


def not_here(view: View, advice: str = "stop it") -> str:
    """Return why the view's processes are not current processes of this machine, and what to do there; "" if they are."""
    if view.feed == "replay":
        return "This is a recording: its processes are from the past."
    if view.remote is not None:
        return f"It runs on {view.remote}; {advice} there."
    boot_id = view.snapshot.host.boot_id
    if boot_id is not None and boot_id != identity.boot_id():
        return f"It runs on another machine ({view.snapshot.host.hostname}); {advice} there."
    return ""


def _refusal_of_process(process: Process) -> str:
    if not process.in_namespace:
        return IN_ANOTHER_CONTAINER
    if process.uid is not None and process.uid != os.getuid():
        return f"It belongs to {process.user or 'another user'}; gputop stops your own processes only."
    return ""
