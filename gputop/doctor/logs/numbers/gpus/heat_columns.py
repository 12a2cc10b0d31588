"""A clock that falls as its GPU heats up, by the columns of a table that a script prints. Pure."""

from __future__ import annotations

import re

from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.gpus.smi_rows import HOT_C, SLOW_SHARE, Heat, throttled
from gputop.doctor.logs.numbers.line import Line

NEWEST, ROWS_MIN = 5, 10
"""The medians of this many newest rows are compared with the highest clock, if there are at least this many rows (our
choice)."""
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
        self._gpus: dict[str, Heat] = {}
        self._reasons: dict[str, str] = {}
        """Why the clock of each GPU is not higher, by its newest row, if a column says so."""

    def read(self, line: Line) -> None:
        """Take the next line."""
        if not line.row:
            return
        temperature, clock = _number(line, _TEMPERATURE), _number(line, _CLOCK)
        if temperature is None or clock is None:
            return
        name = _cell(line, _GPU) or ""
        if name not in self._gpus and len(self._gpus) >= _GPUS_MAX:
            return
        self._gpus.setdefault(name, Heat(NEWEST)).add(temperature, clock)
        self._reasons[name] = _cell(line, _REASONS) or ""

    def findings(self) -> tuple[Finding, ...]:
        """Return which GPU's clock is far below what it was, while the GPU is hot."""
        for name, gpu in self._gpus.items():
            (heat, clock), why = gpu.medians(), self._reasons[name]
            is_slower = gpu.rows >= ROWS_MIN and clock < SLOW_SHARE * gpu.highest
            if not is_slower or heat < HOT_C or (why and "therm" not in why.lower()):
                continue
            stated = f"at {heat:.0f} °C its clock is {clock:.0f} MHz; it was up to {gpu.highest:.0f} MHz"
            reason = (Fact(f"the newest reason is {why}", why, "log"),) if why else ()
            return (throttled(name if name.isdecimal() else "", (Fact(stated, clock, "log"), *reason)),)
        return ()


def _cell(line: Line, name: re.Pattern[str]) -> str | None:
    return next((cell for column, cell in line.row.items() if name.fullmatch(column)), None)


def _number(line: Line, name: re.Pattern[str]) -> float | None:
    number = _NUMBER.fullmatch(_cell(line, name) or "")
    return None if number is None else float(number[1])
