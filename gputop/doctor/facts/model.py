"""What follows from a rank's account of its environment, its model's places and its end. Facts are read without trust. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gputop.doctor.facts.stated import facts_of
from gputop.facts.table import Environment
from gputop.snapshot import Rank


@dataclass(frozen=True, slots=True)
class Visibility:
    """The mask at launch and the one that os.environ holds now (None: not set), the order, and the UUIDs that CUDA shows.

    ``uuids`` is None until CUDA is initialized, or where torch does not tell them.
    """

    launch: str | None
    now: str | None
    order: str | None
    uuids: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Failure:
    """The exception that ended a rank's script."""

    type: str
    message: str
    where: str | None


def visibility(rank: Rank | None) -> Visibility | None:
    """Return the fact ``environment`` as far as it speaks of visible devices; None where it does not."""
    fact = facts_of(rank).environment
    # Null says that a variable is not set, which a missing key does not.
    if (
        fact is None
        or not fact.has(Environment.cuda_visible_devices_launch)
        or not fact.has(Environment.cuda_visible_devices_now)
    ):
        return None
    return Visibility(
        fact.cuda_visible_devices_launch, fact.cuda_visible_devices_now, fact.device_order, fact.visible_uuids or None
    )


def mask_now(rank: Rank | None, virtual: bool) -> str | None:
    """Return the mask in os.environ now, of virtual GPUs or of CUDA; None where it is not set or not known."""
    fact = facts_of(rank).environment
    if fact is None:
        return None
    return fact.virtual_devices_now if virtual else fact.cuda_visible_devices_now


def device_map_places(rank: Rank | None) -> int | None:
    """Return over how many places a Hugging Face device_map spreads the model; None without one."""
    model = facts_of(rank).model
    return model.hf_device_map if model is not None else None


def parameters_by_device(rank: Rank | None) -> Mapping[str, int]:
    """Return how many elements of the model's parameters are on which device ("cpu", "cuda:0")."""
    model = facts_of(rank).model
    return {name: size for name, size in model.parameter_devices.items() if size} if model is not None else {}


def failure(rank: Rank | None) -> Failure | None:
    """Return the fact ``error``: what ended the rank's script."""
    fact = facts_of(rank).error
    return Failure(fact.type or "", fact.message or "", fact.where) if fact and (fact.type or fact.message) else None


def group_size(rank: Rank | None) -> int | None:
    """Return the world size of the process group that the rank joined; None without one."""
    group = facts_of(rank).process_group
    return group.world_size if group is not None else None
