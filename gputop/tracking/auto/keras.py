"""Steps of Keras's own optimizers on torch, which are not torch optimizers and have no hooks.

Keras's trainer calls ``loss.backward()`` on a torch tensor, and then its optimizer's ``apply``. The first such backward, before
any optimizer has stepped, wraps ``BaseOptimizer.apply``. The learning rate is read only if reading it does not wait for a
device.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

from gputop.tracking.auto.steps import Steps
from gputop.tracking.stand_in import stands_for

_OPTIMIZERS = "keras.src.optimizers.base_optimizer"
_CALLBACKS = "keras.src.callbacks.callback_list"
_listening = False


class Seen:
    """A Keras optimizer with those attributes of a torch optimizer that tracking reads."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = weakref.ref(optimizer)
        self.kind = type(optimizer).__name__

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Return one group with the parameters and, if it can be read without waiting, the learning rate."""
        optimizer = self._optimizer()
        found: list[Any] = list(getattr(optimizer, "_trainable_variables", ()))
        group: dict[str, Any] = {"params": [item.value for item in found]}
        rate: Any = getattr(optimizer, "_learning_rate", None)
        value = getattr(rate, "value", rate)
        if isinstance(value, float):
            group["lr"] = value
        elif getattr(value, "is_cpu", False):
            group["lr"] = float(value)
        return [group]


def listen(torch: Any, steps: Steps) -> None:
    """Hook into Keras's optimizers, once, if Keras trains on torch in this process."""
    global _listening
    module: Any = sys.modules.get(_OPTIMIZERS)
    base = getattr(module, "BaseOptimizer", None)
    if _listening or base is None:
        return
    _listening = True
    original, training = base.apply, steps.training
    seen: weakref.WeakKeyDictionary[Any, Seen] = weakref.WeakKeyDictionary()

    @stands_for(original)
    def apply(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        # An optimizer that scales losses calls its inner optimizer.
        if training.off or training.stepping or torch.compiler.is_compiling():
            return original(self, *args, **kwargs)
        steps.before_step()
        result = original(self, *args, **kwargs)
        try:
            known = seen.get(self)
            if known is None:
                known = seen[self] = Seen(self)
                training.without_fast_path()  # which ends where a torch optimizer steps
            steps.after_step(known)
        except Exception as error:  # noqa: BLE001 - the training continues without tracking
            training.failed(error)
        return result

    base.apply = apply
    _listen_to_epochs(steps)


def _listen_to_epochs(steps: Steps) -> None:
    """Take the epoch from Keras, which may begin a new iteration over its data without a new loader."""
    callbacks: Any = getattr(sys.modules.get(_CALLBACKS), "CallbackList", None)
    original = getattr(callbacks, "on_epoch_begin", None)
    if original is None:
        return

    @stands_for(original)
    def on_epoch_begin(self: Any, epoch: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(epoch, int):
            steps.epochs.set_from_framework(float(epoch))
        return original(self, epoch, *args, **kwargs)

    callbacks.on_epoch_begin = on_epoch_begin
