"""Conclusions from the facts that a rank reports about its model and the calls to its wrapper. Facts are not trusted. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gputop.doctor.facts.stated import facts_of, read_once
from gputop.snapshot import Rank

SHARDED = ("FullyShardedDataParallel", "FSDP", "FSDPModule", "DeepSpeedEngine")
"""Suffixes of the names of wrappers that keep only a part of the weights on each rank."""


def parameter_dtypes(rank: Rank | None) -> Mapping[str, int]:
    """Return the number of elements of the model's parameters by dtype ("float32")."""
    model = facts_of(rank).model
    if model is None:
        return {}
    return {name.removeprefix("torch."): size for name, size in model.parameter_dtypes.items() if size}


def model_class(rank: Rank | None) -> str | None:
    """Return the class of the trained model, without its wrapper."""
    model, split = facts_of(rank).model, facts_of(rank).data_parallel
    name = (model.class_ if model is not None else None) or (split.module if split is not None else None)
    return name.rpartition(".")[2] if name else None


@read_once
def wrapped_by(rank: Rank | None) -> str | None:
    """Return what wraps the model: "data_parallel", "ddp", "sharded" (FSDP, DeepSpeed), or None if none was reported."""
    facts = facts_of(rank)
    if facts.ddp is not None:
        return "ddp"
    model = facts.model
    own = (model.wrapper, *model.wrappers, model.class_) if model is not None else ()
    for name in (*own, *facts.wrapper, *facts.wrappers):
        short = (name or "").rpartition(".")[2]
        # fully_shard (FSDP2) gives a module's class the prefix "FSDP".
        if short.endswith(SHARDED) or short.startswith("FSDP"):
            return "sharded"
        if short.endswith("DistributedDataParallel"):
            return "ddp"
        if short.endswith("DataParallel"):
            return "data_parallel"
    return "data_parallel" if facts.data_parallel is not None else None
