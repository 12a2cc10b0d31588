"""Which module is trained, what wraps it, and how long its forward takes.

Found at an optimizer's first step, by looking once through the live objects for the modules that own its parameters,
and up to the outermost. Forward is timed in the ``__call__`` of those modules' classes: a class is pickled by its name,
so no checkpoint carries it, and the layers inside cost nothing. Where torch.compile has compiled anything, only
``OptimizedModule`` is touched, because its call is outside of every graph.
"""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from collections.abc import Iterable
from time import perf_counter
from types import FunctionType
from typing import Any

from gputop.tracking.autolog_loader import counts, first_tensor, is_integer
from gputop.tracking.autolog_steps import Steps
from gputop.tracking.autolog_torch import unseen
from gputop.tracking.watch import SplitCounter, is_data_parallel

CLASSES_MAX = 24
UNUSED_AFTER = (2, 4, 8)
"""Iterations after which a root that was never called gives way to the modules in it (a LightningModule, a ModuleList)."""
TELL_EVERY = 50
_PARTS = ("module", "_orig_mod")


models: Models | None = None
"""Those of this process, for the calls below."""


def _call_of(torch: Any, cls: Any) -> Any:
    """Return a ``__call__`` for a class that lets ``models`` take the time of the one that it has.

    It finds ``models`` by name and holds nothing of gputop: a class that is pickled by value (cloudpickle, for those of
    ``__main__``) takes it along into processes that know no gputop. Traced by torch.compile it is the plain call.
    """
    own = cls.__dict__.get("__call__")

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        onward = super(cls, self).__call__ if own is None else own.__get__(self)
        if torch.compiler.is_compiling():
            return onward(*args, **kwargs)
        room = sys.modules.get("gputop.tracking.autolog_model")
        if room is None or room.models is None:
            return onward(*args, **kwargs)
        return room.models.timed(self, onward, args, kwargs)

    unseen(torch, call, inside=False)
    return functools.wraps(cls.__call__)(call)


class Top:
    """A module whose calls are looked at: an outermost one, or (``inner``) the one in a data-parallel wrapper."""

    __slots__ = ("calls", "inner", "module", "rows_known", "split")

    def __init__(self, module: Any, inner: bool, rows_known: bool) -> None:
        self.module = weakref.ref(module)
        self.inner = inner
        self.rows_known = rows_known
        self.calls = 0
        self.split: Any = None

    def gone(self, module: Any) -> bool:
        """Return whether ``module`` is another one, at the same address."""
        return self.module() is not module


