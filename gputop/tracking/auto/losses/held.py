"""Losses that wait for their names: all losses of the first iteration, and later ones that may belong to one turn or to
several."""

from __future__ import annotations

from typing import Any

from gputop.tracking.auto.losses.site import InDoubt, Site
from gputop.tracking.auto.losses.sites import Sites


class HeldLosses:
    """Losses of steps that have ended, each with its turn."""

    def __init__(self) -> None:
        self._held: list[list[tuple[Site, Any, int]]] = []

    def __bool__(self) -> bool:
        return bool(self._held)

    def hold(self, losses: list[tuple[Site, Any, int]]) -> None:
        """Hold back the losses of one step."""
        self._held.append(losses)

    def clear(self) -> None:
        """Forget them."""
        self._held.clear()

    def take(self, sites: Sites) -> dict[str, Any]:
        """Return them by name, and hold none. They determine the names if they are the first."""
        held, self._held = self._held, []
        if not sites.settled:
            sites.settle([site for site, _, _ in losses] for losses in held)
        values: dict[str, Any] = {}
        for losses in held:
            for site, loss, turn in losses:
                value = site.decided(loss) if isinstance(loss, InDoubt) else loss
                if value is not None:
                    values[sites.name(site, values, turn if site.shared else 0)] = value
        return values
