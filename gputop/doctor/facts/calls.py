"""What a rank says of its calls, its waits and its settings (docs/facts.md), read without trust. Pure. See ``stated``.

Calls of the wrapper and what was handed to it, evaluation, synchronizations, CUDA memory, switches of torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gputop.doctor.facts.stated import mapping, read_once, whole
from gputop.snapshot import Rank

SHARDED = ("FullyShardedDataParallel", "FSDP", "FSDPModule", "DeepSpeedEngine")
"""How the names end of wrappers that keep only a part of the weights in each rank."""


def number(value: Any) -> float | None:
    """Return a finite number; None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        known = float(value)
    except OverflowError:  # JSON knows integers of any size
        return None
    return known if math.isfinite(known) else None


def flag(value: Any) -> bool | None:
    """Return a truth value; None for everything else."""
    return value if isinstance(value, bool) else None


def text(value: Any) -> str | None:
    """Return a text that says something; None for everything else."""
    return value if isinstance(value, str) and value else None


def items(value: Any) -> Sequence[Any]:
    """Return a list; empty for everything else."""
    return value if isinstance(value, list | tuple) else ()


@dataclass(frozen=True, slots=True)
class WrapperCalls:
    """Outermost training calls. ``bypassed_steps``: steps in a row up to now in which only the inner module was called."""

    wrapped: int
    bypassed: int
    bypassed_steps: int | None
    module: str | None
    where: str | None


@dataclass(frozen=True, slots=True)
class Arguments:
    """What was last handed to nn.DataParallel: number of tensors, and the size of each one in the dimension that is cut."""

    tensor_leaves: int | None
    leaf_sizes: tuple[int, ...]
    dim: int
    output_device: int | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Calls of the model without gradients, their time, and whether the wrapper was called."""

    calls: int
    seconds: float
    wrapped: bool | None
    parameter_device: str | None


@dataclass(frozen=True, slots=True)
class Synchronizations:
    """Calls that wait for a CUDA device, in each step, and the line with most of them."""

    per_step: float
    steps: int | None
    where: str | None


@dataclass(frozen=True, slots=True)
class CudaMemory:
    """CUDA's memory as torch's allocator counts it; counters since the start."""

    total_bytes: int | None
    retries: int | None
    empty_cache_calls: int | None


@dataclass(frozen=True, slots=True)
class Settings:
    """Switches of torch as they stand in the rank; None: unknown."""

    matmul_precision: str | None
    allow_tf32: bool | None
    anomaly_detection: bool | None
    deterministic: bool | None
    autocast: bool | None
    profiler: bool | None


@read_once
def wrapper_calls(rank: Rank | None) -> WrapperCalls | None:
    """Return the fact ``wrapper_calls``."""
    fact = mapping(rank, "wrapper_calls")
    wrapped, bypassed = whole(fact.get("wrapped")), whole(fact.get("bypassed"))
    if wrapped is None or bypassed is None:
        return None
    return WrapperCalls(wrapped, bypassed, whole(fact.get("bypassed_steps")), text(fact.get("module")), text(fact.get("where")))


@read_once
def arguments(rank: Rank | None) -> Arguments:
    """Return what the fact ``data_parallel`` says of the arguments of the last call."""
    fact = mapping(rank, "data_parallel")
    sizes = tuple(size for size in map(whole, items(fact.get("leaf_sizes"))) if size is not None)
    output = fact.get("output_device")
    if isinstance(output, str) and output.rpartition(":")[2].isdigit():
        output = int(output.rpartition(":")[2])
    return Arguments(whole(fact.get("tensor_leaves")), sizes, whole(fact.get("dim")) or 0, whole(output))


def evaluation(rank: Rank | None) -> Evaluation | None:
    """Return the fact ``evaluation``."""
    fact = mapping(rank, "evaluation")
    calls, seconds = whole(fact.get("calls")), number(fact.get("seconds"))
    if calls is None or seconds is None:
        return None
    return Evaluation(calls, seconds, flag(fact.get("wrapped")), text(fact.get("parameter_device")))


def synchronizations(rank: Rank | None) -> Synchronizations | None:
    """Return the fact ``synchronizations``."""
    fact = mapping(rank, "synchronizations")
    per_step = number(fact.get("per_step"))
    return Synchronizations(per_step, whole(fact.get("steps")), text(fact.get("where"))) if per_step is not None else None


def cuda_memory(rank: Rank | None) -> CudaMemory | None:
    """Return the fact ``cuda_memory``."""
    fact = mapping(rank, "cuda_memory")
    if not fact:
        return None
    return CudaMemory(whole(fact.get("total_bytes")), whole(fact.get("retries")), whole(fact.get("empty_cache_calls")))


@read_once
def settings(rank: Rank | None) -> Settings | None:
    """Return the fact ``settings``."""
    fact = mapping(rank, "settings")
    if not fact:
        return None
    return Settings(
        text(fact.get("float32_matmul_precision")),
        flag(fact.get("allow_tf32")),
        flag(fact.get("anomaly_detection")),
        flag(fact.get("deterministic")),
        flag(fact.get("autocast")),
        flag(fact.get("profiler")),
    )


def parameter_dtypes(rank: Rank | None) -> Mapping[str, int]:
    """Return how many elements of the model's parameters have which dtype ("float32")."""
    value = mapping(rank, "model").get("parameter_dtypes")
    if not isinstance(value, Mapping):
        return {}
    return {
        name.removeprefix("torch."): size
        for name, item in value.items()
        if isinstance(name, str) and (size := whole(item)) is not None and size
    }


def model_class(rank: Rank | None) -> str | None:
    """Return the class of the model that is trained, without what wraps it."""
    fact = mapping(rank, "model")
    name = text(fact.get("class")) or text(mapping(rank, "data_parallel").get("module"))
    return name.rpartition(".")[2] if name is not None else None


@read_once
def wrapped_by(rank: Rank | None) -> str | None:
    """Return what wraps the model: "data_parallel", "ddp", "sharded" (FSDP, DeepSpeed), or None where none was reported."""
    fact = mapping(rank, "model")
    if mapping(rank, "ddp"):
        return "ddp"
    names = [fact.get("wrapper"), *items(fact.get("wrappers")), fact.get("class")]
    names += [rank.facts.get("wrapper"), *items(rank.facts.get("wrappers"))] if rank is not None else []
    for name in names:
        short = name.rpartition(".")[2] if isinstance(name, str) else ""
        # fully_shard (FSDP2) gives a module's class the prefix "FSDP".
        if short.endswith(SHARDED) or short.startswith("FSDP"):
            return "sharded"
        if short.endswith("DistributedDataParallel"):
            return "ddp"
        if short.endswith("DataParallel"):
            return "data_parallel"
    return "data_parallel" if mapping(rank, "data_parallel") else None
