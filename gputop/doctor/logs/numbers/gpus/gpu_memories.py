"""The memory of each GPU compared with the others', as one line prints it: with nn.DataParallel, the first holds more. Pure."""

from __future__ import annotations

import re
import statistics

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.texts import FIRST_GPU

LINES_MIN = 3
"""At least this many lines print it (our choice)."""
TIMES = 1.5
"""The first GPU holds this many times as much as is usual for the others, in each of them (our choice)."""
LARGE_MIB = 1024
"""Below, the difference may be that of the contexts (our choice)."""
_IN_MIB = re.compile(r"(?i)\d ?Mi?B|\(Mi?B\)|\bMi?B\b")
_WORDS = ("mem", "mém", "vram", "alloc", "speicher")
_EACH = re.compile(r"(?i)\b(?:gpu|cuda)[ :_]?(\d{1,2})[\s:=]{1,3}(\d{1,7}(?:\.\d{1,3})?)(?![\d.%])")
_WRAPPED = re.compile(r"(?<![A-Za-z])(?:nn\.)?DataParallel\b")
_NOT_WRAPPED = re.compile(r"(?i)\bnot\b|deprecat|\bwas\b|instead|without|rather|no longer")
_OTHER = re.compile(r"(?i)free|temp|retries|util|total")


class GpuMemories:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._is_data_parallel = False
        self._lines = self._uneven = 0
        self._gpus = 0
        self._first = self._usual = 0.0
        self._last = ""

    def read(self, line: Line) -> None:
        """Take the next line."""
        self._is_data_parallel = self._is_data_parallel or (
            _WRAPPED.search(line.text) is not None and _NOT_WRAPPED.search(line.text) is None
        )
        if not any(word in line.lower for word in _WORDS) or _OTHER.search(line.text) is not None:
            return
        each: dict[int, float] = {}
        for number, value in _EACH.findall(line.text):
            each.setdefault(int(number), float(value))
        if len(each) < 2 or set(each) != set(range(len(each))):
            return
        first, usual = each.pop(0), statistics.median(each.values())
        self._lines += 1
        is_large = first >= LARGE_MIB if _IN_MIB.search(line.text) is not None else first >= 1.0
        if usual > 0 and first >= TIMES * usual and is_large:
            self._uneven += 1
            self._first, self._usual, self._gpus, self._last = first, usual, len(each) + 1, line.printed.strip()

    def findings(self) -> tuple[Finding, ...]:
        """Return that the first GPU holds more than the others, if so."""
        if not self._is_data_parallel or self._uneven < LINES_MIN or self._uneven < self._lines:
            return ()
        times = self._first / self._usual
        return (
            Finding(
                id="B07",
                severity="warning",
                confidence="likely",
                title=f"The first of {words.count(self._gpus, 'GPU')} holds {times:.1f} times as much memory as the others",
                evidence=(Fact(self._last[:200], times, "log"),),
                cause=FIRST_GPU.cause,
                fix=FIRST_GPU.fix,
                refuted_by="Another program holds the memory of the first GPU.",
            ),
        )
