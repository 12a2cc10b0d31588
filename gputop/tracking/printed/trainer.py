"""The steps of what Transformers' Trainer prints. Pure.

Its dictionaries contain no step. But it prints them above its progress bar, which tqdm redraws at once, with the step. Where
that bar is off, another one may follow, such as the one that counts the files of a checkpoint. Those have a description.
"""

from __future__ import annotations

import re

from gputop.tracking.printed.names import Printed

_BAR = re.compile(r"\|\s{0,20}(\d{1,15})/(\d{1,15})\s{0,20}\[\d{1,9}:")
_DESCRIBED = re.compile(r"[\w)]:\s{1,9}\d{1,3}%\|")
_OWN = ("learning_rate", "grad_norm", "train_runtime", "eval_runtime")
"""Names that the Trainer's own code adds to each dictionary."""


def is_of_trainer(printed: Printed) -> bool:
    """Return whether a line is one of the Trainer's, which all have an epoch and no step."""
    return printed.step is None and printed.epoch is not None and any(name in printed.metrics for name in _OWN)


def bar_of(line: str) -> tuple[int, int] | None:
    """Return the step and the number of steps that a bar without a description shows; None for any other line."""
    found = _BAR.search(line) if _DESCRIBED.search(line) is None else None
    return (int(found[1]), int(found[2])) if found is not None else None
