"""Waits for data by running means: "[200/5005] Time 0.55 (12.3) Data 0.001 (11.8)". Pure.

The mean covers all batches of the epoch so far, the printed batch only itself: where workers deliver in bursts, few printed
batches show the wait. From two means follows what the batches between them took, without those before, in which the workers
start.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.parts import LINES_MIN, means_in
from gputop.doctor.logs.numbers.step_parts import MEASURED, PLACE, SHARES, takes_much

BATCHES_MIN = 50
"""Means over this many batches, after the first report of an epoch, are enough, however few the reports (our choice)."""
FEW_MIN, FEW_SHARE, FEW_SHARE_LATER = 3, 0.8, 0.5
"""This many reports of MMEngine are enough for "possible" if data takes this share in each of them, and this share of what they
add to the first (our choice)."""
COUNTED_FROM_0 = 1
"""Scripts that print means count batches from 0. Where one counts from 1, a mean that decays seems to decay faster, which is
the safe side."""
_N = r"(\d{1,6}(?:\.\d{1,6})?)"
_OF_MMENGINE = re.compile(rf"(?<![\w/.-])time: {_N} {{1,3}}data_time: {_N}(?= )")
_OF_EPOCHS = re.compile(r"(?i)\bepochs?\W{0,4}$")


class _Means(NamedTuple):
    """What the batches of an epoch so far took, in sums."""

    batches: int
    data: float
    step: float

    @property
    def share(self) -> float:
        return self.data / self.step if self.step > 0 else 0.0

    def since(self, first: _Means) -> _Means:
        return _Means(self.batches - first.batches, max(0.0, self.data - first.data), max(0.0, self.step - first.step))

    def plus(self, other: _Means) -> _Means:
        return _Means(self.batches + other.batches, self.data + other.data, self.step + other.step)


class _Course:
    """The means of one kind of lines."""

    def __init__(self) -> None:
        self.reports = 0
        """How many reports came after the first of their epochs."""
        self.least = 1.0
        """The least share of data in any report."""
        self._first: _Means | None = None
        self._last: _Means | None = None
        self._whole = self._later = _Means(0, 0.0, 0.0)

    def take(self, batches: int, data: float, step: float) -> None:
        found = _Means(batches, data * batches, step * batches)
        self.least = min(self.least, found.share)
        if self._first is None or self._last is None or batches <= self._last.batches:
            self._end()
            self._first = found
        else:
            self.reports += 1
        self._last = found

    def _end(self) -> None:
        if self._first is not None and self._last is not None and self._last is not self._first:
            self._whole = self._whole.plus(self._last)
            self._later = self._later.plus(self._last.since(self._first))

    def ended(self) -> tuple[_Means, _Means]:
        """Return the sums of all epochs, and those without the first report of each. Nothing can be taken afterwards."""
        self._end()
        self._first = self._last = None
        return self._whole, self._later


class RunningMeans:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._printed, self._of_mmengine = _Course(), _Course()

    def read(self, line: Line) -> None:
        """Take the next line."""
        if "data" not in line.lower or line.is_of_evaluation or (line.speaker is not None and line.speaker.rank):
            return
        if MEASURED.search(line.text) is None:
            return
        places = [found for found in PLACE.finditer(line.text) if not _OF_EPOCHS.search(line.text, 0, found.start())]
        means = means_in(line.text) if places else None
        plain = _OF_MMENGINE.search(line.text) if places and means is None else None
        if means is None and plain is None:
            return
        place = int(places[-1][1])
        if means is not None:
            self._printed.take(place + COUNTED_FROM_0, *means)
        elif plain is not None and float(plain[2]) <= float(plain[1]):
            self._of_mmengine.take(place, float(plain[2]), float(plain[1]))

    def findings(self) -> tuple[Finding, ...]:
        """Return that the run waits for data if it does by its means."""
        whole, later = self._printed.ended()
        reports = self._printed.reports
        possible, likely = SHARES["data"]
        share = min(whole.share, later.share)
        if share >= possible and (later.batches >= BATCHES_MIN or reports >= LINES_MIN):
            return (takes_much("data", share, "likely" if share >= likely else "possible", reports + 1),)
        few = self._of_mmengine
        _, later = few.ended()
        if FEW_MIN <= few.reports + 1 < LINES_MIN and few.least >= FEW_SHARE and later.share >= FEW_SHARE_LATER:
            return (takes_much("data", min(few.least, later.share), "possible", few.reports + 1),)
        return ()
