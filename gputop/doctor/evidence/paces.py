"""The pace of a run that logs no step time: how its steps follow each other, by the times of its values. Pure.

Values of one time are known to be from that time or earlier, so only the last of them counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

MARKS_MAX = 128
"""With more marks, every second one is dropped."""
SPACING_S = 1.0
"""The least distance of two marks at first."""


class Mark(NamedTuple):
    """A step and the time at which it was done, wall clock in seconds."""

    step: int
    time: float


class Paces:
    """Marks of one run's course, at least ``spacing_s`` apart; the spacing doubles as they grow."""

    __slots__ = ("marks", "spacing_s")

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self.spacing_s = SPACING_S

    def extend(self, steps: Sequence[int], times: Sequence[float]) -> None:
        """Add the values of one snapshot. Steps that go back begin a new course."""
        number = min(len(steps), len(times))
        for place in range(number):
            step, time = steps[place], times[place]
            if not math.isfinite(time) or (place + 1 < number and times[place + 1] == time and steps[place + 1] >= step):
                continue
            last = self.marks[-1] if self.marks else None
            if last is not None and (step < last.step or time < last.time):
                self.marks.clear()
                last = None
            if last is not None and time == last.time:
                self.marks[-1] = Mark(step, time)
            elif last is None or (step > last.step and time - last.time >= self.spacing_s):
                self.marks.append(Mark(step, time))
        if len(self.marks) > MARKS_MAX:
            self.marks = self.marks[::2]
            self.spacing_s *= 2

    def seconds_per_step(self, parts: int) -> tuple[tuple[float, ...], tuple[int, ...]] | None:
        """Return the seconds per step in each of ``parts`` with the same number of steps, and the steps at which they begin.

        None if there are fewer than two marks for each part. The time of a step between two marks is interpolated.
        """
        marks = self.marks
        if len(marks) < 2 * parts or marks[-1].step - marks[0].step < parts:
            return None
        course = marks[-1].step - marks[0].step
        bounds = [marks[0].step + course * number / parts for number in range(parts + 1)]
        times = []
        place = 0
        for bound in bounds:
            while place + 2 < len(marks) and marks[place + 1].step < bound:
                place += 1
            before, after = marks[place], marks[place + 1]
            times.append(before.time + (after.time - before.time) * (bound - before.step) / (after.step - before.step))
        seconds = tuple((end - begin) * parts / course for begin, end in itertools.pairwise(times))
        return seconds, tuple(round(bound) for bound in bounds[:-1])
