"""The facts that a rank reports, read through the schema (``gputop/facts``) and not trusted. Pure.

``facts_of(rank)`` returns every fact; the functions here and in the modules next to this one draw conclusions from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

from gputop.facts.table import Facts
from gputop.snapshot import Rank

WRAPPERS = ("DataParallel", "FSDP", "FSDPModule", "DeepSpeedEngine")
"""Suffixes of the names of classes that spread a model over devices."""
KEPT_RANKS = 1024
"""Maximum number of ranks whose facts are cached."""
REPLICAS_MAX = 64
"""Maximum number of nn.DataParallel replicas if it names no devices."""
_kept: list[dict[int, Any]] = []
T = TypeVar("T")


def read_once(read: Callable[[Rank | None], T]) -> Callable[[Rank | None], T]:
    """Read each fact of a rank once: ten rules ask for the same fact of a snapshot. Nobody changes a rank or its facts."""
    known: dict[int, tuple[Rank, T]] = {}
    _kept.append(known)
    without: list[T] = []
    """What there is without a rank, as in every job that gputop does not track."""

    @wraps(read)
    def of(rank: Rank | None) -> T:
        if rank is None:
            if not without:
                without.append(read(None))
            return without[0]
        found = known.get(id(rank))
        # Python may reuse the id of a deleted rank, so the cache keeps a reference to the rank.
        if found is not None and found[0] is rank:
            return found[1]
        if len(known) >= KEPT_RANKS:
            known.clear()
        value = read(rank)
        known[id(rank)] = (rank, value)
        return value

    return of


def forget() -> None:
    """Release the cached ranks: the next snapshot has new ones, and these would only take up memory."""
    for known in _kept:
        known.clear()


@read_once
def facts_of(rank: Rank | None) -> Facts:
    """Return the facts of a rank; an empty set if there is no rank."""
    return Facts(rank.facts if rank is not None else {})


@dataclass(frozen=True, slots=True)
class DataParallelFact:
    """What nn.DataParallel (or the CPU engine) did. ``rows``: per device, in the last batch; counters: since the start."""

    device_ids: tuple[int, ...]
    batch_rows: int | None
    rows: tuple[int, ...]
    calls: int
    underused_calls: int
    uneven_calls: int
    module: str | None
    output_device: int | None
    dim: int
    tensor_leaves: int | None
    leaf_sizes: tuple[int, ...]
    """Size of each tensor of the last call along ``dim``."""

    @property
    def devices(self) -> int:
        """Number of devices of the wrapper."""
        return len(self.device_ids)


@read_once
def data_parallel(rank: Rank | None) -> DataParallelFact | None:
    """Return the fact ``data_parallel``; None if the rank has no such wrapper or its counts are unreadable."""
    fact = facts_of(rank).data_parallel
    if fact is None:
        return None
    ids = fact.device_ids or tuple(range(min(REPLICAS_MAX, fact.replicas or 0)))
    if fact.calls is None or not ids:
        return None
    return DataParallelFact(
        device_ids=ids,
        batch_rows=fact.batch_rows,
        rows=fact.rows_per_device,
        calls=fact.calls,
        underused_calls=fact.underused_calls or 0,
        uneven_calls=fact.uneven_calls or 0,
        module=fact.module,
        output_device=fact.output_device,
        dim=fact.dim or 0,
        tensor_leaves=fact.tensor_leaves,
        leaf_sizes=fact.leaf_sizes,
    )


def stated_devices(rank: Rank | None) -> tuple[tuple[str | None, int | None], ...]:
    """Return the fact ``devices`` as (uuid, virtual index) pairs: the devices on which the rank reports that it computes."""
    return tuple(
        (item.uuid, item.virtual_index)
        for item in facts_of(rank).devices
        if item.uuid is not None or item.virtual_index is not None
    )


def device_count(rank: Rank | None) -> int | None:
    """Return the number of CUDA devices that torch sees in this rank."""
    facts = facts_of(rank)
    return facts.device_count if facts.device_count is not None else (facts.torch.device_count if facts.torch else None)


def cuda_available(rank: Rank | None) -> bool | None:
    """Return the result of torch.cuda.is_available() in this rank."""
    torch = facts_of(rank).torch
    return torch.cuda_available if torch is not None else None


def cuda_built(rank: Rank | None) -> bool | None:
    """Return whether this rank's torch was built with CUDA."""
    torch = facts_of(rank).torch
    return torch.cuda_built if torch is not None else None


def parameter_device(rank: Rank | None) -> str | None:
    """Return where the model's parameters are, such as "cpu" or "cuda:0"."""
    model = facts_of(rank).model
    return model.parameter_device if model is not None else None


def model_inspected(rank: Rank | None) -> bool:
    """True if tracking saw the model, so that a missing wrapper is known and not just unobserved."""
    return facts_of(rank).model is not None


def wrapper(rank: Rank | None) -> str | None:
    """Return the class name of the wrapper that spreads the model over several devices; None if none was reported."""
    facts = facts_of(rank)
    if facts.data_parallel is not None:
        return "DataParallel"
    own = facts.model.wrapper if facts.model is not None else None
    for name in (*facts.wrapper, *facts.wrappers, own or ""):
        short = name.rpartition(".")[2]
        if short.endswith(WRAPPERS):
            return short
    return None
