"""An evaluation that a few reports, or the end of a long run, show to be far off; and healthy ones that resemble it (J05)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs

LATE = (0.0071, 0.0069, 0.007, 0.0066, 0.0065)
AWAY = (0.412, 0.933, 1.71, 3.02, 5.61)
LEARNS = (1.93, 1.41, 1.02, 0.71, 0.55, 0.42, 0.36, 0.29, 0.24, 0.21)
SWINGS = (2.4, 0.71, 2.3, 0.66, 1.1, 3.9, 0.62, 2.4, 0.55, 3.1)
BACK = (0.5, 0.52, 0.5, 0.61, 0.63, 0.5, 0.71, 0.58, 0.74, 0.5)


def says(tmp_path: Path, text: str) -> str | None:
    """Return the title of J05, and check how certain it is."""
    log = tmp_path / "train.log"
    log.write_text(text)
    found = next((item for item in explain_logs([str(log)])[0] if item.id == "J05"), None)
    assert found is None or found.confidence == "possible"
    return None if found is None else found.title


def lines(trained: Sequence[float], evaluated: Sequence[float], accuracy: Sequence[float] | None = None) -> str:
    scores = [""] * len(trained) if accuracy is None else [f" - val_acc: {item:.3f}" for item in accuracy]
    return "".join(
        f"epoch [{at}]: train_loss: {own} - val_loss: {other}{score}\n"
        for at, (own, other, score) in enumerate(zip(trained, evaluated, scores, strict=True), 31)
    )


def test_a_loss_that_runs_away_from_that_of_the_training(tmp_path: Path) -> None:
    title = "val_loss rises each time, and is 863 times the training loss"
    assert says(tmp_path, lines(LATE, AWAY)) == title
    assert says(tmp_path, lines(LATE, AWAY, (0.011, 0.004, 0.012, 0.009, 0.002))) == title


@pytest.mark.parametrize(
    ("trained", "evaluated", "accuracy"),
    [
        (LATE, (71.2, 70.1, 70.8, 69.3, 68.8), None),
        (LATE, (71.2, 71.9, 72.3, 72.8, 73.1), None),
        (LATE, (0.412, 0.933, 0.871, 3.02, 5.61), None),
        (LATE, (0.0312, 0.0433, 0.0671, 0.0802, 0.101), None),
        (tuple(reversed(LATE)), AWAY, None),
        (LATE, AWAY, (0.71, 0.72, 0.72, 0.73, 0.74)),
        (LATE[:3], AWAY[:3], None),
    ],
    ids=["a sum", "a sum that rises a little", "jumps", "near", "training rises", "a score that rises", "three evaluations"],
)
def test_a_loss_that_is_far_above_may_be_healthy(
    trained: Sequence[float], evaluated: Sequence[float], accuracy: Sequence[float] | None, tmp_path: Path
) -> None:
    assert says(tmp_path, lines(trained, evaluated, accuracy)) is None


def boosted(trained: float, evaluated: float, measure: str = "logloss") -> str:
    return "".join(
        f"[{8000 + 250 * at}]\tvalid-{measure}:{evaluated + at % 3 * 0.0011:.5f}\ttrain-{measure}:{trained - at * 1e-6:.6f}\n"
        for at in range(12)
    )


def test_trees_that_are_sure_and_wrong(tmp_path: Path) -> None:
    assert says(tmp_path, boosted(0.00081, 0.9213)) == "valid-logloss is 0.9235, 1 156 times the training's"


@pytest.mark.parametrize(
    ("trained", "evaluated", "measure"),
    [(0.00081, 0.4213, "logloss"), (0.0211, 0.9213, "logloss"), (0.00081, 0.9213, "mlogloss"), (0.00081, 0.9213, "loss")],
    ids=["better than a coin", "trains slowly", "several classes", "perhaps a sum"],
)
def test_trees_that_learn(trained: float, evaluated: float, measure: str, tmp_path: Path) -> None:
    assert says(tmp_path, boosted(trained, evaluated, measure)) is None


def test_a_loss_that_swings_and_ends_where_it_began(tmp_path: Path) -> None:
    assert says(tmp_path, lines(LEARNS, SWINGS, BACK)) == "val_loss swings between 0.55 and 3.9"


@pytest.mark.parametrize(
    ("trained", "evaluated", "accuracy"),
    [
        (LEARNS, SWINGS, None),
        (LEARNS, SWINGS, (*BACK[:-1], 0.69)),
        (LEARNS, (*SWINGS[:-1], 0.5), (*BACK[:-1], 0.76)),
        (LEARNS, (2.4, 0.71, 0.69, 0.66, 1.1, 0.71, 0.62, 0.9, 0.55, 3.1), BACK),
        (tuple(1.9 - at / 10 for at in range(10)), SWINGS, BACK),
    ],
    ids=["the loss alone", "the score stays", "ends low", "one jump", "learns little"],
)
def test_a_small_data_set_whose_loss_jumps(
    trained: Sequence[float], evaluated: Sequence[float], accuracy: Sequence[float] | None, tmp_path: Path
) -> None:
    assert says(tmp_path, lines(trained, evaluated, accuracy)) is None


def areas(values: Sequence[float], scores: Sequence[float], trained: float = 0.0021, name: str = "test_auc") -> str:
    return "".join(
        "".join(f"step {100 * at + 20 * part} loss {trained * (1.1 - part / 10):.5f}\n" for part in range(3))
        + f"step {100 * at + 40} {name} {value:.4f} test_acc {score:.4f}\n"
        for at, (value, score) in enumerate(zip(values, scores, strict=True), 300)
    )


def test_an_area_that_becomes_worse_than_a_coin(tmp_path: Path) -> None:
    said = says(tmp_path, areas((0.942, 0.951, 0.433), (0.881, 0.893, 0.471)))
    assert said == "test_auc has fallen from 0.942 or more to 0.433, worse than a coin's, in one evaluation"


@pytest.mark.parametrize(
    ("values", "scores", "name"),
    [
        ((0.942, 0.951, 0.612), (0.881, 0.893, 0.671), "test_auc"),
        ((0.942, 0.433, 0.951), (0.881, 0.471, 0.893), "test_auc"),
        ((0.942, 0.951, 0.433), (0.881, 0.893, 0.884), "test_auc"),
        ((0.642, 0.651, 0.433), (0.581, 0.593, 0.571), "test_auc"),
        ((0.951, 0.433), (0.893, 0.471), "test_auc"),
        ((0.942, 0.951, 0.0), (0.881, 0.893, 0.871), "test_auc"),
        ((0.942, 0.951, 0.433), (0.881, 0.893, 0.471), "train_auc"),
    ],
    ids=[
        "other data",
        "comes back",
        "another score stays",
        "had learned little",
        "one before",
        "nothing to measure",
        "of the training",
    ],
)
def test_an_area_that_falls(values: Sequence[float], scores: Sequence[float], name: str, tmp_path: Path) -> None:
    assert says(tmp_path, areas(values, scores, name=name)) is None
