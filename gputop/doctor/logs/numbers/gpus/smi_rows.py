"""Rows that ``nvidia-smi --query-gpu=... --format=csv -l`` prints between the lines of a run: GPUs throttled by heat. Pure.

Without ``-l``, there is one row for each GPU: it counts if its clock is far below those of the others.
"""

from __future__ import annotations

import statistics
from collections import Counter

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line

ROWS_MIN = 3
"""At least this many rows of a GPU say so: a few may be for a moment (our choice)."""
SLOW_SHARE = 0.7
"""A GPU whose clock is below this share of the median clock is far below it (our choice)."""
_COLUMNS_MAX = 128
_REASON = "thermal_slowdown"
_CLOCKS = ("clocks.sm", "clocks.current.sm", "clocks.gr", "clocks.current.graphics")


class SmiRows:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first heading."""
        self._columns: list[str] = []
        self._hot: Counter[str] = Counter()
        """How many rows of each GPU say that heat slows it down."""
        self._rows: Counter[str] = Counter()
        self._clocks: dict[str, float] = {}
        """The last clock of each GPU, in MHz."""
        self._last = ""

    def read(self, line: Line) -> None:
        """Take the next line."""
        if "," not in line.text:
            return
        if _REASON in line.lower and "reasons." in line.lower:
            columns = [name.strip().lower() for name in line.text.split(",")]
            self._columns = columns if len(columns) <= _COLUMNS_MAX else []
            return
        cells = [cell.strip() for cell in line.text.split(",")] if self._columns and "ctive" in line.text else []
        if len(cells) != len(self._columns) or not cells:
            return
        row = dict(zip(self._columns, cells, strict=True))
        gpu = row.get("index") or row.get("uuid") or row.get("pci.bus_id") or "0"
        self._rows[gpu] += 1
        clock = next((cell for name, cell in row.items() if name.startswith(_CLOCKS)), "").removesuffix(" MHz")
        if clock.isdecimal():
            self._clocks[gpu] = float(clock)
        if any(cell == "Active" for name, cell in row.items() if name.endswith(_REASON)):
            self._hot[gpu] += 1
            self._last = line.printed.strip()

    def findings(self) -> tuple[Finding, ...]:
        """Return which GPU is throttled by heat, if one is."""
        gpu, rows = next(iter(self._hot.most_common(1)), ("", 0))
        if rows < ROWS_MIN and not self._is_slower(gpu):
            return ()
        return (
            Finding(
                id="I01",
                severity="warning",
                confidence="likely",
                title=f"GPU {gpu} is throttled by heat",
                evidence=(
                    Fact(f"nvidia-smi states thermal slowdown in {rows} of {words.count(self._rows[gpu], 'row')}", rows, "log"),
                    Fact(self._last[:200], None, "log"),
                ),
                cause="Its clock falls as far as it must to stay below the limit of its temperature: dust, a blocked fan, a "
                "closed case, a hot room. In DDP, all ranks wait for its rank.",
                fix="nvidia-smi -q -d TEMPERATURE,PERFORMANCE,CLOCK  # temperature, limit, and the clock it has left\n"
                "sudo nvidia-smi -pl 250  # less power (in W) is cooler, and often hardly slower",
                refuted_by="The clock is as high as before, and the steps take no longer.",
            ),
        )

    def _is_slower(self, gpu: str) -> bool:
        """Return whether a GPU's clock is far below those of the others."""
        others = [clock for other, clock in self._clocks.items() if other != gpu]
        return bool(others) and gpu in self._clocks and self._clocks[gpu] < SLOW_SHARE * statistics.median(others)
