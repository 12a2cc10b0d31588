"""The losses of a fast iteration that has several, or a scaled one: each is taken at its line, as on the full path.

Iterations with a single loss skip this: finding the line takes longer than everything else on the fast path. A mean is read in
fewer steps than other losses. Where all losses of a step have always been reduced alike, only the number is read by which the
first one is divided, as reading a graph takes as long as all else; steps that are measured in full read each.
"""

from __future__ import annotations

from types import FrameType
from typing import Any

from gputop.tracking.auto.losses import values
from gputop.tracking.auto.losses.reduction import UNREAD, Reduced, is_divided_by, read_mean
from gputop.tracking.auto.losses.site import Site
from gputop.tracking.auto.losses.sites import Sites
from gputop.tracking.unseen import mode_counts, unseen


class Several:
    """Takes the losses of fast iterations in which the same lines run backward, each any number of times."""

    __slots__ = ("_dispatches", "_functions", "_sites", "_torch", "_usual", "take")

    def __init__(self, torch: Any, sites: Sites, usual: list[Site]) -> None:
        """``usual`` are the lines of an iteration, which have names."""
        self._torch = torch
        self._sites = sites
        self._usual = usual
        self.take = sites.take_known
        self._dispatches, self._functions = mode_counts(torch)

    def takes(self, tensor: Any, caller: FrameType | None) -> bool:
        """Take the loss that a backward begins on, and return True; return False if the full path must take it.

        ``caller``: what called backward, where the search for the user's line begins.
        """
        sites = self._sites
        site = sites.known_here(caller)
        if site is None or site not in self._usual or (site.count and site.runs_again):
            return False
        sites.added = None
        if self._dispatches() or self._functions():
            with unseen(self._torch):
                return self._takes_any(site, tensor)
        part: Reduced = UNREAD
        if sites.scaled_losses:
            value, part = sites.unscaled(self._torch, tensor)
        else:
            value = values.plain_value_of(self._torch, tensor)
        if value is None:
            return False
        read: Reduced | None = part
        usual = site.usual
        if (
            part is UNREAD
            and usual is not None
            and (site.parts[0] is usual if site.count else is_divided_by(tensor, usual.whole))
        ):
            read = usual
        elif part is UNREAD and (site.accumulates or site.count):
            read = read_mean(tensor)
        if read is None or read.count is not None:
            with unseen(self._torch):
                return sites.add(site, value, part, tensor, in_closure=False)
        sites.put(site, value, read)
        return True

    def _takes_any(self, site: Site, tensor: Any) -> bool:
        """Take the loss while modes of the script see what is asked of tensors."""
        sites = self._sites
        value, part = sites.unscaled(self._torch, tensor)
        return value is not None and sites.add(site, value, part, tensor, in_closure=False)

    def drop(self) -> None:
        """Forget the loss of a backward that failed."""
        self._sites.take_back()
