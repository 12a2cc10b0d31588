"""The losses of a fast iteration that has several, or a scaled one: each is taken at its line, as on the full path.

Finding the line takes longer than everything else on the fast path, so iterations with a single loss skip it.
"""

from __future__ import annotations

from typing import Any

from gputop.tracking.auto.losses import values
from gputop.tracking.auto.losses.site import Site
from gputop.tracking.auto.losses.sites import Sites
from gputop.tracking.unseen import unseen


class Several:
    """Takes the losses of fast iterations in which the same lines run backward, each any number of times."""

    def __init__(self, torch: Any, sites: Sites, usual: list[Site]) -> None:
        """``usual`` are the lines of an iteration, which have names."""
        self._torch = torch
        self._sites = sites
        self._usual = usual

    def takes(self, tensor: Any) -> bool:
        """Take the loss that a backward begins on, and return True; return False if the full path must take it."""
        sites = self._sites
        site = sites.here()
        if site not in self._usual or site.runs_again:
            return False
        sites.begin_backward()
        with unseen(self._torch):
            shown, part = sites.unscaled(tensor)
            value = values.value_of(self._torch, shown)
            if value is None:
                return False
            sites.add(site, value, part, tensor, in_closure=False)
            return True

    def are(self, lines: list[Site]) -> bool:
        """Return whether these lines have run backward, in this order, since the last step, with losses on one device."""
        pending = self._sites.pending
        return pending == lines and len({type(site.total) is float for site in pending}) <= 1

    def take(self) -> list[Any]:
        """Return the loss of each line."""
        return [value for _, value in self._sites.take()]

    def drop(self) -> None:
        """Forget the loss of a backward that failed."""
        self._sites.take_back()
