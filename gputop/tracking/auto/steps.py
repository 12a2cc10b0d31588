"""Follows the current iteration, and writes its record once the optimizer has stepped.

An iteration ends with an optimizer's step, or with the last of those that belong to it (``training.optimizers``). Times are CPU
times: with CUDA they show when work was queued, not when it was done. Iterations that an evaluation or a checkpoint lengthened
are omitted rather than reported as training.

The first step opens the run, so that processes that do not train never create one. It joins a run that the script opened
itself (``records`` says what that changes). In each run the iterations are numbered from 0 on.
"""

from __future__ import annotations

import sys
import weakref
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any

from gputop.tracking import early_failure
from gputop.tracking.auto import framework_metrics
from gputop.tracking.auto.losses import values as loss_values
from gputop.tracking.auto.losses.held import HeldLosses
from gputop.tracking.auto.readings.ddp import Gradients
from gputop.tracking.auto.readings.gpu import memory_values
from gputop.tracking.auto.readings.loader import Feed
from gputop.tracking.auto.training.epochs import Epochs
from gputop.tracking.auto.training.iteration import GC_S
from gputop.tracking.auto.training.optimizers import Optimizers
from gputop.tracking.auto.training.pace import Rate
from gputop.tracking.auto.training.records import Records
from gputop.tracking.auto.training.state import Training
from gputop.tracking.auto.training.threads import Threads, has_ended
from gputop.tracking.auto.which_run import WhichRun
from gputop.tracking.journal.handlers import let_through
from gputop.tracking.journal.notice import tell
from gputop.tracking.manual_steps import NEEDED, ManualSteps
from gputop.tracking.unseen import unseen

if TYPE_CHECKING:  # imported at the first step otherwise: ``import gputop`` stays cheap
    from gputop.tracking.auto.facts import Facts
    from gputop.tracking.auto.models.models import Models

NO_NUMBERS = ("DTensor", "FakeTensor", "FunctionalTensor")
"""Tensors without a value of their own on this rank, or without any value."""
MEMORY_EVERY_S = 1.0
BESIDE = "steps on other threads are not recorded: if several trainings run at the same time, gputop follows the first."
"""The rest of a run's warning, after the number of steps that other threads made."""


