"""Schedules facts: collected at the same steps on all ranks, a few seconds apart, and recorded only if they changed.

Collections happen at multiples of a power of two, so that ranks in step with each other report on the same steps. The power
grows, in leaps at first, until two collections are ``EVERY_S`` apart. All collections together take at most 1/``SHARE`` of the
time. A fact that cannot be collected is not tried again; the fact ``uncollected`` names it once. The others continue.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Any

from gputop.facts import measured, parallel, setup
from gputop.tracking import evidence
from gputop.tracking.auto import stall
from gputop.tracking.auto.models.models import Models
from gputop.tracking.auto.readings import ddp, gpu, settings
from gputop.tracking.auto.readings.batches import PROBE_EVERY, RECENT_BATCHES, RECENT_PROBES, Batches, Called, Probe
from gputop.tracking.auto.readings.gpu import Clock, Timetable
from gputop.tracking.auto.readings.waits import Waits
from gputop.tracking.auto.training.kept_gradients import STEPS_MIN
from gputop.tracking.auto.training.state import Training
from gputop.tracking.journal.handlers import let_through
from gputop.tracking.journal.notice import reason
from gputop.tracking.no_compile import exclude
from gputop.tracking.unseen import unseen

EVERY_S = 2.0
SHARE = 400
NEVER = 1 << 62
SETTLED_STEPS = 5
"""Waits and copies are counted from this step on, because the first steps are not typical."""
ADDED_MAX = 8
"""From this many optimizers on, a new one waits for the next regular collection: a script may have one for each weight."""


class Facts:
    """The facts of the current run, and when to collect them next."""

    def __init__(self, torch: Any, steps: Training, models: Models) -> None:
        self._torch = torch
        self._steps = steps
        self._models = models
        self._wanted = steps.wanted
        self._wanted.facts_due = 0
        self._arrived: dict[str, float] = {}
        """GPU times of an earlier step that are still to be written."""
        self._collect_next = self._probe_next = 0
        self._added = 0
        """How many optimizers have stepped."""
        self._clock_next = NEVER
        self._stride = 1
        self._collected_at = 0.0
        self._took_s = 0.0
        self._probe: Probe | None = None
        self._clock: Clock | None = None
        self._timetable = Timetable()
        self._waits: Waits | None = None
        self._window_from = -1
        self.stall = stall.Stall(steps, lambda: models.evaluating, self.flush, self._watch_again)
        self._failed: dict[str, str] = {}
        """What could not be collected, and why."""
        self._cheap: dict[str, Callable[[], Any]] = {
            "wrapper_calls": models.wrapper_calls,
            "gradients": lambda: steps.gradients.fact(models.judges_ddp()),
            "graphs": lambda: steps.graphs.fact(),
            "evaluated_graphs": self._evaluated_graphs,
            "batches": self._batches,
            "evaluation": models.evaluation,
            "process_group": self._group,
            "parameters": self._parameters,
        }
        """Facts that only read numbers; the thread that detects a stall collects them too."""
        self._expensive: dict[str, Callable[[], Any]] = {
            "torch": self._about_torch,
            "settings": lambda: settings.settings(torch, models.inspection.autocast),
            "environment": lambda: settings.environment(evidence.cuda()),
            "frameworks": settings.frameworks,
            "model": models.describe,
            "ddp": models.described.ddp_fact,
            "workload": self._workload,
            "synchronizations": lambda: self._counted(Waits.synchronizations),
            "transfers": lambda: self._counted(Waits.transfers),
            "cuda_memory": self._memory,
        }
        exclude(torch, Facts, Probe, Batches, Called, Clock, Waits)

    def begin(self) -> None:
        """Start watching the steps of the run that was just opened."""
        self.stall.start()

    def optimizer_added(self, optimizer: Any) -> None:
        """Schedule a full collection after an optimizer's first step, unless it is one of many."""
        self._added += 1
        if self._added <= ADDED_MAX:
            self._wanted.facts_due = self._collect_next = 0
        if self._probe is None:
            self._guarded("parameters", lambda: self._make_probe(optimizer))

    def _make_probe(self, optimizer: Any) -> None:
        self._probe = Probe(self._torch, [item for group in optimizer.param_groups for item in group["params"]])

    def due(self, step: int) -> None:
        """Do what is due after this step, on the thread that trains."""
        now = perf_counter()
        self.stall.start()
        if self.stall.end():
            self._steps.update_fact("stalled", None)
        if self._window_from >= 0:
            self._close_window(step)
        if self._clock is not None and self._clock.running:
            self._clock.end()
        if step >= self._probe_next and self._probe is not None:
            self._guarded("parameters", lambda: self._probe.take(step))  # type: ignore[union-attr]
        if step >= self._collect_next:
            self._collect(step, now)
        # Probe only the steps that the next collection will report.
        soon = max(step + 1, self._collect_next - PROBE_EVERY * RECENT_PROBES)
        self._probe_next = -(-soon // PROBE_EVERY) * PROBE_EVERY
        if step >= self._clock_next:
            self._clock_next = self._timetable.after(step, now)
            self._begin_clock(self._clock)
        running = self._window_from >= 0 or (self._clock is not None and self._clock.running)
        self._wanted.facts_due = step + 1 if running else min(self._collect_next, self._probe_next, self._clock_next)

    def _collect(self, step: int, now: float) -> None:
        since, limit = now - self._collected_at, max(EVERY_S, SHARE * self._took_s)
        if self._collect_next and since < limit:  # not if an optimizer was added, however many are
            self._stride *= 8 if since < limit / 16 else 2
        elif since > 4 * limit:
            self._stride = max(1, self._stride // 2)
        self._collect_next = (step // self._stride + 1) * self._stride
        self._wanted.batches_from = self._collect_next - RECENT_BATCHES
        self._collected_at = now
        self._guarded("garbage collections", self._steps.check_collector)
        for name, collect in self._expensive.items():
            self._guarded(name, lambda name=name, collect=collect: self._steps.update_fact(name, collect()))  # type: ignore[misc]
        self.flush()
        if step >= SETTLED_STEPS:
            self._guarded("waits", self._open_window)
        if self._clock is None and evidence.cuda() is not None:
            clock = gpu.clock(self._torch, lambda error: self._give_up("cuda times", error))
            self._clock, self._clock_next = clock, step + 1
        self._took_s = perf_counter() - now

    def flush(self) -> None:
        """Record the continuously counted facts that changed. Safe on any thread."""
        feed = self._steps.loader
        if feed is not None and feed.trains and self._steps.run is not None:
            self._guarded("loader", lambda: feed.record_facts(self._steps.run))
        for name, collect in self._cheap.items():
            self._guarded(name, lambda name=name, collect=collect: self._steps.update_fact(name, collect()))  # type: ignore[misc]

    def finish(self) -> None:
        """Record the remaining facts at the end of the run."""
        self.abandon()
        self.flush()
        if self.stall.stalled:
            self._steps.update_fact("stalled", None)

    def abandon(self) -> None:
        """Stop collecting, and restore what was wrapped."""
        self.stall.stop()
        self._close_window(-1)

    def _guarded(self, name: str, action: Callable[[], None]) -> None:
        if name in self._failed:
            return
        try:
            with unseen(self._torch):
                action()
        except Exception as error:  # noqa: BLE001 - the model, the loader and torch itself may be of any version and kind
            let_through(error)
            self._give_up(name, error)
            error.__traceback__ = None  # its frames hold the script's variables until a garbage collection

    def _give_up(self, name: str, error: Exception) -> None:
        """Stop collecting this, and say so in the journal. Never raises; safe on any thread."""
        if name not in self._failed:
            self._failed[name] = reason(error)
            with suppress(Exception):  # the journal itself may be what fails
                self._steps.update_fact("uncollected", [f"{what}: {why}" for what, why in list(self._failed.items())])

    def _counted(self, read: Callable[[Waits], dict[str, Any] | None]) -> dict[str, Any] | None:
        """Return what was counted in single steps; None if counting failed, which is not "none"."""
        return None if self._waits is None or "waits" in self._failed else read(self._waits)

    def _batches(self) -> dict[str, Any] | None:
        feed = self._steps.loader
        found: dict[str, Any] | None = feed.batches.fact() if feed is not None and feed.trains else None
        called = self._models.inspection.called.fact()
        return found if called is None else measured.Batches.filled(**(found or {}), called=called)

    def _evaluated_graphs(self) -> dict[str, Any] | None:
        found = self._steps.evaluated_graphs.fact()
        return None if found is None else measured.EvaluatedGraphs.filled(**found)

    def _workload(self) -> dict[str, Any] | None:
        workload = self._models.inspection.workload
        workload.look(self._steps.step, self._steps.optimizers.last)
        return workload.fact()

    def _parameters(self) -> dict[str, Any] | None:
        found = self._probe.fact() if self._probe is not None else None
        kept = self._steps.kept_gradients.steps
        return found if found is None or kept < STEPS_MIN else found | {"kept_gradients": kept}

    def _about_torch(self) -> dict[str, Any] | None:
        """Return the fact ``torch``; queries devices only if CUDA is in use, and keeps an earlier answer."""
        found = evidence.torch_fact()
        known = self._steps.run.facts.get("torch") if self._steps.run is not None else None
        return known if known is not None and found is not None and setup.Torch(found).device_count is None else found

    def _group(self) -> dict[str, Any] | None:
        """Return the fact ``process_group``; once the group is destroyed, the last one with the final counts."""
        found = ddp.group_fact(self._torch, self._models.described.place)
        known = self._steps.run.facts.get("process_group") if self._steps.run is not None else None
        return (
            parallel.ProcessGroup.filled(**{**known, "collectives": dict(ddp.collectives), **ddp.passed_on.counts()})
            if found is None and known is not None
            else found
        )

    def _memory(self) -> dict[str, Any] | None:
        cuda = evidence.cuda()
        return None if cuda is None or cuda.is_current_stream_capturing() else gpu.memory_fact(cuda)

    def _open_window(self) -> None:
        if evidence.cuda() is None or self._models.compiles():
            return
        if self._waits is None:
            self._waits = Waits(self._torch, self._steps.code.frame, failed=lambda error: self._give_up("waits", error))
        self._window_from = self._steps.step
        self._waits.open(self._steps.on_other_thread)

    def _close_window(self, step: int) -> None:
        if self._waits is not None and self._window_from >= 0:
            self._waits.close(counts=step == self._window_from + 1)
        self._window_from = -1

    def _begin_clock(self, clock: Clock | None) -> None:
        if clock is not None:
            self._arrived.update(clock.arrived())
            clock.begin()
            self._wanted.clock = clock

    def take_arrived(self) -> dict[str, float]:
        """Return the GPU times of an earlier step that have arrived since the last call."""
        found, self._arrived = self._arrived, {}
        return found

    def _watch_again(self) -> None:
        """Take the full path at the next step, which starts the thread that detects a stall. Safe on any thread."""
        self._wanted.facts_due = 0
        self._steps.fast.end_soon()
