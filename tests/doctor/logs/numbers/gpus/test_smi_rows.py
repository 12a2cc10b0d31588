"""Rows of nvidia-smi between the lines of a run."""

from __future__ import annotations

from pathlib import Path

from gputop.doctor.logs.numbers.gpus.smi_rows import Heat
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


COMMAND = (
    "nvidia-smi --query-gpu=timestamp,index,temperature.gpu,power.draw,clocks.sm,utilization.gpu --format=csv,noheader -l 300"
)


def heats(hottest: int = 92, slow: int = 700, others: int = 64, usual: int = 1410, command: str = COMMAND) -> list[str]:
    lines = [f"In another window: {command}. I merged both."]
    for at in range(8):
        for gpu in range(4):
            hot = gpu == 2 and at > 3
            heat, clock = (hottest, slow) if hot else (others, usual if at else 1410)
            lines.append(f"2024/07/17 13:{5 * at:02d}:00.941, {gpu}, {heat}, 221.92 W, {clock} MHz, 100 %")
        lines.append(f"13:{5 * at:02d}:20 step {at * 300} loss {0.5 - at / 100:.4f} 0.41 s/step")
    return lines


def test_a_hot_gpu_whose_clock_falls_without_a_stated_reason(tmp_path: Path) -> None:
    finding = found(tmp_path, heats(), "I01")
    assert finding is not None
    assert finding.title == "GPU 2 is throttled by heat"
    assert [fact.text for fact in finding.evidence] == [
        "at 92 °C its clock is 700 MHz; it was up to 1410 MHz",
        "the others have 1410 MHz at 64 °C",
    ]
    heading = "timestamp, index, temperature.gpu, power.draw [W], clocks.current.sm [MHz], utilization.gpu [%]"
    assert found(tmp_path, [heading, *heats()[1:]], "I01") is not None, "the columns by a heading"
    for healthy in (
        heats(hottest=70),
        heats(slow=1300),
        heats(others=90),
        heats(usual=700),
        heats(command="nvidia-smi"),
    ):
        assert found(tmp_path, healthy, "I01") is None


def test_heat_after_many_hours_of_rows() -> None:
    heat = Heat(3)
    for temperature, clock in [(64.0, 1410.0)] * 20_000 + [(92.0, 700.0)] * 3:
        heat.add(temperature, clock)
    assert heat.medians() == (92.0, 700.0)
    assert (heat.highest, heat.rows, len(heat.newest)) == (1410.0, 20_003, 3)


def links(widths: tuple[int, ...]) -> list[str]:
    rows = [f"{gpu}, 00000000:{gpu}7:00.0, P0, 1725 MHz, 4, {width}, 16" for gpu, width in enumerate(widths)]
    heading = "index, pci.bus_id, pstate, clocks.current.sm [MHz], pcie.link.gen.current"
    return ["step 3 loss 0.4", f"{heading}, pcie.link.width.current, pcie.link.width.max", *rows]


def test_a_link_with_fewer_lanes_than_the_others(tmp_path: Path) -> None:
    finding = found(tmp_path, links((16, 16, 4, 16)), "I03")
    assert finding is not None
    assert finding.title == "GPU 2 has a PCIe link of 4 lanes; 16 are possible"
    assert found(tmp_path, links((16, 16, 16, 16)), "I03") is None
    assert found(tmp_path, links((8, 8, 8, 8)), "I03") is None, "the machine is built so"
