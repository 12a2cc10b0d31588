"""What a rank says of how it gets its data, and of the copies to its device. Facts are read without trust. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gputop.doctor.facts.calls import flag, number, text
from gputop.doctor.facts.stated import mapping, read_once, whole
from gputop.snapshot import Rank


@dataclass(frozen=True, slots=True)
class Feeding:
    """The training loader's settings; None: unknown."""

    type: str | None
    batch_size: int | None
    workers: int | None
    persistent: bool | None
    pinned: bool | None
    prefetch: int | None


@dataclass(frozen=True, slots=True)
class Transfers:
    """Copies from host to device within a step, on the CPU's clock."""

    per_step: float | None
    bytes_per_step: float | None
    pageable_per_step: float | None
    blocking_per_step: float | None
    seconds_per_step: float | None
    where: str | None


@read_once
def feeding(rank: Rank | None) -> Feeding | None:
    """Return the fact ``loader`` as far as it speaks of workers."""
    fact = mapping(rank, "loader")
    if not fact:
        return None
    return Feeding(
        text(fact.get("type")),
        whole(fact.get("batch_size")),
        whole(fact.get("num_workers")),
        flag(fact.get("persistent_workers")),
        flag(fact.get("pin_memory")),
        whole(fact.get("prefetch_factor")),
    )


def transfers(rank: Rank | None) -> Transfers | None:
    """Return the fact ``transfers``."""
    fact = mapping(rank, "transfers")
    if not fact:
        return None
    return Transfers(
        number(fact.get("per_step")),
        number(fact.get("bytes_per_step")),
        number(fact.get("pageable_per_step")),
        number(fact.get("blocking_per_step")),
        number(fact.get("seconds_per_step")),
        text(fact.get("where")),
    )
