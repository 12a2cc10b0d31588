"""Keeps what we ask of tensors from the script, whose modes and tensor classes may count, record or forbid operations.

A tensor class that has no memory of its own (``__torch_dispatch__``) still sees what is asked of its own tensors: nobody else
could answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any


def unseen(torch: Any) -> AbstractContextManager[Any]:
    """Return a context in which no mode and no ``__torch_function__`` sees an operation."""
    if _dispatches(torch):
        return _without_modes(torch)
    context: AbstractContextManager[Any] = torch._C.DisableTorchFunction()
    return context


def has_modes(torch: Any) -> bool:
    """Return whether a mode of the script's sees operations, or torch's own of ``set_default_device``."""
    functions = getattr(torch._C, "_len_torch_function_stack", int)
    return _dispatches(torch) or functions() > 0


def mode_counts(torch: Any) -> tuple[Callable[[], int], Callable[[], int]]:
    """Return two functions that return how many modes see operations, and how many see calls of torch's functions."""
    return (
        getattr(torch._C, "_len_torch_dispatch_stack", int),
        getattr(torch._C, "_len_torch_function_stack", int),
    )


def _dispatches(torch: Any) -> bool:
    modes = getattr(torch._C, "_len_torch_dispatch_stack", int)
    return bool(modes() > 0)


@contextmanager
def _without_modes(torch: Any) -> Iterator[None]:
    with torch.utils._python_dispatch._disable_current_modes(), torch._C.DisableTorchFunction():
        yield
