"""What a training script sees: ``init`` and the ``Run``. No call here raises, waits, or starts a process.

Facts that other rooms read (``Rank.facts``), each the last one said by a rank:

* ``progress``: {"total_steps", "epochs"}, from ``init``.
* ``devices``: [{"name", "uuid", "virtual_index", "thread_id", "memory_bytes"}], recorded once CUDA is initialized, or by
  the script itself.
* ``torch``: {"version", "cuda_built", "cuda_available", "device_count"}, when torch is loaded; never loads it.
* ``model``, ``data_parallel``: see ``watch``.
* ``summary``, ``metrics`` (what ``define_metric`` said), ``alert`` (the last one), ``group``, ``tags``.

``with run.phase("data")`` writes the metric ``phase/data``: seconds, at the step that is going on.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from gputop.places import state_dir
from gputop.tracking import ending, evidence, wandb
from gputop.tracking.journal import format as form
from gputop.tracking.journal import identity
from gputop.tracking.journal.files import OpenJournal
from gputop.tracking.journal.notice import tell
from gputop.tracking.journal.writer import Journal
from gputop.tracking.recorded import Stated

_GOALS = {"minimize": "min", "maximize": "max"}


class LogCall(Protocol):
    """The signature of ``Run.log``."""

    def __call__(
        self, /, data: Mapping[str, Any] | None = None, step: int | None = None, commit: bool | None = None, **metrics: Any
    ) -> None:
        """Record metrics."""


def _no_log(data: Mapping[str, Any] | None = None, step: int | None = None, commit: bool | None = None, **metrics: Any) -> None:
    """Record nothing: this run is disabled, or ``init`` failed."""


class Run:
    """One rank of a run. Every method works, and does nothing, on a run that is disabled or finished."""

    log: LogCall

    def __init__(self, opened: OpenJournal | None, run_id: str = "", name: str = "", project: str | None = None) -> None:
        self._opened = opened
        self._journal = opened.journal if opened else None
        self.id = run_id
        self._name = name
        self._card: dict[str, Any] = {"name": name}
        self.project = project
        self.log = self._journal.log if self._journal else _no_log
        self.config = Stated(lambda key, value: self._state("config", key, value))
        self._metrics: dict[str, Any] = {}
        self.summary = Stated(lambda key, value: self._state("fact", "summary", dict(self.summary)))
        self.facts: dict[str, Any] = {}
        """What this rank said of itself so far."""
        self.before_end: Callable[[], None] | None = None
        """Called once when the run ends, for what is still to be written."""
        self.start_time = time.time()
        """Seconds since the epoch."""
        self.resumed = opened is not None and opened.identity.attempt > 0
        """Whether this rank of the run was recorded before."""

    @property
    def disabled(self) -> bool:
        """Whether nothing is recorded."""
        return self._journal is None or self._journal.closed

    @property
    def journal(self) -> Journal | None:
        """Where this rank's records go; None when nothing is recorded."""
        return self._journal

    @property
    def step(self) -> int:
        """The step of the next ``log`` that names none."""
        return self._journal.step + 1 if self._journal else 0

    @property
    def name(self) -> str:
        """What the run is called; a new name is recorded, and readers show it."""
        return self._name

    @name.setter
    def name(self, name: str | None) -> None:
        self._name = "" if name is None else str(name)
        self._describe(name=self._name)

    @property
    def tags(self) -> tuple[str, ...]:
        """Labels; new ones are recorded."""
        return tuple(self.facts.get("tags", ()))

    @tags.setter
    def tags(self, tags: Any) -> None:
        self.fact("tags", _labels(tags))

    @property
    def notes(self) -> str | None:
        """A remark; a new one is recorded."""
        return self.facts.get("notes")

    @notes.setter
    def notes(self, notes: str | None) -> None:
        self.fact("notes", notes)

    @property
    def group(self) -> str | None:
        """A label that runs share."""
        return self.facts.get("group")

    @property
    def job_type(self) -> str | None:
        """A label for what the run does."""
        return self.facts.get("job_type")

    @property
    def dir(self) -> str | None:
        """The run's directory, None where nothing is kept on disk."""
        path = self._opened.archive_path if self._opened else None
        return str(path.parent) if path else None

    def __getattr__(self, name: str) -> Any:
        if name in wandb.RUN_METHODS:
            return wandb.NotKept(name)
        if name in wandb.RUN_ATTRIBUTES:
            return wandb.RUN_ATTRIBUTES[name]
        raise AttributeError(f"'Run' object has no attribute {name!r}")

    def _describe(self, **card: Any) -> None:
        """Record what the run is, for the lists of runs."""
        self._card.update(card)
        self._state("card", "run", dict(self._card))

    def _state(self, kind: str, name: str, value: Any) -> None:
        if self._journal is not None:
            self._journal.state(kind, name, value)

    def fact(self, name: str, value: Any) -> None:
        """Record something that is true of this rank from now on; the last one per name counts."""
        self.facts[name] = value
        self._state("fact", name, value)

    def text(self, message: str, level: str = "info") -> None:
        """Record a line of text."""
        if self._journal is not None:
            self._journal.text(str(message), level)

    def alert(self, title: str, text: str = "", level: str = "warning", **ignored: Any) -> None:
        """Record something that a person should see."""
        self.text(f"{title}: {text}" if text else title, str(level))
        self.fact("alert", {"title": title, "text": text, "level": str(level), "time": time.time()})

    def define_metric(
        self,
        name: str,
        step_metric: str | None = None,
        *,
        goal: str | None = None,
        unit: str | None = None,
        **ignored: Any,
    ) -> None:
        """Say how to read a metric: the metric that serves as its steps, ``goal`` "min" or "max", its unit."""
        self._metrics[name] = {"goal": _GOALS.get(goal or "", goal), "unit": unit, "step_metric": step_metric}
        self.fact("metrics", self._metrics)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a part of the step: ``with run.phase("data"): …`` (CPU time stamps; a GPU works on behind them)."""
        started = time.perf_counter()
        try:
            yield
        finally:
            if self._journal is not None:
                self._journal.aside({f"phase/{name}": time.perf_counter() - started})

    def watch(self, model: Any, *others: Any, **ignored: Any) -> None:
        """Record what the model is and how batches are split: see ``gputop.watch``."""
        from gputop.tracking.watch import watch

        watch(model, *others, run=self, **ignored)

    def finish(self, exit_code: int | None = None, **ignored: Any) -> None:
        """End the run: "finished", or "failed" with an exit code other than 0. At most two seconds; also done at exit."""
        try:
            if exit_code:
                ending.say(self, sys.exc_info()[1])
            before_end, self.before_end = self.before_end, None
            if before_end is not None:
                before_end()
            if self._opened is not None:
                self._opened.finish(form.FAILED if exit_code else form.FINISHED, exit_code)
        except Exception as error:  # noqa: BLE001 - the end of a training must not fail for its log
            tell(f"finish failed ({type(error).__name__}: {error}).")
        self.log = _no_log

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.finish(ending.exit_code_of(error))


_current = Run(None)
_initialized = False


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
    """Start to record this process as one rank of a run; also a context manager.

    Args:
        project: A name over several runs; else ``GPUTOP_PROJECT``.
        name: What the run is called; else ``GPUTOP_NAME``, else the script's name.
        config: Hyper-parameters: a mapping, or an object such as argparse's.
        group: Any label; else ``GPUTOP_GROUP``.
        tags: Labels.
        dir: Where runs are kept; else ``$GPUTOP_DIR/runs`` or ``~/.local/state/gputop/runs``.
        mode: "disabled" records nothing; else ``GPUTOP_MODE``. ``GPUTOP=0`` does the same.
        resume: The id of a run to go on with; "allow", "must", "auto" and True take the id from the keyword ``id``. Steps
            that ``log`` counts itself go on from the last one.
        id: The id of the run; of a single process with "-2" after it where one of that id was recorded before.
        notes, job_type: A remark, and a label.
        total_steps: How many steps there will be, for the time left.
        epochs: How many epochs there will be.
        ignored: Keywords of other trackers are accepted.

    Returns:
        A Run, always: one that records nothing when disabled or when no file can be made (told once on stderr).
        A run that was active in this process is finished first.
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
    except Exception as error:  # noqa: BLE001 - a training starts whether or not it can be recorded
        reason = (error.strerror if isinstance(error, OSError) else None) or f"{type(error).__name__}: {error}"
        tell(f"the run is not recorded, the training goes on: {reason}.")
        _current = Run(None)
    try:
        _current.config.update(config or {})
    except Exception as error:  # noqa: BLE001 - a configuration may be any object
        tell(f"the configuration is not recorded ({type(error).__name__}: {error}). Pass a mapping.")
    return _current