class Steps(Training):
    """Advances the state of the training from iteration to iteration."""

    def __init__(self, torch: Any) -> None:
        self.tensor = torch.Tensor
        self._which_run = WhichRun()
        self.models: Models | None = None
        self.facts: Facts | None = None
        self._inherited: dict[str, Any] = {}
        super().__init__(torch)
        self.on_failure = self._abandon
        self._begin()

    def _begin(self) -> None:
        self._on_clock: Any = None
        self._stepping_on: weakref.ref[Any] | None = None
        """The optimizer whose step is running."""
        self._held = HeldLosses()
        self._memory_at = 0.0
        self._rate = Rate()
        self.epochs = Epochs()
        self._training = 1
        """Which of several consecutive trainings this is."""
        self.fast.end_backward()
        self.by_hand: ManualSteps | None = ManualSteps()
        """Finds steps without an optimizer, as long as no optimizer has stepped."""

    def reset(self) -> None:
        """Reset in a forked child, which opens its own run if it trains."""
        # Never freed: freeing memory on a GPU, or pinned for one, calls the driver, which does not work in a forked child.
        self._inherited = self.__dict__.copy()
        self._abandon()
        self.facts = None
        self.clear()
        self._begin()

    def _abandon(self) -> None:
        self.fast.leave("full")
        if self.facts is not None:
            self.facts.abandon()

    def scaled(self, result: Any, loss: Any) -> None:
        """Remember the loss that a GradScaler scaled."""
        if not self.fast.takes_several:
            self.end_early()
        with unseen(self.torch):
            self.sites.scaled(result, loss)

    def before_backward(self, tensors: Any) -> None:
        """Read the loss that backward is about to run on. Called on the training thread."""
        self.sites.begin_backward()
        if not self.partial:
            self.gradients.backward()
        if not self.taken:
            self._listen_to_keras()
        if self.blind:
            self.fast.stop()
            tell("automatic tracking stops, the training goes on: torch.compile hides the optimizer's steps. Use run.log.")
            return
        tensor = tensors
        if type(tensor) is not self.tensor:
            if isinstance(tensors, tuple | list) and len(tensors) == 1:
                tensor = tensors[0]
            if not isinstance(tensor, self.tensor) or type(tensor).__name__ in NO_NUMBERS:
                return
        if self.iteration.evaluated():
            self.iteration.interrupt()
        feed = self.loader
        if feed is not None:
            self.iteration.add_rows(*feed.take())
            if feed.feeds_training():
                self.epochs.add(feed)
                self._record_loader(feed)
        shown, part = self.sites.unscaled(tensor)
        number = loss_values.value_of(self.torch, shown)
        if number is None:
            return
        site = self.sites.here()
        if self.by_hand is not None and not self.stepping and self.by_hand.ended_before(site, tensor):
            self._step_by_hand(self.by_hand)
        again = self.stepping and site.count > 0 and self._begins_again()
        if self.sites.add(site, number, part, tensor, self.stepping, again):
            self.iteration.add_loss()

    def moves_here(self, tensors: Any) -> bool:
        """Return whether a backward that begins on another thread belongs to the training, which then continues there."""
        try:
            threads, idle = self.threads, self._is_idle()
            may_hold = idle and threads.may_hold
            if threads.follows_backward(idle, (idle and not len(self.optimizers)) or has_ended(self.thread)):
                self._go_on_here()
                return True
            if may_hold and type(tensors) is self.tensor:
                with unseen(self.torch):
                    value = loss_values.value_of(self.torch, self.sites.unscaled(tensors)[0])
                if value is not None:
                    threads.hold((self.sites.here(), value))
        except Exception as error:  # noqa: BLE001 - the script's backward runs next
            self.failed(error)
        return False

    def _is_idle(self) -> bool:
        """Return whether the training is between two iterations."""
        return not (self.sites.pending or self.stepping or self.fast.in_backward or self.fast.loss is not None)

    def _go_on_here(self) -> None:
        """Follow the training to this thread, and drop what a thread that has ended has left unfinished."""
        if self.fast.mode == "fast":
            self._end_early()
        if not self.threads.in_turn and not self._is_idle():
            self.sites.take()
            self.stepping = False
            self.iteration.interrupt()
        self.thread = get_ident()
        if self.threads.in_turn:
            self.without_fast_path()  # which is for one thread

    def _follows(self, optimizer: Any) -> bool:
        """Return whether a step on another thread belongs to the training, which then continues there."""
        if not self.threads.follows_step(self._is_idle(), self.optimizers.knows(optimizer)):
            return False
        self._go_on_here()
        return True

    def _take_what_another_thread_left(self) -> None:
        """Take the loss of a backward on another thread if a step without a loss shows that it belongs there."""
        without_loss = not self.sites.pending and (self.sites.settled or bool(self._held))
        held = self.threads.stepped(without_loss)
        if self.threads.in_turn:
            self.without_fast_path()
            if held is not None and not self.sites.pending:
                self.sites.hand_in(*held)

    def _begins_again(self) -> bool:
        """Return whether the gradients from before this optimizer step are gone: its closure computes the same loss again."""
        optimizer = self._stepping_on() if self._stepping_on is not None else None
        return optimizer is not None and all(
            weight.grad is None for group in optimizer.param_groups for weight in group["params"]
        )

    def backward_failed(self) -> None:
        """Take back a backward that raised: the script may retry it."""
        try:
            self.sites.take_back()
            if not self.partial:
                self.gradients.take_back()
        except Exception as error:  # noqa: BLE001 - the script gets the error of its backward, and no other one
            self.failed(error)

    def after_backward(self) -> None:
        """Check the gradients that backward has left, as long as no optimizer has stepped."""
        try:
            if self.by_hand is not None and not self.stepping:
                self.by_hand.after_backward()
        except Exception as error:  # noqa: BLE001 - a tensor of any kind: then only an optimizer's steps are known
            let_through(error)
            self.by_hand = None

    def _step_by_hand(self, by_hand: ManualSteps) -> None:
        """Take the losses since the last step, which had no optimizer; the first ones are held until that is certain."""
        if self.run is None and len(by_hand.held) < NEEDED - 1:
            if not by_hand.held:
                early_failure.record_unseen(lambda: self.off or self.run is not None)
            by_hand.hold(self.sites.take())
            self.iteration.begin()
            return
        self.without_fast_path()  # which ends where an optimizer steps
        self.after_step(by_hand)

    def _end_by_hand(self, by_hand: ManualSteps) -> None:
        """Forget the backwards before an optimizer's first step: they were not steps of the training."""
        pending = self.sites.pending
        if by_hand.held and len(pending) > 1 and pending[0] is by_hand.site and by_hand.is_over:
            self.sites.drop_first()
        by_hand.release()
        self.by_hand = None

    def _write_held_by_hand(self, by_hand: ManualSteps) -> None:
        """Write the losses of the steps that were held back until it was certain that they are steps."""
        held = by_hand.release()
        self.sites.settle([site for site, _ in losses] for _, losses in held)
        for at_ns, losses in held:
            self.step += 1
            values: dict[str, Any] = {}
            for site, value in losses:
                values[self.sites.name(site, values)] = value
            if self.records is not None:
                self.records.write(values, self.step, at_ns)

    def _listen_to_keras(self) -> None:
        if "keras" in sys.modules:
            from gputop.tracking.auto.keras import listen

            listen(self.torch, self)

    def before_step(self, optimizer: Any = None) -> None:
        """Note that an optimizer's step begins; closures run inside it."""
        if self.on_other_thread():
            return
        self.stepping = True
        self._stepping_on = None if optimizer is None else weakref.ref(optimizer)
        clock = self.wanted.clock
        if clock is not None and clock.running:
            self._on_clock = clock.start()
        self.sites.begin_step()
        self.iteration.begin_step()

    def after_step(self, optimizer: Any, skipped: bool = False) -> None:
        """Write the record after an optimizer stepped (or its scaler skipped the step)."""
        if self.thread and get_ident() != self.thread and not self._follows(optimizer):
            return
        now = perf_counter()
        self.stepping = False
        if self.threads.backward:
            self._take_what_another_thread_left()
        if self._on_clock is not None:
            self._stop_clock()
        if not skipped:
            self.taken += 1
        if self.by_hand is not None and optimizer is not self.by_hand:
            self._end_by_hand(self.by_hand)
        if not skipped and not self.partial and self.by_hand is None:
            self.iteration.end_step(now)
        # A run that another one replaces is finished first, and so is its journal.
        opened = self.journal is None or self.journal.closed
        if opened:
            if not self._open():
                return
            self._begin_run()
        self.sites.stepped(optimizer)
        if self._held and self.sites.settled:
            self.name_held()
        optimizers = self.optimizers
        values: dict[str, Any] = {}
        phases = optimizers.phases
        index, known = optimizers.number(optimizer)
        models = self._models()
        if models.searches.misses_modules or not (known or models.knows(optimizer)):
            self.iteration.miss_forwards()
        if optimizers.phases > phases and self.iteration.fetched:
            self.epochs.begin_phase(self.loader)
        if optimizers.trainings > self._training:
            self._begin_training(optimizers.trainings)
            values["training"] = float(self._training)
        plain = known and not skipped and self.is_plain()
        if opened or self.iteration.fetched or optimizers.begins_iteration(index, self.loader is not None):
            self._close_iteration()
            self._timings(values, now)
        optimizers.add(index)
        self.iteration.end_batches()
        self._add_losses(values, optimizer)
        rate = optimizer.param_groups[0].get("lr")
        if type(rate) is float or type(rate) is int:
            values["lr" if index == 0 else f"lr/{index}"] = float(rate)
        if values and self.records is not None:
            self.records.write(values, self.step)
        self._note_optimizer(optimizer, index, known, opened)
        # Which of several backwards a wrapper reduced over the ranks is counted in every step.
        counted = models.settling or models.inspection.splits or (models.wrapped and self.accumulates())
        self.decide(plain and not counted)
        self.do_between_steps()

    def _stop_clock(self) -> None:
        """Stop timing an optimizer's step on the GPU."""
        if self.wanted.clock is not None and not self.iteration.inside_step:
            self.wanted.clock.stop("cuda/optimizer_s", self._on_clock)
        self._on_clock = None

    def _add_losses(self, values: dict[str, Any], optimizer: Any) -> None:
        """Add the losses of a step to its record, or hold them back until their names are known."""
        sites = self.sites
        if not sites.pending or (sites.settled and sites.take_plain(values, optimizer, self.step)):
            return
        losses = [(site, value, site.turn(optimizer, self.step)) for site, value in sites.take()]
        if not sites.settled or any(site.undecided for site, _, _ in losses):
            self._held.hold(losses)
            return
        for site, value, turn in losses:
            values[sites.name(site, values, turn if site.shared else 0)] = value

    def _note_optimizer(self, optimizer: Any, index: int, known: bool, opened: bool) -> None:
        """Find the modules of a new optimizer, and collect the facts that are due after its step."""
        models, facts = self._models(), self.facts
        assert facts is not None
        if opened:
            # Backwards before this point were not observed, because the modules were unknown: do not report on them.
            self.gradients = Gradients()
        if opened or not known:
            facts.optimizer_added(optimizer)
        if not known:
            models.add_optimizer(optimizer)
        if models.wrapped:
            models.inspection.wrapping.stepped()
        if not self.partial:
            self.gradients.stepped(known and index in models.ddp_optimizers)
        searched = not known
        if self.step >= self.wanted.facts_due or facts.stall.stalled:
            searched |= models.search_late()
            facts.due(self.step)
        if searched:
            self.mark = perf_counter()

    def _begin_training(self, number: int) -> None:
        """Begin another training of this run: its steps continue, its epochs and its losses start over."""
        self._training = number
        if self._held:
            self.name_held()
        self.start_over()
        self.sites.begin_training()
        self.iteration.interrupt()  # by the time between the trainings
        if not self.iteration.fetched:
            self.loader = None
        elif self.loader is not None:
            self.loader.begin_training()
        self.epochs.begin_training(self.loader)

    def _close_iteration(self) -> None:
        """Begin a new iteration; the first one to end determines the names of the losses."""
        self.optimizers.close_iteration()
        if self._held and not self.sites.settled:
            self.name_held()
        self.step += 1
        if self.models is not None and self.models.settling:
            self.models.after_iteration(self.step)

    def name_held(self) -> None:
        """Name the losses that are held back, and write them."""
        values = self._held.take(self.sites)
        if values and self.records is not None:
            self.records.write(values, self.step)

    def finish(self) -> None:
        """Write everything that is still held back, at the end of the run."""
        try:
            self.end_early()
            if self.by_hand is not None and self.run is not None and self.sites.pending:
                self.after_step(self.by_hand)
            if self._held:
                self.name_held()
            if self.threads.ignored and self.run is not None:
                self.run.text(f"{self.threads.ignored} {BESIDE}", "warning")
            if self.facts is not None:
                self.facts.finish()
        except Exception as error:  # noqa: BLE001 - the run is ending
            self.failed(error)

    def _timings(self, values: dict[str, Any], now: float) -> None:
        mark, self.mark = self.mark, now
        iteration, feed = self.iteration, self.loader
        took = None if mark is None or iteration.interrupted else now - mark
        if took is None:
            self._rate.clear()
        else:
            self.recent_s.append(took)
        usual_s = self._rate.after(self.step, now) if self.torch.cuda.is_initialized() else took
        iteration.put(values, took, usual_s, not self.partial, feed is not None, self.by_hand is None)
        epoch = self.epochs.now(feed)
        if epoch is not None:
            values["epoch"] = epoch
        if now - self._memory_at > MEMORY_EVERY_S:
            self._memory_at = now
            values.update(memory_values(self.torch.cuda))
        if iteration.gc_s >= GC_S and mark is not None:
            values["gc_s"] = iteration.gc_s
        if self.facts is not None:
            values.update(self.facts.take_arrived())
        iteration.begin()

    def tell_epoch(self, epoch: float) -> None:
        """Take the epoch from the framework."""
        self.epochs.tell(epoch)

    def note(self, **metrics: float) -> None:
        """Write metrics outside of a step's record, such as the time of a checkpoint."""
        if self.records is not None:
            self.records.note(self.step, metrics)

    def framework_logged(self, metrics: dict[str, Any]) -> None:
        """Write what a framework logged by itself at the last step."""
        self.end_early()
        if metrics and self.step >= 0 and self.records is not None:
            self.records.note(self.step, metrics)

    def _open(self) -> bool:
        """Return whether there is a run to write to: the script's, or our own, which this opens."""
        if self.run is not None and self._which_run.is_still(self.run):
            return not self.run.disabled
        self.thread = get_ident()
        run, own = self._which_run.open()
        self.run, self.journal, self.records = run, run.journal, Records(run, own)
        run.before_end = self.finish
        return not run.disabled

    def _begin_run(self) -> None:
        """Start over with an empty record for a new run: no steps, optimizers, losses or facts."""
        from gputop.tracking.auto.facts import Facts

        self.start_over()
        self.step = (0 if self.journal is None else self.journal.automatic_from) - 1
        self._held.clear()
        self.sites.begin_run()
        self.optimizers = Optimizers()
        self.threads = Threads()
        self._training = 1
        self.mark = None
        self.recent_s.clear()
        self.epochs.begin_run(self.loader)
        self._models().begin_run()
        if self.by_hand is not None and self.by_hand.held:
            self._write_held_by_hand(self.by_hand)
        if self.facts is not None:
            self.facts.abandon()
        self.facts = Facts(self.torch, self, self._models())
        self.facts.begin()
        framework_metrics.listen(self, self.framework_logged)

    def _models(self) -> Models:
        if self.models is None:
            from gputop.tracking.auto.models.models import Models

            self.models = Models(self.torch, self)
        return self.models

    def _record_loader(self, feed: Feed) -> None:
        if self.run is not None and not self.run.disabled:
            feed.record_facts(self.run)
