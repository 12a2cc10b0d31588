"""The parts of a module and its parameters, read without calling anything that the script defines.

A script may define ``parameters``, ``modules`` or ``__getattr__`` itself: to print, to count, to load or to wrap. If gputop
called them, they would do that once more. What torch's own module keeps is in its ``__dict__``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def direct(module: Any) -> list[Any]:
    """Return a module's own parameters, without those of its submodules."""
    return [item for item in _own(module)["_parameters"].values() if item is not None]


def children(module: Any) -> list[Any]:
    """Return a module's direct submodules, each once."""
    found = {id(item): item for item in _own(module)["_modules"].values() if item is not None}
    return list(found.values())


def modules(root: Any) -> list[Any]:
    """Return a module and all below it, each once, in the order of torch's ``modules``."""
    return list(_walk(root, set()))


def parameters(root: Any) -> list[Any]:
    """Return the parameters of a module and of all below it, each once."""
    found = {id(item): item for module in _walk(root, set()) for item in direct(module)}
    return list(found.values())


def kept(module: Any, name: str, default: Any = None) -> Any:
    """Return what a module itself keeps under this name, as an attribute or as a submodule; no property is computed."""
    own = _own(module)
    if name in own:
        return own[name]
    below = own["_modules"]
    if name not in below:  # that of a scripted module has no ``get``
        return default
    return below[name]


def _own(module: Any) -> dict[str, Any]:
    found: dict[str, Any] = object.__getattribute__(module, "__dict__")
    return found


def _walk(module: Any, seen: set[int]) -> Iterator[Any]:
    if id(module) in seen:
        return
    seen.add(id(module))
    yield module
    for child in children(module):
        yield from _walk(child, seen)