def init_unasked() -> Run:
    """Start a run that the script did not ask for; whoever asks for one later takes its place."""
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
    off = (mode or env.get("GPUTOP_MODE", "on")) == "disabled" or env.get("GPUTOP") == "0"
    where = identity.place()
    if off or sys.byteorder != "little" or (env.get("GPUTOP_RANKS") == "0" and where.rank != 0):
        return Run(None)
    runs_dir = Path(directory).absolute() if directory else state_dir().absolute() / "runs"
    resuming = bool(resume) and resume != "never"
    wanted = resume if isinstance(resume, str) and resume not in ("allow", "must", "never", "auto") else given_id
    # Ranks cannot agree on another id: each would see which of them recorded one before, and not all did.
    if wanted and not resuming and where.world_size <= 1 and not where.restart_count:
        wanted = identity.untaken(wanted, runs_dir, where.rank)
    run_id = identity.run_id(where, wanted)
    script = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] not in ("", "-c", "-m") else "python"
    name = name or env.get("GPUTOP_NAME") or env.get("WANDB_NAME") or script.removesuffix(".py")
    project = project or env.get("GPUTOP_PROJECT") or env.get("WANDB_PROJECT")
    group = group or env.get("GPUTOP_GROUP") or env.get("WANDB_RUN_GROUP")
    ring = env.get("GPUTOP_RING_KB", "")
    opened = OpenJournal(
        identity.identify(where, run_id),
        runs_dir,
        thread=env.get("GPUTOP_THREAD") != "0",
        ring_bytes=int(ring) * 1024 if ring.isdigit() else None,
    )
    if resuming:
        opened.go_on()
    run = Run(opened, run_id, name, project)
    command = [argument[:500] for argument in getattr(sys, "orig_argv", sys.argv)[:200]]
    run._describe(name=name, project=project, job_id=env.get("GPUTOP_JOB_ID"), command=command)
    opened.journal.anchor()
    run.fact("progress", {"total_steps": total_steps, "epochs": epochs})
    for key, value in (("group", group), ("tags", _labels(tags))):
        if value:
            run.fact(key, value)
    watcher = evidence.Watcher(run)
    opened.journal.attend = watcher.record
    opened.on_tick = lambda: opened.journal.want_attention() if watcher.news() else None
    watcher.record()
    ending.hook(current)
    return run


