"""Hugging Face Trainer: ``Trainer(…, callbacks=[GputopCallback()])``. Imports transformers.

Records what the Trainer logs under the Trainer's own names, on every rank, and per optimizer step ``step_s`` (seconds, with
the wait for data, without evaluations and checkpoints) and ``phase/data`` (the wait for data). No tensor is touched: what
the Trainer logs are floats.
"""

from __future__ import annotations

import time
from typing import Any

from transformers import TrainerCallback

from gputop.adapters.joining import Membership, harmless


class GputopCallback(TrainerCallback):
    """Records a Trainer's runs. Keywords are ``gputop.init``'s; the name is ``TrainingArguments.run_name`` by default."""

    def __init__(self, **init: Any) -> None:
        self._member = Membership(init, ("loss", "epoch", "step_s", "phase/data"))
        self._ready: float | None = None
        """When the step, log, evaluation or checkpoint before ended: from then on the next batch is waited for."""
        self._begun: float | None = None
        self._data_s = 0.0

    @harmless
    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        """Start or join the run; say how long it will be."""
        name = getattr(args, "run_name", None)
        # Some releases use the output directory as the run's name when none is given.
        run = self._member.begin(name=name if name != getattr(args, "output_dir", None) else None)
        self._ready, self._begun = time.perf_counter(), None
        run.fact("progress", {"total_steps": state.max_steps or None, "epochs": args.num_train_epochs})
        if state.is_world_process_zero:
            run.config.update(args.to_dict())
            config = getattr(model, "config", None)
            if config is not None:
                run.config["model_config"] = config.to_dict()

    @harmless
    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Take the time: the batch is there."""
        self._begun = time.perf_counter()
        self._data_s = self._begun - (self._ready or self._begun)

    @harmless
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record the step's time."""
        self._ready = time.perf_counter()
        if self._begun is not None:
            step_s = self._ready - self._begun + self._data_s
            self._member.run.log({"step_s": step_s, "phase/data": self._data_s}, step=state.global_step)

    @harmless
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Record what the Trainer logs, also of an evaluation without a training."""
        self._member.run.log(dict(logs or {}), step=state.global_step)
        self._ready = time.perf_counter()

    @harmless
    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leave the evaluation out of the wait for data; its metrics came with ``on_log``."""
        self._ready = time.perf_counter()

    @harmless
    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record that a checkpoint was written."""
        self._member.run.text(f"checkpoint written at step {state.global_step}")
        self._ready = time.perf_counter()

    @harmless
    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Let the next training start its own run; this one still takes what follows."""
        self._member.training_over()
