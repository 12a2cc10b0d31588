"""Knows which tensors that autograd saved may be read: those that no hook has packed.

A script may replace what autograd saves, to offload it (``torch.autograd.graph.saved_tensors_hooks``). Reading it calls the
script's unpack hook once more than backward does. A hook that forgets what it returns, as offloaders do, would fail in the
backward that follows; and a checkpoint would compute its part of the model again.

Autograd numbers a thread's operations in order: those that ran after hooks were last active are not packed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from gputop.tracking.stand_in import stands_for


class _Hooks(threading.local):
    """The hooks of one thread; ``free_from`` is the number of its first operation since any were active."""

    active = 0
    free_from = 0


_hooks = _Hooks()
used = False
"""Whether a script has ever used hooks, on any thread."""


def listen(torch: Any, no_compile: Callable[..., None]) -> None:
    """Notice where hooks become active and where they end; once per process."""
    own = getattr(torch._C, "_autograd", None)
    push = getattr(own, "_push_saved_tensors_default_hooks", None)
    pop = getattr(own, "_pop_saved_tensors_default_hooks", None)
    next_number: Any = getattr(torch.autograd, "_get_sequence_nr", None)
    if own is None or push is None or pop is None or next_number is None:
        return

    @stands_for(push)
    def pushed(*hooks: Any) -> Any:
        global used
        used = True
        result = push(*hooks)
        _hooks.active += 1
        return result

    @stands_for(pop)
    def popped() -> Any:
        result = pop()
        _hooks.active -= 1
        _hooks.free_from = next_number()
        return result

    for function in (pushed, popped):
        no_compile(torch, function, inside=False)
    own._push_saved_tensors_default_hooks, own._pop_saved_tensors_default_hooks = pushed, popped


def may_read(function: Any) -> bool:
    """Return whether what this operation of the calling thread saved is not packed."""
    return not _hooks.active and (not _hooks.free_from or function._sequence_nr() >= _hooks.free_from)
