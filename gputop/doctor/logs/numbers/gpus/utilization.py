"""A GPU that each line says is hardly used, in steps that are too short to fill it. Pure."""

from __future__ import annotations

import math
import re
import statistics

from gputop import units
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.parts import kind_of, spent
from gputop.doctor.logs.numbers.texts import SMALL_STEPS

LINES_MIN, KEPT = 8, 4096
"""At least this many lines say it (our choice)."""
HARDLY_PERCENT = 20.0
"""A GPU is hardly used up to here (our choice)."""
SHORT_S = 0.02
"""A step of small kernels; a longer one is long for another reason (our choice)."""
DATA_SHARE = 0.1
"""The data takes less than this share of the step: then it is not what the GPU waits for (our choice)."""
_UTILIZATION = re.compile(
    r"(?i)(?<![a-z_])(?:gpu[ _.]?util(?:i[sz]ation)?|(?<![a-z_] )util(?:i[sz]ation)?)(?:[ _]?(?:gpu|pct|%|percent))?[ :=]{1,4}"
    r"(\d{1,3}(?:\.\d{1,2})?) ?%?(?![\d.])"
)
_COLUMN = re.compile(r"^gpu_?util(?:i[sz]ation)?(?:_?(?:pct|percent|%))?$|^util(?:i[sz]ation)?_?gpu$")
_COLUMNS_MAX, PERCENT_MAX = 64, 100.0


class Utilization:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._columns: list[str] = []
        self._percents: list[float] = []
        self._steps: list[float] = []
        """The seconds of a step, by its parts."""
        self._data: list[float] = []

    def read(self, line: Line) -> None:
        """Take the next line."""
        if len(self._percents) >= KEPT or line.is_of_evaluation:
            return
        if "," in line.text and self._read_row(line.text):
            return
        found = _UTILIZATION.search(line.text) if "util" in line.lower and len(line.parts) > 1 else None
        if found is not None:
            self._take(float(found[1]), dict(line.parts))

    def _read_row(self, text: str) -> bool:
        """Read a heading or a row of a table in CSV; return whether it is one."""
        cells = [cell.strip().lower() for cell in text.split(",")]
        if len(cells) > _COLUMNS_MAX:
            return False
        if any(_COLUMN.match(cell) for cell in cells):
            self._columns = cells
            return True
        if len(cells) != len(self._columns):
            return False
        try:
            row = dict(zip(self._columns, map(float, cells), strict=True))
        except ValueError:
            return False
        parts = {}
        for name, value in row.items():
            factor = 1e-3 if name.endswith("_ms") else 1.0 if name.endswith(("_s", "_sec", "_seconds")) else None
            bare = name.removesuffix("_ms").removesuffix("_seconds").removesuffix("_sec").removesuffix("_s").removeprefix("t_")
            if factor is not None and "per" not in name and kind_of(bare) is not None:
                parts[bare] = value * factor
        self._take(next(value for name, value in row.items() if _COLUMN.match(name)), parts)
        return True

    def _take(self, percent: float, parts: dict[str, float]) -> None:
        kinds = spent(parts)
        whole = sum(kinds.values())
        if 0 < whole < math.inf and 0 <= percent <= PERCENT_MAX:
            self._percents.append(percent)
            self._steps.append(whole)
            self._data.append(kinds.get("data", 0.0) + kinds.get("waiting", 0.0))

    def findings(self) -> tuple[Finding, ...]:
        """Return that the steps are too small for the GPU, if they are."""
        if len(self._percents) < LINES_MIN:
            return ()
        percent, step = statistics.median(self._percents), statistics.median(self._steps)
        if max(self._percents) <= 1.0:
            return ()  # shares, or a GPU that does nothing
        data = sum(self._data) / sum(self._steps)
        if percent > HARDLY_PERCENT or step > SHORT_S or data >= DATA_SHARE:
            return ()
        return (
            Finding(
                id="E02",
                severity="warning",
                confidence="likely",
                title=f"{SMALL_STEPS.title}: the GPU is {percent:.0f}% busy, and a step takes {units.duration(step)}",
                evidence=(
                    Fact(
                        f"its utilization is {percent:.0f}% in the middle of {units.count(len(self._percents))} lines",
                        percent,
                        "log",
                    ),
                    Fact(f"data takes {data:.0%} of the step", round(data, 3), "log"),
                ),
                cause=SMALL_STEPS.cause,
                fix=SMALL_STEPS.fix,
                refuted_by="The GPU waits for something that these times do not hold.",
            ),
        )
