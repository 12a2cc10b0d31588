"""Runs a demo under ``traceml run`` with TraceML's minimal instrumentation, as its README requires for a custom loop.

``traceml.init(mode="auto")`` at the start, and ``with traceml.trace_step(model)`` from the batch to the optimizer's step. The
demos are unchanged: the model is the one that they pass to ``gputop.watch``, and a step begins when a training batch has
arrived and ends after ``optimizer.step()``. gputop itself is off. The benchmark never imports this: it runs without TraceML.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from typing import Any

os.environ["GPUTOP"] = "0"
traceml: Any = importlib.import_module("traceml_ai")
traceml.init(mode="auto")

import torch  # noqa: E402 - after TraceML, as its README has it
from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: E402
from torch.utils.data import dataloader  # noqa: E402

import gputop  # noqa: E402

models: list[Any] = []
steps: list[Any] = []
hooked: list[Any] = []


def end_step(*_: object) -> None:
    """Close the open step."""
    while steps:
        steps.pop().__exit__(None, None, None)


def begin_step() -> None:
    """Open a step, unless one is open (if several batches make one step)."""
    if models and not steps and torch.is_grad_enabled():
        step = traceml.trace_step(models[-1])
        step.__enter__()
        steps.append(step)
        if not hooked:  # after TraceML's own hook, so that its time of the optimizer is within the step
            hooked.append(register_optimizer_step_post_hook(end_step))


def main() -> None:
    """Become the demo."""
    iterator: Any = dataloader._BaseDataLoaderIter
    fetch = iterator.__next__

    def fetched(self: Any) -> Any:
        batch = fetch(self)
        begin_step()
        return batch

    iterator.__next__ = fetched
    vars(gputop)["watch"] = lambda model, *_, **__: models.append(model)
    sys.argv = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


main()
