"""Evaluations that take longer than the training, by the times of their progress bars."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found

Draw = Callable[[int, float, float], list[str]]
"""The lines of an epoch, by the seconds of its training and of its evaluation."""


def minutes(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def hours(seconds: float) -> str:
    return f"{int(seconds) // 3600}:{minutes(seconds % 3600)}"


def ultralytics(epoch: int, train_s: float, evaluation_s: float) -> list[str]:
    values = f"     {epoch:3d}/200      4.11G     0.8137     0.6809     1.0961         17        640"
    return [
        "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size",
        *(
            f"{values}: {share}%|███▌| {share * 3}/300 [{minutes(train_s * share / 100)}<00:09,  2.1it/s]"
            for share in (50, 100)
        ),
        "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|██████████| 90/90 "
        f"[{minutes(evaluation_s)}<00:00,  5.60it/s]",
        "                   all       1432       1523       0.88      0.786      0.894      0.687",
    ]


def ultralytics_new(epoch: int, train_s: float, evaluation_s: float) -> list[str]:
    values = f"     {epoch:3d}/200      4.11G     0.8137     0.6809     1.0961         17        640"
    clock = [text.removeprefix("0") for text in (minutes(train_s), minutes(evaluation_s))]
    names = "      Class     Images  Instances      Box(P          R      mAP50  mAP50-95)"
    return [
        f"{values}: 100% ━━━━━━━━━━━━ 300/300 2.1it/s {clock[0]}",
        f"{names}: 100% ━━━━━━━━━━━━ 90/90 1.1it/s {clock[1]}",
    ]


def rich(epoch: int, train_s: float, evaluation_s: float) -> list[str]:
    whole = f"Train | BoxLoss | ━━━━━╺━━━━━━ {epoch}/200   {hours(90_000)} • 9 days   0.00it/s"
    return [
        f"{whole} Batch |   2.91  | ━━━━━━━━━━━━ 900/900 {hours(train_s)} • 0:00:00   4.33it/s       ",
        f"   Valid | mAP :  3.26 | mAP50 :  9.17 | ━━━━━━╸━━━━━ 70/90   {hours(evaluation_s)} • 0:03:17     0.14it/s",
    ]


def plain(epoch: int, train_s: float, evaluation_s: float) -> list[str]:
    return [
        f"Epoch {epoch}/200 [train] loss=0.4{epoch}: 100%|██████████| 300/300 [{minutes(train_s)}<00:00,  2.1it/s]",
        f"Epoch {epoch}/200 [val]: 100%|██████████| 90/90 [{minutes(evaluation_s)}<00:00,  5.60it/s]",
    ]


FORMS = ultralytics, ultralytics_new, rich, plain


def run(draw: Draw, epochs: range, train_s: float, evaluation_s: float, every: int = 1) -> list[str]:
    lines = []
    for epoch in epochs:
        told = draw(epoch, train_s, evaluation_s)
        lines += told if not epoch % every else [text for text in told if "mAP50" not in text and "[val]" not in text]
    return lines


@pytest.mark.parametrize("draw", FORMS)
@pytest.mark.parametrize(
    ("epochs", "evaluation_s", "every", "confidence"),
    [
        (range(31, 34), 170, 1, "likely"),
        (range(31, 32), 170, 1, "possible"),
        (range(31, 34), 60, 1, None),
        (range(31, 32), 60, 1, None),
        (range(1, 31), 170, 5, None),
        (range(1, 31), 590, 30, None),  # once in many epochs
        (range(30, 31), 590, 30, None),  # which are missing here
        (range(200, 201), 590, 1, None),  # at the end
    ],
)
def test_evaluation_that_takes_longer_by_its_bars(
    draw: Draw, epochs: range, evaluation_s: float, every: int, confidence: str | None, tmp_path: Path
) -> None:
    finding = found(tmp_path, run(draw, epochs, 120, evaluation_s, every), "E07")
    assert (finding.confidence if finding is not None else None) == confidence
    if finding is not None:
        assert finding.title == "Evaluation takes longer than training: 59% of the time, by its progress bars"


@pytest.mark.parametrize(
    "label",
    [
        "val: Scanning /data/labels... 3932 images, 0 backgrounds",
        "Sanity Checking DataLoader 0",
        "Testing",
        "Map (num_proc=4)",
        "",
        "Epoch 33 | val_loss: 0.4",
        "Epoch 33 | val loss 0.4",
    ],
)
def test_other_bars_are_no_evaluation(label: str, tmp_path: Path) -> None:
    lines = [
        line
        for epoch in (31, 32, 33)
        for line in (
            f"Epoch {epoch}/200 [train]: 100%|██████████| 300/300 [02:00<00:00,  2.1it/s]",
            f"{label}: 100%|██████████| 90/90 [04:00<00:00,  5.60it/s]",
        )
    ]
    assert found(tmp_path, lines, "E07") is None


def test_an_evaluation_before_the_training_does_not_count(tmp_path: Path) -> None:
    lines = plain(31, 120, 170)[1:] * 3 + plain(31, 120, 60)
    assert found(tmp_path, lines, "E07") is None


def test_bars_of_the_training_that_are_only_drawn_at_their_ends(tmp_path: Path) -> None:
    bar = "Training: 100%|██████████| 300/300 [02:00<00:00,  2.1it/s]"
    lines = [*[bar] * 10, "Validation: 100%|██████████| 90/90 [04:00<00:00,  5.60it/s]"] * 3
    assert found(tmp_path, lines, "E07") is None


def test_a_trial_run_evaluates_for_long(tmp_path: Path) -> None:
    assert found(tmp_path, run(plain, range(31, 34), 2, 8), "E07") is None
