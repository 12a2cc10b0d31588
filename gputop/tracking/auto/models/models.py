"""The modules that this process trains: which ones are observed, and how long their calls take.

At an optimizer's first step, ``roots`` finds the outermost modules above its parameters. Forward is timed in the ``__call__``
of their classes (``calls``); ``inspection`` and ``evaluations`` say what the calls show. If torch.compile has compiled
anything, only ``OptimizedModule`` is wrapped, because its call is outside of every graph.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Any

from gputop.tracking import parts
from gputop.tracking.auto.models.calls import WRAPPERS, Top, publish, timed_call
from gputop.tracking.auto.models.described import DescribedModel
from gputop.tracking.auto.models.evaluations import Evaluations
from gputop.tracking.auto.models.inspection import Inspection
from gputop.tracking.auto.models.late_roots import LateRoots
from gputop.tracking.auto.models.modes import Modes
from gputop.tracking.auto.models.roots import find_roots
from gputop.tracking.auto.models.searches import Searches, weights_of
from gputop.tracking.auto.models.twins import Twins
from gputop.tracking.auto.models.wrapping import Wrapping
from gputop.tracking.auto.readings.workload import Workload
from gputop.tracking.auto.training.state import Training
from gputop.tracking.describe import defines_forward, describe_optimizer
from gputop.tracking.journal.handlers import let_through
from gputop.tracking.no_compile import exclude, no_compile
from gputop.tracking.stand_in import passed_over
from gputop.tracking.unseen import unseen

CLASSES_MAX = 24
UNUSED_AFTER = (2, 4, 8)
"""After these iterations a root that was never called is replaced by its submodules (a LightningModule, a ModuleList)."""


class Models:
    """The modules that this process trains."""

    def __init__(self, torch: Any, steps: Training) -> None:
        self._torch = torch
        self._grad_enabled: Callable[[], bool] = torch.is_grad_enabled
        self._is_tracing: Callable[[], bool] = getattr(torch._C, "_is_tracing", bool)
        self._steps = steps
        self.inside = False
        self._classes: weakref.WeakSet[type] = weakref.WeakSet()
        """Those whose ``__call__`` is wrapped. A class of the script's, kept, would keep the script's variables at its end."""
        self.evaluating = False
        """Whether the module that is being called, if any, is being evaluated."""
        self.described = DescribedModel(torch)
        self.inspection = Inspection(torch, steps, self.described)
        self._late_roots = LateRoots(torch, steps, self.compiles, self._take_late)
        self._each: dict[int, set[int]] = {}
        """The ids of the weights of the optimizers that were last searched for, by number."""
        self.begin_run()
        publish(self)
        exclude(torch, Models, DescribedModel, Evaluations, Inspection, LateRoots, Modes, Searches, Twins, Workload, Wrapping)
        no_compile(torch, Models.timed, inside=False)

    def begin_run(self) -> None:
        """Forget the modules of an earlier run, and restart the counts."""
        self.settling = True
        """Whether ``after_iteration`` must be called."""
        self.tops: dict[int, Top] = {}
        self.wrapped = False
        """Whether a data-parallel wrapper is among the observed modules."""
        self._parameters: set[int] = set()
        self.described.forget()
        self.ddp_optimizers: set[int] = set()
        """The numbers of the optimizers that step on parameters of a DDP."""
        self.inspection.begin_run()
        self._evaluations = Evaluations(self._torch)
        self._modes = Modes()
        self._twins = Twins()
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
        own = weights_of(optimizer)
        if self.searches.covers(own, self._steps.step):
            self._note_optimizers({number: own})
        elif self.searches.allows():
            self._search({number: optimizer})
        else:
            self.searches.put_off(optimizer, number, self.knows(optimizer))
            if begins:
                self._lose_modules()
        if getattr(optimizer, "kind", "") is not None:
            self._steps.update_fact("optimizer" if number == 0 else f"optimizer/{number}", describe_optimizer(optimizer))

    def knows(self, optimizer: Any) -> bool:
        """Return whether the modules of all parameters of an optimizer were searched for."""
        return weights_of(optimizer) <= self._parameters

    def search_late(self) -> bool:
        """Find the modules whose search was put off, if it is due now; return whether it was."""
        due = self.searches.due()
        if due:
            self._search(due)
        return bool(due)

    def _search(self, optimizers: dict[int, Any]) -> None:
        """Find the modules of these optimizers, by number."""
        started = perf_counter()
        self._each = each = {number: weights_of(optimizer) for number, optimizer in optimizers.items()}
        own = set[int]().union(*each.values())
        roots, meshes = find_roots(self._torch, own)
        self.searches.took(perf_counter() - started)
        self.searches.found(roots, self._steps.step)
        self._parameters |= own
        self._take(roots, own, meshes)
        if not roots and gc.get_freeze_count() and not self.compiles():
            self.described.forget_dead()
            if self.described.is_unknown():
                self._withdraw_facts()
            self._late_roots.watch(own)
            self.settling = True

    def _take(self, roots: Sequence[Any], own: set[int], meshes: Sequence[Any]) -> None:
        """Take the outermost modules of the weights with the ids ``own``."""
        for root in roots:
            self._add(root)
        self.described.take(roots, own, meshes)
        self._note_optimizers(self._each, own.difference(*self._each.values()))

    def _note_optimizers(self, each: dict[int, set[int]], of_engines: Iterable[int] = ()) -> None:
        """Note the weights of optimizers whose modules were found, by number; DeepSpeed's engines have those of all."""
        for number, ids in each.items():
            self._parameters |= ids
            if not self.described.wrapped_parameters.isdisjoint(ids.union(of_engines)):
                self.ddp_optimizers.add(number)

    def _take_late(self, root: Any) -> None:
        """Take a module that was called; describe it only if it is all that an optimizer trains, and not a part of that."""
        ids = {id(item) for item in parts.parameters(root)}
        if any(own <= ids for own in self._each.values()):
            self._take([root], self._parameters, [])
        else:
            self._add(root)

    def _forget_training(self) -> None:
        """Forget which modules were described for an earlier training; the script may keep them."""
        self.described.forget()
        self.ddp_optimizers.clear()
        self._late_roots.begin()

    def _lose_modules(self) -> None:
        """Report nothing about modules until the next search: those of an earlier training do not belong to this one."""
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
            self.described.wrapped_parameters.clear()

    def after_iteration(self, step: int) -> None:
        """Replace roots that were never called, after the iterations ``UNUSED_AFTER``."""
        self._late_roots.after_iteration(step)
        self.settling = step < UNUSED_AFTER[-1] or self._late_roots.watches
        if step in UNUSED_AFTER:
            self._descend()

    def wrapper_calls(self) -> dict[str, Any] | None:
        """Return the fact ``wrapper_calls``; None if there is no wrapper, or if it is unknown."""
        return self.inspection.wrapping.fact() if self.wrapped else None

    def evaluation(self) -> dict[str, Any] | None:
        """Return the fact ``evaluation``; None before the first one."""
        return self._evaluations.fact(self.wrapped)

    def describe(self) -> dict[str, Any] | None:
        """Return the fact ``model`` as it is now.

        Raises:
            LookupError: no module can be found; the text says why.
        """
        if self.described.is_unknown() and self._late_roots.over:
            raise LookupError("gc.freeze() hides the modules from a search, and no call of one with all weights was seen")
        found, modes = self.described.fact(), self._modes.look(self._steps.step)
        twin = {"has_twin": True} if self._twins.are_called(self._steps.step + 1) else {}
        return None if found is None else {**found, **modes, **twin}

    def judges_ddp(self) -> bool:
        """Return whether it is known which backwards a DDP reduced: calls of it, or calls that bypass it, are observed."""
        return any(top.ddp is not None for top in self.tops.values())

    def _add(self, root: Any) -> None:
        module: Any = root
        if not defines_forward(self._torch, module):
            for child in parts.children(module):
                self._add(child)
            return
        compiled = self.compiles()
        if compiled and type(module).__name__ != "OptimizedModule":
            return
        if id(module) in self.tops or isinstance(module, self._torch.jit.ScriptModule):
            return
        rows_known = not any(parts.kept(part, "batch_first", True) is False for part in parts.modules(module))
        self._listen(module, inner=False, rows_known=rows_known)
        inner = parts.kept(module, "module")
        if inner is not None and not compiled and type(module).__name__ in WRAPPERS:
            self._listen(inner, inner=True, rows_known=False)

    def _listen(self, module: Any, inner: bool, rows_known: bool) -> None:
        cls = type(module)
        if cls not in self._classes:
            if len(self._classes) >= CLASSES_MAX:
                return
            try:
                cls.__call__ = timed_call(self._torch, cls, self._steps.fast)
            except Exception as error:  # noqa: BLE001 - a class of this class takes no attributes: its calls are not timed
                let_through(error)
                return
            self._classes.add(cls)
        top = self.tops[id(module)] = Top(module, inner, rows_known)
        self.wrapped = self.wrapped or top.wraps

    def _descend(self) -> None:
        for key, top in list(self.tops.items()):
            module = top.module()
            # A DDP that is never called stays: that no call of it was seen is what the facts say about it.
            if module is None or top.calls or top.inner or top.ddp is not None:
                continue
            del self.tops[key]
            for child in parts.children(module):
                if any(id(item) in self._parameters for item in parts.parameters(child)):
                    self._add(child)

    def compiles(self) -> bool:
        """Return whether torch.compile has run in this process."""
        utils: Any = sys.modules.get("torch._dynamo.utils")
        counted = getattr(utils, "counters", None)
        return bool(counted and (counted["stats"] or counted["frames"]))

    @passed_over
    def timed(self, module: Any, onward: Any, args: Any, kwargs: Any) -> Any:
        """Call a module, and time the call if the module is tracked and the call is the outermost one."""
        steps = self._steps
        top = self.tops.get(id(module))
        if (
            self.inside
            or steps.off
            or steps.fast.in_backward
            or steps.on_other_thread()
            or ((top is None or top.module() is not module) and (top := self._wrapped_again(module)) is None)
            or self._traces()
        ):
            if top is None and not self.inside:
                self._note_twin(module)
            return onward(*args, **kwargs)
        gradients = self._grad_enabled()
        trains = module.training and gradients
        if gradients:
            self._modes.called(trains)
        steps.end_early()
        steps.do_between_steps()
        if trains:
            if steps.step + 1 >= steps.wanted.batches_from:
                self.inspection.note_inputs(args, kwargs)
            if top.plain and steps.loader is not None:
                self.inspection.take_plain(top)
            else:
                self.inspection.take(top, module, args, kwargs)
        self.inside = True
        self.evaluating = not trains
        clock = steps.wanted.clock
        mark = clock.start() if trains and clock is not None and clock.running else None
        started = perf_counter()
        try:
            result = onward(*args, **kwargs)
        finally:
            took = perf_counter() - started
            if clock is not None and mark is not None:
                clock.stop("cuda/forward_s", mark)
            self.inside = self.evaluating = False
            if trains:
                steps.iteration.add_forward(took)
            else:
                evaluations = self._evaluations
                evaluations.add(took)
                if steps.iteration.add_evaluation(took) or evaluations.calls == 1:
                    evaluations.note(module, not top.inner)
        if gradients and not trains:
            self._evaluations.mark(steps.evaluated_graphs, result, steps.step)
        return result

    def _wraps_again(self, module: Any) -> bool:
        """Return whether a module wraps one that an observed wrapper is, or was, around."""
        if type(module).__name__ not in WRAPPERS:
            return False
        try:
            inner = parts.kept(module, "module")
        except Exception as error:  # noqa: BLE001 - any class may have the name of a wrapper
            let_through(error)
            return False
        top = self.tops.get(id(inner))
        return top is not None and top.inner and top.module() is inner

    def _wrapped_again(self, module: Any) -> Top | None:
        """Take a wrapper that was made after the search for modules; None if a module is no such wrapper."""
        if not self._wraps_again(module):
            return None
        try:
            self.tops.pop(id(module), None)  # that of a module that is gone
            self._add(module)
        except Exception as error:  # noqa: BLE001 - the user's forward runs next
            self._steps.failed(error)
        return self.tops.get(id(module))

    def _note_twin(self, module: Any) -> None:
        """Count a call of a module that is not observed, if it is a twin of one that is."""
        steps = self._steps
        if self._grad_enabled() or steps.off or steps.on_other_thread():
            return
        if self._twins.is_new(module):
            try:
                with unseen(self._torch):
                    observed = [found for found in (top.module() for top in self.tops.values()) if found is not None]
                    self._twins.look_at(module, observed)
            except Exception as error:  # noqa: BLE001 - the script's call runs next
                steps.failed(error)
        self._twins.called(module, steps.reached)

    def _traces(self) -> bool:
        """Return whether torch.jit records what is asked of tensors, or torch.fx calls modules with symbols in their place."""
        symbolic = getattr(sys.modules.get("torch.fx._symbolic_trace"), "_is_fx_tracing_flag", False)
        return bool(symbolic or self._is_tracing())
