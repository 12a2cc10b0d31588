"""What a rank says of its process group, its gradients and its data (docs/facts.md), read without trust. Pure. See ``stated``.

And what follows from several ranks side by side: whether their weights are equal, whether they rightly see equal batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gputop.doctor.facts.calls import flag, items, number, text
from gputop.doctor.facts.model import frameworks
from gputop.doctor.facts.stated import mapping, read_once, whole
from gputop.frameworks import FRAMEWORKS
from gputop.snapshot import Rank

DATA_DIMENSIONS = frozenset(
    {"dp", "ddp", "data", "data_parallel", "fsdp", "hsdp", "dp_shard", "dp_replicate", "replicate", "shard", "batch"}
)
"""Names of mesh dimensions along which every rank gets other data; along all others ("tp", "sp", "cp", "pp") it may not."""
_ENGINES = frozenset(name for name, known in FRAMEWORKS.items() if known.averages_gradients)
SUM_TOLERANCE = 1e-6
"""Weights that differ by less than this share of their sum differ by rounding (unequal GPUs), not by training apart."""
_TELLS_NOTHING = ("barrier", "object", "broadcast", "scatter_object", "monitored")


@dataclass(frozen=True, slots=True)
class Ddp:
    """DDP's own account of itself; times in seconds, averages for one forward and backward."""

    backend: str | None
    world_size: int | None
    find_unused_parameters: bool | None
    unused_parameter_bytes: int | None
    static_graph: bool | None
    iteration: int | None
    communication_s: float | None
    overlap_s: float | None
    replaced_parameters: int | None
    parameter_device: str | None
    parameter_dtype: str | None

    @property
    def waiting_s(self) -> float | None:
        """Communication that the computation does not hide."""
        if self.communication_s is None or self.overlap_s is None:
            return None
        return max(0.0, self.communication_s - self.overlap_s)


@dataclass(frozen=True, slots=True)
class Gradients:
    """Counters since the start. ``unsynced_steps``: steps whose last backward DDP did not reduce."""

    steps: int
    backwards: int
    synced_backwards: int
    unsynced_steps: int
    accumulation: float | None


@dataclass(frozen=True, slots=True)
class Group:
    """The process groups of a rank, and the collectives called from Python, by name."""

    backend: str | None
    world_size: int | None
    groups: int | None
    mesh: tuple[str, ...]
    collectives: Mapping[str, int]

    @property
    def exchanges(self) -> int:
        """Calls that may average gradients or weights: barriers, broadcasts and objects are not counted."""
        return sum(count for name, count in self.collectives.items() if not any(part in name for part in _TELLS_NOTHING))


@dataclass(frozen=True, slots=True)
class Batches:
    """Checksums of batches: of the last training steps by step, and of the beginnings of the last epochs by epoch."""

    recent: Mapping[int, Any]
    epochs: Mapping[int, Any]
    rows: int | None
    elements: int | None


@dataclass(frozen=True, slots=True)
class Loader:
    """The training loader. ``length`` in batches, ``dataset_length`` in samples; None: unknown."""

    type: str | None
    dataset: str | None
    batch_size: int | None
    drop_last: bool | None
    length: int | None
    dataset_length: int | None
    iterable: bool | None
    iterations: int | None
    exhausted: bool | None
    batches: int | None


@dataclass(frozen=True, slots=True)
class Sampler:
    """The sampler of the training loader. ``set_epoch``: whether it was called between iterations; None before the second."""

    type: str
    shuffle: bool | None
    set_epoch: bool | None
    replicas: int | None


@dataclass(frozen=True, slots=True)
class BatchNorm:
    """How many layers normalize over the batch, how many of them over all ranks, how many no longer learn statistics."""

    layers: int
    synced: int
    frozen: int


@dataclass(frozen=True, slots=True)
class Stall:
    """Where a rank stood when no step came for a while. ``stack``: "file.py:12 function", innermost first."""

    step: int | None
    phase: str | None
    stack: tuple[str, ...]
    early: bool = False
    """It has stood longer than earlier steps and pauses took, but not yet long enough to be certainly a stall."""


@read_once
def ddp(rank: Rank | None) -> Ddp | None:
    """Return the fact ``ddp``."""
    fact = mapping(rank, "ddp")
    if not fact:
        return None
    return Ddp(
        text(fact.get("backend")),
        whole(fact.get("world_size")),
        flag(fact.get("find_unused_parameters")),
        whole(fact.get("unused_parameter_bytes")),
        flag(fact.get("static_graph")),
        whole(fact.get("iteration")),
        number(fact.get("communication_s")),
        number(fact.get("overlap_s")),
        whole(fact.get("replaced_parameters")),
        text(fact.get("parameter_device")),
        text(fact.get("parameter_dtype")),
    )


def gradients(rank: Rank | None) -> Gradients | None:
    """Return the fact ``gradients``."""
    fact = mapping(rank, "gradients")
    steps, backwards = whole(fact.get("steps")), whole(fact.get("backwards"))
    synced, unsynced = whole(fact.get("synced_backwards")), whole(fact.get("unsynced_steps"))
    if steps is None or backwards is None or synced is None or unsynced is None:
        return None
    return Gradients(steps, backwards, synced, unsynced, number(fact.get("accumulation")))


@read_once
def group(rank: Rank | None) -> Group | None:
    """Return the fact ``process_group``."""
    fact = mapping(rank, "process_group")
    calls = fact.get("collectives")
    if not fact:
        return None
    return Group(
        text(fact.get("backend")),
        whole(fact.get("world_size")),
        whole(fact.get("groups")),
        tuple(name for name in items(fact.get("mesh")) if isinstance(name, str)),
        {name: count for name, item in calls.items() if isinstance(name, str) and (count := whole(item)) is not None}
        if isinstance(calls, Mapping)
        else {},
    )


