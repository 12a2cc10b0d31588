"""Hugging Face Trainer: ``Trainer(…, callbacks=[GputopCallback()])``. Imports transformers.

Records, on every rank, the values that the Trainer logs, under the Trainer's names; and for each optimizer step ``step_s``
(seconds, including the wait for data, excluding evaluations and checkpoints) and ``phase/data`` (the wait for data). Touches
no tensor: the Trainer logs floats.
"""

from __future__ import annotations

import time
from typing import Any

from transformers import TrainerCallback

from gputop.adapters.joining import Membership
from gputop.facts.setup import Progress
from gputop.tracking.journal.harmless import harmless


@harmless
class GputopCallback(TrainerCallback):
    """Records a Trainer's runs. Takes ``gputop.init``'s keywords; the name defaults to ``TrainingArguments.run_name``."""

    def __init__(self, **init: Any) -> None:
        self._member = Membership(init, ("loss", "epoch", "step_s", "phase/data"))
        self._ready: float | None = None
        """End of the previous step, log, evaluation or checkpoint: from then on, the Trainer waits for the next batch."""
        self._begun: float | None = None
        self._data_s = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        """Start or join the run, and report its length."""
        name = getattr(args, "run_name", None)
        # Some releases use the output directory as the run's name if none is given.
        run = self._member.begin(name=name if name != getattr(args, "output_dir", None) else None)
        self._ready, self._begun = time.perf_counter(), None
        run.fact("progress", Progress.filled(total_steps=state.max_steps or None, epochs=args.num_train_epochs))
        if state.is_world_process_zero:
            run.config.update(args.to_dict())
            config = getattr(model, "config", None)
            if config is not None:
                run.config["model_config"] = config.to_dict()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note the time at which the batch is ready."""
        self._begun = time.perf_counter()
        self._data_s = self._begun - (self._ready or self._begun)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record the step's time."""
        self._ready = time.perf_counter()
        if self._begun is not None:
            step_s = self._ready - self._begun + self._data_s
            self._member.run.log({"step_s": step_s, "phase/data": self._data_s}, step=state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Record what the Trainer logs, including an evaluation without training."""
        self._member.run.log(dict(logs or {}), step=state.global_step)
        self._ready = time.perf_counter()

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Exclude the evaluation from the wait for data; its metrics came with ``on_log``."""
        self._ready = time.perf_counter()

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record that a checkpoint was written."""
        self._member.run.text(f"checkpoint written at step {state.global_step}")
        self._ready = time.perf_counter()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Let the next training start its own run; this run still accepts what follows."""
        self._member.training_ended()
