"""One rank of a run, as a training script sees it: the ``Run`` that ``init`` returns. No call here raises or waits.

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

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol

from gputop.tracking import ending, import_hook, wandb
from gputop.tracking.journal import format as form
from gputop.tracking.journal.files import OpenJournal
from gputop.tracking.journal.not_kept import NotKept
from gputop.tracking.journal.notice import tell
from gputop.tracking.journal.writer import Journal
from gputop.tracking.recorded import RecordedDict

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
        self.config = RecordedDict(lambda key, value: self._state("config", key, value))
        self._metrics: dict[str, Any] = {}
        self.summary = RecordedDict(lambda key, value: self._state("fact", "summary", dict(self.summary)))
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
        self.describe(name=self._name)

    @property
    def tags(self) -> tuple[str, ...]:
        """Labels; new ones are recorded."""
        return tuple(self.facts.get("tags", ()))

    @tags.setter
    def tags(self, tags: Any) -> None:
        self.fact("tags", labels(tags))

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
            return NotKept(name)
        if name in wandb.RUN_ATTRIBUTES:
            return wandb.RUN_ATTRIBUTES[name]
        raise AttributeError(f"'Run' object has no attribute {name!r}")

    def describe(self, **card: Any) -> None:
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
        """Record what a model is and how its batches are split; see ``tracking.watch`` for the facts.

        ``model`` is the wrapper if there is one: ``watch(nn.DataParallel(net))``. With anything else beside the model,
        ``watch(model, optimizer, loader)``, loss, learning rate, throughput and times are recorded from now on without a
        call of ``log``.
        """
        from gputop.tracking.watch import watch

        if others:
            import_hook.ask()
        watch(model, self)

    def finish(self, exit_code: int | None = None, **ignored: Any) -> None:
        """End the run: "finished", or "failed" with an exit code other than 0. At most two seconds; also done at exit."""
        try:
            if exit_code:
                ending.record_error(self, sys.exc_info()[1])
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


def labels(tags: Any) -> list[str]:
    """Return tags, however they were given, as a list of texts."""
    if tags is None or isinstance(tags, str) or not isinstance(tags, Iterable):
        return [] if tags in (None, "") else [str(tags)]
    return [str(tag) for tag in tags]
