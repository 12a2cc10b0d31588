"""A run that becomes slower with each of a few reports, by when they were written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import clock, found

EVERY = 5
LINE = (
    "09/10/2019 {at} AM: [ train: Epoch = {epoch} | iter = {step}/90 | loss = {loss:.2f} | elapsed time = {elapsed:.2f} (s) ]"
)


def lines(seconds: Sequence[float], line: str = LINE) -> list[str]:
    """Return a report every few steps; ``seconds``: how long each of these steps took."""
    at = [0.0]
    for each in seconds:
        at.append(at[-1] + EVERY * each)
    return [
        line.format(at=clock(10_000 + now), epoch=0, step=number * EVERY, loss=11 - number / 10, elapsed=now)
        for number, now in enumerate(at)
    ]


@pytest.mark.parametrize(
    ("seconds", "is_found"),
    [
        ((4, 15, 40), True),
        ((4, 8, 16, 32, 64), True),
        ((4, 15), False),
        ((4, 12, 25), False),
        ((4, 4, 40), False),
        ((4, 40, 40), False),
        ((40, 4, 44), False),
        ((4, 8, 12, 16, 20, 24, 28, 32, 36), False),  # as a time since the start would
        ((0.2, 1, 4), False),
        ((40, 12, 4), False),
    ],
)
def test_few_reports_are_enough_if_each_takes_much_longer(seconds: Sequence[float], is_found: bool, tmp_path: Path) -> None:
    finding = found(tmp_path, lines(seconds), "E10")
    assert (finding is not None) is is_found
    assert finding is None or finding.confidence == "possible"


SLOWER = 4, 15, 40


@pytest.mark.parametrize(
    "text",
    ["Evaluating on 900 samples", "saved to last.pt", "=> stage 2", "09/10/2019 02:58:00 AM: mean reward 3.1"],
)
def test_other_work_between_reports(text: str, tmp_path: Path) -> None:
    told = lines(SLOWER)
    assert found(tmp_path, [*told[:3], text, *told[3:]], "E10") is None


@pytest.mark.parametrize(
    "line",
    [
        LINE.replace("iter = {step}/90", "episode {step} iter = {step}/90"),
        LINE.replace("{epoch}", "{step}"),
        LINE.replace("09/10/2019 {at} AM: ", ""),
        LINE.replace("| loss =", "| width ="),
    ],
)
def test_other_reports(line: str, tmp_path: Path) -> None:
    assert found(tmp_path, lines(SLOWER, line), "E10") is None
