"""Numbers of a training that have become NaN, whatever they are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.doctor.logs.numbers.lost.not_a_number import NAN_MIN
from tests.doctor.logs.numbers.logs import found


def lines(name: str, good: int, bad: int, again: int = 0) -> list[str]:
    values = [*(f"{-1.0 - at / 9:.4f}" for at in range(good)), *(["nan"] * bad), *(["-2.5"] * again)]
    return [f"epoch 0 step {at * 26}/263 | {name} {value} | scale 65536" for at, value in enumerate(values)]


@pytest.mark.parametrize("head", ["", "[rank0] 21:41:02 "])
@pytest.mark.parametrize("good", [3, 200])
def test_a_number_without_a_known_name_becomes_nan(head: str, good: int, tmp_path: Path) -> None:
    finding = found(tmp_path, [head + line for line in lines("neg_si_sdr", good, NAN_MIN)], "J01")
    assert finding is not None
    assert finding.title == "The training's numbers are NaN: neg_si_sdr, the last 5 times"
    assert finding.confidence == "likely"


def test_a_score_of_a_ruined_model_is_zero(tmp_path: Path) -> None:
    texts = [
        f"epoch {at:02d}/80  train {0.9 / at if at < 9 else float('nan'):.4f}  val {1.0 / at if at < 9 else float('nan'):.4f}  "
        f"dice {0.4 + at / 100 if at < 9 else 0.0:.4f}  lr 0.003  96.8s"
        for at in range(1, 20)
    ]
    assert found(tmp_path, texts, "J01") is not None
    assert found(tmp_path, [line.replace("dice 0.0000", "dice 0.5000") for line in texts], "J01") is None


@pytest.mark.parametrize(
    "texts",
    [
        lines("neg_si_sdr", 3, NAN_MIN - 1),
        lines("neg_si_sdr", 2, 9),
        lines("neg_si_sdr", 9, 9, 1),
        lines("val_si_sdr", 9, 9),
        lines("best", 9, 9),
        [f"{line} loss 1.{at}" for at, line in enumerate(lines("auc_rare", 9, 9))],
        [f"valid {line}" for line in lines("neg_si_sdr", 9, 9)],
        [line.replace("epoch 0 step", "row") for line in lines("neg_si_sdr", 9, 9)],
    ],
    ids=[
        "too few",
        "never a number",
        "a number again",
        "an evaluation",
        "the best",
        "undefined beside a loss",
        "a line of an evaluation",
        "no progress",
    ],
)
def test_other_nan_is_none_of_the_training(texts: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, texts, "J01") is None
