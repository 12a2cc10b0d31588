"""What the usual iteration of a training is like; only plain ones can be fast."""

from __future__ import annotations

from gputop.tracking.auto.losses.site import Site
from gputop.tracking.auto.losses.sites import Sites
from gputop.tracking.auto.training.iteration import Iteration


class Usual:
    """The last iteration that was measured in full. Its methods are its only writers."""

    __slots__ = ("fetches", "lines", "scales")

    def __init__(self) -> None:
        self.lines: list[Site] = []
        """The lines that run backward in it."""
        self.scales = False
        """Whether a GradScaler scales their losses."""
        self.fetches = False
        """Whether it fetches batches from a DataLoader."""

    def learn(self, sites: Sites, iteration: Iteration) -> None:
        """Take an iteration that ends, all of which was measured."""
        self.lines, self.scales, self.fetches = list(sites.pending), sites.scaled_in_step, iteration.fetched > 0

    @property
    def accumulates(self) -> bool:
        """Whether one of its lines has run backward more than once in a step."""
        return any(site.accumulates for site in self.lines)


def is_plain(sites: Sites, iteration: Iteration) -> bool:
    """Return whether an iteration that ends, all of which was measured, had nothing special."""
    return (
        bool(sites.pending)
        and not iteration.evaluation_s
        and not (iteration.interrupted or iteration.several_loaders or sites.inside)
    )