def _labels(tags: Any) -> list[str]:
    if tags is None or isinstance(tags, str) or not isinstance(tags, Iterable):
        return [] if tags in (None, "") else [str(tags)]
    return [str(tag) for tag in tags]


def initialized() -> bool:
    """Return whether a run was started in this process, by ``init``."""
    return _initialized


def current() -> Run:
    """Return the active run; one that records nothing before ``init``."""
    return _current


def log(data: Mapping[str, Any] | None = None, step: int | None = None, commit: bool | None = None, **metrics: Any) -> None:
    """Record metrics of the active run: see ``Run.log``."""
    if not _initialized and os.environ.get("GPUTOP_MODE") != "disabled" and os.environ.get("GPUTOP") != "0":
        tell("log was called before gputop.init(): nothing is recorded.")
    _current.log(data, step, commit, **metrics)


def fact(name: str, value: Any) -> None:
    """Record a fact of the active run: see ``Run.fact``."""
    _current.fact(name, value)


def text(message: str, level: str = "info") -> None:
    """Record a line of text in the active run."""
    _current.text(message, level)


def alert(title: str, text: str = "", level: str = "warning", **ignored: Any) -> None:
    """Record something that a person should see in the active run."""
    _current.alert(title, text, level)


def define_metric(
    name: str, step_metric: str | None = None, *, goal: str | None = None, unit: str | None = None, **ignored: Any
) -> None:
    """Say how to read a metric of the active run: see ``Run.define_metric``."""
    _current.define_metric(name, step_metric, goal=goal, unit=unit)


def phase(name: str) -> AbstractContextManager[None]:
    """Time a part of the active run's step: ``with gputop.phase("data"): …``."""
    return _current.phase(name)


def active(name: str) -> Any:
    """Return what ``gputop.config``, ``gputop.summary`` and ``gputop.run`` are at this moment; ``run`` is None without one."""
    if name == "run":
        return None if _current.disabled else _current
    return getattr(_current, name)


def finish(exit_code: int | None = None, **ignored: Any) -> None:
    """End the active run."""
    _current.finish(exit_code)
