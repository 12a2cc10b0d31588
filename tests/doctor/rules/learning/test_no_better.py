"""An evaluation that is never better than an untrained model, beside one that overfits: labels or inputs do not match."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs

Values = tuple[float, float, float, float]
"""The loss and the accuracy of the training, and of the evaluation."""
LINES: dict[str, Callable[[int, Values], str]] = {
    "Keras": lambda epoch, v: (
        f"Epoch {epoch} - loss: {v[0]:.4f} - accuracy: {v[1]:.4f} - val_loss: {v[2]:.4f} - val_accuracy: {v[3]:.4f}"
    ),
    "percents": lambda epoch, v: (
        f"epoch {epoch:03d} | train loss {v[0]:.3f} | train acc {100 * v[1]:.1f}% | test loss {v[2]:.3f} "
        f"| test acc {100 * v[3]:.1f}%"
    ),
    "JSON": lambda epoch, v: json.dumps({"epoch": epoch, "train_loss": v[0], "eval/loss": v[2], "eval/top1": v[3]}),
    "the loss alone": lambda epoch, v: (
        f"epoch {epoch}: loss={v[0]:.4f} valid_loss={2 * v[2] - 2.3 if v[2] > 2.3 else v[2]:.4f}"
    ),
}


def learned(epoch: int) -> float:
    return math.exp(-epoch / 4)


COURSES: dict[str, tuple[Callable[[int, random.Random], Values], bool]] = {
    "labels that do not match": (
        lambda epoch, rng: (2.3 * learned(epoch), 1 - 0.9 * learned(epoch), 2.8 + 0.4 * epoch, 0.1 + 0.03 * rng.random()),
        True,
    ),
    "overfits, and knew more before": (
        lambda epoch, rng: (2.3 * learned(epoch), 1 - 0.9 * learned(epoch), 1.9 + 0.04 * epoch, 0.34 + 0.03 * rng.random()),
        False,
    ),
    "overfits, with a score that has risen": (
        lambda epoch, rng: (
            2.3 * learned(epoch),
            1 - 0.9 * learned(epoch),
            2.6 + 0.03 * epoch,
            0.45 - 0.3 * learned(epoch / 2),
        ),
        False,
    ),
    "learns": (
        lambda epoch, rng: (
            2.3 * learned(epoch),
            1 - 0.9 * learned(epoch),
            0.3 + 2 * learned(epoch),
            0.9 - 0.8 * learned(epoch),
        ),
        False,
    ),
    "inputs that are all alike": (
        lambda epoch, rng: (2.3 * learned(epoch), 1 - 0.9 * learned(epoch), 3.2 - 0.0015 * epoch, 0.1 + 0.03 * rng.random()),
        True,
    ),
    "a loss that falls slowly": (
        lambda epoch, rng: (2.3 * learned(epoch), 1 - 0.9 * learned(epoch), 3.2 - 0.0035 * epoch, 0.1 + 0.03 * rng.random()),
        False,
    ),
    "fine-tuned: the loss is low from the first epoch on": (
        lambda epoch, rng: (0.3 * learned(epoch), 1 - 0.1 * learned(epoch), 0.45 + 0.002 * epoch, 0.62 + 0.02 * rng.random()),
        False,
    ),
    "the same, and it guesses": (
        lambda epoch, rng: (0.3 * learned(epoch), 1 - 0.1 * learned(epoch), 2.4 + 0.002 * epoch, 0.5 + 0.05 * rng.random()),
        True,
    ),
    "has learned little": (
        lambda epoch, rng: (2.3 - 0.05 * epoch, 0.4, 2.8 + 0.4 * epoch, 0.1 + 0.03 * rng.random()),
        False,
    ),
    "guesses, with a loss that was better once": (
        lambda epoch, rng: (2.3 * learned(epoch), 1 - 0.9 * learned(epoch), 1.5 + 0.004 * epoch, 0.1 + 0.03 * rng.random()),
        False,
    ),
    "has not learned yet": (lambda epoch, rng: (2.3 - 0.01 * epoch, 0.12, 2.31, 0.11), False),
}


NOT_BY_ITS_SCORE = {"the loss alone": ("overfits, and knew more before", "overfits, with a score that has risen")}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("course", COURSES)
def test_an_evaluation_that_only_guesses_while_the_training_learns(line: str, course: str, tmp_path: Path) -> None:
    rng = random.Random(1)
    values_of, found = COURSES[course]
    log = tmp_path / "train.log"
    log.write_text("\n".join(LINES[line](epoch, values_of(epoch, rng)) for epoch in range(1, 25)) + "\n")
    said = [item.title for item in explain_logs([str(log)])[0] if item.id == "J05"]
    assert any("has never been below" in title for title in said) is found
    assert any("overfits" in title for title in said) is (
        course in NOT_BY_ITS_SCORE.get(line, ("overfits, and knew more before",))
    )


def test_a_score_that_rises_is_no_guess_although_it_is_low(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    for rise, found in ((0.0, True), (0.004, False)):
        courses = ((2.3 * learned(at), 1 - 0.9 * learned(at), 2.8 + 0.4 * at, 0.06 + rise * at) for at in range(1, 25))
        log.write_text("".join(f"{LINES['Keras'](epoch, values)}\n" for epoch, values in enumerate(courses, 1)))
        assert ("J05" in {item.id for item in explain_logs([str(log)])[0] if "by heart" not in item.title}) is found


@pytest.mark.parametrize("line", [name for name in LINES if name != "the loss alone"])
@pytest.mark.parametrize(("score", "found"), [(0.1, True), (0.3, False)])
def test_a_training_loss_that_rises_at_first_hides_no_guess(line: str, score: float, found: bool, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    losses = (2.31, 2.6, *(2.4 * learned(at) for at in range(22)))
    courses = ((loss, 1 - 0.9 * learned(at), 2.31 + 0.2 * at, score + 0.002 * (at % 3)) for at, loss in enumerate(losses))
    log.write_text("".join(f"{LINES[line](epoch, values)}\n" for epoch, values in enumerate(courses)))
    said = {item.id: item for item in explain_logs([str(log)])[0] if "by heart" not in item.title}
    assert ("J05" in said) is found
    assert not found or "val" not in line or "has never been below 2.31" in said["J05"].title


@pytest.mark.parametrize(("highest", "found"), [(0.35, True), (2.0, False)])
def test_a_loss_that_rises_far_before_it_falls_says_nothing_of_the_untrained_model(
    highest: float, found: bool, tmp_path: Path
) -> None:
    """Weights that were good before lose what they knew, and learn it again."""
    log = tmp_path / "train.log"
    losses = (0.3, highest, highest, *(0.3 * learned(at) for at in range(21)))
    courses = ((loss, 0.9, 0.9 + 0.002 * at, 0.5 + 0.002 * (at % 3)) for at, loss in enumerate(losses))
    log.write_text("".join(f"{LINES['Keras'](epoch, values)}\n" for epoch, values in enumerate(courses)))
    assert ("J05" in {item.id for item in explain_logs([str(log)])[0]}) is found


@pytest.mark.parametrize(("second", "title"), [(6.2, "has never been below"), (3.9, "overfits"), (1.9, None)])
def test_an_evaluation_before_the_training_is_no_sign_of_learning(second: float, title: str | None, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    values = ((2.3 * learned(6 * at), second + 0.01 * at if at else 2.31) for at in range(24))
    log.write_text("".join(f"step {50 * at} loss {loss:.4f} val_loss {val:.4f}\n" for at, (loss, val) in enumerate(values)))
    said = [item.title for item in explain_logs([str(log)])[0] if item.id == "J05"]
    assert len(said) == (title is not None)
    assert title is None or title in said[0]


LADYBIRDS = (486.9, 658.7, 747.6, 1058.0, 1082.7, 193.9, 446.2, 448.2)
"""Losses of an evaluation whose images are not scaled: they go up and down."""


@pytest.mark.parametrize(
    ("losses", "score", "epochs", "found"),
    [
        (LADYBIRDS, 0.126, 5, True),
        (LADYBIRDS, 0.126, 8, True),
        (LADYBIRDS, 0.126, 3, False),
        (LADYBIRDS, 0.45, 5, False),
        ((*LADYBIRDS[:2], 60.0, 3.0, 1.9), 0.126, 5, False),
        ((9.0, 9.5, 10.0, 10.5, 11.0), 0.126, 5, False),
    ],
    ids=[
        "far worse",
        "far worse, and lower in the end",
        "too few",
        "it knows something",
        "a batch norm that lags at first",
        "not far worse",
    ],
)
def test_a_few_evaluations_are_enough_far_above_an_untrained_model(
    losses: tuple[float, ...], score: float, epochs: int, found: bool, tmp_path: Path
) -> None:
    log = tmp_path / "train.log"
    lines = []
    for epoch in range(epochs):
        lines += [f"step {step} loss {2.1 * math.exp(-step / 12):.4f}" for step in range(12 * epoch, 12 * epoch + 12)]
        lines.append(f"epoch {epoch} val_loss {losses[epoch]:.4f} val_acc {score:.4f}")
    log.write_text("\n".join(lines) + "\n")
    assert ("J05" in {item.id for item in explain_logs([str(log)])[0]}) is found


def falls_unevenly(at: int) -> float:
    return 27e6 * (0.05 + math.exp(-at)) * (2.2 if at % 3 == 1 else 1.0)


def total(at: int) -> float:
    """A sum over a large data set, which falls like the training loss and now and then a little less."""
    return 27e6 * (0.1 + math.exp(-at / 6)) * (1.2 if at % 3 == 1 else 1.0)


@pytest.mark.parametrize(("loss", "found"), [(falls_unevenly, True), (total, False)], ids=["uneven", "a sum"])
def test_a_loss_far_above_the_training_that_goes_up_and_down_is_no_sum(
    loss: Callable[[int], float], found: bool, tmp_path: Path
) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        "".join(f"225/225 - 4s - loss: {4 * (0.1 + math.exp(-at / 6)):.4f} - val_loss: {loss(at):.4f}\n" for at in range(24))
    )
    said = {item.id: item for item in explain_logs([str(log)])[0]}
    assert ("J05" in said) is found
    assert not found or "times the training loss" in said["J05"].title


@pytest.mark.parametrize(
    ("squared", "absolute", "found"),
    [(4e6, 2000.0, True), (2e4, 2e4, False), (2e4, 1.0, False), (2e4, -5.0, False)],
    ids=["of another scale", "sums", "a sum and a mean", "a sum, and one below zero"],
)
def test_errors_that_are_different_multiples_of_the_training_s_are_no_sums(
    squared: float, absolute: float, found: bool, tmp_path: Path
) -> None:
    """Keras: loss is the squared error, and mae the absolute one. Inputs that are not scaled make the former far larger."""
    log = tmp_path / "train.log"
    lines = []
    for at in range(24):
        loss = 16 * (0.01 + math.exp(-at / 3))
        errors = f"loss: {loss:.4f} - mae: {loss**0.5:.4f} - val_loss: {squared * loss:.4f} - val_mae: "
        lines.append(f"225/225 - 4s - {errors}{absolute * loss**0.5:.4f}")
    log.write_text("\n".join(lines) + "\n")
    assert ("J05" in {item.id for item in explain_logs([str(log)])[0]}) is found
