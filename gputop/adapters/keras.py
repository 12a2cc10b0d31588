"""Keras 3: ``model.fit(…, callbacks=[GputopCallback()])``. Imports keras.

Records what Keras reports after each batch, under Keras's names: its ``loss`` is the mean over the epoch so far. Batches are
counted across all epochs. Keras passes its values as floats, possibly in a thread of its own (``async_safe``).
"""

from __future__ import annotations

from typing import Any

from keras.callbacks import Callback

from gputop.adapters.joining import Membership
from gputop.facts.setup import Progress
from gputop.tracking.journal.harmless import harmless


@harmless
class GputopCallback(Callback):
    """Records ``fit``. Takes ``gputop.init``'s keywords; the name defaults to the model's."""

    async_safe = True
    """Without this, Keras waits for the device after each batch."""

    def __init__(self, **init: Any) -> None:
        super().__init__()
        self._member = Membership(init, ("loss", "epoch"))
        self._before_epoch = self._step = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Start or join the run, and report its length."""
        run = self._member.begin(name=getattr(self.model, "name", None))
        self._before_epoch = self._step = 0
        epochs, steps = (self.params or {}).get("epochs"), (self.params or {}).get("steps")
        run.fact("progress", Progress.filled(total_steps=epochs * steps if epochs and steps else None, epochs=epochs))
        optimizer = getattr(self.model, "optimizer", None)
        if optimizer is not None:
            run.config.update({"optimizer": optimizer.get_config()})

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Record the batch's values."""
        self._step = self._before_epoch + batch + 1
        self._member.run.log(dict(logs or {}), step=self._step)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Record the epoch's values, including those of the validation."""
        self._before_epoch = self._step
        self._member.run.log({**dict(logs or {}), "epoch": epoch + 1}, step=self._step)

    def on_train_end(self, logs: Any = None) -> None:
        """Let the next ``fit`` start its own run."""
        self._member.training_ended()
