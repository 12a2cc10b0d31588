"""Values of the training and of an evaluation in one output, in the short forms that people use."""

from __future__ import annotations

import pytest

from gputop.tracking.printed.lines import parse
from gputop.tracking.printed.transcript import Transcript

BOTH = {"train_loss": 0.1, "val_loss": 0.9}


def last(text: str) -> dict[str, float]:
    """Return the metrics of the last line that has some, without the epoch."""
    transcript = Transcript()
    found = [*transcript.feed(text.encode()), *transcript.end()]
    return {name: value for name, value in found[-1][1].items() if name != "epoch"} if found else {}


@pytest.mark.parametrize(
    ("line", "metrics"),
    [
        ("epoch 3 tr_loss 0.1 va_loss 0.9", BOTH),
        ("epoch 3 trainloss 0.1 valloss 0.9", BOTH),
        ("Epoch 3: trainLoss = 0.1, valLoss = 0.9", BOTH),
        ("epoch: 3 TrainLoss: 0.1 ValLoss: 0.9", BOTH),
        ("epoch 3 trloss=0.1 testloss=0.9", {"train_loss": 0.1, "test_loss": 0.9}),
        ("epoch 3 trainacc 0.9 valacc 0.4", {"train_acc": 0.9, "val_acc": 0.4}),
        ("INFO:root:epoch 3 dev: loss 0.9 WER 0.4", {"dev_loss": 0.9, "dev_wer": 0.4}),
        ("dev loss 0.9 at epoch 3", {"dev_loss": 0.9}),
        ("epoch 3 | dev | dev_loss 0.9", {"dev_loss": 0.9}),
        ("{'epoch': 3, 'trainloss': 0.1, 'valloss': 0.9}", BOTH),
        ("step 3 | logloss 0.5 | auc 0.7", {"logloss": 0.5, "auc": 0.7}),
        ("step 3 celoss: 0.5 lr: 0.1", {"celoss": 0.5, "lr": 0.1}),
        ("step 3 totalloss=0.5", {"totalloss": 0.5}),
        ("epoch 0 step 10 contrastive loss 4.1234", {"contrastive_loss": 4.1234}),
        ("epoch 3 | tr loss 0.1 | va loss 0.9", BOTH),
        ("epoch 3 loss_trn=0.1 loss_vl=0.9", {"loss_train": 0.1, "loss_val": 0.9}),
        ("epoch 3 train loss 0.1 held-out loss 0.9", BOTH),
        ("epoch 3 in-sample loss 0.1 out-of-sample loss 0.9", BOTH),
        ("epoch 3 loss train 0.1 val 0.9", BOTH),
        ("epoch 3 loss: train=0.1 va=0.9", BOTH),
        ("epoch 3 train/val loss 0.1/0.9", BOTH),
        (
            "Epoch 003 | train bce 0.1 auc 0.7 | val bce 0.9 auc 0.6 | test auc 0.5 | 2.2s *",
            {"train_bce": 0.1, "train_auc": 0.7, "val_bce": 0.9, "val_auc": 0.6, "test_auc": 0.5},
        ),
        ("epoch 3: train loss 0.1 acc 0.8, val loss 0.9 acc 0.5", {**BOTH, "train_acc": 0.8, "val_acc": 0.5}),
        ("epoch 3: train loss 0.1, val loss 0.9, acc 0.5", {**BOTH, "acc": 0.5}),
        ("epoch 3 loss (tr/va) 0.1/0.9", BOTH),
        ("epoch 3 loss 0.1 (val 0.9)", {"loss": 0.1, "val_loss": 0.9}),
        ("epoch 3 train loss 0.1, val 0.9", BOTH),
        ("epoch 3 acc (train) 0.1 acc (val) 0.9", {"train_acc": 0.1, "val_acc": 0.9}),
        ("epoch 3 acc/train 0.1 acc/val 0.9", {"train_acc": 0.1, "val_acc": 0.9}),
        ("epoch 3 train dice 0.9 val dice 0.4", {"train_dice": 0.9, "val_dice": 0.4}),
        ("Epoch 3 | val | loss 0.9 | acc 0.5", {"val_loss": 0.9, "val_acc": 0.5}),
        ("Epoch 3/40 - Validation: loss=0.9 acc=0.5", {"val_loss": 0.9, "val_acc": 0.5}),
        ("[epoch 3] (test) loss 0.9", {"test_loss": 0.9}),
        (
            "Epoch 3 | train: loss 0.1 acc 0.8 | val: loss 0.9 acc 0.5",
            {"loss": 0.1, "acc": 0.8, "val_loss": 0.9, "val_acc": 0.5},
        ),
        ("epoch 3 val: loss 0.9 | train: loss 0.1", {"val_loss": 0.9, "loss": 0.1}),
        ("{'epoch': 3, 'tr_loss': 0.1, 'va_loss': 0.9}", BOTH),
        ("Epoche 3: Verlust 0,4 Val-Verlust 0,93", {"loss": 0.4, "Val-loss": 0.93}),
        ("Epoch 3/40 Loss: 2,310 Acc: 0,45", {"loss": 2.31, "acc": 0.45}),
        ("Epoch 3 验证准确率:0.5 训练准确率:0.9", {"val_accuracy": 0.5, "train_accuracy": 0.9}),
        ("Époque 3 perte 0.4 exactitude val 0.9", {"loss": 0.4, "val_accuracy": 0.9}),
    ],
)
def test_each_value_has_its_side(line: str, metrics: dict[str, float]) -> None:
    assert last(f"{line}\n") == metrics


