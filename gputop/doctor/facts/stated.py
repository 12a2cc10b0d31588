"""What a rank says of itself (``Rank.facts``), read without trust: facts are JSON that any version may have written. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

from gputop.snapshot import Rank

WRAPPERS = ("DataParallel", "FSDP", "FSDPModule", "DeepSpeedEngine")
"""How the names end of classes that spread a model over devices."""
KEPT_RANKS = 1024
"""Ranks of which is kept what a fact of theirs says, at most."""
_EMPTY: Mapping[str, Any] = {}
_kept: list[dict[int, Any]] = []
T = TypeVar("T")


def read_once(read: Callable[[Rank | None], T]) -> Callable[[Rank | None], T]:
    """Read a fact of a rank once: ten rules ask for the same one of the same snapshot. Nobody changes a rank or its facts."""
    known: dict[int, tuple[Rank, T]] = {}
    _kept.append(known)

    @wraps(read)
    def of(rank: Rank | None) -> T:
        if rank is None:
            return read(None)
        found = known.get(id(rank))
        # An id is given again once its rank is gone: what is kept holds the rank.
        if found is not None and found[0] is rank:
            return found[1]
        if len(known) >= KEPT_RANKS:
            known.clear()
        value = read(rank)
        known[id(rank)] = (rank, value)
        return value

    return of


def forget() -> None:
    """Let go of the ranks that were read: the next snapshot has others, and these would stay in memory for nothing."""
    for known in _kept:
        known.clear()


@dataclass(frozen=True, slots=True)
class DataParallelFact:
    """What nn.DataParallel (or the CPU engine) did. ``rows``: per device, of the last batch; counters: since the start."""

    device_ids: tuple[int, ...]
    batch_rows: int | None
    rows: tuple[int, ...]
    calls: int
    underused_calls: int
    uneven_calls: int
    module: str | None

    @property
    def devices(self) -> int:
        """How many devices the wrapper has."""
        return len(self.device_ids)


def mapping(rank: Rank | None, name: str) -> Mapping[str, Any]:
    """Return one fact that is an object; empty when it is missing or something else."""
    value = rank.facts.get(name) if rank is not None else None
    # What came as JSON is a dict; the check against Mapping takes five times as long.
    return value if type(value) is dict or isinstance(value, Mapping) else _EMPTY


def whole(value: Any) -> int | None:
    """Return a count or an index; None for everything else (also for True and for negatives)."""
    # JSON knows integers of any size; one beyond any counter's range is no number that was measured.
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def _whole_list(value: Any) -> tuple[int, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return ()
    return tuple(item for item in map(whole, value) if item is not None)


def _device_ids(value: Any) -> tuple[int, ...]:
    """Return indices of devices, written 0, "0" or "cuda:0"."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return ()
    texts = [str(item).rpartition(":")[2] for item in value if isinstance(item, int | str)]
    return tuple(int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 4)


@read_once
def data_parallel(rank: Rank | None) -> DataParallelFact | None:
    """Return the fact ``data_parallel``; None where the rank has no such wrapper or counts cannot be read."""
    fact = mapping(rank, "data_parallel")
    if not fact:
        return None
    calls, ids = whole(fact.get("calls")), _device_ids(fact.get("device_ids"))
    if not ids:
        ids = tuple(range(min(64, whole(fact.get("replicas")) or 0)))
    if calls is None or not ids:
        return None
    module = fact.get("module")
    return DataParallelFact(
        device_ids=ids,
        batch_rows=whole(fact.get("batch_rows")),
        rows=_whole_list(fact.get("rows_per_device")),
        calls=calls,
        underused_calls=whole(fact.get("underused_calls")) or 0,
        uneven_calls=whole(fact.get("uneven_calls")) or 0,
        module=module if isinstance(module, str) else None,
    )


def stated_devices(rank: Rank | None) -> tuple[tuple[str | None, int | None], ...]:
    """Return the fact ``devices`` as (uuid, virtual index) pairs: where the rank says that it computes."""
    value = rank.facts.get("devices") if rank is not None else None
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return ()
    found = []
    for item in value:
        if isinstance(item, Mapping):
            uuid, index = item.get("uuid"), whole(item.get("virtual_index"))
            if isinstance(uuid, str) or index is not None:
                found.append((uuid if isinstance(uuid, str) else None, index))
    return tuple(found)


def device_count(rank: Rank | None) -> int | None:
    """Return how many CUDA devices torch sees in this rank."""
    direct = whole(rank.facts.get("device_count")) if rank is not None else None
    return direct if direct is not None else whole(mapping(rank, "torch").get("device_count"))


def cuda_available(rank: Rank | None) -> bool | None:
    """Return what torch.cuda.is_available() said in this rank."""
    value = mapping(rank, "torch").get("cuda_available")
    return value if isinstance(value, bool) else None


def cuda_built(rank: Rank | None) -> bool | None:
    """Return whether this rank's torch was built with CUDA."""
    value = mapping(rank, "torch").get("cuda_built")
    return value if isinstance(value, bool) else None


def parameter_device(rank: Rank | None) -> str | None:
    """Return where the model's parameters are, e.g. "cpu" or "cuda:0"."""
    value = mapping(rank, "model").get("parameter_device")
    return value if isinstance(value, str) else None


def model_inspected(rank: Rank | None) -> bool:
    """True when the tracking saw the model, so that a missing wrapper is a fact and not ignorance."""
    return bool(mapping(rank, "model"))


def wrapper(rank: Rank | None) -> str | None:
    """Return the class name of what wraps the model over several devices; None when no wrapper was reported."""
    if rank is None:
        return None
    if mapping(rank, "data_parallel"):
        return "DataParallel"
    for value in (rank.facts.get("wrapper"), rank.facts.get("wrappers"), mapping(rank, "model").get("wrapper")):
        for item in value if isinstance(value, list | tuple) else (value,):
            name = item.get("type") if isinstance(item, Mapping) else item
            short = name.rpartition(".")[2] if isinstance(name, str) else ""
            if short.endswith(WRAPPERS):
                return short
    return None
