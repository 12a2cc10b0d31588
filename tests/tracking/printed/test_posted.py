"""Forms of lines that people posted, with what a curve of them shows: no number of another thing, and none at a wrong step."""

from __future__ import annotations

import pytest

from gputop.tracking.printed.lines import parse
from gputop.tracking.printed.transcript import Transcript

Values = list[tuple[int, dict[str, float]]]


def read(*lines: str) -> Values:
    transcript = Transcript(with_bars=True)
    return [*transcript.feed("\n".join((*lines, "")).encode()), *transcript.end()]


def metrics_of(line: str) -> dict[str, float]:
    said = parse(line)
    return dict(said.metrics) if said is not None else {}


@pytest.mark.parametrize(
    ("line", "metrics"),
    [
        ("epoch 7 best test acc: 0.85, train loss: 1.25; test acc: 0.45", {"train_loss": 1.25, "test_acc": 0.45}),
        ("Best val loss 0.4 (epoch 3)", {}),
        ("best acc: 0.9", {}),
        ("Best Acc@1: 70.125", {}),
        ("acc 0.75 highest acc 0.875", {"acc": 0.75}),
        ("val loss: 0.5 | lowest val loss so far: 0.25", {"val_loss": 0.5}),
        ("highest validation accuracy: 91.2%", {}),
        ("Max accuracy: 72.5%", {}),
        ("best so far: val acc 0.75 loss 0.25 epoch 3 | lr 0.1, loss 0.5", {"loss": 0.5, "lr": 0.1}),
        ("epoch 4 loss 0.25 [best: acc 0.5 loss 0.125 epoch 2]", {"loss": 0.25}),
        ("New best EMA pseudo Dice: 0.5", {}),
        ("Best results so far: {'acc': 0.5}", {}),
        ("Saved best model: {'acc': 0.5}", {"acc": 0.5}),
        ("new best val loss: 0.25", {"val_loss": 0.25}),
        ("Saved best model, val loss 0.25", {"val_loss": 0.25}),
        ("val_loss 0.5 best_val_loss 0.25", {"val_loss": 0.5, "best_val_loss": 0.25}),
    ],
)
def test_what_is_the_best_so_far_is_not_of_now(line: str, metrics: dict[str, float]) -> None:
    assert metrics_of(line) == metrics


def test_the_epoch_of_the_best_is_not_the_epoch_of_now() -> None:
    assert read("epoch 4 val acc 0.5", "loss 2.0 best val acc 0.6 (epoch 2)", "best_acc: 0.6") == [
        (0, {"val_acc": 0.5, "epoch": 4}),
        (1, {"loss": 2.0, "epoch": 4}),
        (1, {"best_acc": 0.6, "epoch": 4}),
    ]
