"""The state of the training in this process: the run, the optimizers, the loader, and the current iteration.

The parts of automatic tracking share it: they read it, and call its methods, which are its only writers. ``Steps`` advances it
from iteration to iteration. One thread trains at a time (``threads``); others are ignored.
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any

from gputop.tracking.auto.losses.sites import Sites
from gputop.tracking.auto.losses.user_code import UserCode
from gputop.tracking.auto.readings.ddp import Gradients
from gputop.tracking.auto.readings.graphs import Graphs
from gputop.tracking.auto.training.fast_path import FastPath, FastTurn, Stretch
from gputop.tracking.auto.training.iteration import Iteration
from gputop.tracking.auto.training.kept_gradients import KeptGradients
from gputop.tracking.auto.training.optimizers import Optimizers
from gputop.tracking.auto.training.pace import WRITE_EVERY_S, Pace
from gputop.tracking.auto.training.records import Records
from gputop.tracking.auto.training.several_losses import Several
from gputop.tracking.auto.training.threads import Threads
from gputop.tracking.auto.training.usual import Usual
from gputop.tracking.auto.training.wanted import Wanted
from gputop.tracking.journal.handlers import let_through
from gputop.tracking.journal.notice import reason, warn

if TYPE_CHECKING:  # the first step opens the run: ``import gputop`` stays cheap
    from gputop.tracking.auto.readings.loader import Feed
    from gputop.tracking.journal.writing.writer import Journal
    from gputop.tracking.run import Run

RECENT_STEPS = 33
"""How many times between steps the median is taken of."""


class Training:
    """The state of one process's training."""

    def __init__(self, torch: Any, on_failure: Callable[[], None] | None = None) -> None:
        """``on_failure`` is called once, when automatic tracking stops after an error."""
        self.torch = torch
        self.fast = FastPath(torch)
        self._on_failure = on_failure
        self.check_collector: Callable[[], None] = lambda: None
        """Starts timing Python's garbage collections, or stops it if the script handles signals."""
        self._on_workers: Callable[[], None] | None = None
        self.step_is_hidden = False
        """Whether an optimizer's step was compiled: such steps cannot be counted, and their losses cannot be separated."""
        self._allows_fast_path = True
        self.clear()

    def clear(self) -> None:
        """Reset the state: at the start, and in a forked child, which opens its own run if it trains."""
        self.run: Run | None = None
        self.journal: Journal | None = None
        """The journal of the run."""
        self.records: Records | None = None
        """Writes the values of each step."""
        self.wanted = Wanted()
        self.thread = 0
        """Python's id of the thread that trains, or last did; 0 before the first step."""
        self.threads = Threads()
        self.step = -1
        self.mark: float | None = None
        """When the last step ended."""
        self.recent_s: deque[float] = deque(maxlen=RECENT_STEPS)
        """The most recent times between steps."""
        self.optimizers = Optimizers()
        self.code = UserCode(os.path.dirname(getattr(self.torch, "__file__", "") or ""))
        self.sites = Sites(self.code)
        self.gradients = Gradients()
        self.kept_gradients = KeptGradients()
        self.graphs, self.evaluated_graphs = Graphs(), Graphs()
        self.iteration = Iteration()
        self.loader: Feed | None = None
        """The loader of the last fetched batch."""
        self.stepping = False
        """Whether an optimizer's step is running, so that a backward belongs to its closure."""
        self._stepping_on: weakref.ref[Any] | None = None
        """The optimizer whose step is running, or last ran."""
        self.pace = Pace()
        self.usual = Usual()
        self._between_steps: Callable[[], None] | None = None
        self.fast.leave("full")

    @property
    def off(self) -> bool:
        """Whether tracking no longer records anything."""
        return self.fast.mode == "off"

    @property
    def partial(self) -> bool:
        """Whether the current iteration is not measured in full."""
        return self.fast.mode != "full"

    @property
    def reached(self) -> int:
        """The last step, on either path. Safe on any thread."""
        return self.fast.step if self.fast.mode == "fast" else self.step

    @property
    def marked(self) -> float | None:
        """When the last step ended, in seconds of ``perf_counter``."""
        return self.fast.mark if self.fast.mode == "fast" else self.mark

    def failed(self, error: Exception) -> None:
        """Stop tracking after an error; the training continues without it. An error of a signal handler passes."""
        let_through(error)
        if not self.off:
            self.fast.stop()
            if self._on_failure is not None:
                self._on_failure()
            stops = f"automatic tracking stops, the training continues ({reason(error)})."
            warn(stops)
            if self.run is not None:
                self.run.text(stops, "warning")

    def check_collector_with(self, check: Callable[[], None]) -> None:
        """Set what starts timing Python's garbage collections, or stops it if the script handles signals."""
        self.check_collector = check

    def call_before_workers(self, call: Callable[[], None]) -> None:
        """Call this where a loader may have forked its workers, as long as there is no run."""
        self._on_workers = call

    def workers_begin(self) -> None:
        """Do what is necessary where a loader may have forked its workers, while there is no run."""
        if self._on_workers is not None:
            self._on_workers()

    def call_between_steps(self, call: Callable[[], None] | None) -> None:
        """Call this on the training's thread when a step ends; None: no more. Every step takes the full path meanwhile."""
        self._between_steps = call
        self.fast.end_soon()

    def do_between_steps(self) -> None:
        """Do what a profile must do now, if there is one. Called on the training's thread."""
        call = self._between_steps  # read once: the profile's own thread takes it away
        if call is not None:
            call()

    def note_hidden_step(self) -> None:
        """Note that an optimizer's step is being compiled."""
        self.step_is_hidden = True

    def on_other_thread(self) -> bool:
        """Return whether the caller runs on a thread other than the one that trains."""
        return bool(self.thread) and get_ident() != self.thread and not self.threads.in_turn

    def update_fact(self, name: str, value: Any) -> None:
        """Record a fact if its value changed. None is ignored, except for ``stalled``, which it clears."""
        run = self.run
        if run is not None and run.facts.get(name) != value and (value is not None or name == "stalled"):
            run.fact(name, value)

    def fetched(self, feed: Feed | None, batch: Any, seconds: float) -> None:
        """Take a batch that a loader handed out after ``seconds``, on the full path."""
        self.iteration.add_wait(seconds)
        if feed is None:
            return
        feed.fetched(batch, self.step + 1, self.wanted.batches_from)
        if feed.handed_out == 1 and feed.trains:
            self.iteration.set_first_batch(feed.began_s + seconds)
        self.iteration.add_batch(another_loader=feed is not self.loader)
        self.loader = feed

    def is_idle(self) -> bool:
        """Return whether the training is between two iterations."""
        return not (self.sites.pending or self.stepping or self.fast.in_backward or self.fast.loss is not None)

    def go_on_here(self) -> None:
        """Follow the training to this thread, and drop what a thread that has ended has left unfinished."""
        if self.fast.mode == "fast":
            self._end_early()
        if not self.threads.in_turn and not self.is_idle():
            self.sites.take()
            self.stepping = False
            self.iteration.interrupt()
        self.thread = get_ident()
        if self.threads.in_turn:
            self.without_fast_path()  # which is for one thread

    def begin_step(self, optimizer: Any) -> None:
        """Note that an optimizer's step begins; closures run inside it. None: one of which nothing is known."""
        self.stepping = True
        self._stepping_on = None if optimizer is None else weakref.ref(optimizer)
        self.sites.begin_step()
        self.iteration.begin_step()

    def end_step(self, skipped: bool) -> None:
        """Note that an optimizer's step has ended, or that its scaler skipped it."""
        self.stepping = False
        if not skipped:
            self.fast.count_step()

    def begins_again(self) -> bool:
        """Return whether the gradients from before this optimizer step are gone: its closure computes the same loss again."""
        optimizer = self._stepping_on() if self._stepping_on is not None else None
        return optimizer is not None and all(
            weight.grad is None for group in optimizer.param_groups for weight in group["params"]
        )

    def open(self, run: Run, own: bool) -> None:
        """Train on this thread, and write to this run; ``own``: tracking opened it itself."""
        self.thread = get_ident()
        self.run, self.journal, self.records = run, run.journal, Records(run, own)

    def begin_run(self) -> None:
        """Start over for the run that was just opened: no steps, optimizers or losses."""
        self.start_over()
        self.step = (0 if self.journal is None else self.journal.automatic_from) - 1
        self.sites.begin_run()
        self.optimizers = Optimizers()
        self.threads = Threads()
        self.kept_gradients = KeptGradients()
        self.graphs, self.evaluated_graphs = Graphs(), Graphs()
        self.mark = None
        self.recent_s.clear()

    def begin_training(self) -> None:
        """Begin another training of this run: its steps continue, its losses start over."""
        self.start_over()
        self.sites.begin_training()
        self.iteration.interrupt()  # by what came between the trainings
        if not self.iteration.fetched:
            self.loader = None
        elif self.loader is not None:
            self.loader.begin_training()

    def next_iteration(self) -> None:
        """Count an iteration."""
        self.step += 1

    def restart_clock(self, now: float) -> float | None:
        """Return when the last step ended, and note that another one ends ``now``."""
        mark, self.mark = self.mark, now
        return mark

    def forget_gradients(self) -> None:
        """Forget the backwards so far."""
        self.gradients = Gradients()

    def note(self, metrics: dict[str, Any]) -> None:
        """Write metrics outside of a step's record, such as the time of a checkpoint."""
        if metrics and self.records is not None:
            self.records.note(self.step, metrics)

    def decide(self, plain: bool) -> None:
        """Decide after a full-path iteration, ``plain`` if it had nothing special, whether the next ones are fast."""
        pace, journal, usual = self.pace, self.journal, self.usual
        pace.count(plain, in_full=not self.partial)
        self.fast.leave("full")
        if (
            self.off
            or self._between_steps is not None
            or not self._allows_fast_path
            or not pace.is_steady
            or self.records is None
            or journal is None
        ):
            return
        numbers = [turn.number for turn in usual.turns]
        feed, optimizers = self.loader, self.optimizers.with_numbers(numbers)
        if (feed is not None and feed.batches.counting) or not self.sites.are_steady(usual.lines):
            return
        lines = [turn.lines for turn in usual.turns]
        names = self.records.names_if_fast([[str(site.name) for site in each] for each in lines])
        if names is None or len(optimizers) < len(usual.turns):
            return
        if pace.adapt(self.recent_s):
            journal.write_own(int(WRITE_EVERY_S * 1e9) if pace.write_every else 0)
        last = pace.last_before_full(self.step, min(self.wanted.facts_due, self.wanted.batches_from))
        if last > self.step and self.mark is not None:
            simple = not usual.scales and self.sites.only() is not None and bool(lines[-1])
            step_s, losses, data = names
            stretch = Stretch()
            journal.begin_stretch(stretch)
            self.fast.begin(
                step=self.step,
                mark=self.mark,
                last_step=last,
                pause_every=pace.write_every,
                turns=list(map(FastTurn, numbers, map(weakref.ref, optimizers), lines, losses)),
                step_s=step_s,
                data=data,
                feed=feed if usual.fetches else None,
                thread=self.thread,
                stretch=stretch,
                late=journal.stage,
                several=None if simple else Several(self.torch, self.sites, usual.lines),
            )

    def pause(self) -> None:
        """Between two fast iterations: write pending records, or make the next iteration a full one."""
        if not self.fast.continues():
            self._take_over()
        if self.journal is not None and self.pace.write_every:
            self.journal.catch_up(int(WRITE_EVERY_S / 2 * 1e9))
            self.journal.collect()

    def _take_over(self) -> None:
        """Between two iterations: leave the fast path, so that the next iteration is measured in full."""
        fast = self.fast
        fast.leave("full")
        self.threads.stepped_fast(fast.taken)
        for turn in self.usual.turns[: fast.turns_taken]:
            self.optimizers.add(turn.number)
        if self.loader is not None:
            self.loader.hand_out(fast.take_batches())
        self.step, self.mark = fast.step, fast.mark
        if self.journal is not None:
            self.journal.end_stretch()
            if self.records is not None and self.records.numbered_by_us:
                self.journal.continue_from(self.step)
        self.iteration.begin_after_fast()

    def without_fast_path(self) -> None:
        """Measure every iteration in full from now on."""
        self.end_early()
        self._allows_fast_path = False

    def start_over(self) -> None:
        """End early and require plain iterations again: the next ones will not be plain either."""
        self.end_early()
        self.pace.start_over()

    def end_early(self) -> None:
        """In the middle of an iteration: put the rest of it on the full path. A no-op on any thread but the training's."""
        if self.fast.mode != "fast" or get_ident() != self.fast.thread:
            return
        try:
            self._end_early()
        except Exception as error:  # noqa: BLE001 - the training continues
            self.failed(error)

    def _end_early(self) -> None:
        fast, gc_s, fetched = self.fast, self.iteration.gc_s, self.fast.batches_now
        self.pace.ended_early()
        self._take_over()
        fast.leave("rest")
        self.iteration.resume(gc_s, fast.data_s, fetched)
        if fast.loss is not None:
            self.sites.hand_in(self.usual.lines[0], fast.loss)
            fast.hand_over_loss()
