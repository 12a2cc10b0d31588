"""What the optimizers of a training hold: their rate, whether they have updated anything, and whose tensors they update."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from gputop.sources.python_stacks.memory import TornError
from gputop.sources.python_stacks.objects import Objects
from gputop.whereabouts.records import HeldOptimizers

OPTIMIZER = "torch.Optimizer"
_AROUND = "accelerate.AcceleratedOptimizer"
"""Wraps an optimizer, which is its attribute of that name."""
_KEEP = frozenset(f"torch.{name}" for name in ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adadelta", "RMSprop", "ASGD"))
"""Kinds that begin to keep something about a tensor with the first step in which it has a gradient."""
_KEEPS_MOMENTUM = "torch.SGD"
TWIN_TENSORS_MIN = 2
"""A picture or a prompt that is optimized instead of a model is one tensor, like many a model's only other one (our choice)."""


def held_optimizers(
    objects: Objects, optimizers: Sequence[int], models: Mapping[int, str], trained: Sequence[int]
) -> HeldOptimizers | None:
    """Return what optimizers hold; None without any, or if one of them is something else than expected.

    Args:
        objects: The memory, which must be open.
        optimizers: Where they are.
        models: Where modules are that variables hold, also those for evaluations, with their classes.
        trained: Those of them that are not named for an evaluation.
    """
    names, kept, groups = [], [], []
    for place in optimizers:
        kind, at = objects.kind(place), place
        if _AROUND in kind.bases:
            at = objects.attributes(place).get("optimizer", place)
            kind = objects.kind(at)
        own = objects.attributes(at)
        if "param_groups" not in own or objects.kind(own["param_groups"]).name != "list":
            return None
        found = [dict(objects.items(group)) for group in objects.entries(own["param_groups"])]
        names.append(kind.name)
        kept.append(_kept(objects, kind.bases, own, found))
        groups += found
    tensors = {at for group in groups for at in _listed(objects, group.get("params"))}
    if not tensors:
        return None
    elsewhere, twin = _belongs(objects, tensors, models, trained)
    return HeldOptimizers(
        tuple(sorted(set(names))),
        len(tensors),
        _highest_rate(objects, groups),
        None if None in kept else not any(kept),
        elsewhere,
        twin,
    )


def _kept(
    objects: Objects, bases: frozenset[str], attributes: Mapping[str, int], groups: Sequence[Mapping[str, int]]
) -> int | None:
    """Return about how many tensors an optimizer keeps something; None if its kind may keep nothing, or is unknown."""
    state = attributes.get("state")
    if state is None or objects.kind(state).name not in ("dict", "defaultdict"):
        return None
    if bases & _KEEP or (_KEEPS_MOMENTUM in bases and all(_number(objects, group, "momentum") for group in groups)):
        return objects.length(state)
    return None


def _highest_rate(objects: Objects, groups: Sequence[Mapping[str, int]]) -> float | None:
    rates = [_number(objects, group, "lr") for group in groups]
    known = [rate for rate in rates if rate is not None]
    return max(known) if known and len(known) == len(rates) else None


def _number(objects: Objects, group: Mapping[str, int], name: str) -> float | None:
    """Return a number of a group of parameters; None if it is none, such as a tensor."""
    with suppress(TornError):
        value = objects.value(group[name]) if name in group else None
        return float(value) if isinstance(value, int | float) else None
    return None


def _listed(objects: Objects, at: int | None) -> tuple[int, ...]:
    return objects.entries(at) if at is not None and objects.kind(at).name == "list" else ()


def _belongs(
    objects: Objects, tensors: set[int], models: Mapping[int, str], trained: Sequence[int]
) -> tuple[bool | None, str | None]:
    """Return whether tensors belong to no model, and the class of a trained one that has as many; None if that is unknown."""
    twin = None
    try:
        for place, name in models.items():
            own = set()
            for at in _parameters(objects, place):
                if at in tensors:  # nearly always among the first
                    return False, None
                own.add(at)
            if place in trained and len(own) == len(tensors) >= TWIN_TENSORS_MIN:
                twin = name
    except TornError:
        return None, None
    return (True, twin) if models else (None, None)


def _parameters(objects: Objects, at: int) -> Iterator[int]:
    """Yield where the parameters of a module, and of all inside it, are."""
    waiting, seen = [at], {at}
    while waiting:
        attributes = objects.attributes(waiting.pop())
        if "_parameters" in attributes:
            yield from (place for _, place in objects.items(attributes["_parameters"]) if _is_tensor(objects, place))
        inner = [place for _, place in objects.items(attributes["_modules"])] if "_modules" in attributes else []
        waiting += [place for place in inner if place not in seen]
        seen.update(inner)


def _is_tensor(objects: Objects, at: int) -> bool:
    return objects.kind(at).name != "NoneType"  # a layer without a bias
