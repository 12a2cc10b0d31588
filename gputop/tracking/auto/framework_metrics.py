"""Adds to the run what a framework logs by itself: evaluation metrics, the gradient norm, and what a script passes to its
logger.

Listens where the Trainer of Transformers, Lightning and Keras pass their metrics on to callbacks and loggers, even if there are
none. Imports no framework: the first optimizer step checks which are loaded. It skips names that automatic tracking or an
adapter records: a Trainer's ``loss`` is a mean over its logging steps, gputop's is the loss of each step.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from gputop.tracking.auto.training.records import adapted
from gputop.tracking.auto.training.state import Training
from gputop.tracking.stand_in import stands_for

Log = Callable[[dict[str, Any]], None]
"""Writes what a framework logged."""

OURS = frozenset(("loss", "epoch", "step", "learning_rate", "lr"))
_PLACES: tuple[tuple[str, str, str], ...] = (
    ("transformers.trainer_callback", "CallbackHandler", "on_log"),
    ("lightning.pytorch.trainer.connectors.logger_connector.logger_connector", "_LoggerConnector", "log_metrics"),
    ("pytorch_lightning.trainer.connectors.logger_connector.logger_connector", "_LoggerConnector", "log_metrics"),
    ("keras.src.callbacks.callback_list", "CallbackList", "on_epoch_end"),
)
"""Module, class and method that every logged metric of a framework passes through; the metrics are its only mapping."""
_heard: set[str] = set()


def listen(training: Training, log: Log) -> None:
    """Listen to the frameworks that this process has loaded; to each only once."""
    for module_name, class_name, method in _PLACES:
        owner: Any = getattr(sys.modules.get(module_name), class_name, None)
        original = getattr(owner, method, None)
        if original is not None and module_name not in _heard:
            _heard.add(module_name)
            setattr(owner, method, _telling(original, training, log))


def heard() -> bool:
    """Return whether a framework is listened to, so that its evaluations are known."""
    return bool(_heard)


def _telling(original: Callable[..., Any], training: Training, log: Log) -> Callable[..., Any]:
    @stands_for(original)
    def passed_on(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        try:
            if not training.off and not training.on_other_thread() and not adapted():
                found = next((item for item in (*args, *kwargs.values()) if isinstance(item, Mapping)), {})
                log({name: value for name, value in found.items() if _is_metric(name, value)})
        except Exception as error:  # noqa: BLE001 - the framework continues, whatever it logged
            training.failed(error)
        return result

    return passed_on


def _is_metric(name: object, value: Any) -> bool:
    if not isinstance(name, str) or name in OURS:
        return False
    # Tensors with one value, also on a GPU: the run waits for none. NumPy's numbers are not arrays.
    return type(value) in (int, float) or getattr(value, "shape", None) == ()
