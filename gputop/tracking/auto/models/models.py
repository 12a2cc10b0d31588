"""Finds which module is trained, what wraps it, and how long its forward takes.

At an optimizer's first step, searches the live objects once for the modules that own its parameters, and from there up to
the outermost ones. Forward is timed in the ``__call__`` of those modules' classes: a class is pickled by name, so no
checkpoint carries the wrapper, and inner layers cost nothing. If torch.compile has compiled anything, only
``OptimizedModule`` is wrapped, because its call is outside of every graph.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import weakref
from collections.abc import Callable, Iterable
from time import perf_counter
from types import FunctionType
from typing import Any

from gputop.facts.table import Evaluation, WrapperCalls
from gputop.tracking.auto.readings.batches import Called
from gputop.tracking.auto.readings.ddp import ddp_fact, is_ddp, is_sharded
from gputop.tracking.auto.readings.loader import counts, first_tensor, is_integer
from gputop.tracking.auto.readings.settings import autocast_is_on
from gputop.tracking.auto.training.fast_path import FastPath
from gputop.tracking.auto.training.state import Training
from gputop.tracking.describe import defines_forward, describe_model, describe_optimizer, direct, mesh_names
from gputop.tracking.no_compile import no_compile
from gputop.tracking.watch import SplitCounter, splits

CLASSES_MAX = 24
UNUSED_AFTER = (2, 4, 8)
"""After these iterations a root that was never called is replaced by its submodules (a LightningModule, a ModuleList)."""
AUTOCAST_CALLS = 3
"""The number of first calls of each module in which autocast is checked."""
WRAPPERS = ("DataParallel", "DistributedDataParallel")
_FRAMES_UP = 7
_PARALLEL = os.path.join("torch", "nn", "parallel") + os.sep


models: Models | None = None
"""The models of this process, for the wrapped calls below."""


def _publish(found: Models) -> None:
    global models
    models = found


def _timed_call(torch: Any, cls: Any, fast: FastPath) -> Any:
    """Return a ``__call__`` for a class that lets ``models`` time the class's own one.

    It looks ``models`` up by name, and whatever it holds of gputop is pickled as a stub: a class that is pickled by value
    (cloudpickle, for classes of ``__main__``) takes the wrapper along into processes without gputop. While torch.compile
    traces, it is the plain call.
    """
    own = cls.__dict__.get("__call__")
    # Both return True while torch.compile traces; the first is cheaper to call, but not every torch has it.
    tracing = getattr(torch.compiler, "is_dynamo_compiling", torch.compiler.is_compiling)
    grad_enabled = torch.is_grad_enabled

    def call_module(self: Any, *args: Any, **kwargs: Any) -> Any:
        onward = super(cls, self).__call__ if own is None else own.__get__(self)
        if tracing() or (fast.on and self.training and grad_enabled()):
            return onward(*args, **kwargs)
        if torch.compiler.is_compiling():
            return onward(*args, **kwargs)
        ours = sys.modules.get("gputop.tracking.auto.models.models")
        if ours is None or ours.models is None:
            return onward(*args, **kwargs)
        return ours.models.timed(self, onward, args, kwargs)

    no_compile(torch, call_module, inside=False)
    return functools.wraps(cls.__call__)(call_module)


class Top:
    """A module whose calls are observed: an outermost one, or (``inner``) the one in a data-parallel wrapper."""

    __slots__ = ("calls", "ddp", "inner", "module", "plain", "rows_known", "sized", "split", "wraps")

    def __init__(self, module: Any, inner: bool, rows_known: bool) -> None:
        self.module: Any = weakref.ref(module)
        self.inner = inner
        self.rows_known = rows_known
        self.calls = 0
        self.split: Any = None
        base = getattr(module, "_orig_mod", module)
        self.ddp: Any = weakref.ref(base) if is_ddp(base) else None
        """The DDP that this call belongs to."""
        self.sized = self.ddp is not None or (not inner and is_sharded(base))
        """Whether each rank has a share of the work, so that the size of its inputs is recorded."""
        self.plain = False
        """Whether its calls need no further inspection, except for their rows if no loader provides them."""
        self.wraps = not inner and type(base).__name__ in WRAPPERS


class Models:
    """The modules that this process trains."""

    def __init__(self, torch: Any, steps: Training, fast: FastPath) -> None:
        self._torch = torch
        self._grad_enabled: Callable[[], bool] = torch.is_grad_enabled
        self._steps = steps
        self.fast = fast
        self.inside = False
        self._classes: set[type] = set()
        self.mesh: list[str] = []
        self.autocast = False
        """Whether autocast was on in a forward."""
        self.evaluating = False
        """Whether the module that is being called, if any, is being evaluated."""
        self.begin_run()
        _publish(self)
        for item in vars(Models).values():
            if isinstance(item, FunctionType) and item.__name__ != "timed":
                no_compile(torch, item)
        no_compile(torch, Models.timed, inside=False)

    def begin_run(self) -> None:
        """Forget the modules of an earlier run, and begin to count anew."""
        self.settling = True
        """Whether ``after_iteration`` must be called."""
        self.splits = False
        """Whether the calls of a DataParallel are being counted."""
        self.tops: dict[int, Top] = {}
        self.wrapped = False
        """Whether a data-parallel wrapper is among the observed modules."""
        self._parameters: set[int] = set()
        self._largest = 0
        self._root: weakref.ref[Any] | None = None
        """The outermost module with the most trained parameters."""
        self._ddp: weakref.ref[Any] | None = None
        self._ddp_parameters: set[int] = set()
        self.ddp_optimizers: set[int] = set()
        """The numbers of the optimizers that step on parameters of a DDP."""
        self._wrapped = self._bypassed = self._bypassed_steps = 0
        self._counted = (0, 0)
        self._bypassed_class: str | None = None
        self._bypassed_where: str | None = None
        self.called = Called()
        """The sizes of recent inputs to the wrapper of this rank's model."""
        self._evaluations = 0
        self._evaluation_s = 0.0
        self._evaluated: tuple[str | None, bool] = (None, False)

    def add_optimizer(self, run: Any, optimizer: Any) -> None:
        """Find the modules of an optimizer, at its first step, and record what they are."""
        own = {id(item) for group in optimizer.param_groups for item in group["params"]}
        roots = self._roots(own)
        self._parameters |= own
        for root in roots:
            self._add(root)
            self._find_ddp(root)
        self._record_model(roots, own)
        number = len(self._steps.optimizers) - 1
        if own & self._ddp_parameters:
            self.ddp_optimizers.add(number)
        name = "optimizer" if number == 0 else f"optimizer/{number}"
        if getattr(optimizer, "kind", "") is not None:
            run.fact(name, describe_optimizer(optimizer))

    def after_iteration(self, step: int) -> None:
        """Replace roots that were never called, after the iterations ``UNUSED_AFTER``."""
        self.settling = step < UNUSED_AFTER[-1]
        if step in UNUSED_AFTER:
            self._descend()

    def stepped(self) -> None:
        """Count, after an optimizer's step, whether the calls since the last step went through the wrapper or bypassed it."""
        wrapped, bypassed = self._counted
        self._counted = self._wrapped, self._bypassed
        if self._wrapped > wrapped:
            self._bypassed_steps = 0
        elif self._bypassed > bypassed:
            self._bypassed_steps += 1

    def wrapper_calls(self) -> dict[str, Any] | None:
        """Return the fact ``wrapper_calls``; None if there is no wrapper, or if it is unknown."""
        if not self.wrapped or not (self._wrapped or self._bypassed):
            return None
        return WrapperCalls.filled(
            wrapped=self._wrapped,
            bypassed=self._bypassed,
            bypassed_steps=self._bypassed_steps,
            module=self._bypassed_class,
            where=self._bypassed_where,
        )

    def evaluation(self) -> dict[str, Any] | None:
        """Return the fact ``evaluation``; None before the first one."""
        if not self._evaluations:
            return None
        device, through = self._evaluated
        return Evaluation.filled(
            calls=self._evaluations,
            seconds=self._evaluation_s,
            parameter_device=device,
            wrapped=through if self.wrapped else None,
        )

    def describe(self) -> dict[str, Any] | None:
        """Return the fact ``model`` as it is now."""
        root = self._root() if self._root is not None else None
        return None if root is None else describe_model(root, self.mesh)

    def ddp(self) -> dict[str, Any] | None:
        """Return the fact ``ddp``; None if no module is wrapped in DDP."""
        module = self._ddp() if self._ddp is not None else None
        return None if module is None else ddp_fact(module)

    def judges_ddp(self) -> bool:
        """Return whether it is known which backwards a DDP reduced: calls of it, or calls that bypass it, are observed."""
        return any(top.ddp is not None for top in self.tops.values())

    def _find_ddp(self, root: Any) -> None:
        found = next((module for module in root.modules() if is_ddp(module)), None)
        if found is not None:
            self._ddp = weakref.ref(found)
            self._ddp_parameters |= {id(item) for item in found.parameters()}

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
            elif not is_module and cls.__name__ == "DeviceMesh":
                self.mesh = max(self.mesh, mesh_names(item), key=len)
        parents: dict[int, list[Any]] = {}
        for module in modules.values():
            for child in list(module.__dict__["_modules"].values()):
                if child is not None:
                    parents.setdefault(id(child), []).append(module)
        owners = [module for module in modules.values() if any(id(item) in own for item in direct(module))]
        if not owners:  # ZeRO steps on flat copies of the weights, which belong to no module
            owners = [module for module in modules.values() if type(module).__name__ == "DeepSpeedEngine"]
            own.update(id(item) for module in owners for item in module.parameters())
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
        if not defines_forward(self._torch, module):
            for child in module.children():
                self._add(child)
            return
        compiled = self.compiles()
        if compiled and type(module).__name__ != "OptimizedModule":
            return
        if id(module) in self.tops or isinstance(module, self._torch.jit.ScriptModule):
            return
        rows_known = not any(getattr(part, "batch_first", True) is False for part in module.modules())
        self._listen(module, inner=False, rows_known=rows_known)
        inner = getattr(module, "module", None)
        if inner is not None and not compiled and type(module).__name__ in WRAPPERS:
            self._listen(inner, inner=True, rows_known=False)

    def _listen(self, module: Any, inner: bool, rows_known: bool) -> None:
        cls = type(module)
        if cls not in self._classes:
            if len(self._classes) >= CLASSES_MAX:
                return
            self._classes.add(cls)
            cls.__call__ = _timed_call(self._torch, cls, self.fast)
        top = self.tops[id(module)] = Top(module, inner, rows_known)
        self.wrapped = self.wrapped or top.wraps

    def _descend(self) -> None:
        for key, top in list(self.tops.items()):
            module = top.module()
            if module is None or top.calls or top.inner:
                continue
            del self.tops[key]
            for child in module.children():
                if any(id(item) in self._parameters for item in child.parameters()):
                    self._add(child)

    def compiles(self) -> bool:
        """Return whether torch.compile has run in this process."""
        utils: Any = sys.modules.get("torch._dynamo.utils")
        counted = getattr(utils, "counters", None)
        return bool(counted and (counted["stats"] or counted["frames"]))

    def timed(self, module: Any, onward: Any, args: Any, kwargs: Any) -> Any:
        """Call a module, and time the call if the module is tracked and the call is the outermost one."""
        steps = self._steps
        top = self.tops.get(id(module))
        if (
            top is None
            or self.inside
            or steps.off
            or self.fast.in_backward
            or top.module() is not module
            or steps.on_other_thread()
        ):
            return onward(*args, **kwargs)
        trains = module.training and self._grad_enabled()
        self.fast.end_early()
        if trains:
            if top.plain and steps.loader is not None:
                self._wrapped += 1
                top.calls += 1
            else:
                self.training_call(top, module, args, kwargs)
        self.inside = True
        self.evaluating = not trains
        clock = steps.clock
        mark = clock.start() if trains and clock is not None and clock.running else None
        started = perf_counter()
        try:
            return onward(*args, **kwargs)
        finally:
            took = perf_counter() - started
            if clock is not None and mark is not None:
                clock.stop("cuda/forward_s", mark)
            self.inside = self.evaluating = False
            if trains:
                steps.forward_s += took
                steps.inside_step += took
            else:
                steps.evaluation_s += took
                self._evaluation_s += took
                self._evaluations += 1
                if self._evaluations == 1 or steps.evaluation_s == took:  # the first one after a step
                    self._note_evaluation(top, module)

    def _note_evaluation(self, top: Top, module: Any) -> None:
        first = next(module.parameters(), None)
        self._evaluated = (None if first is None else str(first.device), not top.inner)

    def training_call(self, top: Top, module: Any, args: Any, kwargs: Any) -> None:
        """Inspect a training call of a top module."""
        try:
            top.calls += 1
            if top.calls <= AUTOCAST_CALLS and not self.autocast:
                self.autocast = autocast_is_on(self._torch)
            if top.inner and not self._through_wrapper():
                self._bypassed += 1
                self._note_bypass(module)
                return
            self._wrapped += 1
            self._count_sync(top)
            if top.inner:
                return
            if top.sized and self._steps.step + 1 >= self._steps.batches_from:
                self.called.take((*args, *kwargs.values()), self._steps.step + 1)
            run = self._steps.run
            if top.split is None:
                top.split = SplitCounter(run, module) if run is not None and splits(module) else False
                self.splits = self.splits or bool(top.split)
            if top.split:
                top.split(module, args, kwargs)
            top.plain = top.calls >= AUTOCAST_CALLS and not top.sized and not top.split and not top.wraps
            if self._steps.loader is None and not (self._steps.stepping and self._steps.inside_step):
                self._steps.calls += 1
                tensor = first_tensor(args) if args else first_tensor(kwargs)
                if tensor is not None:
                    rows, tokens = counts(tensor.shape, is_integer(tensor), None)
                    self._steps.rows += rows if top.rows_known and len(tensor.shape) > 1 else 0
                    self._steps.tokens += tokens
        except Exception as error:  # noqa: BLE001 - the user's forward runs next, whatever its arguments are
            self._steps.failed(error)

    def _through_wrapper(self) -> bool:
        """Return whether the wrapper calls its inner module because the script called the wrapper's ``forward`` directly."""
        frame: Any = sys._getframe()
        for _ in range(_FRAMES_UP):
            if frame is None:
                return False
            if _PARALLEL in frame.f_code.co_filename:
                return True
            frame = frame.f_back
        return False

    def _count_sync(self, top: Top) -> None:
        reference = top.ddp
        if reference is None and top.inner:
            reference = self._ddp
        module = reference() if reference is not None else None
        if module is not None and not self._steps.partial:
            self._steps.gradients.forward(bool(module.require_backward_grad_sync))

    def _note_bypass(self, module: Any) -> None:
        frame = self._steps.code.frame()
        self._bypassed_class = type(module).__name__
        self._bypassed_where = None if frame is None else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"

    def _record_model(self, roots: Iterable[Any], own: set[int]) -> None:
        """Record the fact ``model`` for the root with the most trained parameters so far."""
        sized = [(sum(int(item.numel()) for item in root.parameters() if id(item) in own), root) for root in roots]
        if not sized:
            return
        size, root = max(sized, key=lambda pair: pair[0])
        if size <= self._largest:
            return
        self._largest = size
        self._root = weakref.ref(root)
        self._steps.update_fact("model", describe_model(root, self.mesh))
