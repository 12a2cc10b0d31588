"""The ``Run`` that ``init`` returns: one rank of a run, as a training script sees it. No call here raises or blocks.

Facts that other packages read are records of ``gputop/facts``; docs/facts.md lists them.

``with run.phase("data")`` writes the metric ``phase/data``: seconds, at the current step.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ContextDecorator
from types import TracebackType
from typing import Any, Protocol

from gputop.facts.table import Alert, Metric
from gputop.tracking import ending, import_hook, wandb
from gputop.tracking.journal import format as form
from gputop.tracking.journal.harmless import harmless
from gputop.tracking.journal.notice import reason, warn
from gputop.tracking.journal.writing import copies
from gputop.tracking.journal.writing.files import OpenJournal
from gputop.tracking.journal.writing.last_value import LastValues
from gputop.tracking.journal.writing.not_kept import NotKept
from gputop.tracking.journal.writing.values import labels, level_name, plain
from gputop.tracking.journal.writing.writer import Journal
from gputop.tracking.recorded import RecordedDict, Summary

_GOALS = {"minimize": "min", "maximize": "max"}


class LogCall(Protocol):
    """The signature of ``Run.log``."""

    def __call__(
        self,
        /,
        data: Mapping[str, Any] | None = None,
        step: int | None = None,
        commit: bool | None = None,
        *ignored: Any,
        **metrics: Any,
    ) -> None:
        """Record metrics."""


def _no_log(
    data: Mapping[str, Any] | None = None, step: int | None = None, commit: bool | None = None, *ignored: Any, **metrics: Any
) -> None:
    """Ignore the call: this run is disabled, or ``init`` failed."""


@harmless
class Run:
    """One rank of a run. On a disabled or finished run every method is a no-op."""

    log: LogCall

    def __init__(self, opened: OpenJournal | None, run_id: str = "", name: str = "", project: str | None = None) -> None:
        self._opened = opened = opened if issubclass(type(opened), OpenJournal) else None
        self._journal = opened.journal if opened else None
        self.id = run_id
        self._name = name
        self._card: dict[str, Any] = {"name": name}
        self.project = project
        self.log = self._journal.log if self._journal else _no_log
        self.config = RecordedDict(lambda key, value: self._state("config", key, value))
        self._metrics: dict[str, Any] = {}
        logged = LastValues(self._journal) if self._journal else lambda name: None
        self.summary = Summary(lambda key, value: self._state("fact", "summary", dict(self.summary)), logged)
        self.facts: dict[str, Any] = {}
        """The facts that this rank has recorded so far."""
        self.finished = False
        """Whether the script has called ``finish``; a run that ended with its process is not."""
        self.before_end: Callable[[], None] | None = None
        """Called once when the run ends, to write what is still pending."""
        self.start_time = _now()
        """Seconds since the epoch."""
        self.resumed = opened is not None and opened.identity.attempt > 0
        """Whether this rank of the run was recorded before."""

    @property
    def disabled(self) -> bool:
        """Whether this run records nothing."""
        return self._journal is None or self._journal.closed

    @property
    def journal(self) -> Journal | None:
        """The journal of this rank; None when nothing is recorded."""
        return self._journal

    @property
    def step(self) -> int:
        """The step of the next ``log`` call without a ``step``."""
        return self._journal.step + 1 if self._journal else 0

    @property
    def name(self) -> str:
        """The display name; assigning a new one records it, and readers show it."""
        return self._name

    @name.setter
    def name(self, name: str | None) -> None:
        self._name = "" if name is None else str(name)
        self.describe(name=self._name)

    @property
    def tags(self) -> tuple[str, ...]:
        """Labels; assigning new ones records them."""
        return tuple(labels(self.facts.get("tags")))

    @tags.setter
    def tags(self, tags: Any) -> None:
        self.fact("tags", labels(tags))

    @property
    def notes(self) -> str | None:
        """A remark; assigning a new one records it."""
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
    def path(self) -> str:
        """Project and id, as other trackers write them."""
        return "/".join(part for part in (self.project, self.id) if part)

    def project_name(self) -> str:
        """Return the project, as another tracker's method of this name."""
        return self.project or ""

    restore = staticmethod(wandb.restore)

    @property
    def dir(self) -> str | None:
        """The run's directory; None when nothing is kept on disk."""
        path = self._opened.archive_path if self._opened else None
        return str(path.parent) if path else None

    def __getattr__(self, name: str) -> Any:
        if name in wandb.RUN_METHODS:
            return NotKept(name)
        if name in wandb.RUN_ATTRIBUTES:
            return wandb.RUN_ATTRIBUTES[name]
        raise AttributeError(f"'Run' object has no attribute {name!r}")

    def describe(self, **card: Any) -> None:
        """Record the run's card: name, project, job and command, as lists of runs show them."""
        self._card.update(card)
        self._state("card", "run", dict(self._card))

    def _state(self, kind: str, name: str, value: Any) -> None:
        if self._journal is not None:
            self._journal.state(kind, name, value)

    def fact(self, name: str, value: Any) -> None:
        """Record something that holds for this rank from now on; the last value per name counts."""
        name = str(name)
        self.facts[name] = value
        self._state("fact", name, value)

    def text(self, message: str, level: str | int = "info") -> None:
        """Record a line of text; ``level`` is a name, or a number of the module logging."""
        if self._journal is not None:
            self._journal.text(str(message), level)

    def alert(self, title: str, text: str = "", level: str | int = "warning", *ignored: Any, **also: Any) -> None:
        """Record something that the user should see."""
        title, text, level = str(title), str(text), level_name(level)
        self.text(f"{title}: {text}" if text else title, level)
        self.fact("alert", Alert.filled(title=title, text=text, level=level, time=time.time()))

    def define_metric(
        self,
        name: str,
        step_metric: str | None = None,
        *ignored: Any,
        goal: str | None = None,
        unit: str | None = None,
        **also: Any,
    ) -> None:
        """Define how to read a metric: the metric that serves as its x axis, ``goal`` "min" or "max", and its unit."""
        wanted = None if goal is None else _GOALS.get(str(goal), str(goal))
        self._metrics[str(name)] = Metric.filled(goal=wanted, unit=unit, step_metric=step_metric)
        self.fact("metrics", self._metrics)

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Time a part of the step: ``with run.phase("data"): …`` (CPU timestamps; the GPU runs asynchronously)."""
        return Phase(name, self._record_phase)

    def _record_phase(self, name: str, seconds: float) -> None:
        if self._journal is not None:
            self._journal.aside({f"phase/{name}": seconds})

    def watch(self, model: Any, *others: Any, **ignored: Any) -> None:
        """Record what a model is and how its batches are split; see ``tracking.watch`` for the facts.

        Pass the wrapper if there is one: ``watch(nn.DataParallel(net))``. Further arguments, as in
        ``watch(model, optimizer, loader)``, make sure that automatic tracking is on, which records loss, learning rate,
        throughput and times without calls of ``log``.
        """
        from gputop.tracking.watch import watch

        if others:
            import_hook.arm_again()
        watch(model, self)

    def finish(self, exit_code: int | None = None, *ignored: Any, **also: Any) -> None:
        """End the run as "finished", or as "failed" for a nonzero exit code. Takes at most two seconds.

        If automatic tracking opened the run, the next optimizer step opens another one.
        """
        self.finished = True
        self.end(exit_code)

    def end(self, exit_code: int | None = None) -> None:
        """End the run as ``finish`` does, but because its process ends: no other run follows."""
        try:
            if exit_code:
                ending.record_error(self, sys.exc_info()[1])
            before_end, self.before_end = self.before_end, None
            if before_end is not None:
                before_end()
            if self._opened is not None:
                self._opened.finish(form.FAILED if exit_code else form.FINISHED, exit_code)
        except Exception as error:  # noqa: BLE001 - a training must not fail at its end because of its log
            warn(f"finish failed ({reason(error)}).")
        self.log = _no_log

    def note_end(self, exit_code: int | None) -> None:
        """Note that the process ends now with this exit code, if it has one, as ``os._exit`` does; waits for nothing."""
        if self._opened is not None:
            self._opened.note_end(form.FAILED if exit_code else form.FINISHED, exit_code)

    def take_back_end(self) -> None:
        """Undo ``note_end``: the process continues."""
        if self._opened is not None:
            self._opened.take_back_end()

    def __copy__(self) -> Run:
        return self

    def __deepcopy__(self, memo: Any) -> Run:
        """Return this run: what holds it may be copied, as with other trackers."""
        return self

    def __reduce__(self) -> Any:
        """Pickle as this run in this process, and as one that records nothing in another one."""
        known = {"name": self._name, "project": self.project, "start_time": self.start_time, "resumed": self.resumed}
        states = [plain(dict(each)) for each in (self.config, self.summary, self.facts)]
        return _copied, (copies.ticket(self), not self.disabled, self.id, known, *states)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.finish(ending.exit_code_of(error))


def _copied(
    ticket: str,
    recorded: bool,
    run_id: str,
    known: Mapping[str, Any],
    config: Mapping[str, Any],
    summary: Mapping[str, Any],
    facts: Mapping[str, Any],
) -> Run:
    """Return the run that was pickled, or in another process one that only knows what it knew."""
    found = copies.of_ticket(ticket)
    if found is not None:
        same: Run = found
        return same
    run = Run(None, run_id, known["name"], known["project"])
    run.config.update(config)
    run.summary.update(summary)
    run.facts.update(facts)
    run.start_time, run.resumed = known["start_time"], known["resumed"]
    if recorded:
        run.log = copies.log
    return run


def _now() -> float:
    """Return the time; NaN from a clock that a test has broken: without a ``Run``, no call of the script would work."""
    try:
        return time.time()
    except Exception:  # noqa: BLE001 - as above
        return math.nan


@harmless
class Phase(ContextDecorator):
    """Times a part of the step, from its beginning to its end."""

    def __init__(self, name: str, record: Callable[[str, float], None]) -> None:
        self._name = name
        self._record = record
        self._started: float | None = None

    def _recreate_cm(self) -> Phase:
        return Phase(self._name, self._record)  # for each call of a function that it decorates

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        if self._started is not None:
            self._record(self._name, time.perf_counter() - self._started)
