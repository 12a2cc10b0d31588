"""The temperature and the clock of a GPU in the columns of a table that a script prints: a clock that falls with heat. Pure."""

from __future__ import annotations

import re
import statistics

from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.gpus.smi_rows import HOT_C, KEPT, SLOW_SHARE, throttled
from gputop.doctor.logs.numbers.line import Line

NEWEST, ROWS_MIN = 5, 10
"""The medians of so many newest rows are compared with the highest clock, if there are at least so many rows (our choice)."""
_GPUS_MAX = 64
_GPU = re.compile(r"gpu|rank|device|index")
_TEMPERATURE = re.compile(r"temp(?:erature)?(?:[ _.]?(?:gpu|c))?|gpu[ _.]?temp(?:erature)?(?:[ _]?c)?")
_CLOCK = re.compile(r"(?:(?:sm|gpu|gr|graphics|core)[ _.]?)?(?:clk|clocks?|mhz)(?:[ _.]?(?:sm|gr|mhz))?")
_REASONS = re.compile(r"(?:throttle|clocks?_event)?[ _]?reasons?|throttl(?:e|ing)")
_NUMBER = re.compile(r"(\d{1,5}(?:\.\d{1,2})?) ?(?:MHz|°?C)?", re.IGNORECASE)


class HeatColumns:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first row."""
        self._rows: dict[str, list[tuple[float, float]]] = {}
        """The temperature of each GPU, in degrees Celsius, and its clock, in MHz."""
        self._reason = ""
        """The reason of the newest row, if there is such a column."""

    def read(self, line: Line) -> None:
        """Take the next line."""
        if not line.row:
            return
        temperature, clock = _number(line, _TEMPERATURE), _number(line, _CLOCK)
        if temperature is None or clock is None:
            return
        gpu = _cell(line, _GPU) or ""
        if gpu not in self._rows and len(self._rows) >= _GPUS_MAX:
            return
        rows = self._rows.setdefault(gpu, [])
        rows.append((temperature, clock))
        if len(rows) > KEPT:
            del rows[: KEPT // 2]
        self._reason = _cell(line, _REASONS) or self._reason

    def findings(self) -> tuple[Finding, ...]:
        """Return which GPU's clock is far below what it was, while the GPU is hot."""
        for gpu, rows in self._rows.items():
            heat, clock = (statistics.median(values) for values in zip(*rows[-NEWEST:], strict=True))
            highest = max(clock for _, clock in rows)
            is_slower = len(rows) >= ROWS_MIN and clock < SLOW_SHARE * highest
            if not is_slower or heat < HOT_C or (self._reason and "therm" not in self._reason.lower()):
                continue
            stated = f"at {heat:.0f} °C its clock is {clock:.0f} MHz; it was up to {highest:.0f} MHz"
            reason = (Fact(f"the newest reason is {self._reason}", self._reason, "log"),) if self._reason else ()
            return (throttled(gpu if gpu.isdecimal() else "", (Fact(stated, clock, "log"), *reason)),)
        return ()


def _cell(line: Line, name: re.Pattern[str]) -> str | None:
    return next((cell for column, cell in line.row.items() if name.fullmatch(column)), None)


def _number(line: Line, name: re.Pattern[str]) -> float | None:
    number = _NUMBER.fullmatch(_cell(line, name) or "")
    return None if number is None else float(number[1])
