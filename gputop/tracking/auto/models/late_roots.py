"""Finds the modules that a search of the live objects cannot: ``gc.freeze`` hides all objects that exist when it is called.

The next calls show them instead. Until then, gputop wraps the ``__call__`` of all modules and inspects the outermost calls of
the training. It restores the original once the weights of the optimizers are found, or after a few iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gputop.tracking.auto.training.state import Training
from gputop.tracking.journal.handlers import let_through
from gputop.tracking.no_compile import no_compile
from gputop.tracking.parts import parameters
from gputop.tracking.stand_in import stands_for

ITERATIONS = 3
"""If this many iterations do not show a module with these weights, the training calls none."""


class LateRoots:
    """The outermost modules that are called while this watches."""

    def __init__(self, torch: Any, steps: Training, compiles: Callable[[], bool], found: Callable[[Any], None]) -> None:
        """``compiles``: whether torch.compile has run; ``found`` takes each module that has some of the weights."""
        self._torch = torch
        self._compiles = compiles
        self._steps = steps
        self._found = found
        self._missing: set[int] = set()
        self._ends = -1
        self._original: Any = None
        self._ours: Any = None
        self.inside = False
        """Whether a module is being called."""
        self.over = False
        """Whether this has watched for the modules of the current training, and stopped."""

    def watch(self, weights: set[int]) -> None:
        """Look for the modules that have the weights with these ids, in the next iterations."""
        self.over = False
        self._missing |= weights
        self._ends = self._steps.step + ITERATIONS
        if self._original is None:
            self._original = self._torch.nn.Module.__call__
            self._ours = self._torch.nn.Module.__call__ = self._call()

    def after_iteration(self, step: int) -> None:
        """Stop watching if everything was found, or if it has taken too long."""
        if self._original is not None and (not self._missing or step >= self._ends):
            self.stop()
            self.over = True

    def begin(self) -> None:
        """Forget an earlier training, or an earlier run."""
        self.stop()
        self.over = False

    def stop(self) -> None:
        """Restore the call of all modules, unless other code has wrapped or compiled it since: then the wrapper only passes
        calls on."""
        self._missing.clear()
        if self._original is not None and self._torch.nn.Module.__call__ is self._ours and not self._compiles():
            self._torch.nn.Module.__call__ = self._original
        self._original = None

    @property
    def watches(self) -> bool:
        """Whether modules are still looked for."""
        return self._original is not None

    def looks_at(self, module: Any) -> bool:
        """Take a module that is called for training, and return True; False inside of another call, or if none is missing."""
        steps = self._steps
        if self.inside or not self._missing or steps.off or steps.fast.in_backward or steps.on_other_thread():
            return False
        try:
            if not module.training or not self._torch.is_grad_enabled():
                return False
            own = {id(item) for item in parameters(module)} & self._missing
            if own:
                self._missing -= own
                steps.iteration.miss_forwards()
                self._found(module)
        except Exception as error:  # noqa: BLE001 - the module is called next, whatever it is
            let_through(error)
            self._missing.clear()
        return True

    def _call(self) -> Any:
        original = self._original
        tracing = getattr(self._torch.compiler, "is_dynamo_compiling", self._torch.compiler.is_compiling)

        @stands_for(original)
        def call_module(module: Any, /, *args: Any, **kwargs: Any) -> Any:
            if tracing() or self.inside or not self.looks_at(module):
                return original(module, *args, **kwargs)
            self.inside = True
            try:
                return original(module, *args, **kwargs)
            finally:
                self.inside = False

        no_compile(self._torch, call_module, inside=False)
        return call_module
