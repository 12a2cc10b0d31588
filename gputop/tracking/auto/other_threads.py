"""Follows the training to other threads: where it continues, and which loss of another thread belongs to its step.

``training/threads.py`` decides; this module acts on it.
"""

from __future__ import annotations

from threading import get_ident
from typing import Any

from gputop.tracking.auto.losses.held import HeldLosses
from gputop.tracking.auto.training.state import Training
from gputop.tracking.auto.training.threads import has_ended
from gputop.tracking.unseen import unseen


class OtherThreads:
    """What backwards and steps on other threads do to the training. Keeps nothing itself."""

    def __init__(self, training: Training) -> None:
        self._training = training

    def continues_here(self, tensors: Any) -> bool:
        """Return whether a backward belongs to the training that begins on another thread, or before the first step.

        The training then continues there.
        """
        training, threads = self._training, self._training.threads
        try:
            if not training.thread:
                return not threads.begins_elsewhere(get_ident(), lambda: self._loss(tensors) is not None)
            idle = training.is_idle()
            may_hold = idle and threads.may_hold
            is_over = (idle and not len(training.optimizers)) or has_ended(training.thread)
            if threads.follows_backward(idle, is_over, lambda: self._loss(tensors) is not None, training.fast.taken):
                training.go_on_here()
                return True
            value = self._loss(tensors) if may_hold else None
            if value is not None:
                threads.hold((training.sites.here(), value))
        except Exception as error:  # noqa: BLE001 - the script's backward runs next
            training.failed(error)
        return False

    def _loss(self, tensors: Any) -> Any:
        """Return the value that a backward begins at; None if that is not a single number."""
        training = self._training
        if type(tensors) is not training.torch.Tensor:
            return None
        with unseen(training.torch):
            return training.sites.unscaled(training.torch, tensors)[0]

    def is_foreign(self, optimizer: Any) -> bool:
        """Return whether a step that ends on this thread is not of the training, which otherwise continues here."""
        training, here = self._training, get_ident()
        training.threads.note_step(here)
        if not training.thread or here == training.thread:
            return False
        if not training.threads.follows_step(training.is_idle(), training.optimizers.knows(optimizer)):
            return True
        training.go_on_here()
        return False

    def take_leftovers(self, held: HeldLosses) -> None:
        """Take the loss of a backward on another thread if a step without one shows whose it is."""
        training = self._training
        threads, sites = training.threads, training.sites
        if not threads.backward:
            return
        if threads.loses_loss:
            sites.take()
        loss = threads.stepped(without_loss=not sites.pending and (sites.settled or bool(held)))
        if threads.in_turn:
            training.without_fast_path()
            if loss is not None and not sites.pending:
                sites.hand_in(*loss)
