"""Follows the training to other threads: where it goes on, and which loss of another thread belongs to its step.

``training/threads.py`` decides; this module acts on it.
"""

from __future__ import annotations

from threading import get_ident
from typing import Any

from gputop.tracking.auto.losses import values as loss_values
from gputop.tracking.auto.losses.held import HeldLosses
from gputop.tracking.auto.training.state import Training
from gputop.tracking.auto.training.threads import has_ended
from gputop.tracking.unseen import unseen


class OtherThreads:
    """What backwards and steps on other threads do to the training. Keeps nothing itself."""

    def __init__(self, training: Training) -> None:
        self._training = training

    def goes_on_here(self, tensors: Any) -> bool:
        """Return whether a backward that begins on another thread belongs to the training, which then goes on there."""
        training = self._training
        try:
            threads, idle = training.threads, training.is_idle()
            may_hold = idle and threads.may_hold
            if threads.follows_backward(idle, (idle and not len(training.optimizers)) or has_ended(training.thread)):
                training.go_on_here()
                return True
            if may_hold and type(tensors) is training.torch.Tensor:
                with unseen(training.torch):
                    value = loss_values.value_of(training.torch, training.sites.unscaled(tensors)[0])
                if value is not None:
                    threads.hold((training.sites.here(), value))
        except Exception as error:  # noqa: BLE001 - the script's backward runs next
            training.failed(error)
        return False

    def is_foreign(self, optimizer: Any) -> bool:
        """Return whether a step that ends on this thread is not of the training, which otherwise goes on here."""
        training = self._training
        if not training.thread or get_ident() == training.thread:
            return False
        if not training.threads.follows_step(training.is_idle(), training.optimizers.knows(optimizer)):
            return True
        training.go_on_here()
        return False

    def take_what_is_left(self, held: HeldLosses) -> None:
        """Take the loss of a backward on another thread if a step without one shows whose it is."""
        training = self._training
        threads, sites = training.threads, training.sites
        if not threads.backward:
            return
        loss = threads.stepped(without_loss=not sites.pending and (sites.settled or bool(held)))
        if threads.in_turn:
            training.without_fast_path()
            if loss is not None and not sites.pending:
                sites.hand_in(*loss)
