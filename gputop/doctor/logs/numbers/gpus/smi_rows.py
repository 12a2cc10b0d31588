"""Rows that ``nvidia-smi --query-gpu=... --format=csv -l`` prints between the lines of a run: GPUs throttled by heat, and
narrow links. Pure.

The columns are those of the heading, or of the option where a line quotes the command. Without ``-l``, there is one row for
each GPU: its throttling counts if its clock is far below those of the others.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter, deque

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line

ROWS_MIN = 3
"""At least this many rows of a GPU say so: a few may be for a moment (our choice)."""
SLOW_SHARE = 0.7
"""A GPU whose clock is below this share of the median clock is far below it (our choice)."""
HOT_C, HOTTER_C = 82.0, 6.0
"""Where the rows state no reason, a slow GPU is throttled by heat if it is this hot, and this much hotter than the others: data
center GPUs begin to slow down between 80 and 90 degrees (our choice)."""
_COLUMNS_MAX, _GPUS_MAX = 128, 256
_REASON = "thermal_slowdown"
_CLOCKS = ("clocks.sm", "clocks.current.sm", "clocks.gr", "clocks.current.graphics")
_TEMPERATURE, _WIDTH, _WIDTH_MAX = "temperature.gpu", "pcie.link.width.current", "pcie.link.width.max"
_OPTION = re.compile(r"--query-gpu=([\w.,]{5,1000})")
_NAMES = ("index", "uuid", "gpu_uuid", "pci.bus_id", "timestamp", "name", "pstate")
_NUMBER = re.compile(r"(\d{1,5}(?:\.\d{1,2})?)(?: (?:MHz|C))?")


class Heat:
    """The newest temperatures of a GPU, in degrees Celsius, each with its clock, in MHz."""

    __slots__ = ("highest", "newest", "rows")

    def __init__(self, newest: int) -> None:
        """Keep the ``newest`` rows."""
        self.newest: deque[tuple[float, float]] = deque(maxlen=newest)
        self.highest = 0.0
        """The highest clock, in MHz."""
        self.rows = 0

    def add(self, temperature: float, clock: float) -> None:
        """Take the next row."""
        self.newest.append((temperature, clock))
        self.highest = max(self.highest, clock)
        self.rows += 1

    def medians(self) -> tuple[float, float]:
        """Return the median of the newest temperatures, and that of the clocks."""
        heat, clock = (statistics.median(values) for values in zip(*self.newest, strict=True))
        return heat, clock


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
        self._heat: dict[str, Heat] = {}
        self._widths: dict[str, tuple[float, float]] = {}
        """How many lanes the link of each GPU has, and may have."""
        self._last = ""

    def read(self, line: Line) -> None:
        """Take the next line."""
        if "," not in line.text:
            return
        columns = _columns_of(line)
        if columns is not None:
            self._columns = columns if len(columns) <= _COLUMNS_MAX else []
            return
        cells = [cell.strip() for cell in line.text.split(",")] if self._columns else []
        if len(cells) != len(self._columns) or not cells:
            return
        row = dict(zip(self._columns, cells, strict=True))
        gpu = row.get("index") or row.get("uuid") or row.get("pci.bus_id") or "0"
        if gpu not in self._rows and len(self._rows) >= _GPUS_MAX:
            return
        self._rows[gpu] += 1
        clock = _number(next((cell for name, cell in row.items() if name.startswith(_CLOCKS)), ""))
        if clock is not None:
            self._clocks[gpu] = clock
            temperature = _number(row.get(_TEMPERATURE, ""))
            if temperature is not None:
                self._heat.setdefault(gpu, Heat(ROWS_MIN)).add(temperature, clock)
        if any(cell == "Active" for name, cell in row.items() if name.endswith(_REASON)):
            self._hot[gpu] += 1
            self._last = line.printed.strip()
        width, widest = _number(row.get(_WIDTH, "")), _number(row.get(_WIDTH_MAX, ""))
        if width is not None and widest is not None:
            self._widths[gpu] = width, widest

    def findings(self) -> tuple[Finding, ...]:
        """Return which GPU is throttled by heat, and which one has a narrow link."""
        found = [self._throttled(), self._narrow()]
        return tuple(finding for finding in found if finding is not None)

    def _throttled(self) -> Finding | None:
        gpu, rows = next(iter(self._hot.most_common(1)), ("", 0))
        if rows >= ROWS_MIN or self._is_slower(gpu):
            stated = f"nvidia-smi states thermal slowdown in {rows} of {words.count(self._rows[gpu], 'row')}"
            return throttled(gpu, (Fact(stated, rows, "log"), Fact(self._last[:200], None, "log")))
        return next((found for gpu in self._heat if (found := self._hot_and_slow(gpu)) is not None), None)

    def _is_slower(self, gpu: str) -> bool:
        """Return whether a GPU's clock is far below those of the others."""
        others = [clock for other, clock in self._clocks.items() if other != gpu]
        return bool(others) and gpu in self._clocks and self._clocks[gpu] < SLOW_SHARE * statistics.median(others)

    def _hot_and_slow(self, gpu: str) -> Finding | None:
        """Return the finding on a GPU whose clock fell as it became hot, and those of the others did not."""
        seen = {other: each for other, each in self._heat.items() if each.rows >= 2 * ROWS_MIN}
        others = [row for other, each in seen.items() if other != gpu for row in each.newest]
        if gpu not in seen or not others:
            return None
        (heat, clock), highest = seen[gpu].medians(), seen[gpu].highest
        usual_heat, usual_clock = (statistics.median(values) for values in zip(*others, strict=True))
        if heat < max(HOT_C, usual_heat + HOTTER_C) or clock >= SLOW_SHARE * min(highest, usual_clock):
            return None
        return throttled(
            gpu,
            (
                Fact(f"at {heat:.0f} °C its clock is {clock:.0f} MHz; it was up to {highest:.0f} MHz", clock, "log"),
                Fact(f"the others have {usual_clock:.0f} MHz at {usual_heat:.0f} °C", usual_clock, "log"),
            ),
        )

    def _narrow(self) -> Finding | None:
        """Return the finding on a GPU whose link has fewer lanes than it might have, and than those of the others."""
        narrow = [gpu for gpu, (width, widest) in self._widths.items() if width < widest]
        if len(narrow) != 1 or len(self._widths) < 2:
            return None
        gpu = narrow[0]
        width, widest = self._widths[gpu]
        return Finding(
            id="I03",
            severity="warning",
            confidence="likely",
            title=f"GPU {gpu} has a PCIe link of {width:.0f} lanes; {widest:.0f} are possible",
            evidence=(
                Fact(f"nvidia-smi: pcie.link.width.current is {width:.0f}, pcie.link.width.max {widest:.0f}", width, "log"),
                Fact(f"the links of {words.count(len(self._widths) - 1, 'other GPU')} have all their lanes", None, "log"),
            ),
            cause="The card is not seated well, the slot has fewer lanes, a riser is worn, or the BIOS limits the link. What "
            "is copied to this GPU takes longer, and all ranks wait for its rank.",
            fix="nvidia-smi -q | grep -A 12 'GPU Link Info'\n# reseat the card, try another slot, and check the BIOS settings",
            refuted_by="The link has all its lanes while the GPU works.",
        )


