"""Conclusions from the facts that a rank reports about its environment, its model's devices and its end. Facts are not trusted.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gputop.doctor.facts.stated import facts_of
from gputop.facts.setup import Environment
from gputop.snapshot import Rank


@dataclass(frozen=True, slots=True)
class Visibility:
    """The mask at launch, the mask now in os.environ (None: not set), the device order, and the UUIDs that CUDA shows.

    ``uuids`` is None until CUDA is initialized, or if torch does not report them.
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
    """Return the part of the fact ``environment`` about visible devices; None if it has none."""
    fact = facts_of(rank).environment
    # Null means that a variable is not set; a missing key does not.
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
    """Return the mask in os.environ now, of virtual GPUs or of CUDA; None if it is not set or unknown."""
    fact = facts_of(rank).environment
    if fact is None:
        return None
    return fact.virtual_devices_now if virtual else fact.cuda_visible_devices_now


def device_map_places(rank: Rank | None) -> int | None:
    """Return the number of devices over which a Hugging Face device_map spreads the model; None without one."""
    model = facts_of(rank).model
    return model.hf_device_map if model is not None else None


def parameters_by_device(rank: Rank | None) -> Mapping[str, int]:
    """Return the number of elements of the model's parameters by device ("cpu", "cuda:0")."""
    model = facts_of(rank).model
    return {name: size for name, size in model.parameter_devices.items() if size} if model is not None else {}


def failure(rank: Rank | None) -> Failure | None:
    """Return the fact ``error``: the exception that ended the rank's script."""
    fact = facts_of(rank).error
    return Failure(fact.type or "", fact.message or "", fact.where) if fact and (fact.type or fact.message) else None


def group_size(rank: Rank | None) -> int | None:
    """Return the world size of the process group that the rank joined; None without one."""
    group = facts_of(rank).process_group
    return group.world_size if group is not None else None
