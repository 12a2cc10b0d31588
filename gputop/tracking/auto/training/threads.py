"""Which threads run the training: one, until it continues on another one, or on several that take turns.

Trainings that run at the same time on several threads cannot be separated in one record: the first one is followed, and
the steps of the others are counted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


class Threads:
    """What is known of threads other than the one that trains. Its methods are its only writers."""

    __slots__ = (
        "_backward_at",
        "_first",
        "_held",
        "_holds",
        "_several",
        "_stepper",
        "backward",
        "ignored",
        "in_turn",
        "loses_loss",
    )

    def __init__(self) -> None:
        self.in_turn = False
        """Whether several threads take turns in one training: a backward or a step on any of them belongs to it."""
        self._several = False
        """Whether several threads train at the same time: one of them is followed."""
        self.ignored = 0
        """How many optimizer steps belong to other trainings."""
        self.backward = False
        """Whether a backward that was not followed has run since the training's last step."""
        self._backward_at = 0
        """How many steps the training had made then."""
        self.loses_loss = False
        """Whether the training itself had such a backward, and that began at a loss: the loss of the step is not known."""
        self._first = 0
        """The thread of the first backward, before the first step."""
        self._stepper: int | None = None
        """The thread of all optimizer steps so far; 0: of several."""
        self._holds = True
        self._held: Any = None

    def follows_backward(self, idle: bool, is_over: bool, begins_at_loss: Callable[[], bool], steps: int) -> bool:
        """Return whether a backward that begins on another thread belongs to the training, which then continues there.

        In the middle of an iteration, one thread makes all steps: threads share its backward, as the stages of a pipeline do.
        If several make steps, they train at the same time.

        Args:
            idle: the training is between two iterations.
            is_over: its thread has ended, or no optimizer of it exists any more.
            begins_at_loss: returns whether the backward begins at a loss, and not at gradients that another one computed.
            steps: how many steps the training has made.
        """
        if self.in_turn and not idle and not self._stepper:
            self.in_turn, self._several = False, True
        if is_over or (self.in_turn and idle):
            return True
        if self.in_turn:
            self.loses_loss = self.loses_loss or begins_at_loss()
        elif self._held is not None and begins_at_loss():
            self._held = None  # it is only a part of the step's loss
        self.backward, self._backward_at = True, steps
        return False

    def begins_elsewhere(self, thread: int, begins_at_loss: Callable[[], bool]) -> bool:
        """Return whether a backward before the first step runs on another thread than the first one.

        Such backwards may run at the same time, so they are not followed. See ``follows_backward``.
        """
        self._first = self._first or thread
        if self._first == thread:
            return False
        self.loses_loss = self.loses_loss or begins_at_loss()
        self.backward = True
        return True

    def note_step(self, thread: int) -> None:
        """Note on which thread an optimizer steps."""
        if self._stepper != thread:
            self._stepper = thread if self._stepper is None else 0

    def follows_step(self, idle: bool, known: bool) -> bool:
        """Return whether an optimizer's step on another thread belongs to the training.

        Args:
            idle: the training is between two iterations.
            known: the optimizer has made steps of the training.
        """
        if not self._several and (self.in_turn or (known and (idle or not self.backward))):
            self.in_turn = True
            return True
        self.ignored += 1
        return False

    def stepped(self, without_loss: bool) -> Any:
        """Note a step of the training after a backward on another thread; return the loss that is held, None without one.

        ``without_loss``: the training has had losses, and this step has none.
        """
        if without_loss and not self._several:
            self.in_turn = True
        held, self._held = self._held, None
        self.backward = self.loses_loss = False
        return held

    def stepped_fast(self, steps: int) -> None:
        """Note that the training has made this many steps, the last ones on the fast path, each with its losses."""
        if self.backward and self._backward_at < steps:
            self.stepped(without_loss=False)

    @property
    def may_hold(self) -> bool:
        """Whether the loss of a backward on another thread is to be held, until an optimizer's step shows whose it is."""
        return self._holds and not (self.backward or self._several)

    def hold(self, loss: Any) -> None:
        """Hold a loss; once in a run."""
        self._held, self._holds = loss, False


def has_ended(thread: int) -> bool:
    """Return whether a thread does not exist any more, by Python's id of it."""
    return thread not in sys._current_frames()
