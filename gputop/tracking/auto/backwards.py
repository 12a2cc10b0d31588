"""Takes the loss of each backward on the full path, and the batch that it is computed on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gputop.tracking.auto.losses import values as loss_values
from gputop.tracking.auto.losses.reduction import read
from gputop.tracking.auto.training.discarded import are_discarded
from gputop.tracking.auto.training.epochs import Epochs
from gputop.tracking.auto.training.state import Training
from gputop.tracking.auto.without_optimizer import WithoutOptimizer
from gputop.tracking.journal.handlers import let_through
from gputop.tracking.journal.notice import warn
from gputop.tracking.unseen import mode_counts, unseen

NO_NUMBERS = ("DTensor", "FakeTensor", "FunctionalTensor")
"""Tensors without a value of their own on this rank, or without any value."""


class Backwards:
    """What is read at a backward. Keeps nothing itself."""

    def __init__(self, training: Training, epochs: Epochs, without_optimizer: WithoutOptimizer) -> None:
        self._training = training
        self._epochs = epochs
        self._without_optimizer = without_optimizer
        self._tensor = training.torch.Tensor
        self._dispatches, self._functions = mode_counts(training.torch)

    def scaled(self, result: Any, loss: Any) -> None:
        """Remember the loss that a GradScaler scaled."""
        training = self._training
        if not training.fast.takes_several:
            training.end_early()
        if type(loss) is not self._tensor or self._dispatches() or self._functions():
            with unseen(training.torch):
                self._scaled(result, loss, loss_values.value_of)
        else:
            self._scaled(result, loss, loss_values.plain_value_of)

    def _scaled(self, result: Any, loss: Any, value_of: Callable[[Any, Any], Any]) -> None:
        training = self._training
        try:
            value = value_of(training.torch, loss)
        except RuntimeError as error:  # within ``torch.vmap``, which allows nobody to read a number
            let_through(error)
            value = None
        training.sites.scaled(result, value, read(loss))

    def before(self, tensors: Any) -> None:
        """Read the loss that backward is about to run on. Called on the training thread."""
        training = self._training
        sites = training.sites
        sites.begin_backward()
        if not training.partial:
            training.gradients.backward()
        if training.kept_gradients.watches:
            training.kept_gradients.backward(training.step)
        if training.step_is_hidden:
            training.fast.stop()
            warn("automatic tracking stops, the training continues: torch.compile hides the optimizer's steps. Use run.log.")
            return
        tensor = self._only(tensors)
        if tensor is None:
            return
        if training.iteration.evaluated():
            training.iteration.interrupt()
        self._take_batch()
        training.graphs.mark(tensor, training.step + 1)
        number, part = sites.unscaled(training.torch, tensor)
        if number is None:
            return
        site = sites.here()
        self._without_optimizer.before_backward(site, tensor)
        if site.runs_again and not training.stepping and self._is_discarded(tensor) and site.note_reset():
            sites.drop(site)
            if not training.partial:
                training.gradients.take_back()
        again = training.stepping and site.count > 0 and training.begins_again()
        if sites.add(site, number, part, tensor, training.stepping, again):
            training.iteration.add_loss()

    def _only(self, tensors: Any) -> Any:
        """Return the only tensor that backward runs on; None if there are several, or if it has no value."""
        if type(tensors) is self._tensor:
            return tensors
        tensor = tensors[0] if isinstance(tensors, tuple | list) and len(tensors) == 1 else tensors
        return tensor if isinstance(tensor, self._tensor) and type(tensor).__name__ not in NO_NUMBERS else None

    def _is_discarded(self, tensor: Any) -> bool:
        """Return whether the script has discarded the gradients of the last backward: of a single optimizer, it is known."""
        optimizers = self._training.optimizers
        return len(optimizers) == 1 and optimizers.last is not None and are_discarded(optimizers.last, tensor)

    def _take_batch(self) -> None:
        """Count the batch that was fetched last as one that the training runs on."""
        training = self._training
        feed = training.loader
        if feed is None:
            return
        training.iteration.add_rows(*feed.take())
        if feed.feeds_training():
            self._epochs.add(feed)
            if training.run is not None and not training.run.disabled:
                feed.record_facts(training.run)

    def failed(self) -> None:
        """Take back a backward that raised: the script may retry it."""
        training = self._training
        try:
            training.sites.take_back()
            if not training.partial:
                training.gradients.take_back()
        except Exception as error:  # noqa: BLE001 - the script gets the error of its backward, and no other one
            training.failed(error)
