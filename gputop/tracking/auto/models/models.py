"""The modules that this process trains: what they are, how long their forward takes, and how they are evaluated.

At an optimizer's first step, ``roots`` finds the outermost modules above its parameters. Forward is timed in the ``__call__``
of their classes (``calls``). If torch.compile has compiled anything, only ``OptimizedModule`` is wrapped, because its call is
outside of every graph.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from types import FunctionType
from typing import Any

from gputop.facts.measured import Evaluation
from gputop.tracking.auto.models.calls import AUTOCAST_CALLS, WRAPPERS, Top, publish, timed_call
from gputop.tracking.auto.models.late_roots import LateRoots
from gputop.tracking.auto.models.roots import find_roots
from gputop.tracking.auto.models.searches import Searches
from gputop.tracking.auto.models.wrapping import Wrapping, called_by_wrapper
from gputop.tracking.auto.readings.batches import Called
from gputop.tracking.auto.readings.ddp import ddp_fact, is_ddp
from gputop.tracking.auto.readings.loader import counts, first_tensor, is_integer, is_table
from gputop.tracking.auto.readings.parallel import Place, place_of
from gputop.tracking.auto.readings.settings import autocast_is_on
from gputop.tracking.auto.training.state import Training
from gputop.tracking.describe import defines_forward, describe_model, describe_optimizer
from gputop.tracking.journal.handlers import let_through
from gputop.tracking.no_compile import no_compile
from gputop.tracking.unseen import unseen
from gputop.tracking.watch import SplitCounter, splits

CLASSES_MAX = 24
UNUSED_AFTER = (2, 4, 8)
"""After these iterations a root that was never called is replaced by its submodules (a LightningModule, a ModuleList)."""


class Models:
    """The modules that this process trains."""

    def __init__(self, torch: Any, steps: Training) -> None:
        self._torch = torch
        self._grad_enabled: Callable[[], bool] = torch.is_grad_enabled
        self._steps = steps
        self.inside = False
        self._classes: weakref.WeakSet[type] = weakref.WeakSet()
        """Those whose ``__call__`` is wrapped. A class of the script's, kept, would keep the script's variables at its end."""
        self.place: Place | None = None
        """The mesh of the ranks, and which of them are given the same samples; None before it was searched for."""
        self.autocast = False
        """Whether autocast was on in a forward."""
        self.evaluating = False
        """Whether the module that is being called, if any, is being evaluated."""
        self._late_roots = LateRoots(torch, steps, self.compiles, self._take_late)
        self._each: dict[int, set[int]] = {}
        """The ids of the weights of the optimizers that were last searched for, by number."""
        self.begin_run()
        publish(self)
        for cls in (Models, LateRoots, Searches, Wrapping):
            for item in vars(cls).values():
                if isinstance(item, FunctionType) and item.__name__ != "timed":
                    no_compile(torch, item)
        no_compile(torch, Models.timed, inside=False)

    def begin_run(self) -> None:
        """Forget the modules of an earlier run, and restart the counts."""
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
        self.wrapping = Wrapping()
        self.called = Called()
        """The sizes of recent inputs to the wrapper of this rank's model."""
        self._evaluations = 0
        self._evaluation_s = 0.0
        self._evaluated: tuple[str | None, bool] = (None, False)
        self._training = 1
        """Which of several consecutive trainings the modules belong to."""
        self.searches = Searches()
        self._late_roots.begin()

    def add_optimizer(self, optimizer: Any) -> None:
        """Record what an optimizer is, at its first step, and find its modules, unless the search for them is put off."""
        self._forget_dead()
        number, trainings = len(self._steps.optimizers) - 1, self._steps.optimizers.trainings
        begins, self._training = trainings > self._training, trainings
        if begins:
            self._forget_training()
        if self.searches.allows():
            self._search({number: optimizer})
        else:
            self.searches.put_off(optimizer, number, self.knows(optimizer))
            if begins:
                self._lose_modules()
        if getattr(optimizer, "kind", "") is not None:
            self._steps.update_fact("optimizer" if number == 0 else f"optimizer/{number}", describe_optimizer(optimizer))

    def knows(self, optimizer: Any) -> bool:
        """Return whether the modules of all parameters of an optimizer were searched for."""
        return all(id(item) in self._parameters for group in optimizer.param_groups for item in group["params"])

    def search_late(self) -> bool:
        """Find the modules whose search was put off, if it is due now; return whether it was."""
        due = self.searches.due()
        if due:
            self._search(due)
        return bool(due)

    def _search(self, optimizers: dict[int, Any]) -> None:
        """Find the modules of these optimizers, by number."""
        started = perf_counter()
        self._each = each = {
            number: {id(item) for group in optimizer.param_groups for item in group["params"]}
            for number, optimizer in optimizers.items()
        }
        own = set[int]().union(*each.values())
        roots, meshes = find_roots(self._torch, own)
        self.searches.took(perf_counter() - started)
        self._parameters |= own
        self._take(roots, own, meshes)
        if not roots and gc.get_freeze_count() and not self.compiles():
            if self._root is not None and self._root() is None:  # it belongs to an earlier phase
                self._root = None
            if self._root is None:
                self._withdraw_facts()
            self._late_roots.watch(own)
            self.settling = True

    def _take(self, roots: Sequence[Any], own: set[int], meshes: Sequence[Any]) -> None:
        """Take the outermost modules of the weights with the ids ``own``."""
        for root in roots:
            self._add(root)
            self._find_ddp(root)
        with unseen(self._torch):
            self._choose_root(roots, own)
            self._find_place(meshes)
        of_engines = own.difference(*self._each.values())
        self.ddp_optimizers |= {number for number, ids in self._each.items() if (ids | of_engines) & self._ddp_parameters}

    def _take_late(self, root: Any) -> None:
        """Take a module that was called; describe it only if it is all that an optimizer trains, and not a part of that."""
        ids = {id(item) for item in root.parameters()}
        if any(own <= ids for own in self._each.values()):
            self._take([root], self._parameters, [])
        else:
            self._add(root)

    def _forget_training(self) -> None:
        """Forget which modules were described for an earlier training; the script may keep them."""
        self._largest = 0
        self._root = self._ddp = None
        self._ddp_parameters.clear()
        self.ddp_optimizers.clear()
        self._late_roots.begin()

    def _lose_modules(self) -> None:
        """State nothing about modules until they are searched for: what an earlier training left is not this one's."""
        self.tops.clear()
        self._parameters.clear()
        self.wrapped = False
        self._withdraw_facts()

    def _withdraw_facts(self) -> None:
        run = self._steps.run
        for name in ("model", "ddp", "wrapper_calls"):
            if run is not None and run.facts.get(name) is not None:
                run.fact(name, None)

    def _forget_dead(self) -> None:
        """Forget modules that are gone, so that they do not pile up."""
        gone = [key for key, top in self.tops.items() if top.module() is None]
        for key in gone:
            del self.tops[key]
        if gone and not self.tops:
            self._parameters.clear()
            self._ddp_parameters.clear()

    def after_iteration(self, step: int) -> None:
        """Replace roots that were never called, after the iterations ``UNUSED_AFTER``."""
        self._late_roots.after_iteration(step)
        self.settling = step < UNUSED_AFTER[-1] or self._late_roots.watches
        if step in UNUSED_AFTER:
            self._descend()

    def wrapper_calls(self) -> dict[str, Any] | None:
        """Return the fact ``wrapper_calls``; None if there is no wrapper, or if it is unknown."""
        return self.wrapping.fact() if self.wrapped else None

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
        if self._root is None and self._late_roots.over:
            raise LookupError("gc.freeze() hides the modules from a search, and no call of one with all weights was seen")
        return None if root is None else describe_model(root, [] if self.place is None else list(self.place.names))

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
            cls.__call__ = timed_call(self._torch, cls, self._steps.fast)
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
            or steps.fast.in_backward
            or top.module() is not module
            or steps.on_other_thread()
            or _traces()
        ):
            return onward(*args, **kwargs)
        trains = module.training and self._grad_enabled()
        steps.end_early()
        steps.do_between_steps()
        if trains:
            if top.plain and steps.loader is not None:
                self.wrapping.through()
                top.count()
            else:
                self.training_call(top, module, args, kwargs)
        self.inside = True
        self.evaluating = not trains
        clock = steps.wanted.clock
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
                steps.iteration.add_forward(took)
            else:
                self._evaluation_s += took
                self._evaluations += 1
                if steps.iteration.add_evaluation(took) or self._evaluations == 1:
                    self._note_evaluation(top, module)

    def _note_evaluation(self, top: Top, module: Any) -> None:
        first = next(module.parameters(), None)
        with unseen(self._torch):
            self._evaluated = (None if first is None else str(first.device), not top.inner)

    def training_call(self, top: Top, module: Any, args: Any, kwargs: Any) -> None:
        """Inspect a training call of a top module."""
        try:
            with unseen(self._torch):
                self._inspect(top, module, args, kwargs)
        except Exception as error:  # noqa: BLE001 - the user's forward runs next, whatever its arguments are
            self._steps.failed(error)

    def _inspect(self, top: Top, module: Any, args: Any, kwargs: Any) -> None:
        top.count()
        if top.calls <= AUTOCAST_CALLS and not self.autocast:
            self.autocast = autocast_is_on(self._torch)
        if top.inner and not called_by_wrapper():
            self.wrapping.bypassed(module, self._steps.code.frame())
            return
        self.wrapping.through()
        self._count_sync(top)
        if top.inner:
            return
        if top.sized and self._steps.step + 1 >= self._steps.wanted.batches_from:
            self.called.take((*args, *kwargs.values()), self._steps.step + 1)
        run = self._steps.run
        if top.split is None:
            top.split_by(SplitCounter(run, module) if run is not None and splits(module) else False)
            self.splits = self.splits or bool(top.split)
        if top.split:
            top.split(module, args, kwargs)
        top.settle()
        if self._steps.loader is None and not (self._steps.stepping and self._steps.iteration.inside_step):
            rows = tokens = 0
            tensor = first_tensor(args) if args else first_tensor(kwargs)
            if tensor is not None:
                rows, tokens = counts(tensor.shape, is_integer(tensor) and not is_table((*args, None)), None)
                rows = rows if top.rows_known and len(tensor.shape) > 1 else 0
            self._steps.iteration.add_call(rows, tokens)

    def _count_sync(self, top: Top) -> None:
        reference = top.ddp
        if reference is None and top.inner:
            reference = self._ddp
        module = reference() if reference is not None else None
        if module is not None and not self._steps.partial:
            self._steps.gradients.forward(bool(module.require_backward_grad_sync))

    def _find_place(self, meshes: Sequence[Any]) -> None:
        try:
            self.place = place_of(self._torch, meshes, self._root() if self._root is not None else None)
        except Exception as error:  # noqa: BLE001 - meshes and groups of any version: then nobody knows which ranks share samples
            let_through(error)
            self.place = Place()

    def _choose_root(self, roots: Iterable[Any], own: set[int]) -> None:
        """Choose the root with the most trained parameters so far as the model that is described."""
        sized = [(sum(int(item.numel()) for item in root.parameters() if id(item) in own), root) for root in roots]
        if not sized:
            return
        if self._root is not None and self._root() is None:  # it belongs to an earlier training or phase
            self._largest = 0
        size, root = max(sized, key=lambda pair: pair[0])
        if size <= self._largest:
            return
        self._largest = size
        self._root = weakref.ref(root)


def _traces() -> bool:
    """Return whether torch.fx calls modules with symbols in the place of tensors."""
    return bool(getattr(sys.modules.get("torch.fx._symbolic_trace"), "_is_fx_tracing_flag", False))
