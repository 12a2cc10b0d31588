"""The active run of this process: ``init`` opens it, and the functions of the package ``gputop`` act on it.

No call here raises, blocks, or starts a process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from gputop.facts.setup import Progress
from gputop.places import state_dir
from gputop.tracking import ending, evidence
from gputop.tracking.gpus.watcher import GpuWatcher
from gputop.tracking.journal import identity
from gputop.tracking.journal.command import KERNELS, users_command
from gputop.tracking.journal.handlers import let_through
from gputop.tracking.journal.harmless import harmless
from gputop.tracking.journal.notice import reason, warn
from gputop.tracking.journal.writing.files import OpenJournal
from gputop.tracking.journal.writing.values import labels
from gputop.tracking.profiling.service import ProfileService
from gputop.tracking.run import Run
from gputop.tracking.standing import early
from gputop.tracking.standing.reporter import Reporter

_current = Run(None)
_initialized = False
_printed_to: Callable[[dict[str, float]], bool] | None = None


@harmless(otherwise=lambda: Run(None))
def init(
    project: str | None = None,
    name: str | None = None,
    config: Any = None,
    *,
    group: str | None = None,
    tags: Any = (),
    dir: str | os.PathLike[str] | None = None,  # noqa: A002 - the keyword that users know from other trackers
    mode: str | None = None,
    resume: str | bool | None = None,
    total_steps: int | None = None,
    epochs: int | None = None,
    **ignored: Any,
) -> Run:
    """Start recording this process as one rank of a run; also usable as a context manager.

    Args:
        project: A name that several runs share; default ``GPUTOP_PROJECT``.
        name: The run's name; default ``GPUTOP_NAME``, else the script's name.
        config: Hyperparameters: a mapping, or an object such as argparse's.
        group: Any label; default ``GPUTOP_GROUP``.
        tags: Labels.
        dir: Where runs are stored; default ``$GPUTOP_DIR/runs`` or ``~/.local/state/gputop/runs``.
        mode: "disabled" records nothing; default ``GPUTOP_MODE``. ``GPUTOP=0`` does the same.
        resume: The id of a run to continue; "allow", "must", "auto" and True take the id from the keyword ``id``. Steps
            that ``log`` counts itself continue from the last one.
        id: The id of the run. A single process gets "-2" appended if a run of that id was recorded before.
        notes, job_type: A remark, and a label.
        total_steps: The total number of steps, for the estimate of the time left.
        epochs: The total number of epochs.
        ignored: Keywords of other trackers; accepted and ignored.

    Returns:
        Always a Run: one that records nothing if disabled or if no file can be created (reported once on stderr).
        A run that is already active in this process is finished first.
    """
    global _current, _initialized
    _current.finish()
    _initialized = True
    try:
        given = ignored.get("id")
        _current = _start(project, name, group, tags, dir, mode, resume, str(given) if given else None, total_steps, epochs)
        for label in ("notes", "job_type"):
            if ignored.get(label):
                _current.fact(label, str(ignored[label]))
    except Exception as error:  # noqa: BLE001 - the training starts whether or not it can be recorded
        let_through(error)
        why = (error.strerror if isinstance(error, OSError) else None) or reason(error)
        warn(f"the run is not recorded, the training continues: {why}.")
        _current = Run(None)
    _current.config.update(config)
    return _current


def init_unasked() -> Run:
    """Start a run that the script did not ask for; a later ``init`` of the script replaces it."""
    global _initialized
    run = init()
    _initialized = False
    return run


def _start(
    project: str | None,
    name: str | None,
    group: str | None,
    tags: Any,
    directory: str | os.PathLike[str] | None,
    mode: str | None,
    resume: str | bool | None,
    given_id: str | None,
    total_steps: int | None,
    epochs: int | None,
) -> Run:
    env = os.environ
    off = sys.is_finalizing() or (mode or env.get("GPUTOP_MODE", "on")) == "disabled" or env.get("GPUTOP") == "0"
    where = identity.place()
    if off or sys.byteorder != "little" or (env.get("GPUTOP_RANKS") == "0" and where.rank != 0):
        return Run(None)
    runs_dir = Path(directory).absolute() if directory else state_dir().absolute() / "runs"
    resuming = bool(resume) and resume != "never"
    wanted = resume if isinstance(resume, str) and resume not in ("allow", "must", "never", "auto") else given_id
    # Only for a single process: ranks cannot agree on another id, because not all of them recorded the earlier run.
    if wanted and not resuming and where.world_size <= 1 and not where.restart_count:
        wanted = identity.untaken(wanted, runs_dir, where.rank)
    run_id = identity.run_id(where, wanted)
    words = getattr(sys, "argv", None) or [""]  # none in a Python that another program embeds, or where a script deleted them
    script = os.path.basename(words[0]) if words[0] not in ("", "-c", "-m") else "python"
    if script.removesuffix(".py") in KERNELS:
        script = os.path.basename(env.get("JPY_SESSION_NAME", "")).removesuffix(".ipynb") or "notebook"
    name = _named("name", name) or env.get("WANDB_NAME") or script.removesuffix(".py")
    project = _named("project", project) or env.get("WANDB_PROJECT")
    group = group or env.get("GPUTOP_GROUP") or env.get("WANDB_RUN_GROUP")
    ring = env.get("GPUTOP_RING_KB", "")
    opened = OpenJournal(
        identity.identify(where, run_id),
        runs_dir,
        thread=env.get("GPUTOP_THREAD") != "0",
        ring_bytes=int(ring) * 1024 if ring.isdigit() else None,
    )
    early.end()
    if resuming:
        opened.continue_steps()
    run = Run(opened, run_id, name, project)
    launch = env.get("GPUTOP_LAUNCH_ID")
    run.describe(name=name, project=project, job_id=env.get("GPUTOP_JOB_ID"), launch=launch, command=users_command())
    opened.journal.anchor()
    run.fact("progress", Progress.filled(total_steps=total_steps, epochs=epochs))
    for key, value in (("group", group), ("tags", labels(tags))):
        if value:
            run.fact(key, value)
    watcher = evidence.Watcher(run)
    opened.journal.attend = watcher.record
    service = ProfileService(opened.ring_path, ending.is_library) if opened.ring_path is not None else None
    gpus = _gpus(run, opened)
    opened.on_tick = _ticks(opened, watcher, service, gpus)
    opened.on_end = _ends(service, gpus)
    opened.reporter = Reporter(ending.is_library)
    watcher.record()
    ending.hook(current)
    return run


def _gpus(run: Run, opened: OpenJournal) -> GpuWatcher | None:
    """Return what records the rank's GPU; None for a run that is not kept."""
    archive = opened.archive_path
    if archive is None:
        return None
    began = opened.identity.created_ns / 1e9
    return GpuWatcher(archive.parent, began, lambda: run.facts.get("devices"), lambda: run.disabled)