@pytest.mark.parametrize(
    ("line", "metrics"),
    [
        # Which measure the evaluation's number has is not said.
        ("epoch 3 loss 0.1 acc 0.8 val 0.9", {"loss": 0.1, "acc": 0.8}),
        ("epoch 3 loss 0.1 test 5 of 9", {"loss": 0.1}),
        ("epoch 3 loss 0.1 | val 0.9", {"loss": 0.1}),
        ("Epoch 3/40 | tr 0.12 | va 0.93", {}),
        # In reinforcement learning it is the loss of the value function.
        ("update 3 loss 0.1 vloss 0.9", {"loss": 0.1}),
        ("step 3 gloss 0.1 floss 0.9 weightloss 3", {}),
        ("[ 120/ 500] 0.6931", {}),
        ("step 10 lr 1.0e-4, l 0.53", {}),
        ("Epoch 1 D: 0.1 G: 2.3", {}),
        ("step 10 loss 0.5 12 ms/it 120MB", {"loss": 0.5}),
        ("loss 12ms", {}),
        ("step 10 loss: 2,310", {}),
        ("2026-01-01 10:00:00,123 loss 2", {"loss": 2.0}),
        ("train.py:12 val - INFO - step 5 - loss 2.3", {"loss": 2.3}),
    ],
)
def test_a_value_that_is_not_clear_is_none_of_an_evaluation(line: str, metrics: dict[str, float]) -> None:
    assert last(f"{line}\n") == metrics


def test_lines_of_both_sides_by_turns_make_two_courses() -> None:
    transcript = Transcript()
    text = "".join(
        f"Epoch {epoch} | TRAIN | loss {1 / epoch:.2f} | lr 0.1\nEpoch {epoch} | VALID | loss 2.00\n" for epoch in range(1, 5)
    )
    found = list(transcript.feed(text.encode()))
    assert [step for step, _ in found] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert [values.get("loss") for _, values in found[::2]] == [1.0, 0.5, 0.33, 0.25]
    assert all("loss" not in values and values["val_loss"] == 2.0 for _, values in found[1::2])


def test_a_heading_of_one_word_begins_an_evaluation() -> None:
    assert last("Train\n  loss 0.1\nValid\n  loss 0.9\n") == {"val_loss": 0.9}
    assert last("Valid\n  loss 0.9\nTrain\n  loss 0.1\n") == {"loss": 0.1}


@pytest.mark.parametrize("heading", ["epoch;tr_loss;va_loss", "ep | tr_loss | va_loss", "ep  train_loss  val_loss"])
def test_tables_with_short_names(heading: str) -> None:
    row = "2;0.1;0.9" if ";" in heading else "2 | 0.1 | 0.9" if "|" in heading else "2  0.1  0.9"
    assert last(f"{heading}\n{row}\n") == BOTH


@pytest.mark.parametrize(
    ("line", "step", "steps"),
    [
        ("step 1,000 loss 0.5", 1000, None),
        ("step 12,000/1,200,000 loss 0.5", 12_000, 1_200_000),
        ("step=1234, loss=0.5", 1234, None),
        ("step 5,loss 0.5", 5, None),
    ],
)
def test_steps_with_separators(line: str, step: int, steps: int | None) -> None:
    said = parse(line)
    assert said is not None
    assert (said.step, said.steps) == (step, steps)


def test_a_score_behind_the_loss_of_an_evaluation_is_its_own() -> None:
    transcript = Transcript()
    lines = "epoch 1 [10/210] loss=1.66\nepoch 1 valid loss=1.61 accuracy=0.2\nepoch 2 acc 0.3 val_loss 1.5\n"
    lines += "val_loss 1 loss 2 acc 0.5\n"
    found = [metrics for _, metrics in transcript.feed(lines.encode())]
    assert found[1] == {"valid_loss": 1.61, "valid_accuracy": 0.2, "epoch": 1.0}
    assert "acc" in found[2], "it stands before"
    assert "acc" in found[3], "beside a loss of the training"
