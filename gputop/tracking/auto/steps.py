"""Ends the current iteration, and writes its record once the optimizer has stepped.

An iteration ends with an optimizer's step, or with the last of those that belong to it (``training.optimizers``). Times are CPU
times: with CUDA they show when work was queued, not when it was done. Iterations that an evaluation or a checkpoint lengthened
are omitted rather than reported as training.

The first step opens the run, so that processes that do not train never create one. It joins a run that the script opened
itself (``records`` says what that changes). In each run the iterations are numbered from 0 on.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from gputop.tracking.auto import framework_metrics
from gputop.tracking.auto.backwards import Backwards
from gputop.tracking.auto.losses.held import HeldLosses
from gputop.tracking.auto.other_threads import OtherThreads
from gputop.tracking.auto.timings import Timings
from gputop.tracking.auto.training.epochs import Epochs
from gputop.tracking.auto.training.state import Training
from gputop.tracking.auto.which_run import WhichRun
from gputop.tracking.auto.without_optimizer import WithoutOptimizer
from gputop.tracking.unseen import unseen

if TYPE_CHECKING:  # imported at the first step otherwise: ``import gputop`` stays cheap
    from gputop.tracking.auto.facts import Facts
    from gputop.tracking.auto.models.models import Models

BESIDE = "steps on other threads are not recorded: of trainings that run at the same time, gputop follows the first."
"""The rest of a run's warning, after the number of steps that other threads made."""
ANEW = "a new optimizer trains the weights of an earlier one. If this is another fold or trial, call gputop.finish() before it."
"""The rest of a run's note, after the step. Only the script knows: a next phase of one training begins in the same way."""


INNER = (
    "optimizers come and go between the steps of one that stays, as in meta-learning. Each of their steps counts as a step of "
    "the run. To record the outer loop, call gputop.log in it."
)
"""The rest of a run's note, after the step. Only the script knows which of the steps are those of its training."""

REPEATED_S = 1.0
"""Within this time, the same values are those of a bar that is drawn again, and no new evaluation (our choice)."""


