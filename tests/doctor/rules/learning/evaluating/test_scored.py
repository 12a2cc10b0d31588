"""Scores of an evaluation that stay at guessing, where no loss of it is printed, and models that only overfit."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs

EPOCHS = range(1, 25)
Line = Callable[[int, float, float, float], str]
"""The epoch; the loss and the score of the training; the score of the evaluation."""
SCORES: dict[str, Line] = {
    "accuracies": lambda epoch, loss, score, val: f"epoch {epoch} train acc {score:.3f} val acc {val:.3f}",
    "percents": lambda epoch, loss, score, val: (
        f"epoch {epoch}: train accuracy {100 * score:.1f}% | validation accuracy {100 * val:.1f}%"
    ),
    "once": lambda epoch, loss, score, val: f"[{epoch:02d}] acc train {score:.3f} val {val:.3f}",
    "IoU": lambda epoch, loss, score, val: f"epoch {epoch} loss {loss:.3f} train_iou {score:.3f} val_iou {val:.3f}",
    "a table": lambda epoch, loss, score, val: ("ep;tr_f1;va_f1\n" if epoch == 1 else "") + f"{epoch};{score:.4f};{val:.4f}",
    "turns": lambda epoch, loss, score, val: f"Epoch {epoch} | TRAIN | acc {score:.3f}\nEpoch {epoch} | VALID | acc {val:.3f}",
}


def left(epoch: int) -> float:
    return math.exp(-epoch / 4)


def says(tmp_path: Path, line: Line, training: Callable[[int], float], evaluation: Callable[[int], float]) -> bool:
    log = tmp_path / "train.log"
    rows = (line(epoch, 2.3 * left(epoch), training(epoch), evaluation(epoch)) for epoch in EPOCHS)
    log.write_text("starting\n" + "\n".join(rows) + "\n")
    found = [item for item in explain_logs([str(log)])[0] if item.id == "J05" and "by heart" not in item.title]
    assert all((item.confidence, item.severity) == ("possible", "warning") for item in found)
    return bool(found)


def learns(epoch: int) -> float:
    return 1 - 0.9 * left(epoch)


def guesses(epoch: int) -> float:
    return 0.1 + 0.005 * (epoch % 4)


@pytest.mark.parametrize("line", SCORES)
@pytest.mark.parametrize(
    ("training", "evaluation", "found"),
    [
        (learns, guesses, True),
        (learns, lambda epoch: 0.9 - 0.8 * left(epoch), False),
        (learns, lambda epoch: 0.34 + 0.01 * (epoch % 3), False),  # overfits, and knows more than a guess
        (learns, lambda epoch: 0.1 + 0.004 * epoch, False),  # it rises, slowly
        (lambda epoch: 0.1 + 0.01 * epoch, guesses, False),  # the training has learned little, too
        (lambda epoch: 0.97 - 0.2 * left(epoch), lambda epoch: 0.7 - 0.02 * (epoch % 3), False),  # fine-tuned: good at once
    ],
    ids=["guesses", "learns", "overfits", "rises", "little", "fine-tuned"],
)
def test_a_score_that_stays_at_guessing(
    line: str, training: Callable[[int], float], evaluation: Callable[[int], float], found: bool, tmp_path: Path
) -> None:
    assert says(tmp_path, SCORES[line], training, evaluation) is found


@pytest.mark.parametrize(
    ("first", "last", "evaluation", "found"),
    [
        (0.3, 0.83, 0.1, True),
        (0.3, 0.74, 0.1, False),  # the training has not learned enough
        (0.12, 0.95, 0.125, True),
        (0.12, 0.95, 0.145, False),  # better than before the training
        (0.18, 0.95, 0.18, True),
        (0.2, 0.95, 0.2, False),  # the training may have begun above chance
    ],
)
def test_bounds(first: float, last: float, evaluation: float, found: bool, tmp_path: Path) -> None:
    def training(epoch: int) -> float:
        return last - (last - first) * left(epoch - 1)

    assert says(tmp_path, SCORES["accuracies"], training, lambda epoch: evaluation) is found


def only_accuracy(epoch: int, loss: float, score: float, val: float) -> str:
    return f"Epoch {epoch}/40 loss {loss:.3f} val_acc {val:.3f}"


def test_an_accuracy_beside_the_loss_of_the_training(tmp_path: Path) -> None:
    assert says(tmp_path, only_accuracy, learns, guesses)
    assert not says(tmp_path, only_accuracy, learns, lambda epoch: 0.5 - 0.01 * (epoch % 3)), "it overfits"


@pytest.mark.parametrize(("first", "found"), [(1.9, True), (1.2, False)])
def test_few_classes_make_a_guess_too_good(first: float, found: bool, tmp_path: Path) -> None:
    def few(epoch: int, loss: float, score: float, val: float) -> str:
        return f"Epoch {epoch}/40 loss {first * left(epoch - 1):.3f} val_acc {val:.3f}"

    assert says(tmp_path, few, learns, lambda epoch: 0.15 + 0.005 * (epoch % 4)) is found


@pytest.mark.parametrize(("low", "found"), [(0.02, True), (0.16, False)])
def test_an_area_under_a_curve_is_a_guess_at_a_half(low: float, found: bool, tmp_path: Path) -> None:
    def areas(epoch: int, loss: float, score: float, val: float) -> str:
        return f"epoch {epoch} train_auc {0.5 + score / 2:.3f} val_auc {0.5 + val:.3f}"

    assert says(tmp_path, areas, learns, lambda epoch: low - 0.01 * (epoch % 2)) is found


def test_a_score_of_another_task_says_nothing(tmp_path: Path) -> None:
    def other(epoch: int, loss: float, score: float, val: float) -> str:
        return f"epoch {epoch} train acc {score:.3f} val IoU {val:.3f}"

    assert not says(tmp_path, other, learns, guesses)


def test_few_epochs_say_nothing(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    for number, found in ((6, True), (5, False)):
        rows = (
            f"epoch {epoch} train acc {1 - 0.9 * math.exp(1 - epoch):.3f} val acc 0.10{epoch % 3}"
            for epoch in range(1, number + 1)
        )
        log.write_text("\n".join(rows) + "\n")
        assert ("J05" in {item.id for item in explain_logs([str(log)])[0]}) is found
