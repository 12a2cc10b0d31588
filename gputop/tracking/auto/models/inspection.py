"""Inspects the training calls of the observed modules: which way they are called, and with how much."""

from __future__ import annotations

import os
from typing import Any

from gputop.tracking.auto.models.calls import AUTOCAST_CALLS, Top
from gputop.tracking.auto.models.described import DescribedModel
from gputop.tracking.auto.models.wrapping import Wrapping
from gputop.tracking.auto.readings.batches import Called
from gputop.tracking.auto.readings.loader import counts, first_tensor, is_integer, is_table
from gputop.tracking.auto.readings.settings import autocast_is_on
from gputop.tracking.auto.readings.workload import Workload
from gputop.tracking.auto.training.state import Training
from gputop.tracking.unseen import unseen
from gputop.tracking.watch import SplitCounter, splits

_PARALLEL = os.path.join("torch", "nn", "parallel") + os.sep


class Inspection:
    """What the training calls of a run's modules show."""

    def __init__(self, torch: Any, steps: Training, described: DescribedModel) -> None:
        self._torch = torch
        self._steps = steps
        self._described = described
        self.autocast = False
        """Whether autocast was on in a forward."""
        self.begin_run()

    def begin_run(self) -> None:
        """Restart the counts."""
        self.wrapping = Wrapping()
        self.called = Called()
        """The sizes of recent inputs to the wrapper of this rank's model."""
        self.workload = Workload()
        self.splits = False
        """Whether the calls of a DataParallel are being counted."""

    def take(self, top: Top, module: Any, args: Any, kwargs: Any) -> None:
        """Inspect a training call of a top module."""
        try:
            with unseen(self._torch):
                self._inspect(top, module, args, kwargs)
        except Exception as error:  # noqa: BLE001 - the user's forward runs next, whatever its arguments are
            self._steps.failed(error)

    def note_inputs(self, args: Any, kwargs: Any) -> None:
        """Note how large the inputs of a training call are, in a step that facts will soon report."""
        try:
            with unseen(self._torch):
                self.workload.inputs.take((*args, *kwargs.values()), self._steps.step + 1)
        except Exception as error:  # noqa: BLE001 - the user's forward runs next, whatever its arguments are
            self._steps.failed(error)

    def take_plain(self, top: Top) -> None:
        """Count a call that needs no inspection."""
        self.wrapping.through()
        top.count()

    def _inspect(self, top: Top, module: Any, args: Any, kwargs: Any) -> None:
        top.count()
        if top.calls <= AUTOCAST_CALLS and not self.autocast:
            self.autocast = autocast_is_on(self._torch)
        # A wrapper calls its inner module, too, if the script calls the wrapper's ``forward`` directly.
        if top.inner and not self._steps.code.called_through(_PARALLEL):
            self.wrapping.bypassed(module, self._steps.code.frame())
            return
        self.wrapping.through()
        self._count_sync(top)
        if top.inner:
            return
        if top.wraps:
            self._described.called(module)
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
            self._count_rows(top, args, kwargs)

    def _count_rows(self, top: Top, args: Any, kwargs: Any) -> None:
        rows = tokens = 0
        tensor = first_tensor(args) if args else first_tensor(kwargs)
        if tensor is not None:
            rows, tokens = counts(tensor.shape, is_integer(tensor) and not is_table((*args, None)), None)
            rows = rows if top.rows_known and len(tensor.shape) > 1 else 0
        self._steps.iteration.add_call(rows, tokens)

    def _count_sync(self, top: Top) -> None:
        reference = top.ddp
        if reference is None and top.inner:
            reference = self._described.wrapper
        module = reference() if reference is not None else None
        if module is not None and not self._steps.partial:
            self._steps.gradients.forward(bool(module.require_backward_grad_sync))
