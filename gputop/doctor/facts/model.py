"""What a rank says of its model, its visibility and its end (docs/facts.md), read without trust. Pure. See ``stated``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gputop.doctor.facts.stated import mapping, whole
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


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return ()
    return tuple(item for item in value if isinstance(item, str))


def visibility(rank: Rank | None) -> Visibility | None:
    """Return the fact ``environment`` as far as it speaks of visible devices; None where it does not."""
    fact = mapping(rank, "environment")
    if "cuda_visible_devices_launch" not in fact or "cuda_visible_devices_now" not in fact:
        return None
    return Visibility(
        _text(fact["cuda_visible_devices_launch"]),
        _text(fact["cuda_visible_devices_now"]),
        _text(fact.get("device_order")),
        _texts(fact.get("visible_uuids")) or None,
    )


def mask_now(rank: Rank | None, virtual: bool) -> str | None:
    """Return the mask in os.environ now, of virtual GPUs or of CUDA; None where it is not set or not known."""
    return _text(mapping(rank, "environment").get("virtual_devices_now" if virtual else "cuda_visible_devices_now"))


def frameworks(rank: Rank | None) -> tuple[str, ...]:
    """Return the names of the frameworks that the rank imported."""
    return _texts(rank.facts.get("frameworks")) if rank is not None else ()


def device_map_places(rank: Rank | None) -> int | None:
    """Return over how many places a Hugging Face device_map spreads the model; None without one."""
    return whole(mapping(rank, "model").get("hf_device_map"))


def parameters_by_device(rank: Rank | None) -> Mapping[str, int]:
    """Return how many elements of the model's parameters are on which device ("cpu", "cuda:0")."""
    value = mapping(rank, "model").get("parameter_devices")
    if not isinstance(value, Mapping):
        return {}
    return {
        name: number for name, item in value.items() if isinstance(name, str) and (number := whole(item)) is not None and number
    }


def failure(rank: Rank | None) -> Failure | None:
    """Return the fact ``error``: what ended the rank's script."""
    fact = mapping(rank, "error")
    name, message = _text(fact.get("type")), _text(fact.get("message"))
    return Failure(name or "", message or "", _text(fact.get("where"))) if name or message else None


def group_size(rank: Rank | None) -> int | None:
    """Return the world size of the process group that the rank joined; None without one."""
    return whole(mapping(rank, "process_group").get("world_size"))
