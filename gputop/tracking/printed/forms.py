"""Lines of programs that name nothing, or write their loss or its name otherwise. Pure.

Darknet prints "1040: 0.325, 0.336 avg loss, 0.001 rate", and for each of its layers how well the last images fit, which is nan
where none of them has an object of that size.
"""

from __future__ import annotations

import re

from gputop.tracking.printed.names import NUMBER, Printed

_OF_DARKNET = re.compile(
    rf"\s{{0,9}}(\d{{1,12}}): ({NUMBER}), ({NUMBER}) avg(?: loss)?, ({NUMBER}) rate, "
    r"[\d.]{1,20} seconds, \d{1,15} images\b",
    re.IGNORECASE,
)
_LAYER_OF_DARKNET = re.compile(r"(?:v\d \([^()]{1,40}\([^()]{1,80}\)\) )?Region \d{1,4} Avg \(?IOU: ")
_SHORT_NUMBER = re.compile(r"(?<=: )(\d{1,3}(?:\.\d{1,3})?)([KMGT])(?= \||$)")
_POWERS = {"K": "e3", "M": "e6", "G": "e9", "T": "e12"}
"""nanotron shortens all of its numbers: "grad_norm: 1.5K"."""
_ERR_OF_TORCH7 = re.compile(
    r"(Epoch: \[\d{1,9}\]\[\d{1,12}/\d{1,12}\]\s{1,9}Time [\d.]{1,20}(?:\s{1,9}Data [\d.]{1,20})?\s{1,9})Err(?= )"
)
"""The loss in the examples of Torch7 on ImageNet."""
_OF_SO_MANY = re.compile(
    r"(?<= = )(-?\d{1,15}(?:\.\d{1,15})?(?:e[+-]?\d{1,3})?%?|nan|-?inf) \* \d{1,15}(?=[,;]| \d{1,9}\.\d{1,9}s)", re.I
)
"""Over how many samples CNTK's mean is: "loss = 0.77 * 60416"."""
_OF_TF_CNN = re.compile(
    rf"(?:^|[\s:|])(\d{{1,12}})\s{{1,9}}images/sec: [\d.]{{1,20}} \+/- [\d.]{{1,20}} \(jitter = [\d.]{{1,20}}\)"
    rf"\s{{1,9}}({NUMBER})\s{{0,9}}$"
)
"""The step and the loss in TensorFlow's benchmarks, below the heading "Step Img/sec total_loss". With more numbers behind, the
first may be an accuracy."""
_COST_OF_EPOCH = re.compile(
    rf"(^\W{{0,9}}epoch:? 0\d{{1,6}},? )(?:avg[._]? ?)?cost"
    rf"(?= ?[:=]\s{{0,9}}{NUMBER}(?:$|[\s,;])(?!\s?(?:m?s|secs?|seconds|min|minutes|h|hours)\b))",
    re.IGNORECASE,
)
"""The loss in many early examples of TensorFlow, which number epochs with zeros before: "Epoch: 0001 cost= 0.5". Elsewhere the
cost of an epoch may be its time."""
_COST_AFTER = re.compile(
    rf"^(\W{{0,9}})cost after ((?:epoch|iteration|step) \d{{1,12}})(?=\s?[:=]\s{{0,9}}{NUMBER}\s{{0,9}}$)", re.IGNORECASE
)
"""The loss in a course on deep learning, and in what was written after it: "Cost after iteration 100: 0.5"."""


def of_darknet(line: str) -> Printed | None:
    """Return the values of darknet's line of an iteration; empty for one of its lines of a layer, None for any other line."""
    if " avg" in line and " rate, " in line and (found := _OF_DARKNET.match(line)) is not None:
        loss, average, rate = map(float, found.group(2, 3, 4))
        return Printed({"loss": loss, "avg_loss": average, "lr": rate}, int(found[1]))
    return Printed() if "Region " in line and _LAYER_OF_DARKNET.search(line) is not None else None


def of_tf_cnn(line: str) -> Printed | None:
    """Return the values of a line of TensorFlow's benchmarks; None for any other line."""
    found = _OF_TF_CNN.search(line) if "(jitter" in line else None
    return Printed({"loss": float(found[2])}, int(found[1])) if found is not None else None


def in_usual_form(line: str) -> str:
    """Return a line of one of these programs with its loss, and its numbers, as others write them."""
    if "elapsed_time_per_iteration_ms: " in line:
        line = _SHORT_NUMBER.sub(lambda found: f"{found[1]}{_POWERS[found[2]]}", line)
    if " Err " in line:
        line = _ERR_OF_TORCH7.sub(r"\1Loss", line)
    if " * " in line:
        line = _OF_SO_MANY.sub(r"\1", line)
    if "ost" in line:
        line = _COST_AFTER.sub(r"\2, loss", _COST_OF_EPOCH.sub(r"\1loss", line))
    return line
