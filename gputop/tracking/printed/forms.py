"""Lines of programs that name nothing, or name their loss otherwise. Pure.

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


def of_darknet(line: str) -> Printed | None:
    """Return what darknet says of an iteration, or an empty one for what it says of a layer; None for any other line."""
    if " avg" in line and " rate, " in line and (found := _OF_DARKNET.match(line)) is not None:
        loss, average, rate = map(float, found.group(2, 3, 4))
        return Printed({"loss": loss, "avg_loss": average, "lr": rate}, int(found[1]))
    return Printed() if "Region " in line and _LAYER_OF_DARKNET.search(line) is not None else None


_SHORT_NUMBER = re.compile(r"(?<=: )(\d{1,3}(?:\.\d{1,3})?)([KMGT])(?= \||$)")
_POWERS = {"K": "e3", "M": "e6", "G": "e9", "T": "e12"}


def in_full(line: str) -> str:
    """Return a line of nanotron, which shortens all of its numbers, with these in full: "grad_norm: 1.5K" as "1.5e3"."""
    if "elapsed_time_per_iteration_ms: " not in line:
        return line
    return _SHORT_NUMBER.sub(lambda found: f"{found[1]}{_POWERS[found[2]]}", line)
