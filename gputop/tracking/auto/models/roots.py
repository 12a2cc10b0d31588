"""Searches the live objects for the modules that own an optimizer's parameters, and from there up to the outermost ones."""

from __future__ import annotations

import gc
from itertools import compress
from typing import Any

from gputop.tracking.parts import direct, parameters


def find_roots(torch: Any, own: set[int]) -> tuple[list[Any], list[Any]]:
    """Return the outermost modules above the parameters with the ids ``own``, and the DeviceMeshes that there are.

    If no module owns them (ZeRO steps on flat copies of the weights), return DeepSpeed's engines, and add the ids of their
    parameters to ``own``.
    """
    modules, meshes = _live_modules(torch.nn.Module)
    parents: dict[int, list[Any]] = {}
    for module in modules:
        for child in list(module.__dict__["_modules"].values()):
            if child is not None:
                parents.setdefault(id(child), []).append(module)
    owners = [module for module in modules if any(id(item) in own for item in direct(module))]
    if not owners:
        owners = [module for module in modules if type(module).__name__ == "DeepSpeedEngine"]
        own.update(id(item) for module in owners for item in parameters(module))
    found: dict[int, Any] = {}
    seen: set[int] = set()
    queue = owners
    while queue:
        module = queue.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        above = parents.get(id(module))
        if above:
            queue.extend(above)
        else:
            found[id(module)] = module
    return list(found.values()), meshes


def _live_modules(kind: type) -> tuple[list[Any], list[Any]]:
    # Call no function for each object: a profiler of calls would record 300,000 of them in the script's trace.
    objects = gc.get_objects()
    classes = set(map(type, objects))
    modules = {cls for cls in classes if issubclass(cls, kind)}
    wanted = modules.union(cls for cls in classes if cls.__name__ == "DeviceMesh")
    found = list(compress(objects, map(wanted.__contains__, map(type, objects))))
    return (
        [item for item in found if type(item) in modules and "_parameters" in item.__dict__],
        [item for item in found if type(item) not in modules],
    )
