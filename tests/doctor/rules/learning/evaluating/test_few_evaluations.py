"""An evaluation that still finds nothing after many epochs, or a model that knows only its training samples (J05)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs


def says(tmp_path: Path, lines: Iterable[str]) -> tuple[str, str, str] | None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"{line}\n" for line in lines))
    found = next((item for item in explain_logs([str(log)])[0] if item.id == "J05"), None)
    return None if found is None else (found.severity, found.confidence, found.title)


def tagged(first: int, scores: Iterable[str], name: str = "F1") -> list[str]:
    """Return the reports of a tagger, with an evaluation after each third epoch."""
    lines = []
    for at, score in enumerate(scores):
        for epoch in range(first + 3 * at, first + 3 * at + 3):
            lines.append(f"[    INFO] - global step {10 * epoch}, epoch: {epoch}, loss: {0.5 / epoch:.5f}, speed: 1.89 step/s")
        lines.append(f"[    INFO] - Evaluation precision: {score}, {name}: {score}")
    return lines


def test_an_evaluation_that_finds_nothing(tmp_path: Path) -> None:
    after_12 = ("warning", "possible", "After 12 epochs, the evaluation finds nothing: eval_f1 is 0")
    assert says(tmp_path, tagged(10, ["0.00000", "0.00000"])) == after_12
    assert says(tmp_path, tagged(28, ["0.00000"])) == (*after_12[:2], after_12[2].replace("12", "30")), "late, one is enough"


@pytest.mark.parametrize(
    "lines",
    {
        "early": tagged(1, ["0.00000"] * 3),
        "a single one": tagged(10, ["0.00000"]),
        "something": tagged(10, ["0.00000", "0.01250"]),
        "an accuracy": tagged(28, ["0.00000"] * 2, name="accuracy"),
    }.values(),
)
def test_an_evaluation_that_may_find_nothing_yet(lines: list[str], tmp_path: Path) -> None:
    assert says(tmp_path, lines) is None


def mxnet(first: int, trained: str, evaluated: Iterable[str]) -> list[str]:
    return [
        line
        for at, score in enumerate(evaluated)
        for line in (
            f"2019-08-21 14:57:05 INFO Epoch[{first + at}] Batch [50]\tSpeed: 583.26 samples/sec\taccuracy={trained}",
            f"2019-08-21 14:57:09 INFO Epoch[{first + at}] Batch [100]\tSpeed: 582.16 samples/sec\taccuracy={trained}",
            f"2019-08-21 14:57:14 INFO Epoch[{first + at}] Train-accuracy={trained}",
            f"2019-08-21 14:57:18 INFO Epoch[{first + at}] Validation-accuracy={score}",
        )
    ]


def test_a_model_that_knows_its_samples_by_heart(tmp_path: Path) -> None:
    found = ("info", "possible", "The model knows its training samples by heart: accuracy is 1, Validation-accuracy 0.8082")
    assert says(tmp_path, mxnet(3, "1.000000", ["0.809112", "0.808193"])) == found
    assert says(tmp_path, mxnet(101, "1.000000", ["0.808193"])) == found, "late, one is enough"


def keras(trained: Sequence[float], evaluated: Sequence[float]) -> list[str]:
    return [
        line
        for at, (own, other) in enumerate(zip(trained, evaluated, strict=True), 1)
        for line in (
            f"Epoch {at}/20",
            f"326/326 [====] - 86s 263ms/step - loss: {1 / at:.4f} - accuracy: {own:.4f} - val_loss: {70 - at:.4f} - "
            f"val_accuracy: {other:.4f}",
        )
    ]


RISES = [0.9171, 0.9838, 0.9883, 0.9904, 0.9920, 0.9936, 0.9946]
FALLS = [0.9346, 0.9662, 0.9720, 0.9679, 0.9610, 0.8377, 0.6820]


def test_a_score_that_is_lost(tmp_path: Path) -> None:
    title = "val_accuracy has fallen from 0.972 to 0.682, while accuracy is 0.9946"
    assert says(tmp_path, keras(RISES, FALLS)) == ("warning", "possible", title)


@pytest.mark.parametrize(
    "lines",
    {
        "not far": keras(RISES, [*FALLS[:6], 0.8020]),
        "once": keras(RISES, [*FALLS[:5], 0.9610, 0.6820]),
        "the training, too": keras([*RISES[:5], 0.8210, 0.6946], FALLS),
        "few": keras(RISES[:3], [0.97, 0.84, 0.68]),
    }.values(),
)
def test_a_score_that_may_come_back(lines: list[str], tmp_path: Path) -> None:
    assert says(tmp_path, lines) is None


def test_batches_of_one_class_after_another(tmp_path: Path) -> None:
    lines = [
        f"epoch {at // 10} step {at} loss 0.{9 - at % 10} train acc {0.2 if at % 10 == 0 else 1.0:.3f}"
        + (" val acc 0.250" if at % 10 == 9 else "")
        for at in range(40)
    ]
    assert says(tmp_path, lines) is None


@pytest.mark.parametrize("found", [True, False])
def test_scores_in_percent(found: bool, tmp_path: Path) -> None:
    lines = [f"epoch {at} loss 0.0{at} train acc 100.0% val acc {80.8 if found else 86.1}%" for at in range(1, 5)]
    assert (says(tmp_path, lines) is not None) is found


@pytest.mark.parametrize(
    "lines",
    {
        "it still learns": mxnet(3, "0.981250", ["0.809112", "0.808193"]),
        "as good as that": mxnet(3, "1.000000", ["0.869112", "0.868193"]),
        "it was better": mxnet(3, "1.000000", ["0.869112", "0.808193"]),
        "early": mxnet(3, "1.000000", ["0.808193"]),
    }.values(),
)
def test_a_model_that_may_know_more(lines: list[str], tmp_path: Path) -> None:
    assert says(tmp_path, lines) is None
