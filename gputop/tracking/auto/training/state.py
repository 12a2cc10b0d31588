"""The state of the training in this process: the run, the optimizers, the loader, and the current iteration.

The parts of automatic tracking share it. ``Steps`` advances it from iteration to iteration; the others read it, and add
their measurements to the current iteration. One thread trains; other threads are ignored.
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
from gputop.tracking.journal.notice import reason, tell

if TYPE_CHECKING:  # the first step opens the run: ``import gputop`` stays cheap
    from gputop.tracking.auto.readings.gpu import Clock
    from gputop.tracking.auto.training.records import Records
    from gputop.tracking.journal.writer import Journal
    from gputop.tracking.run import Run

RECENT_STEPS = 33


class Training:
    """The state of one process's training."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.off = False
        """Whether tracking records nothing, either for good or in the current run."""
        self.on_failure: Callable[[], None] | None = None
        """Called once when automatic tracking stops after an error."""
        self.partial = False
        """Whether the current iteration is not measured in full."""
        self.blind = False
        """Whether an optimizer's step was compiled: such steps cannot be counted, nor their losses told apart."""
        self.clear()

    def clear(self) -> None:
        """Reset the state: at the start, and in a forked child, which opens its own run if it trains."""
        self.run: Run | None = None
        self.journal: Journal | None = None
        """The journal of the run."""
        self.records: Records | None = None
        """Writes the values of each step."""
        self.facts_due = 0
        """The step after which facts are next collected."""
        self.thread = 0
        self.step = -1
        self.taken = 0
        """How many optimizer steps were seen; detects those that a GradScaler skips."""
        self.mark: float | None = None
        """When the last step ended."""
        self.recent_s: deque[float] = deque(maxlen=RECENT_STEPS)
        """The last times between steps."""
        self.optimizers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.last: weakref.ref[Any] | None = None
        """The optimizer that stepped last."""
        self.code = UserCode(os.path.dirname(getattr(self.torch, "__file__", "") or ""))
        self.sites = Sites(self.code)
        self.gradients = Gradients()
        self.partial = False
        self.clock: Clock | None = None
        self.arrived: dict[str, float] = {}
        """GPU times of an earlier step that still have to be written."""
        self.loader: Any = None
        """The loader of the last fetched batch (``loader.Feed``)."""
        self.batches_from = 0
        """Batches are checksummed from this step on, because the fact will soon be recorded."""
        self.fetched = 0
        """Batches fetched in the current iteration."""
        self.stepping = False
        """Whether an optimizer's step is running, so that a backward belongs to its closure."""
        self.interrupted = True
        """Whether something other than training (an evaluation, a checkpoint) lengthened the current iteration."""
        self.rows = self.tokens = self.losses = self.calls = 0
        self.data_s = self.forward_s = self.backward_s = self.optimizer_s = self.evaluation_s = self.gc_s = 0.0
        self.inside_step = 0.0

    def failed(self, error: Exception) -> None:
        """Stop tracking after an error; the training continues without it."""
        if not self.off:
            self.off = True
            if self.on_failure is not None:
                self.on_failure()
            tell(f"automatic tracking stops, the training goes on ({reason(error)}).")

    def on_other_thread(self) -> bool:
        """Return whether the caller runs on a thread other than the one that trains."""
        return bool(self.thread) and get_ident() != self.thread

    def update_fact(self, name: str, value: Any) -> None:
        """Record a fact if its value changed. None is ignored, except for ``stalled``, which it clears."""
        run = self.run
        if run is not None and run.facts.get(name) != value and (value is not None or name == "stalled"):
            run.fact(name, value)
