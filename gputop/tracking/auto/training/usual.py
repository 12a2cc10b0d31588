"""What the usual iteration of a training is like; only plain ones can be fast."""

from __future__ import annotations

from typing import NamedTuple

from gputop.tracking.auto.losses.site import Site
from gputop.tracking.auto.losses.sites import Sites
from gputop.tracking.auto.training.iteration import Iteration


class Turn(NamedTuple):
    """The step of one optimizer in an iteration."""

    number: int
    """The number of the optimizer."""
    lines: list[Site]
    """The lines that run backward before it steps, since the step before."""


class Usual:
    """The last iteration that was measured in full. Its methods are its only writers."""

    __slots__ = ("_is_plain", "_scales", "_turns", "fetches", "lines", "scales", "turns")

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        """The steps of its optimizers; the last one ends it."""
        self.lines: list[Site] = []
        """The lines that run backward in it."""
        self.scales = False
        """Whether a GradScaler scales their losses."""
        self.fetches = False
        """Whether it fetches batches from a DataLoader."""
        self.forget()

    def forget(self) -> None:
        """Forget the steps of the current iteration."""
        self._turns: list[Turn] = []
        self._scales, self._is_plain = False, True

    def step(self, number: int, sites: Sites, plain: bool) -> None:
        """Take a step of the optimizer with this number in the current iteration; ``plain``: it had nothing special."""
        self._turns.append(Turn(number, list(sites.pending)))
        self._scales = self._scales or sites.scaled_in_step
        self._is_plain = self._is_plain and plain and not sites.inside

    def end(self, iteration: Iteration, optimizers: int) -> bool:
        """Take the iteration that ends, and return whether it had nothing special.

        ``optimizers``: how many the training has. All of the iteration was measured, or it proves nothing.
        """
        self.turns, self.scales, self.fetches = self._turns, self._scales, iteration.fetched > 0
        self.lines = [site for turn in self.turns for site in turn.lines]
        plain = self._is_plain and bool(self.lines) and len(self.turns) == optimizers
        self.forget()
        return plain and not (iteration.evaluation_s or iteration.interrupted or iteration.several_loaders)