class Steps:
    """Advances a training from iteration to iteration. Its methods are its only writers."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.training = Training(torch, on_failure=self._abandon)
        self._which_run = WhichRun()
        self.models: Models | None = None
        self.facts: Facts | None = None
        self._inherited: tuple[dict[str, Any], ...] = ()
        self._begin()

    def _begin(self) -> None:
        self._on_clock: Any = None
        self._held = HeldLosses()
        self._training_number = 1
        """Which of several consecutive trainings this is."""
        self._said_anew = self._said_inner = False
        self._printed: dict[str, float] = {}
        self._printed_at = 0.0
        """The evaluation that was printed last, and when."""
        self._facts_are_late = False
        """Whether facts were due when an optimizer stepped inside a backward."""
        self.training.fast.in_backward = False
        self.epochs = Epochs()
        self.other_threads = OtherThreads(self.training)
        self.without_optimizer = WithoutOptimizer(self.training, self.after_step)
        self.backwards = Backwards(self.training, self.epochs, self.without_optimizer)
        self._timings = Timings(self.training, self.epochs)

    def reset(self) -> None:
        """Reset in a forked child, which opens its own run if it trains."""
        # Kept for good: to free what is on a GPU, or pinned for one, calls the driver, which does not work in a forked child.
        self._inherited = self.__dict__.copy(), self.training.__dict__.copy()
        self._abandon()
        self.facts = None
        self.training.clear()
        self._begin()

    def _abandon(self) -> None:
        self.training.fast.leave("full")
        if self.facts is not None:
            self.facts.abandon()

    def before_step(self, optimizer: Any = None) -> None:
        """Note that an optimizer's step begins; closures run inside it."""
        training = self.training
        if training.on_other_thread():
            return
        clock = training.wanted.clock
        if clock is not None and clock.running:
            self._on_clock = clock.start()
        training.begin_step(optimizer)

    def after_step(self, optimizer: Any, skipped: bool = False) -> None:
        """Write the record after an optimizer stepped (or its scaler skipped the step)."""
        if self.other_threads.is_foreign(optimizer):
            return
        now = perf_counter()
        training = self.training
        training.end_step(skipped)
        self.other_threads.take_leftovers(self._held)
        if self._on_clock is not None:
            self._stop_clock()
        self.without_optimizer.ended_by(optimizer)
        sites, iteration = training.sites, training.iteration
        if not skipped and not training.partial and not self.without_optimizer.is_possible:
            iteration.end_step(now)
        # A run that another one replaces is finished first, and so is its journal.
        opened = training.journal is None or training.journal.closed
        if opened:
            if not self._open():
                return
            self._begin_run()
        sites.stepped(optimizer)
        if self._held and sites.settled:
            self._name_held()
        optimizers = training.optimizers
        values: dict[str, Any] = {}
        phases = optimizers.phases
        index, known = optimizers.number(optimizer)
        models = self._models()
        if models.searches.misses_modules or not (known or models.knows(optimizer)):
            iteration.miss_forwards()
        if optimizers.phases > phases and iteration.fetched:
            self.epochs.begin_phase(training.loader)
        if optimizers.trainings > self._training_number:
            self._begin_training(optimizers.trainings)
            values["training"] = float(optimizers.trainings)
        as_usual = known and not (skipped or training.fast.in_backward or training.step_is_hidden)
        training.usual.step(index, sites, as_usual)
        ends = opened or iteration.fetched > 0 or optimizers.begins_iteration(index, training.loader is not None)
        plain = False
        if ends:
            plain = self._is_plain()
            self._close_iteration()
            self._timings.put(values, now, not self.without_optimizer.is_possible)
            if self.facts is not None:
                values.update(self.facts.take_arrived())
            iteration.begin()
        optimizers.add(index)
        iteration.end_batches()
        self._add_losses(values, optimizer)
        rate = optimizer.param_groups[0].get("lr")
        if type(rate) is float or type(rate) is int:
            values["lr" if index == 0 else f"lr/{index}"] = float(rate)
        if values and training.records is not None:
            training.records.write(values, training.step)
        self._note_optimizer(optimizer, index, known, opened)
        if ends:
            training.decide(plain and not (models.settling or models.inspection.splits))
        training.do_between_steps()

    def _is_plain(self) -> bool:
        """Return whether the iteration that is ending had nothing special, and learn what is usual from it."""
        training = self.training
        if training.partial:
            training.usual.forget()
            return False
        return training.usual.end(training.iteration, len(training.optimizers))

    def _stop_clock(self) -> None:
        """Stop timing an optimizer's step on the GPU."""
        training = self.training
        if training.wanted.clock is not None and not training.iteration.inside_step:
            training.wanted.clock.stop("cuda/optimizer_s", self._on_clock)
        self._on_clock = None

    def _add_losses(self, values: dict[str, Any], optimizer: Any) -> None:
        """Add the losses of a step to its record, or hold them back until their names are known."""
        sites, step = self.training.sites, self.training.step
        if not sites.pending or (sites.settled and sites.take_plain(values, optimizer, step)):
            return
        losses = [(site, value, site.turn(optimizer, step)) for site, value in sites.take()]
        if not sites.settled or any(site.undecided for site, _, _ in losses):
            self._held.hold(losses)
            return
        for site, value, turn in losses:
            if value is not None:
                values[sites.name(site, values, turn if site.shared else 0)] = value

    def _note_optimizer(self, optimizer: Any, index: int, known: bool, opened: bool) -> None:
        """Find the modules of a new optimizer, and collect the facts that are due after its step."""
        training, models, facts = self.training, self._models(), self.facts
        assert facts is not None
        if opened:
            # Backwards before this point were not observed, because the modules were unknown: do not report on them.
            training.forget_gradients()
        if opened or not known:
            facts.optimizer_added(optimizer)
        if training.optimizers.come_and_go and training.run is not None and not self._said_inner:
            self._said_inner = True
            training.run.text(f"step {training.step}: {INNER}")
        if not known:
            self._say_anew()
            models.add_optimizer(optimizer)
        if models.wrapped:
            models.inspection.wrapping.stepped()
        if not training.partial:
            training.gradients.stepped(known and index in models.ddp_optimizers)
        if training.kept_gradients.watches:
            with unseen(self._torch):
                training.kept_gradients.stepped(optimizer, training.step, len(training.optimizers))
        searched = not known
        if training.step >= training.wanted.facts_due or facts.stall.stalled:
            searched |= models.search_late()
            self._facts_are_late = training.fast.in_backward
            if not self._facts_are_late:
                facts.due(training.step)
        if searched:
            training.restart_clock(perf_counter())

    def after_backward(self) -> None:
        """Do what an optimizer that steps inside a backward could not do there.

        DDP holds a lock while it exchanges gradients, and its facts wait for that lock: asked there, for ever.
        """
        if not self._facts_are_late:
            return
        self._facts_are_late = False
        if self.facts is not None:
            self.facts.due(self.training.step)
            self.training.restart_clock(perf_counter())

    def _say_anew(self) -> None:
        """Say once in a run that its steps may be those of two trainings."""
        training = self.training
        if training.optimizers.trains_again and len(training.recent_s) > 1 and training.run is not None and not self._said_anew:
            self._said_anew = True
            training.run.text(f"step {training.step}: {ANEW}")

    def _begin_training(self, number: int) -> None:
        """Begin another training of this run: its steps continue, its epochs and its losses start over."""
        self._training_number = number
        if self._held:
            self._name_held()
        self.training.begin_training()
        self.epochs.begin_training(self.training.loader)

    def _close_iteration(self) -> None:
        """Begin a new iteration; the first one to end determines the names of the losses."""
        training = self.training
        training.optimizers.close_iteration()
        if self._held and not training.sites.settled:
            self._name_held()
        training.next_iteration()
        if self.models is not None and self.models.settling:
            self.models.after_iteration(training.step)

    def _name_held(self) -> None:
        """Name the losses that are held back, and write them."""
        training = self.training
        values = self._held.take(training.sites)
        if values and training.records is not None:
            training.records.write(values, training.step)

    def framework_logged(self, metrics: dict[str, Any]) -> None:
        """Write what a framework logged by itself at the last step."""
        self.training.end_early()
        if self.training.step >= 0:
            self.training.note(metrics)

    def printed(self, evaluation: dict[str, float]) -> bool:
        """Write an evaluation that the script printed, at the last step; return whether the run takes any.

        It takes none if the script or a framework logs its own.
        """
        training = self.training
        if training.records is None or not training.records.own or training.off or framework_metrics.heard():
            return False
        now = perf_counter()
        if (
            not evaluation
            or training.on_other_thread()
            or (evaluation == self._printed and now - self._printed_at < REPEATED_S)
        ):
            return True
        self._printed, self._printed_at = evaluation, now
        self.framework_logged(evaluation)
        return True

    def _open(self) -> bool:
        """Return whether there is a run to write to: the script's, or our own, which this opens."""
        training = self.training
        if training.run is not None and self._which_run.is_still(training.run):
            return not training.run.disabled
        run, own = self._which_run.open()
        training.open(run, own)
        run.before_end = self.finish
        return not run.disabled

    def _begin_run(self) -> None:
        """Start over with an empty record for a new run: no steps, optimizers, losses or facts."""
        from gputop.tracking.auto.facts import Facts

        training, models = self.training, self._models()
        training.begin_run()
        self._held.clear()
        self._training_number, self._said_anew, self._said_inner = 1, False, False
        self.epochs.begin_run(training.loader)
        models.begin_run()
        self.without_optimizer.write_held()
        if self.facts is not None:
            self.facts.abandon()
        self.facts = Facts(self._torch, training, models)
        self.facts.begin()
        framework_metrics.listen(training, self.framework_logged)
        self._which_run.send_printed(self.printed)

    def finish(self) -> None:
        """Write everything that is still held back, at the end of the run."""
        training = self.training
        try:
            training.end_early()
            self.without_optimizer.finish()
            if self._held:
                self._name_held()
            if training.threads.ignored and training.run is not None:
                training.run.text(f"{training.threads.ignored} {BESIDE}", "warning")
            if self.facts is not None:
                self.facts.finish()
        except Exception as error:  # noqa: BLE001 - the run is ending
            training.failed(error)

    def _models(self) -> Models:
        if self.models is None:
            from gputop.tracking.auto.models.models import Models

            self.models = Models(self._torch, self.training)
        return self.models
