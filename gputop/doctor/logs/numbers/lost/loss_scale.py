"""A gradient scaler that halves its scale again and again, without a good step in between. Pure.

Sources: fairseq/optim/dynamic_loss_scaler.py, deepspeed/runtime/fp16/loss_scaler.py, apex/amp/_process_optimizer.py and
apex/amp/scaler.py.
"""

from __future__ import annotations

import re

from gputop import units
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.after import is_progress
from gputop.doctor.logs.numbers.line import Line

HALVINGS_MIN, BELOW = 8, 16.0
FEWER_HALVINGS, AT_MOST = 5, 2.0
"""This many halvings in a row, down to this scale. A scaler begins with 2^16 or 2^32 and finds its scale far above (our
choice)."""
TINY = 1e-3
"""Below this scale, whatever lies between: gradients that overflow even so are far larger than any that can be used (our
choice)."""
STEPS_BETWEEN, LINES_BETWEEN = 2, 3
"""If the steps advance by more from one halving to the next, or as many lines of progress without a step, some were good (our
choice)."""
_HALVED = re.compile(
    r"(?i)(?:setting|reducing) loss scale to:? ?(?P<to>[\d.]{1,25}(?:e[-+]?\d{1,3})?)(?![\w.])"
    r"|loss scale: ?[\d.]{1,25}(?:e[-+]?\d{1,3})?, reducing to (?P<then>[\d.]{1,25}(?:e[-+]?\d{1,3})?)"
)
_SMALL = re.compile(r"(?i)\bgrad[ _]?scale is small: ?([\d.]{1,25}(?:e[-+]?\d{1,3})?)(?![\w.])")
"""What icefall prints below 0.01; below 1e-5, it ends the run."""
_STEP = re.compile(r"(?i)\| {0,9}(\d{1,12})/\d{1,12} \[|\b(?:step|iter(?:ation)?|num_updates|batch)\W{1,3}(\d{1,12})\b")


class LossScale:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first overflow."""
        self._scales: list[float] = []
        """The scales of the newest halvings in a row."""
        self._least: float | None = None
        """The newest scale that a line states, if it is below ``TINY``."""
        self._step: int | None = None
        self._step_then: int | None = None
        """The newest step, and that at the newest halving."""
        self._lines = 0
        """Lines of progress without a step since then."""

    def read(self, line: Line) -> None:
        """Take the next line."""
        small = _SMALL.search(line.text) if "grad" in line.lower and "scale is small" in line.lower else None
        if small is not None:
            self._state(float(small[1].rstrip(".")))
            return
        step = _STEP.search(line.text) if self._scales or "loss scale" in line.lower else None
        if step is not None:
            self._step = int(step[1] or step[2])
        halved = _HALVED.search(line.text) if "loss scale" in line.lower else None
        if halved is None:
            self._lines += bool(self._scales) and step is None and is_progress(line.rest)
            return
        scale = float((halved["to"] or halved["then"]).rstrip("."))
        self._state(scale)
        if self._scales and scale == self._scales[-1]:
            return  # another rank
        if not self._scales or scale * 2 != self._scales[-1] or self._advanced():
            self._scales = []
        self._scales.append(scale)
        self._step_then, self._lines = self._step, 0

    def _state(self, scale: float) -> None:
        self._least = scale if scale < TINY else None

    def _advanced(self) -> bool:
        """Return whether there were good steps since the newest halving."""
        if self._step is None or self._step_then is None:
            return self._lines >= LINES_BETWEEN
        return not 0 <= self._step - self._step_then <= STEPS_BETWEEN

    def findings(self) -> tuple[Finding, ...]:
        """Return that the scale has fallen too far, if it has, and no good step follows."""
        number = len(self._scales)
        if self._least is not None and number < FEWER_HALVINGS:
            title = f"The gradients overflow at each loss scale, down to {units.metric(self._least)}"
            return (
                _finding(
                    title, Fact(f"the scale is {units.metric(self._least)}, where 1 would change nothing", self._least, "log")
                ),
            )
        enough = number >= HALVINGS_MIN and self._scales[-1] < BELOW
        if not (enough or (number >= FEWER_HALVINGS and self._scales[-1] <= AT_MOST)) or self._advanced():
            return ()
        first, last = (units.metric(scale) for scale in (2.0 * self._scales[0], 2.0 * self._scales[-1]))
        title = f"The gradients overflow {number} times in a row, at each loss scale from {first} down to {last}"
        text = f"{number} halvings without a good step between, the last one to {units.metric(self._scales[-1])}"
        return (_finding(title, Fact(text, number, "log")),)


def _finding(title: str, fact: Fact) -> Finding:
    return Finding(
        id="J01",
        severity="error",
        confidence="likely",
        title=title,
        evidence=(fact,),
        cause="The gradients are infinite or NaN even at small scales, and each of these steps is skipped: they are "
        "too large for half precision, as when a training diverges, or an operation of the backward pass gives NaN. "
        "The loss may still be finite.",
        fix="# use bf16 rather than fp16; else lower the learning rate, warm up longer, clip gradients\n"
        "torch.autograd.set_detect_anomaly(True)  # names the operation; slow, so only for the search",
        refuted_by="The scale rises again, and steps are taken.",
    )
