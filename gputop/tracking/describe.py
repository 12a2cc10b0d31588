"""Facts about a model and an optimizer, read from live objects without reading any tensor's values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputop.facts.setup import BatchNorm, Model, Optimizer
from gputop.tracking import parts

_PARTS = ("module", "_orig_mod", "_fsdp_wrapped_module")
_WRAPPERS_MAX = 8
"""More wrappers than this are not followed."""


def describe_model(root: Any, mesh: list[str]) -> dict[str, Any]:
    """Return the fact ``model``: the class, its wrappers from the outside in, its parameters and notable layers.

    ``mesh`` holds the names of a device mesh's dimensions, if known from a source other than the parameters.
    """
    wrappers, inner = unwrap(root)
    parameters = parts.parameters(root)
    sizes = [int(item.numel()) for item in parameters]
    trained = [size for item, size in zip(parameters, sizes, strict=True) if item.requires_grad]
    devices: dict[str, int] = {}
    dtypes: dict[str, int] = {}
    for item, size in zip(parameters, sizes, strict=True):
        device, dtype = str(item.device), str(item.dtype).removeprefix("torch.")
        devices[device] = devices.get(device, 0) + size
        dtypes[dtype] = dtypes.get(dtype, 0) + size
    spread = [name for name in wrappers if name != "OptimizedModule"]
    places = parts.kept(inner, "hf_device_map")
    batch_norm, recurrent, dropout = _layers(root)
    off = _off_in_training(root, [layer for layer in dropout if not layer.training])
    return Model.filled(
        class_=type(inner).__name__,
        wrapper=spread[0] if spread else (wrappers[0] if wrappers else None),
        wrappers=wrappers,
        parameter_device=str(parameters[0].device) if parameters else None,
        parameter_devices=devices,
        parameter_dtypes=dtypes,
        parameters=sum(sizes),
        trained_parameters=sum(trained),
        largest_parameter=max(trained, default=0),
        hf_device_map=len({str(place) for place in places.values()}) if isinstance(places, Mapping) else None,
        batch_norm=batch_norm,
        recurrent=recurrent,
        dropout=len(dropout),
        **({"dropout_off": off} if off else {}),
        mesh=mesh or next((names for names in map(_mesh_of, parameters[:1]) if names), []),
    )


def unwrap(root: Any) -> tuple[list[str], Any]:
    """Return the class names of a model's wrappers, from the outside in, and the model itself."""
    wrappers: list[str] = []
    inner = root
    while len(wrappers) < _WRAPPERS_MAX:
        part = next((inner._modules[name] for name in _PARTS if inner._modules.get(name) is not None), None)
        if part is None or len(inner._modules) != 1:
            break
        wrappers.append(type(inner).__name__)
        inner = part
    sharded = next((base.__name__ for base in type(inner).__mro__ if base.__name__ == "FSDPModule"), None)
    if sharded:
        wrappers.append(sharded)
    return wrappers, inner


def _layers(root: Any) -> tuple[dict[str, Any], bool, list[Any]]:
    """Return what the fact says of BatchNorm layers, whether there are recurrent ones, and those that drop values."""
    kinds: dict[type, frozenset[str]] = {}
    layers = synced = frozen = 0
    recurrent = False
    dropout = []
    for module in parts.modules(root):
        cls = type(module)
        names = kinds.get(cls)
        if names is None:
            names = kinds[cls] = frozenset(base.__name__ for base in cls.__mro__)
        if "_BatchNorm" in names:
            layers += 1
            synced += "SyncBatchNorm" in names
            frozen += root.training and not module.training
        recurrent = recurrent or "RNNBase" in names
        if "_DropoutNd" in names and module.__dict__.get("p"):
            dropout.append(module)
    return BatchNorm.filled(layers=layers, synced=synced, frozen=frozen), recurrent, dropout


def _off_in_training(root: Any, idle: list[Any]) -> int:
    """Return how many idle layers drop nothing because their part of the model is in evaluation mode, though it is trained.

    The model itself is in training mode: what a library loads for evaluation, and a script puts into a module of its own.
    """
    if not idle or not root.training:
        return 0
    ids = set(map(id, idle))
    off = 0
    for module in parts.modules(root):
        inside = 0 if module.training else sum(id(child) in ids for child in parts.children(module))
        if inside and any(item.requires_grad for item in parts.parameters(module)):
            off += inside
    return off


def _mesh_of(parameter: Any) -> list[str]:
    return mesh_names(getattr(parameter, "device_mesh", None))


def mesh_names(mesh: Any) -> list[str]:
    """Return the names of a device mesh's dimensions; "" for each one if there are several without names.

    Empty for no mesh, and for a single unnamed dimension: FSDP creates such a mesh itself, over all ranks.
    """
    names = getattr(mesh, "mesh_dim_names", None)
    if names:
        return [str(name) for name in names]
    dimensions = int(getattr(mesh, "ndim", 0))
    return [""] * dimensions if dimensions > 1 else []


def describe_optimizer(optimizer: Any) -> dict[str, Any]:
    """Return the fact ``optimizer``: the class, and the scalar settings of its first parameter group."""
    first = optimizer.param_groups[0]
    settings = {name: value for name, value in first.items() if isinstance(value, bool | int | float | str)}
    kind = getattr(optimizer, "kind", type(optimizer).__name__)
    return {**Optimizer.filled(type=kind, groups=len(optimizer.param_groups)), **settings}


def defines_forward(torch: Any, module: Any) -> bool:
    """Return whether a module is meant to be called; containers such as ModuleList are not."""
    forward = getattr(type(module), "forward", None)
    unimplemented = torch.nn.Module.forward
    return forward is not None and forward is not unimplemented
