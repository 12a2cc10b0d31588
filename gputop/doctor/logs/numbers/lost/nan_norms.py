"""Gradients whose printed norm is NaN, whatever the loss next to it is. Pure."""

from __future__ import annotations

import math
import re

from gputop import units
from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.lost.not_a_number import lost

REPORTS_MIN = 3
"""This many newest norms are NaN: a gradient scaler skips one or two steps (our choice)."""
_VALUE = r"[\w/]{0,20}[\"']?[ :=|]{1,4}(?P<value>nan|[-+]?inf(?:inity)?|[-+]?[\d.]{1,20}(?:e[-+]?\d{1,3})?)(?![\w.])"
_NORM = re.compile(rf"(?i)(?<![a-z])(?:g|grad(?:ient)?s?)[ _/]?norm{_VALUE}")
_LOSS = re.compile(rf"(?i)(?<!val_)(?<!eval_)loss(?! ?_?scale){_VALUE}")
_SCALE = re.compile(r"(?i)(?<![a-z])(?:(?:loss|grad)[ _]?)?scaler?[\"']?[ :=|]{1,4}([\d.]{1,20}(?:e[-+]?\d{1,3})?)")
_SKIPPED = re.compile(r"(?i)skipped iterations[ :=|]{1,6}[1-9]|\bskipp(?:ed|ing)\b.{0,40}\bstep")


class NanNorms:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first norm."""
        self._nan = 0
        """How many of the newest norms are NaN."""
        self._finite_losses = 0
        self._unscaled = False
        """Whether the newest of them says that its scale is 1: then no scaler skips it."""
        self._last = ""

    def read(self, line: Line) -> None:
        """Take the next line."""
        if "norm" not in line.lower or line.is_of_evaluation:
            return
        norm = _NORM.search(line.rest)
        if norm is None:
            return
        scale = _SCALE.search(line.rest)
        # A scaler that still looks for its scale skips such a step.
        skips = _SKIPPED.search(line.rest) is not None or (scale is not None and float(scale[1].rstrip(".") or 0) > 1)
        if norm["value"].lower() != "nan" or skips:
            self._nan = self._finite_losses = 0
            return
        loss = _LOSS.search(line.rest)
        self._nan += 1
        self._unscaled = scale is not None
        self._finite_losses += loss is not None and _is_finite(loss["value"])
        self._last = line.printed.strip()

    def findings(self) -> tuple[Finding, ...]:
        """Return that the gradients are NaN, if they are so to the end."""
        if self._nan < REPORTS_MIN:
            return ()
        is_finite = self._finite_losses >= REPORTS_MIN
        beside = ", although the loss is still a number" if is_finite else ""
        return (
            lost(
                f"The gradients are NaN: the last {units.count(self._nan)} norms{beside}",
                ((f"the last of {units.count(self._nan)} such reports: {self._last[:160]}", self._nan),),
                "These steps are skipped, and later ones have a norm again.",
                "possible" if is_finite and not self._unscaled else "likely",
            ),
        )


def _is_finite(text: str) -> bool:
    """Return whether a printed loss is a number, and not the 0 that Transformers' Trainer shows for NaN."""
    try:
        value = float(text)
    except ValueError:
        return False
    return math.isfinite(value) and value != 0
