"""Shares of a step that a run prints as percentages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found


def log(text: str, shares: list[float]) -> list[str]:
    return [line for at, share in enumerate(shares) for line in (f"step {at} loss {5 / (at + 1):.3f}", text.format(share))]


@pytest.mark.parametrize(
    "text",
    [
        "    throughput/device/data loading (%)={:.2f}",
        "perf: data_time_pct: {:.1f}",
        "step time 4.1 s, data wait {:.0f}%",
        "waiting for data {:.1f} % of the step",
        "dataloader: {:.1f}%",
    ],
)
def test_data_that_takes_most_of_each_step(text: str, tmp_path: Path) -> None:
    finding = found(tmp_path, log(text, [17.7, 69.2, 71.2, 69.7, 71.8, 68.3, 70.1]), "D01")
    assert finding is not None
    assert finding.confidence == "likely"
    assert finding.title == "The run waits for data: 70% of each step, by its own numbers"
    assert found(tmp_path, log(text, [69.0, 5.0, 4.0, 6.0, 5.5, 4.2, 3.0]), "D01") is None
    few = found(tmp_path, log(text, [69.0, 71.0, 70.0]), "D01")
    assert few is not None
    assert few.confidence == "possible"
    assert found(tmp_path, log(text, [69.0, 71.0]), "D01") is None, "fewer"
    assert found(tmp_path, log(text, [97.0, 20.0, 71.0]), "D01") is None, "not in each"


def test_the_first_share_is_that_of_a_start(tmp_path: Path) -> None:
    finding = found(tmp_path, log("data wait {:.0f}%", [97.0, 40.0, 42.0, 41.0, 60.0, 62.0, 61.0]), "D01")
    assert finding is not None
    assert finding.title == "The run waits for data: 51% of each step, by its own numbers"


def test_communication(tmp_path: Path) -> None:
    assert found(tmp_path, log("exposed comm {:.1f}%", [66.0] * 7), "E06") is not None
    assert found(tmp_path, log("exposed comm {:.1f}%", [22.0] * 7), "E06") is None


@pytest.mark.parametrize("text", ["Data loading: {:.0f}%", "data loading {:.0f}%|███", "data_time: 0.{:.0f} s, gpu 9%"])
def test_how_much_is_loaded_and_other_numbers(text: str, tmp_path: Path) -> None:
    assert found(tmp_path, log(text, [10, 40, 60, 80, 90, 99, 100]), "D01") is None
