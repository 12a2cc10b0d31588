"""The temperature and the clock of a GPU in a table that a script prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found

HEADING = "it     loss    it/s   temp  hotspot  sm_clk  mem_clk  power   throttle_reasons"


def table(heat: int, clock: int, reason: str = "HW_SLOWDOWN|HW_THERMAL_SLOWDOWN", rows: int = 20) -> list[str]:
    cool = [f"{at}00   2.5077  3.38    64C    79C     1875    9501    346W   -" for at in range(1, 4)]
    rest = [f"{at}00   1.4701  1.77   {heat}C   105C   {clock}   5001    186W   {reason}" for at in range(4, rows)]
    return [HEADING, *cool, *rest]


def test_a_clock_that_falls_with_heat(tmp_path: Path) -> None:
    finding = found(tmp_path, table(93, 720), "I01")
    assert finding is not None
    assert finding.title == "The GPU is throttled by heat"
    assert [fact.text for fact in finding.evidence] == [
        "at 93 °C its clock is 720 MHz; it was up to 1875 MHz",
        "the newest reason is HW_SLOWDOWN|HW_THERMAL_SLOWDOWN",
    ]


def test_a_cool_one_a_fast_one_or_another_reason(tmp_path: Path) -> None:
    for lines in (
        table(71, 720),
        table(93, 1725),
        table(93, 720, reason="SW_POWER_CAP"),
        table(93, 720, rows=8),
        table(93, 720)[1:],
    ):
        assert found(tmp_path, lines, "I01") is None


@pytest.mark.parametrize(
    ("hot", "cool", "is_found"), [("HW_THERMAL", "SW_POWER_CAP", True), ("SW_POWER_CAP", "HW_THERMAL", False)]
)
def test_each_gpu_has_a_reason_of_its_own(hot: str, cool: str, is_found: bool, tmp_path: Path) -> None:
    rows = [
        row for at in range(20) for row in (f"1    {1800 - 60 * at}   91   {at}   {hot}", f"0    1800   70   {at}   {cool}")
    ]
    assert (found(tmp_path, ["gpu   clock   temp   step   reasons", *rows], "I01") is not None) is is_found


def test_each_gpu_has_rows_of_its_own(tmp_path: Path) -> None:
    rows = [
        f"{gpu}    {clock}   {heat}   {at}" for at in range(20) for gpu, clock, heat in ((0, 1800, 70), (1, 1800 - 60 * at, 91))
    ]
    finding = found(tmp_path, ["gpu   clock   temp   step", *rows], "I01")
    assert finding is not None
    assert finding.title == "GPU 1 is throttled by heat"
