"""The wrapped ``__call__`` of the modules' classes, and what is known of each module whose calls are observed.

A class is pickled by name, so no checkpoint carries the wrapper, and inner layers cost nothing.
"""

from __future__ import annotations

import sys
import weakref
from types import FunctionType
from typing import Any, Protocol

from gputop.tracking.auto.readings.ddp import is_ddp, is_sharded
from gputop.tracking.auto.training.fast_path import FastPath
from gputop.tracking.no_compile import no_compile
from gputop.tracking.parts import kept
from gputop.tracking.stand_in import stands_for

WRAPPERS = ("DataParallel", "DistributedDataParallel")
AUTOCAST_CALLS = 3
"""The number of first calls of each module in which autocast is checked."""


class Timer(Protocol):
    """Times the calls of modules."""

    def timed(self, module: Any, onward: Any, args: Any, kwargs: Any) -> Any:
        """Call a module."""


timer: Timer | None = None
"""The timer of this process, for the wrapped calls below."""


def publish(found: Timer) -> None:
    """Let this timer time the wrapped calls."""
    global timer
    timer = found


def timed_call(torch: Any, cls: Any, fast: FastPath) -> Any:
    """Return a ``__call__`` for a class that lets ``timer`` time the class's own one.

    It looks ``timer`` up by name, and whatever it references in gputop is pickled as a stub: a class that is pickled by value
    (cloudpickle, for classes of ``__main__``) carries the wrapper into processes without gputop. While torch.compile traces, it
    is the plain call.
    """
    own = cls.__dict__.get("__call__")
    # As Python itself binds what a class defines, which may be any callable object: with the owner, or not at all.
    bind = getattr(type(own), "__get__", None)
    # Both return True while torch.compile traces; the first is cheaper to call, but not every torch has it.
    tracing = getattr(torch.compiler, "is_dynamo_compiling", torch.compiler.is_compiling)
    grad_enabled = torch.is_grad_enabled
    module = torch.nn.Module
    # Whether nothing is, or will ever be, between the class and torch's own call.
    inherits = own is None and cls.__mro__[1] is module

    def call_module(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if inherits and type(self) is cls and not tracing() and fast.mode == "fast" and self.training and grad_enabled():
            return module.__call__(self, *args, **kwargs)  # as below, in fewer steps; torch.fx may replace it
        if own is None:
            onward = super(cls, self).__call__
        elif isinstance(own, FunctionType):
            onward = own.__get__(self)
        else:
            onward = own if bind is None else bind(own, self, type(self))
        if tracing():
            return onward(*args, **kwargs)
        if (fast.mode == "fast" and self.training and grad_enabled()) or torch.compiler.is_compiling():
            return onward(*args, **kwargs)
        ours = sys.modules.get("gputop.tracking.auto.models.calls")
        if ours is None or ours.timer is None:
            return onward(*args, **kwargs)
        return ours.timer.timed(self, onward, args, kwargs)

    found = stands_for(cls.__call__)(call_module)
    no_compile(torch, found, inside=False)
    return found


class Top:
    """A module whose calls are observed: an outermost one, or (``inner``) the one in a data-parallel wrapper."""

    __slots__ = ("calls", "ddp", "inner", "module", "plain", "rows_known", "sized", "split", "wraps")

    def __init__(self, module: Any, inner: bool, rows_known: bool) -> None:
        self.module: Any = weakref.ref(module)
        self.inner = inner
        self.rows_known = rows_known
        self.calls = 0
        self.split: Any = None
        """Counts the calls of a DataParallel; False for other modules, None before the first call."""
        base = kept(module, "_orig_mod", module)
        self.ddp: Any = weakref.ref(base) if is_ddp(base) else None
        """The DDP that this call belongs to."""
        self.sized = self.ddp is not None or (not inner and is_sharded(base))
        """Whether each rank has a share of the work, so that the size of its inputs is recorded."""
        self.plain = False
        """Whether its calls need no further inspection, except for their rows if no loader provides them."""
        self.wraps = not inner and type(base).__name__ in WRAPPERS

    def count(self) -> None:
        """Count a training call."""
        self.calls += 1

    def split_by(self, counter: Any) -> None:
        """Take the counter of a DataParallel's calls, or False."""
        self.split = counter

    def settle(self) -> None:
        """Determine whether its calls need no further inspection."""
        self.plain = self.calls >= AUTOCAST_CALLS and not self.sized and not self.split and not self.wraps
