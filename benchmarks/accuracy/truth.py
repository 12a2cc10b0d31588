"""What the doctor should say about each bundled recipe, and what makes it visible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gputop.recipes.catalogue import RECIPES, Recipe


@dataclass(frozen=True, slots=True)
class Truth:
    """``rule`` is the id that must be shown first; None: nothing above "possible" may be reported, for ``reason``.

    ``onset`` is what makes the fault visible: "steps" (the first optimizer step), "stall" (steps stop), "end" (the script
    dies) or "start". ``window_s`` is how long the evidence has to be watched: a verdict cannot come earlier.
    """

    recipe: Recipe
    rule: str | None
    onset: str = "steps"
    reason: str = ""
    window_s: float = 0.0
    values: Mapping[str, object] = field(default_factory=dict)


_DIES = ("A17", "C09", "C13", "C15", "G04")
_STALLS = ("C07", "C08", "G01")
_ONSETS = {**dict.fromkeys(_DIES, "end"), **dict.fromkeys(_STALLS, "stall"), "G03": "start"}
_UNSEEN = {
    "A12": "none on virtual GPUs: they are the CPU, so training there is right",
}
"""Faults that cannot exist on virtual GPUs."""
_HEALTHY: tuple[tuple[str, Mapping[str, object]], ...] = (
    ("single", {}),
    ("data-parallel", {}),
    ("ddp", {}),
    ("ddp", {"accumulate": 4}),
    ("ddp", {"model": "resnet18", "sync_bn": "yes", "batch_size": 8}),
    ("from-scratch", {}),
    ("model-parallel", {"micro_batches": 4}),
    ("fsdp", {}),
    ("inference", {}),
    ("memory-tips", {}),
    ("checkpoint", {}),
)


def faults() -> tuple[Truth, ...]:
    """Return what should be said about every recipe with a fault."""
    return tuple(
        Truth(
            recipe,
            None if recipe.fault in _UNSEEN else recipe.fault,
            _ONSETS.get(recipe.fault, "steps"),
            _UNSEEN.get(recipe.fault, ""),
        )
        for recipe in RECIPES
        if recipe.fault is not None
    )


def healthy() -> tuple[Truth, ...]:
    """Return the recipes without a fault, some with other option values."""
    known = {recipe.id: recipe for recipe in RECIPES}
    return tuple(Truth(known[recipe_id], None, values=values) for recipe_id, values in _HEALTHY)
