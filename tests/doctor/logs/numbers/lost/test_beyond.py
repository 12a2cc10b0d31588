"""Numbers that leap beyond all measure, whatever they are called (J02)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gputop.doctor.logs.numbers.lost.beyond import _CANDIDATE
from tests.doctor.logs.numbers.logs import found

OBJECTIVE = "VLOG[1] (ctc-loss.cc:182) After {at}0238 sequences: Obj(log[Pzx]) = {value}   TokenAcc = 65.{at}%"


def lines(values: Sequence[str], text: str = OBJECTIVE) -> list[str]:
    return [text.format(at=31 + at, value=value) for at, value in enumerate(values)]


def test_an_objective(tmp_path: Path) -> None:
    finding = found(tmp_path, lines(["-35.0829", "-33.7356", "-36.0733", "-3.06908e+29"]), "J02")
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("error", "possible")
    assert finding.title == "Obj(log[Pzx]) has grown beyond all measure: from -36.07 to -3.07e+29"


def test_a_column_without_a_name(tmp_path: Path) -> None:
    text = "{at}  0.01  {value}  0.5"
    finding = found(tmp_path, lines(["0.12", "0.11", "0.13", "317872648288555.5"], text), "J02")
    assert finding is not None
    assert finding.title == "A number of each line has grown beyond all measure: from 0.13 to 3.18e+14"


def test_after_equal_values(tmp_path: Path) -> None:
    assert found(tmp_path, lines(["0.5", "0.5", "0.5", "4.2e29"], "likelihood {value} of all"), "J02") is not None


@pytest.mark.parametrize(
    "text", ['{"ts": 1700000000000, "loss": 0.5, "lr": 1e-4}', "step 12 loss 0.5", "id 123456789012345678"]
)
def test_usual_lines_are_read_no_further(text: str) -> None:
    """Each of them would be compared with many others."""
    assert _CANDIDATE.search(text) is None


@pytest.mark.parametrize(
    "text_lines",
    {
        "few": lines(["-35.0829", "-33.7356", "-3.06908e+29"]),
        "it comes back": lines(["-35.0829", "-33.7356", "-36.0733", "-3.06908e+29", "-36.1"]),
        "large from the start": lines(["1.5e13", "1.4e13", "1.3e13", "1.6e13"]),
        "a number of another line": [*lines(["-35.1", "-33.7", "-36.1"]), "checksum 3.06908e+29"],
        "an id": lines(["1", "2", "3", "1234567890123456"], "step {at} id {value} done"),
        "operations": lines(["1.0", "2.0", "3.0", "4.5e15"], "layer {at} flops: {value}"),
        "large in most lines": [
            *(f"at {4 + at}.5e14 operations" for at in range(300)),
            *lines(["-35.1", "-33.7", "-36.1", "-3e+29"]),
        ],
        "of an evaluation": lines(["1.0", "2.0", "3.0", "4.5e15"], "Test: [{at}/90] ppl {value}"),
    }.values(),
)
def test_numbers_that_may_be_large(text_lines: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, text_lines, "J02") is None
