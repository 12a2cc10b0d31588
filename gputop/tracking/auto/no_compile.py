"""Keeps torch.compile from compiling functions of ours."""

from __future__ import annotations

from typing import Any


def no_compile(torch: Any, function: Any, inside: bool = True) -> None:
    """Keep torch.compile from compiling a function of ours, and (``inside``) what it calls.

    Code that is called from a compiled region after a graph break would be compiled too, at a price in time and warnings.
    """
    frames: Any = getattr(torch._C._dynamo, "eval_frame", None)
    skip = getattr(frames, "skip_code", None)  # torch before 2.7 or so: without a word on what is inside
    strategy = getattr(frames, "set_code_exec_strategy", None)
    if skip is not None:
        skip(function.__code__)
    elif strategy is not None:
        action = frames._FrameAction
        strategy(function.__code__, frames._FrameExecStrategy(action.SKIP, action.SKIP if inside else action.DEFAULT))