def _pairs(value: Any) -> dict[int, Any]:
    """Return [[step, checksum, …], …] by step."""
    found = {}
    for item in items(value):
        step = whole(item[0]) if isinstance(item, list | tuple) and len(item) > 1 else None
        if step is not None and item[1] is not None and isinstance(item[1], int | str):
            found[step] = item[1]
    return found


@read_once
def batches(rank: Rank | None) -> Batches | None:
    """Return the fact ``batches``."""
    fact = mapping(rank, "batches")
    if not fact:
        return None
    return Batches(_pairs(fact.get("recent")), _pairs(fact.get("epochs")), whole(fact.get("rows")), whole(fact.get("elements")))


@read_once
def called(rank: Rank | None) -> Mapping[int, tuple[int, int]]:
    """Return with how many (rows, elements) DDP was called in each of the last steps that were looked at."""
    found = {}
    for item in items(mapping(rank, "batches").get("called")):
        if isinstance(item, list | tuple) and len(item) > 2:
            step, rows, elements = whole(item[0]), whole(item[1]), whole(item[2])
            if step is not None and rows is not None and elements:
                found[step] = rows, elements
    return found


@read_once
def loader(rank: Rank | None) -> Loader | None:
    """Return the fact ``loader``."""
    fact = mapping(rank, "loader")
    if not fact:
        return None
    return Loader(
        text(fact.get("type")),
        text(fact.get("dataset")),
        whole(fact.get("batch_size")),
        flag(fact.get("drop_last")),
        whole(fact.get("length")),
        whole(fact.get("dataset_length")),
        flag(fact.get("iterable")),
        whole(fact.get("iterations")),
        flag(fact.get("exhausted")),
        whole(fact.get("batches")),
    )


def sampler(rank: Rank | None) -> Sampler | None:
    """Return the fact ``sampler``."""
    fact = mapping(rank, "sampler")
    kind = text(fact.get("type"))
    if kind is None:
        return None
    return Sampler(kind, flag(fact.get("shuffle")), flag(fact.get("set_epoch")), whole(fact.get("replicas")))


def batch_norm(rank: Rank | None) -> BatchNorm | None:
    """Return what the fact ``model`` says of BatchNorm layers."""
    fact = mapping(rank, "model").get("batch_norm")
    if not isinstance(fact, Mapping):
        return None
    layers = whole(fact.get("layers"))
    return BatchNorm(layers, whole(fact.get("synced")) or 0, whole(fact.get("frozen")) or 0) if layers is not None else None


def stall(rank: Rank | None) -> Stall | None:
    """Return the fact ``stalled``; None while steps come, or have not stayed away for long."""
    found = standstill(rank)
    return None if found is None or found.early else found


@read_once
def standstill(rank: Rank | None) -> Stall | None:
    """Return the fact ``stalled``, also where it is only a first word."""
    fact = mapping(rank, "stalled")
    if rank is None or not fact:
        return None
    step = whole(fact.get("step"))
    at = number(fact.get("at"))
    # A script may number its steps from 1 and not from 0, so that a higher step alone does not show that it went on.
    logged = at is None or rank.last_log_at is None or rank.last_log_at > at
    if step is not None and rank.step is not None and rank.step > step and logged:
        return None
    frames = tuple(frame for frame in items(fact.get("stack")) if isinstance(frame, str))
    return Stall(step, text(fact.get("phase")), frames, fact.get("early") is True)


def divides_models(ranks: Iterable[Rank]) -> bool:
    """True when ranks may rightly see equal batches or hold different weights: tensor, sequence or pipeline parallelism."""
    for rank in ranks:
        fact = group(rank)
        mesh = mapping(rank, "model").get("mesh")
        names = {name for name in items(mesh) if isinstance(name, str)} | set(fact.mesh if fact is not None else ())
        if names:
            if names - DATA_DIMENSIONS:
                return True
            continue
        if items(mesh) or (fact is not None and (fact.groups or 0) > 1) or "megatron" in frameworks(rank):
            return True
    return False


def has_engine(ranks: Iterable[Rank]) -> bool:
    """True when a framework is loaded that averages gradients by calls of its own."""
    return any(_ENGINES & set(frameworks(rank)) for rank in ranks)


def weights_differ(ranks: Sequence[Rank], from_step: int = 0) -> tuple[int, bool] | None:
    """Return the newest step at which all ranks told of their weights, and whether these differ; None when it is unknown.

    Meant for ranks that each hold the whole model; checksums that differ by rounding alone count as equal.
    """
    probes = []
    for rank in ranks:
        fact: dict[int, tuple[Any, float | None]] = {}
        for item in items(mapping(rank, "parameters").get("recent")):
            if isinstance(item, list | tuple) and len(item) > 1 and (step := whole(item[0])) is not None:
                fact[step] = (item[1], number(item[2]) if len(item) > 2 else None)
        probes.append(fact)
    if len(probes) < 2:
        return None
    common = [step for step in set(probes[0]).intersection(*probes[1:]) if step >= from_step]
    if not common:
        return None
    step = max(common)
    said = [probe[step] for probe in probes]
    checksums = [checksum for checksum, _ in said]
    if None not in checksums and len({repr(checksum) for checksum in checksums}) == 1:
        return step, False
    # On a GPU there is no checksum, because reading the values would wait for the device: the sum alone arrives later.
    sums = [value for _, value in said if value is not None]
    if len(sums) < len(said):
        return (step, True) if None not in checksums else None
    return step, max(sums) - min(sums) > SUM_TOLERANCE * max(1.0, *map(abs, sums))
