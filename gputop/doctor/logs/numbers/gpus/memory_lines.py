"""Memory that lines between the steps of a training print: what is in use grows, or what is available shrinks. Pure.

A peak can only grow, and is not read here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from gputop import units
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.after import is_progress
from gputop.doctor.logs.numbers.gpus.growing_memory import EVENLY
from gputop.doctor.logs.numbers.line import Line

CURRENT_VALUES, CURRENT_GROWN = 6, 1.3
"""The fewest values of the memory in use, and how many times the first one the last is (our choice)."""
MEAN_WITHIN = (0.3, 2.5)
"""From each value to the next, it grows by a share of the mean growth within these limits: a first allocation or a cache that
fills grows less and less (our choice)."""
NAMED_VALUES, NAMED_GROWN, NAMED_RISES = 8, 1.1, 0.75
"""Of a memory that a line names and says nothing else about: the fewest values, how many times the first one the last is, and
the share of them that are above the one before (our choice)."""
EVENLY_MAX = 24
"""With more values than this, quarters of them are compared: single steps may allocate nothing (our choice)."""
AVAILABLE_VALUES, AVAILABLE_LEFT = 24, 0.7
"""The fewest values of the host's available memory, and the share that is left: the data may be cached in it (our choice)."""
SERIES_MAX, KEPT = 256, 10_000
"""At most this many memories are followed, with this many values each."""
_CURRENT = re.compile(
    r"(?i)\bmem(?:ory)?\b(?P<of>.{0,60}?)\bcurrent['\"]?[ :=]{1,3}(?P<value>\d{1,15}(?:\.\d{1,6})?)[ ,].{0,12}\bpeak\b"
)
"""What TensorFlow's get_memory_info returns: in bytes, or in what the script makes of them."""
_USED = re.compile(
    r"(?i)\bcurrent (?:memory|mem|ram|rss)(?: usage| used| use)?[ :=]{1,3}(?P<value>\d{1,7}\.\d{1,6}) ?(?P<unit>[KMG]i?B)\b"
)
_AVAILABLE = re.compile(
    r"(?i)\b(?:mem(?:ory)?|ram|cpu|host|system)\b.{0,60}?\bavail(?:able)?[ :=]{1,3}(?P<value>\d{1,7}(?:\.\d{1,6})?)"
    r" ?(?P<unit>[KMGT]i?B)\b"
)
_NOT_OF_HOST = re.compile(r"(?i)gpu|cuda|vram|device|disk|/dev|swap|storage")
_DEVICE = re.compile(r"(?i)(?:gpu|device|cuda)[:_ ]{0,2}\d{1,3}")


class _Memory(NamedTuple):
    """``what`` a line calls it: in use, as TensorFlow prints it; in use, under its name; or available."""

    what: Literal["current", "named", "available"]
    whose: str
    unit: str


class MemoryLines:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first value."""
        self._steps = 0
        """The lines of progress so far."""
        self._values: dict[_Memory, list[float]] = {}
        self._step_of: dict[_Memory, int] = {}
        """The lines of progress before the newest value of each."""

    def read(self, line: Line) -> None:
        """Take the next line."""
        self._steps += is_progress(line.rest)
        whose = "" if line.speaker is None else f"{line.speaker.host or ''}{line.speaker.rank} "
        if "current" in line.lower and (current := _CURRENT.search(line.text)) is not None:
            device = _DEVICE.search(current["of"])
            self._keep(_Memory("current", f"{whose}{device[0] if device is not None else ''}", ""), float(current["value"]))
        used = _USED.search(line.text) if "current" in line.lower else None
        if used is not None:
            self._keep(_Memory("named", whose, used["unit"]), float(used["value"]))
        found = _AVAILABLE.search(line.text) if "avail" in line.lower else None
        if found is not None and _NOT_OF_HOST.search(line.text, 0, found.end()) is None:
            self._keep(_Memory("available", whose, found["unit"]), float(found["value"]))

    def _keep(self, key: _Memory, value: float) -> None:
        if self._step_of.get(key) == self._steps or (key not in self._values and len(self._values) >= SERIES_MAX):
            return  # no step lies between them: it is loaded or built
        self._step_of[key] = self._steps
        values = self._values.setdefault(key, [])
        if len(values) < KEPT:
            values.append(value)

    def findings(self) -> tuple[Finding, ...]:
        """Return the first memory that is in use ever more, or that is available ever less."""
        for memory, values in self._values.items():
            if memory.what != "available" and (_grows(values) or (memory.what == "named" and _rises(values))):
                return (_finding("memory in use", values, memory.unit, "grows"),)
        for memory, values in self._values.items():
            if memory.what == "available" and _shrinks(values):
                return (_finding("available memory of the host", values, memory.unit, "shrinks"),)
        return ()


def _grows(values: Sequence[float]) -> bool:
    """Return whether the values grow evenly, to ``CURRENT_GROWN`` times the first."""
    if len(values) < CURRENT_VALUES or values[0] <= 0 or values[-1] < CURRENT_GROWN * values[0]:
        return False
    if len(values) > EVENLY_MAX:
        return _in_each_quarter(values)
    mean = (values[-1] - values[0]) / (len(values) - 1)
    least, most = (share * mean for share in MEAN_WITHIN)
    return all(least <= after - before <= most for before, after in itertools.pairwise(values))


def _rises(values: Sequence[float]) -> bool:
    """Return whether most of the values are above the ones before, and each quarter of them above the last."""
    if len(values) < NAMED_VALUES or values[0] <= 0 or values[-1] < NAMED_GROWN * values[0]:
        return False
    rises = sum(before < after for before, after in itertools.pairwise(values))
    return rises >= NAMED_RISES * (len(values) - 1) and _in_each_quarter(values)


def _shrinks(values: Sequence[float]) -> bool:
    is_less = len(values) >= AVAILABLE_VALUES and values[-1] <= AVAILABLE_LEFT * values[0]
    return is_less and _in_each_quarter([-value for value in values])


def _in_each_quarter(values: Sequence[float]) -> bool:
    cuts = [len(values) * part // 4 for part in range(5)]
    means = [units.mean(values[begin:end]) for begin, end in itertools.pairwise(cuts)]
    growth = means[-1] - means[0]
    return growth > 0 and all(after - before >= EVENLY * growth for before, after in itertools.pairwise(means))


def _finding(what: str, values: Sequence[float], unit: str, verb: str) -> Finding:
    first, last = (f"{units.metric(value)} {unit}".rstrip() for value in (values[0], values[-1]))
    reports = f"{units.count(len(values))} reports"
    return Finding(
        id="H06",
        severity="warning",
        confidence="possible",
        title=f"The {what} {verb} from step to step: from {first} to {last}",
        evidence=(Fact(f"it {verb} evenly over {reports}, with steps between them", values[-1], "log"),),
        cause="Something keeps what each step leaves behind: a list of losses or outputs, a graph that is built again in each "
        "step, data that each worker copies as it reads it. Or a cache of the data still fills.",
        fix="history.append(float(loss))  # a number, not the tensor with its graph\n"
        "gputop run -- ...  # follows the memory of the GPU and of the process to the end",
        refuted_by="It stays where it is after the first epoch, or sequences become longer on purpose.",
    )