def _columns_of(line: Line) -> list[str] | None:
    """Return the names of the columns that a line states; None if it is no heading."""
    option = _OPTION.search(line.text) if "--query-gpu=" in line.text else None
    names = [name.strip().lower() for name in (option[1] if option is not None else line.text).split(",")]
    if option is not None:
        return names
    names = [name.partition(" [")[0] for name in names]
    is_heading = len(names) > 2 and names[0] in _NAMES and not any(name.isdecimal() for name in names)
    return names if is_heading or (_REASON in line.lower and "reasons." in line.lower) else None


def _number(cell: str) -> float | None:
    found = _NUMBER.fullmatch(cell)
    return float(found[1]) if found is not None else None


def throttled(gpu: str, evidence: tuple[Fact, ...]) -> Finding:
    """Return the finding on a GPU, by its number, the words for it or "" if none are known, that is throttled by heat."""
    return Finding(
        id="I01",
        severity="warning",
        confidence="likely",
        title=f"{f'GPU {gpu}' if gpu else 'The GPU'} is throttled by heat",
        evidence=evidence,
        cause="Its clock falls as far as it must to stay below the limit of its temperature: dust, a blocked fan, a "
        "closed case, a hot room. In DDP, all ranks wait for its rank.",
        fix="nvidia-smi -q -d TEMPERATURE,PERFORMANCE,CLOCK  # temperature, limit, and the clock it has left\n"
        "sudo nvidia-smi -pl 250  # less power (in W) is cooler, and often hardly slower",
        refuted_by="The clock is as high as before, and the steps take no longer.",
    )
