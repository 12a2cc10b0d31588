"""Which ranks are given the same samples: those of one tensor-, pipeline- or context-parallel group.

This is known from a DeviceMesh over all ranks whose dimensions have known names, from the process group over which the model's
wrapper averages gradients, from Megatron, from DeepSpeed's pipelines, or from the absence of further process groups. Read once,
when an optimizer takes its first step.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from gputop.tracking import parts
from gputop.tracking.describe import mesh_names

_DATA = frozenset({"dp", "ddp", "fsdp", "hsdp", "data", "replicate", "shard", "batch"})
_MODEL = frozenset({"tp", "sp", "cp", "pp", "mp", "tensor", "sequence", "context", "pipeline", "pipe", "model", "stage"})
_MEGATRON = "megatron.core.parallel_state"
_DIVIDING = (_MEGATRON, "torch.distributed.pipelining")
"""Modules with which a script may divide a model among ranks, even among all of them, without a group that shows it."""


@dataclass(frozen=True, slots=True)
class Place:
    """The mesh that names the most dimensions, and which of the groups with samples of their own this rank belongs to."""

    names: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    data_ranks: int | None = None
    """How many such groups there are; None if unknown."""
    data_rank: int | None = None


def place_of(torch: Any, meshes: Sequence[Any], model: Any) -> Place:
    """Return this rank's place, given the live meshes and the outermost module with the most parameters (or None)."""
    distributed = getattr(torch, "distributed", None)
    known = getattr(getattr(getattr(distributed, "distributed_c10d", None), "_world", None), "pg_group_ranks", None)
    meshes = [mesh for mesh in meshes if known is None or _is_alive(mesh, known)]
    shown = max(meshes, key=lambda mesh: len(mesh_names(mesh)), default=None)
    names = () if shown is None else tuple(mesh_names(shown))
    sizes = () if shown is None or not names else tuple(int(size) for size in shown.shape)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return Place(names, sizes)
    world = int(distributed.get_world_size())
    found: tuple[int, int] | None
    if world == 1:
        found = 0, 1
    elif named := _by_meshes(meshes, world):
        found = next(iter(named)) if len(named) == 1 else None
    else:
        found = _by_megatron() or _by_wrapper(distributed, model, world)
    return Place(names, sizes) if found is None else Place(names, sizes, data_ranks=found[1], data_rank=found[0])


def _is_alive(mesh: Any, groups: Container[Any]) -> bool:
    """Return whether the process groups of a mesh still exist; those of an earlier training do not.

    A mesh of an older torch, which does not keep its groups, counts as alive.
    """
    root = getattr(mesh, "_root_mesh", None) or mesh
    return all(group in groups for group in (getattr(root, "_pg_registry", None) or {}).values())


def _by_meshes(meshes: Sequence[Any], world: int) -> set[tuple[int, int]]:
    """Return group and number of groups from the meshes over all ranks with only known dimensions; several if they disagree.

    Among several meshes, those with the fewest groups count: an FSDP mesh may also shard over ranks that share samples.
    """
    found: set[tuple[int, int]] = set()
    for mesh in meshes:
        names, sizes = mesh_names(mesh), [int(size) for size in mesh.shape]
        kinds = [_is_data(name) for name in names]
        coordinate = mesh.get_coordinate()
        if math.prod(sizes) != world or not kinds or None in kinds or coordinate is None:
            continue
        index, count = 0, 1
        for at, size, is_data in zip(coordinate, sizes, kinds, strict=True):
            if is_data:
                index, count = index * size + int(at), count * size
        found.add((index, count))
    fewest = min((count for _, count in found), default=0)
    return {(index, count) for index, count in found if count == fewest}


def _is_data(name: str) -> bool | None:
    """Return whether ranks along a dimension of this name see other samples; None if the name does not show it."""
    words = set(re.split(r"[^a-z]+", name.lower()))
    data, model = bool(words & _DATA), bool(words & _MODEL)
    return None if data == model else data


def _by_megatron() -> tuple[int, int] | None:
    state: Any = sys.modules.get(_MEGATRON)
    if state is None or not state.model_parallel_is_initialized():
        return None
    return int(state.get_data_parallel_rank()), int(state.get_data_parallel_world_size())


def _by_wrapper(distributed: Any, model: Any, world: int) -> tuple[int, int] | None:
    """Return group and number of groups if it is known which ranks average gradients, or if nothing divides the ranks."""
    divided = False
    for module in parts.modules(model) if model is not None else ():
        bases = {base.__name__ for base in type(module).__mro__}
        if bases & {"DistributedDataParallel", "FullyShardedDataParallel"}:
            group = module.process_group
            if "FullyShardedDataParallel" in bases and getattr(module, "_inter_node_pg", None) is not None:
                return None
            return int(distributed.get_rank(group)), int(distributed.get_world_size(group))
        if "FSDPModule" in bases:
            mesh = next((item.device_mesh for item in parts.parameters(module) if hasattr(item, "device_mesh")), None)
            if mesh is None or int(mesh.ndim) != 1:
                return None
            return int(mesh.get_local_rank()), int(mesh.size())
        if "PipelineModule" in bases:  # DeepSpeed's, which may divide a model among all ranks without any further group
            grid = getattr(module, "_grid", None)
            return None if grid is None else (int(grid.get_data_parallel_rank()), int(grid.get_data_parallel_world_size()))
        divided = divided or any(hasattr(item, "device_mesh") for item in module.__dict__["_parameters"].values())
    if divided:
        mesh = next(item.device_mesh for item in parts.parameters(model) if hasattr(item, "device_mesh"))
        return (0, 1) if int(mesh.size()) == world else None
    known = getattr(getattr(distributed.distributed_c10d, "_world", None), "pg_group_ranks", None)
    if (
        known is None
        or any(1 < len(ranks) < world for ranks in known.values())
        or any(name in sys.modules for name in _DIVIDING)
    ):
        return None
    return int(distributed.get_rank()), world
