"""The measurements of the current iteration: how long its parts took, and how much it trained on."""

from __future__ import annotations

from collections import deque
from statistics import median
from time import perf_counter
from typing import Any

ROLLOUTS = 8
"""Once this many iterations in a row have had forwards without gradients, such forwards belong to the step."""
ROLLOUT_MOST = 4.0
"""Forwards that take this many times their median are an evaluation after all."""
GC_S = 1e-3
"""A step's garbage collection time is recorded from this duration on."""


class Iteration:
    """What was measured since the last iteration ended, in seconds and numbers. Its methods are its only writers."""

    __slots__ = (
        *("_began_step", "_calls", "_losses", "_optimizer_s", "_rows", "_tokens", "backward_s", "data_s", "evaluation_s"),
        *("_evaluations_s", "fetched", "first_batch_s", "forward_s", "gc_s", "inside_step", "interrupted", "missed_forwards"),
        "several_loaders",
    )

    def __init__(self) -> None:
        self.begin()
        self._evaluations_s: deque[float] = deque(maxlen=ROLLOUTS)
        """How long the forwards without gradients took in the last iterations."""
        self.interrupted = True
        """Whether something other than training (an evaluation, a checkpoint) lengthened it."""
        self.fetched = 0
        """Batches fetched since an optimizer stepped."""
        self.several_loaders = False
        """Whether these came from several loaders."""
        self.first_batch_s = 0.0
        """How long the first batch of a loader's iteration took, until that is written."""
        self.inside_step = 0.0
        """Forward and backward within the current optimizer step: its closure."""
        self._began_step = 0.0

    def begin(self) -> None:
        """Restart the measurements."""
        self.interrupted = self.missed_forwards = False
        self.gc_s = self.data_s = self.forward_s = self.backward_s = self._optimizer_s = self.evaluation_s = 0.0
        self._rows = self._tokens = self._losses = self._calls = 0

    def begin_after_fast(self) -> None:
        """Restart the measurements after fast iterations, which leave everything else at zero."""
        self.fetched, self.gc_s = 0, 0.0

    def resume(self, gc_s: float, data_s: float, fetched: int) -> None:
        """Continue an iteration that began on the fast path: its garbage collection, waits and batches."""
        self.gc_s, self.data_s, self.fetched = gc_s, data_s, fetched

    def interrupt(self) -> None:
        """Note that it was lengthened by something other than training."""
        self.interrupted = True

    def miss_forwards(self) -> None:
        """Note that forwards were not timed: their modules are not known yet."""
        self.missed_forwards = True

    def add_wait(self, seconds: float) -> None:
        """Add a wait for data."""
        self.data_s += seconds

    def add_batch(self, another_loader: bool) -> None:
        """Count a batch; ``another_loader``: it is not from the loader of the batch before it."""
        self.several_loaders = self.fetched > 0 and (another_loader or self.several_loaders)
        self.fetched += 1

    def set_first_batch(self, seconds: float) -> None:
        """Note how long the first batch of a loader's iteration took."""
        self.first_batch_s = seconds

    def add_forward(self, seconds: float) -> None:
        """Add a forward of the training."""
        self.forward_s += seconds
        self.inside_step += seconds

    def add_evaluation(self, seconds: float) -> bool:
        """Add a forward of an evaluation; return whether it is the first one after a step."""
        self.evaluation_s += seconds
        return self.evaluation_s == seconds

    def evaluated(self) -> bool:
        """Return whether an evaluation lengthened it, as opposed to the rollouts that each step of reinforcement learning
        has."""
        usual = self._evaluations_s
        if not self.evaluation_s:
            return False
        return len(usual) < ROLLOUTS or not min(usual) or self.evaluation_s > ROLLOUT_MOST * median(usual)

    def add_backward(self, seconds: float) -> None:
        """Add a backward."""
        self.backward_s += seconds
        self.inside_step += seconds

    def add_collection(self, seconds: float) -> None:
        """Add a garbage collection."""
        self.gc_s += seconds

    def add_rows(self, rows: int, tokens: int) -> None:
        """Add the contents of a batch that backward now runs on."""
        self._rows += rows
        self._tokens += tokens

    def add_call(self, rows: int, tokens: int) -> None:
        """Add a call of the model, if no loader shows the batches."""
        self._calls += 1
        self.add_rows(rows, tokens)

    def add_loss(self) -> None:
        """Count a loss."""
        self._losses += 1

    def begin_step(self) -> None:
        """Note that an optimizer's step begins."""
        self.inside_step = 0.0
        self._began_step = perf_counter()

    def end_step(self, now: float) -> None:
        """Add the time of an optimizer's step that ends ``now``, without its closure."""
        spent = now - self._began_step - self.inside_step
        if spent > 0.0:
            self._optimizer_s += spent

    def end_batches(self) -> None:
        """Count batches from 0 again: an optimizer has stepped."""
        self.fetched = 0

    def put(
        self,
        values: dict[str, Any],
        took: float | None,
        usual_s: float | None,
        in_full: bool,
        has_loader: bool,
        optimizer: bool,
    ) -> None:
        """Add the measurements to the values of a step.

        Args:
            values: the values of the step.
            took: the time since the last step; None if it is unknown, or not that of a training step.
            usual_s: the step time for the throughput: ``took``, or the recent mean on a GPU; None if unknown.
            in_full: whether the whole iteration was measured.
            has_loader: whether a loader shows the batches.
            optimizer: whether an optimizer stepped.
        """
        self._evaluations_s.append(self.evaluation_s)
        if self.evaluation_s:
            values["phase/evaluation"] = self.evaluation_s
        if took is not None and took > 0.0:  # a script may stop the clock, as tests do
            values["step_s"] = took
            if usual_s is not None and usual_s != took:
                values["pace_s"] = usual_s
            # Without a loader, rows are counted in the model's calls, which is valid only if each call has one loss.
            known = has_loader or (self._calls == self._losses and not self.missed_forwards)
            if known and usual_s and self._rows:
                values["samples_per_s"] = self._rows / usual_s
            if known and usual_s and self._tokens:
                values["tokens_per_s"] = self._tokens / usual_s
            if self.data_s:
                values["phase/data"] = self.data_s
        if self.first_batch_s:
            # Even if an evaluation lengthened the step, as happens between two epochs.
            values["first_batch_s"], self.first_batch_s = self.first_batch_s, 0.0
        if in_full:
            if self.forward_s and not self.missed_forwards:
                values["phase/forward"] = self.forward_s
            if self.backward_s:
                values["phase/backward"] = self.backward_s
            if optimizer:
                values["phase/optimizer"] = self._optimizer_s
