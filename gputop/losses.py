"""Which of a run's metrics is its training loss, judging by the names. Imports only the standard library."""

from __future__ import annotations

import re
from collections.abc import Iterable

LOSS_METRICS = ("loss", "train/loss", "train_loss", "training_loss")
"""Names of a run's training loss, in order of preference: the first that the run logs wins."""
_NOT_TRAINING = frozenset({"val", "valid", "validation", "eval", "evaluation", "test", "dev", "scale", "scaler"})
_WORD = re.compile(r"[^\W_]+")


def loss_metric(names: Iterable[str]) -> str | None:
    """Return the name of a run's training loss: a standard name if there is one, else the best metric with "loss" in its name.

    An evaluation loss is the last resort.
    """
    known = set(names)
    own = next((name for name in LOSS_METRICS if name in known), None)
    others = (name for name in known if "loss" in name.lower())
    return own or min(others, key=lambda name: (not is_training_loss(name), not name.startswith("loss/"), name), default=None)


def is_training_loss(loss: str) -> bool:
    """Return whether a loss belongs to training, judging by its name: not to an evaluation or to a gradient scaler."""
    return _NOT_TRAINING.isdisjoint(_WORD.findall(loss.lower()))
