"""What is known of the training in this process: the run, the optimizers, the loader, and the iteration that is going on.

The parts of automatic tracking share it. ``Steps`` moves it from iteration to iteration; the others read it, and add what
they measure to the present iteration. One thread trains; what other threads do is not looked at.
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any

from gputop.tracking.auto.ddp import Gradients
from gputop.tracking.auto.loss import Sites
from gputop.tracking.journal.notice import tell

if TYPE_CHECKING:  # the run is opened by the first step: ``import gputop`` stays cheap
    from gputop.tracking.auto.gpu import Clock
    from gputop.tracking.auto.records import Records
    from gputop.tracking.journal.writer import Journal
    from gputop.tracking.run import Run

RECENT_STEPS = 33


class Training:
    """The state of one process's training."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.off = False
        """Whether nothing is recorded any more, or not in this run."""
        self.on_failure: Callable[[], None] | None = None
        """Called once when automatic tracking gives up."""
        self.partial = False
        """Whether the present iteration is not looked at whole."""
        self.blind = False
        """Whether an optimizer's step was compiled: such steps cannot be counted, and their losses not told apart."""
        self.clear()

    def clear(self) -> None:
        """Forget the run: at the start, and in a forked child, which opens its own if it trains."""
        self.run: Run | None = None
        self.journal: Journal | None = None
        """That of the run."""
        self.records: Records | None = None
        """Where the steps are written to."""
        self.facts_due = 0
        """The step after which facts are looked at next."""
        self.thread = 0
        self.step = -1
        self.taken = 0
        """How many optimizer steps were seen, for noticing those that a GradScaler skips."""
        self.mark: float | None = None
        """When the last step was done."""
        self.recent_s: deque[float] = deque(maxlen=RECENT_STEPS)
        """The last times between steps."""
        self.optimizers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.last: weakref.ref[Any] | None = None
        """The optimizer that stepped last."""
        self.sites = Sites(os.path.dirname(getattr(self.torch, "__file__", "") or ""))
        self.gradients = Gradients()
        self.partial = False
        self.clock: Clock | None = None
        self.arrived: dict[str, float] = {}
        """Times on the GPU, of a step before, that are to be written."""
        self.loader: Any = None
        """The loader of the batch that was fetched last (``loader.Feed``)."""
        self.batches_from = 0
        """From this step on the checksums of batches are made: they will be told soon."""
        self.fetched = 0
        """Batches of the present iteration."""
        self.stepping = False
        """Whether an optimizer's step is going on, so that a backward belongs to a closure."""
        self.interrupted = True
        """Whether something other than training (an evaluation, a checkpoint) stretched the present iteration."""
        self.rows = self.tokens = self.losses = self.calls = 0
        self.data_s = self.forward_s = self.backward_s = self.optimizer_s = self.evaluation_s = self.gc_s = 0.0
        self.inside_step = 0.0

    def failed(self, error: Exception) -> None:
        """Give up: whatever goes wrong in here, the training goes on without it."""
        if not self.off:
            self.off = True
            if self.on_failure is not None:
                self.on_failure()
            tell(f"automatic tracking stops, the training goes on ({type(error).__name__}: {str(error)[:200]}).")

    def on_other_thread(self) -> bool:
        """Return whether the caller is on another thread than the one that trains."""
        return bool(self.thread) and get_ident() != self.thread

    def update_fact(self, name: str, value: Any) -> None:
        """Record a fact if it is another than was told; None tells nothing, but takes ``stalled`` back."""
        run = self.run
        if run is not None and run.facts.get(name) != value and (value is not None or name == "stalled"):
            run.fact(name, value)