class Models:
    """The modules that are trained in this process."""

    def __init__(self, torch: Any, steps: Steps) -> None:
        self._torch = torch
        self._steps = steps
        self.tops: dict[int, Top] = {}
        self.inside = False
        self._classes: set[type] = set()
        self._parameters: set[int] = set()
        self._largest = 0
        self._wrapped = self._bypassed = self._bypassed_told = 0
        globals()["models"] = self
        for item in vars(Models).values():
            if isinstance(item, FunctionType) and item.__name__ != "timed":
                unseen(torch, item)
        unseen(torch, Models.timed, inside=False)

    def look(self, run: Any, optimizer: Any) -> None:
        """Find the modules of an optimizer and say what they are; at its first step."""
        own = {id(item) for group in optimizer.param_groups for item in group["params"]}
        self._parameters |= own
        roots = self._roots(own)
        for root in roots:
            self._add(root)
        self._tell(run, roots, own)
        number = len(self._steps.optimizers) - 1
        name = "optimizer" if number == 0 else f"optimizer/{number}"
        run.fact(name, describe_optimizer(optimizer))
        self._steps.tell_torch(run)

    def later(self, run: Any, step: int) -> None:
        """An iteration has ended."""
        if step in UNUSED_AFTER:
            self._descend()
        if self._bypassed > self._bypassed_told and (self._bypassed_told == 0 or step % TELL_EVERY == 0):
            self._bypassed_told = self._bypassed
            run.fact("wrapper_calls", {"wrapped": self._wrapped, "bypassed": self._bypassed})

    def _roots(self, own: set[int]) -> list[Any]:
        kind = self._torch.nn.Module
        modules: dict[int, Any] = {}
        known: dict[type, bool] = {}
        for item in gc.get_objects():
            cls = type(item)
            is_module = known.get(cls)
            if is_module is None:
                is_module = known[cls] = issubclass(cls, kind)
            if is_module and "_parameters" in item.__dict__:
                modules[id(item)] = item
        parents: dict[int, list[Any]] = {}
        for module in modules.values():
            for child in list(module.__dict__["_modules"].values()):
                if child is not None:
                    parents.setdefault(id(child), []).append(module)
        owners = [module for module in modules.values() if any(id(item) in own for item in _direct(module))]
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
        return list(found.values())

    def _add(self, root: Any) -> None:
        module: Any = root
        if not _defines_forward(self._torch, module):
            for child in module.children():
                self._add(child)
            return
        compiled = self._compiles()
        if compiled and type(module).__name__ != "OptimizedModule":
            return
        if id(module) in self.tops or isinstance(module, self._torch.jit.ScriptModule):
            return
        rows_known = not any(getattr(part, "batch_first", True) is False for part in module.modules())
        self._listen(module, inner=False, rows_known=rows_known)
        inner = getattr(module, "module", None)
        if inner is not None and not compiled and type(module).__name__ in ("DataParallel", "DistributedDataParallel"):
            self._listen(inner, inner=True, rows_known=False)

    def _listen(self, module: Any, inner: bool, rows_known: bool) -> None:
        cls = type(module)
        if cls not in self._classes:
            if len(self._classes) >= CLASSES_MAX:
                return
            self._classes.add(cls)
            cls.__call__ = _call_of(self._torch, cls)
        self.tops[id(module)] = Top(module, inner, rows_known)

    def _descend(self) -> None:
        for key, top in list(self.tops.items()):
            module = top.module()
            if module is None or top.calls or top.inner:
                continue
            del self.tops[key]
            for child in module.children():
                if any(id(item) in self._parameters for item in child.parameters()):
                    self._add(child)

    def _compiles(self) -> bool:
        """Return whether torch.compile has been at work in this process."""
        utils: Any = sys.modules.get("torch._dynamo.utils")
        counted = getattr(utils, "counters", None)
        return bool(counted and (counted["stats"] or counted["frames"]))

    def timed(self, module: Any, onward: Any, args: Any, kwargs: Any) -> Any:
        """Call a module, and take the time if it is one of those that are trained and the outermost now."""
        steps = self._steps
        top = self.tops.get(id(module))
        if top is None or self.inside or steps.off or steps.elsewhere() or top.gone(module):
            return onward(*args, **kwargs)
        trains = module.training and self._torch.is_grad_enabled()
        if trains:
            self.trains(top, module, args, kwargs)
        self.inside = True
        started = perf_counter()
        try:
            return onward(*args, **kwargs)
        finally:
            took = perf_counter() - started
            self.inside = False
            if trains:
                steps.forward_s += took
                steps.inside_step += took
            else:
                steps.evaluation_s += took

    def trains(self, top: Top, module: Any, args: Any, kwargs: Any) -> None:
        """Look at a training call of a top module."""
        try:
            top.calls += 1
            if top.inner:
                self._bypassed += 1
                return
            self._wrapped += 1
            run = self._steps.run
            if top.split is None:
                top.split = SplitCounter(run, module) if run is not None and _splits(module) else False
            if top.split:
                top.split(module, args, kwargs)
            if self._steps.loader is None and not (self._steps.stepping and self._steps.inside_step):
                self._steps.calls += 1
                tensor = first_tensor(args) if args else first_tensor(kwargs)
                if tensor is not None:
                    rows, tokens = counts(tensor.shape, is_integer(tensor), None)
                    self._steps.rows += rows if top.rows_known and len(tensor.shape) > 1 else 0
                    self._steps.tokens += tokens
        except Exception as error:  # noqa: BLE001 - the user's forward follows, whatever its arguments are
            self._steps.failed(error)

    def _tell(self, run: Any, roots: Iterable[Any], own: set[int]) -> None:
        """Record the fact ``model``: that of the root with the most trained parameters so far."""
        sized = [(sum(int(item.numel()) for item in root.parameters() if id(item) in own), root) for root in roots]
        if not sized:
            return
        size, root = max(sized, key=lambda pair: pair[0])
        if size <= self._largest:
            return
        self._largest = size
        run.fact("model", describe_model(root))


def describe_model(root: Any) -> dict[str, Any]:
    """Return the fact ``model``: the class, what wraps it from the outside in, and its parameters."""
    wrappers: list[str] = []
    inner = root
    while len(wrappers) < 8:
        part = next((inner._modules[name] for name in _PARTS if inner._modules.get(name) is not None), None)
        if part is None or len(inner._modules) != 1:
            break
        wrappers.append(type(inner).__name__)
        inner = part
    sharded = next((base.__name__ for base in type(inner).__mro__ if base.__name__ == "FSDPModule"), None)
    if sharded:
        wrappers.append(sharded)
    parameters = list(root.parameters())
    spread = [name for name in wrappers if name != "OptimizedModule"]
    return {
        "class": type(inner).__name__,
        "wrapper": spread[0] if spread else (wrappers[0] if wrappers else None),
        "wrappers": wrappers,
        "parameter_device": str(parameters[0].device) if parameters else None,
        "parameters": sum(int(item.numel()) for item in parameters),
        "trained_parameters": sum(int(item.numel()) for item in parameters if item.requires_grad),
    }


def describe_optimizer(optimizer: Any) -> dict[str, Any]:
    """Return the fact ``optimizer``: the class, and the plain settings of its first group."""
    first = optimizer.param_groups[0]
    settings = {name: value for name, value in first.items() if isinstance(value, bool | int | float | str)}
    return {"type": getattr(optimizer, "kind", type(optimizer).__name__), "groups": len(optimizer.param_groups), **settings}


def _direct(module: Any) -> list[Any]:
    return [item for item in module.__dict__["_parameters"].values() if item is not None]


def _defines_forward(torch: Any, module: Any) -> bool:
    """Return whether a module is made to be called: containers such as ModuleList are not."""
    forward = getattr(type(module), "forward", None)
    unimplemented = torch.nn.Module.forward
    return forward is not None and forward is not unimplemented


def _splits(module: Any) -> bool:
    """Return whether a module is a DataParallel with devices that ``gputop.watch`` does not count already."""
    watched = any(isinstance(hook, SplitCounter) for hook in module._forward_pre_hooks.values())
    return not watched and is_data_parallel(module) and not hasattr(module, "process_group")
