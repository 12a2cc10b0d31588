"""A run that does not learn, as a dozen of its reports show; and healthy ones that print the same for a while (J03)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs


def says(tmp_path: Path, lines: Iterable[str]) -> str | None:
    """Return the title of J03, and check how certain it is."""
    log = tmp_path / "train.log"
    log.write_text("".join(f"{line}\n" for line in lines))
    found = next((item for item in explain_logs([str(log)])[0] if item.id == "J03"), None)
    assert found is None or found.confidence == "possible"
    return None if found is None else found.title


def detectron(
    number: int = 10, loss: str = "0", part: str = "", lr: str = "0.00125", data: str = "data_time: 0.0081  "
) -> list[str]:
    return [
        f"[07/14 16:02:{10 + at}] d2.utils.events INFO:  eta: 0:41:{50 - at}  iter: {3199 + 20 * at}  total_loss: {loss}  "
        f"{part}time: 0.3311  {data}lr: {lr}  max_mem: 5127M"
        for at in range(number)
    ]


def test_a_sum_of_no_losses(tmp_path: Path) -> None:
    title = "total_loss is exactly 0 in all 10 reports, and no part of it is printed"
    assert says(tmp_path, detectron()) == title


@pytest.mark.parametrize(
    "lines",
    [
        detectron(number=7),
        detectron(loss="0.0412"),
        detectron(part="loss_cls: 0  loss_box_reg: 0  "),
        detectron(lr="0"),
        [*detectron(2, "0.412"), *detectron(12)],
        detectron(data=""),
        [f"step {at} total_loss {0.0:.4f} lr 0.001" for at in range(5000, 5900, 50)],
        [f"step {at} loss {0.0:.4f} lr 0.001" for at in range(5000, 5900, 50)],
    ],
    ids=["few", "a loss", "parts", "no rate", "a loss before", "another program", "rounded", "converged"],
)
def test_a_sum_that_is_zero_may_be_healthy(lines: list[str], tmp_path: Path) -> None:
    assert says(tmp_path, lines) is None


def mxnet(first: list[float], fifth: list[float], more: str = "") -> list[str]:
    return [
        f"INFO:root:Epoch[0] Batch [{50 * at}]\tSpeed: 128.39 samples/sec\tTrain-{name}={score:.6f}{more}"
        for at, pair in enumerate(zip(first, fifth, strict=True), 1)
        for name, score in zip(("accuracy", "top_k_accuracy_5"), pair, strict=True)
    ]


def test_accuracies_that_have_become_zero(tmp_path: Path) -> None:
    title = "Train-accuracy and Train-top_k_accuracy_5 have been exactly 0 in the last 3 reports or more"
    assert says(tmp_path, mxnet([0.002266, 0, 0, 0, 0], [0.003281, 0, 0, 0, 0])) == title


@pytest.mark.parametrize(
    "lines",
    {
        "few": mxnet([0.002266, 0, 0], [0.003281, 0, 0]),
        "from the start": mxnet([0] * 6, [0] * 6),
        "one is not": mxnet([0.002266, 0, 0, 0, 0], [0.003281, 0, 0, 0.0001, 0]),
        "only one": mxnet([0.002266, 0, 0, 0, 0], [0.003281, 0, 0, 0, 0])[::2],
        "once": mxnet([0.1, 0.2, 0, 0.3, 0.3], [0.2, 0.3, 0, 0.4, 0.5]),
    }.values(),
)
def test_accuracies_that_may_be_zero(lines: list[str], tmp_path: Path) -> None:
    assert says(tmp_path, lines) is None


def steps(losses: Iterable[float], digits: int = 4, name: str = "loss") -> list[str]:
    return [f"step: {at} {name}: {loss:.{digits}f} accuracy: {0.3 + at * 7 % 5 / 20:.2f}" for at, loss in enumerate(losses)]


VARIED = (1.212, 3.9121, 2.4471, 7.0312, 1.9117, 1.4404)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_loss_of_a_guess_to_the_last_digit(classes: int, tmp_path: Path) -> None:
    title = f"The last 14 losses are all {math.log(classes):.4g}, that of a guess among {classes} classes"
    assert says(tmp_path, steps([*VARIED, *[math.log(classes)] * 14])) == title


@pytest.mark.parametrize(
    "lines",
    [
        steps([*VARIED, *[math.log(3)] * 9]),
        steps([*VARIED, *[1.1042] * 14]),
        steps([*VARIED, *[math.log(3)] * 14], 2),
        steps([*VARIED, *[math.log(3), math.log(3) + 0.0004] * 8]),
        steps([math.log(2)] * 14),
        steps([*[value for value in VARIED for _ in range(6)], *[math.log(3)] * 14]),
        steps([*VARIED, *[math.log(3)] * 14, 1.02, 0.93]),
        steps([*VARIED, *[math.log(2)] * 14], name="d_loss"),
    ],
    ids=[
        *("few", "another number", "rounded", "moves", "from the start on: a warm-up", "a bar draws each again"),
        *("learns again", "two models that are equal"),
    ],
)
def test_losses_that_are_near_a_guess(lines: list[str], tmp_path: Path) -> None:
    assert says(tmp_path, lines) is None


def epochs(
    number: int = 12, own: str = "0.58571", other: str = "0.46200", falls: float = 0.0105, evaluated: float = 0.004
) -> list[str]:
    return [
        f"Epoch: {at:04d} train_loss= {1.41 - falls * at:.5f} train_acc= {own} val_loss= {1.52 - evaluated * at:.5f} "
        f"val_acc= {other} time= 0.211{at % 7}"
        for at in range(number)
    ]


def test_scores_that_are_the_same_in_each_epoch(tmp_path: Path) -> None:
    assert says(tmp_path, epochs()) == "train_acc is 0.5857 and val_acc 0.462 in each of 10 epochs"


@pytest.mark.parametrize(
    "lines",
    [
        epochs(number=9),
        epochs(own="0.98571", other="0.79200"),
        epochs(falls=0.03),
        epochs(evaluated=0.0),
        [*epochs()[:-1], epochs(own="0.58929", other="0.46400")[-1]],
        epochs(own="0.58"),
    ],
    ids=["few", "has learned", "learns", "evaluates seldom", "moves again", "few digits"],
)
def test_scores_that_are_the_same_for_a_while(lines: list[str], tmp_path: Path) -> None:
    assert says(tmp_path, lines) is None
