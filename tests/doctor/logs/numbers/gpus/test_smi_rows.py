"""Rows of nvidia-smi between the lines of a run."""

from __future__ import annotations

from pathlib import Path

from tests.doctor.logs.numbers.logs import found

REASON = "clocks_event_reasons"


def rows(hot: int, number: int = 5, reasons: str = REASON, column: int = 1) -> list[str]:
    heading = f"timestamp, index, temperature.gpu, {reasons}.hw_thermal_slowdown, {reasons}.sw_thermal_slowdown"
    lines = [heading]
    for at in range(number):
        for gpu in range(4):
            active = ["Active" if gpu == 3 and at < hot and column == place else "Not Active" for place in range(2)]
            lines.append(f"2025/07/15 13:4{at}:02.158, {gpu}, 8{at}, {', '.join(active)}")
        lines.append(f"it {60 * at} loss 2.{9 - at}71")
    return lines


def test_a_gpu_that_heat_slows_down(tmp_path: Path) -> None:
    for reasons in (REASON, "clocks_throttle_reasons"):
        for column in (0, 1):
            finding = found(tmp_path, rows(4, reasons=reasons, column=column), "I01")
            assert finding is not None
            assert finding.title == "GPU 3 is throttled by heat"
            assert finding.evidence[0].text == "nvidia-smi states thermal slowdown in 4 of 5 rows"


QUERIED = f"index, clocks.current.sm [MHz], clocks.max.sm [MHz], {REASON}.sw_thermal_slowdown, {REASON}.hw_thermal_slowdown"


def queried(clock: int) -> list[str]:
    gpus = [f"{gpu}, {clock if gpu == 2 else 1815} MHz, 2100 MHz, Not Active, Not Active" for gpu in range(4)]
    return [QUERIED, *(row.replace("Not Active, Not", "Active,") if row.startswith("2") else row for row in gpus)]


def test_a_gpu_whose_clock_is_far_below_the_others_is_seen_at_once(tmp_path: Path) -> None:
    finding = found(tmp_path, queried(705), "I01")
    assert finding is not None
    assert finding.evidence[0].text == "nvidia-smi states thermal slowdown in 1 of 1 row"
    assert found(tmp_path, queried(1650), "I01") is None


def test_for_a_moment_or_never(tmp_path: Path) -> None:
    assert found(tmp_path, rows(2), "I01") is None
    assert found(tmp_path, rows(0), "I01") is None
    assert found(tmp_path, rows(4)[1:], "I01") is None, "without a heading"
    assert found(tmp_path, [line.replace("thermal_slowdown", "power_cap") for line in rows(4)], "I01") is None
    capped = [f"{line}, {REASON}.sw_power_cap" if "gpu" in line else f"{line}, Active" for line in rows(0)]
    assert found(tmp_path, capped, "I01") is None, "slowed down by its power"
