"""The devices that a launch runs on, as the command line names them."""

from __future__ import annotations

import sys

from gputop.recipes.recipe import Recipe
from gputop.snapshot import Device


def devices_of(wanted: str | None, virtual: int | None, recipe: Recipe | None = None) -> tuple[Device, ...]:
    """Return the devices that ``wanted`` names ("0,1"), else as many as suit the recipe; ``virtual`` is the option's value.

    Raises:
        UsageError: a name matches no device.
    """
    from gputop.agent.source import choose_source, select_devices

    source, problem = choose_source(1.0, virtual)
    found = source.read().devices
    source.close()
    if problem:
        print(f"{problem.message} It runs on virtual GPUs: CPU work, measured.", file=sys.stderr)
    if wanted:
        return select_devices(found, [part for part in wanted.split(",") if part])
    usable = tuple(device for device in found if device.state == "ok" and not device.mig_enabled)
    return usable if recipe is None else usable[: max(recipe.min_devices, recipe.default_devices)]
