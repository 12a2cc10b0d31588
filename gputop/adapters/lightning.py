"""Lightning: ``Trainer(logger=GputopLogger(), callbacks=[GputopCallback()])``. Imports lightning, or pytorch_lightning.

The logger records what ``self.log`` sends to loggers, every ``log_every_n_steps``. The callback records on every rank, for
each optimizer step, ``loss`` (the result of ``training_step``, averaged over accumulated batches), ``step_s`` (seconds,
including the wait for data, excluding validation) and ``phase/data``. Each works without the other; together they share
a run. Both derive from the package that the script has imported. A loss on a GPU is not waited for.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from gputop.adapters.joining import Membership
from gputop.facts.setup import Progress
from gputop.tracking.journal.harmless import harmless
from gputop.tracking.run import Run

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def _package() -> Any:
    for name in _PACKAGES:
        if name in sys.modules:
            return sys.modules[name]
    try:
        return import_module(_PACKAGES[0])
    except ImportError:
        return import_module(_PACKAGES[1])


_Callback: Any = _package().Callback
_Logger: Any = import_module(f"{_package().__name__}.loggers").Logger


@harmless
class GputopLogger(_Logger):
    """A Lightning logger; every rank records. Takes ``gputop.init``'s keywords."""

    def __init__(self, name: str | None = None, **init: Any) -> None:
        super().__init__()
        self._name = name
        self._member = Membership({"name": name, **init}, ("epoch",))

    @property
    def experiment(self) -> Run:
        """The run, started or joined on first use, when the ranks are connected."""
        return self._member.run

    @property
    def name(self) -> str:
        """The run's name; Lightning puts its checkpoints into a folder of this name."""
        return self._name or "gputop"

    @property
    def version(self) -> str | None:
        """The run's id."""
        return self.experiment.id or None

    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        """Record metrics."""
        self.experiment.log(dict(metrics), step=step)

    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Record hyperparameters."""
        self.experiment.config.update(params)

    def finalize(self, status: str) -> None:
        """Let the next training start its own run; a test after the training still belongs to this one."""
        self._member.training_ended()


@harmless
class GputopCallback(_Callback):
    """Records each rank's loss and step times. Takes ``gputop.init``'s keywords."""

    def __init__(self, **init: Any) -> None:
        super().__init__()
        self._member = Membership(init, ("loss", "step_s", "phase/data"))
        self._seen_steps = 0
        self._begun = 0.0
        self._ready: float | None
        """Time from which the next batch is waited for; None if that is unknown because a checkpoint was written."""
        self._start_step()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start or join the run, and report its length."""
        total, epochs = trainer.estimated_stepping_batches, trainer.max_epochs
        known = isinstance(total, int) and total > 0
        progress = Progress.filled(total_steps=total if known else None, epochs=epochs if epochs and epochs > 0 else None)
        self._member.begin().fact("progress", progress)
        self._seen_steps = trainer.global_step
        self._start_step()

    def _start_step(self, *_: Any) -> None:
        self._losses: list[Any] = []
        self._data_s, self._busy_s, self._ready = 0.0, 0.0, time.perf_counter()

    on_train_epoch_start = _start_step

    def on_validation_end(self, *_: Any) -> None:
        """Exclude the validation from the wait for data."""
        self._ready = time.perf_counter()

    def on_save_checkpoint(self, *_: Any) -> None:
        """Omit the next step's times: this hook does not report how long the writing takes."""
        self._ready = None

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Note the time at which the batch is ready."""
        self._begun = time.perf_counter()
        self._data_s += self._begun - self._ready if self._ready is not None else math.nan

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Record the step once the optimizer has stepped; until then, accumulate."""
        now = time.perf_counter()
        self._busy_s += now - self._begun
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if loss is not None:
            self._losses.append(loss.detach() if hasattr(loss, "detach") else loss)
        self._ready = time.perf_counter()
        if trainer.global_step == self._seen_steps:
            return
        self._seen_steps = trainer.global_step
        found: dict[str, Any] = {}
        if not math.isnan(self._data_s):
            found = {"step_s": self._busy_s + self._data_s, "phase/data": self._data_s}
        if self._losses:
            # Lightning divides each batch's loss by the number of accumulated batches.
            found["loss"] = sum(self._losses) * trainer.accumulate_grad_batches / len(self._losses)
        # The step number that Lightning's own loggers use; global_step counts each optimizer.
        self._member.run.log(found, step=trainer.fit_loop.epoch_loop._batches_that_stepped)
        self._start_step()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Let the next training start its own run."""
        self._member.training_ended()
