"""The outputs of Caffe's nets, each on a line of its own below that of the iteration, whose loss is often one of them. Pure."""

from __future__ import annotations

import re
from dataclasses import replace

from gputop.tracking.printed.names import Printed

_OUTPUT = re.compile(r"\b(Train|Test) net output #\d{1,6}: ")
_TRAIN = "Train"
_OF_ONE_CLASS = "per_class"
"""Within the name of an output that has a line for each class, without the class."""


def of_output(line: str, printed: Printed, last: Printed | None) -> Printed:
    """Return what a line says beyond ``last``, the line of the iteration; any other line as it is.

    Without an iteration above it, nobody knows the step of such a line.
    """
    found = _OUTPUT.search(line) if " net output #" in line else None
    if found is None:
        return printed
    if found[1] == _TRAIN and last is None:
        return replace(printed, metrics={})
    known = last.metrics if last is not None else {}
    return replace(
        printed,
        metrics={name: value for name, value in printed.metrics.items() if name not in known and _OF_ONE_CLASS not in name},
    )