def _ticks(
    opened: OpenJournal, watcher: evidence.Watcher, service: ProfileService | None, gpus: GpuWatcher | None
) -> Callable[[], None]:
    """Return what the journal's thread calls about once a second."""

    def tick() -> None:
        if watcher.news():
            opened.journal.want_attention()
        if service is not None:
            service.check()
        if gpus is not None:
            gpus.start_if_needed()

    return tick


def _ends(service: ProfileService | None, gpus: GpuWatcher | None) -> Callable[[], None]:
    """Return what is called before the end of the run is written."""

    def end() -> None:
        for part in (service, gpus):
            if part is not None:
                part.end()

    return end


def _named(what: str, asked: str | None) -> str | None:
    """Return the run's name or project: from the command line, from the script, or from the environment, in this order."""
    variable = f"GPUTOP_{what.upper()}"
    given = os.environ.get(variable)
    if not given or os.environ.get(f"{variable}_WINS") != "1":
        return asked or given
    if asked and asked != given:
        warn(f"the {what} of the run is {given!r}, as the command line says; the script says {asked!r}.")
    return given


def initialized() -> bool:
    """Return whether ``init`` started a run in this process."""
    return _initialized


def finished() -> bool:
    """Return whether the script has ended the active run."""
    return _current.finished


def send_printed(takes: Callable[[dict[str, float]], bool]) -> None:
    """Send the evaluations that the script prints there; it returns whether it still takes any."""
    global _printed_to
    _printed_to = takes


def printed_to() -> Callable[[dict[str, float]], bool] | None:
    """Return what takes the evaluations that the script prints."""
    return _printed_to


def current() -> Run:
    """Return the active run; before ``init`` one that records nothing."""
    return _current


def log(
    data: Mapping[str, Any] | None = None, step: int | None = None, commit: bool | None = None, *ignored: Any, **metrics: Any
) -> None:
    """Record metrics of the active run: see ``Run.log``."""
    try:
        if not _initialized and os.environ.get("GPUTOP_MODE") != "disabled" and os.environ.get("GPUTOP") != "0":
            warn("log was called before gputop.init(): nothing is recorded.")
        _current.log(data, step, commit, **metrics)
    except Exception as error:  # noqa: BLE001 - a guard around this function would cost each call of it
        let_through(error)
        warn(f"log failed, the training continues ({reason(error)}).", about="log")


@harmless
def fact(name: str, value: Any) -> None:
    """Record a fact of the active run: see ``Run.fact``."""
    _current.fact(name, value)


@harmless
def text(message: str, level: str | int = "info") -> None:
    """Record a line of text in the active run."""
    _current.text(message, level)


@harmless
def alert(title: str, text: str = "", level: str | int = "warning", *ignored: Any, **also: Any) -> None:
    """Record something that the user should see in the active run."""
    _current.alert(title, text, level)


@harmless
def define_metric(
    name: str, step_metric: str | None = None, *ignored: Any, goal: str | None = None, unit: str | None = None, **also: Any
) -> None:
    """Define how to read a metric of the active run: see ``Run.define_metric``."""
    _current.define_metric(name, step_metric, goal=goal, unit=unit)


@harmless(otherwise=nullcontext)
def phase(name: str) -> AbstractContextManager[None]:
    """Time a part of the active run's step: ``with gputop.phase("data"): …``."""
    return _current.phase(name)


def active(name: str) -> Any:
    """Return the current ``gputop.config``, ``gputop.summary`` or ``gputop.run``; ``run`` is None while no run is active."""
    if name == "run":
        return None if _current.disabled else _current
    return getattr(_current, name)


@harmless
def finish(exit_code: int | None = None, *ignored: Any, **also: Any) -> None:
    """End the active run: see ``Run.finish``."""
    _current.finish(exit_code)


join = teardown = finish
"""wandb's names for the end: of a run, and of all that wandb keeps running."""


@harmless
def watch(model: Any, *others: Any, run: Run | None = None, **ignored: Any) -> None:
    """Record what a model is and how its batches are split, in ``run`` or the active run: see ``Run.watch``."""
    (run if isinstance(run, Run) else _current).watch(model, *others, **ignored)
