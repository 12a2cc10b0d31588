"""Keeps torch.compile from compiling gputop's functions."""

from __future__ import annotations

from types import FunctionType
from typing import Any


def no_compile(torch: Any, function: Any, inside: bool = True) -> None:
    """Keep torch.compile from compiling a function of gputop, and (``inside``) what it calls.

    Code that a compiled region calls after a graph break would be compiled too, which costs time and causes warnings.
    """
    frames: Any = getattr(torch._C._dynamo, "eval_frame", None)
    skip = getattr(frames, "skip_code", None)  # torch before about 2.7: cannot cover what the function calls
    strategy = getattr(frames, "set_code_exec_strategy", None)
    if skip is not None:
        skip(function.__code__)
    elif strategy is not None:
        action = frames._FrameAction
        strategy(function.__code__, frames._FrameExecStrategy(action.SKIP, action.SKIP if inside else action.DEFAULT))


def exclude(torch: Any, *ours: Any) -> None:
    """Keep torch.compile from compiling these functions and the methods of these classes, and what they call."""
    for one in ours:
        for function in vars(one).values() if isinstance(one, type) else (one,):
            if isinstance(function, FunctionType):
                no_compile(torch, function)
