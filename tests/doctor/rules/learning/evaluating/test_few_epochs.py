"""A model that overfits within a few epochs, of which each one counts; and healthy runs that are as short (J05)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs

FALLS = (0.812, 0.604, 0.433, 0.291, 0.187, 0.122)
RISES = (0.702, 0.655, 0.741, 0.893, 1.104, 1.388)
LOST = (0.681, 0.702, 0.711, 0.694, 0.683, 0.671)


def lines(trained: Sequence[float], evaluated: Sequence[float], accuracy: Sequence[float] | None = None) -> str:
    """Return one run, as a script prints it after each epoch."""
    scores = [""] * len(trained) if accuracy is None else [f" - val_acc: {item:.4f}" for item in accuracy]
    return "".join(
        f"Epoch {at}/20\n - 31s - loss: {own:.4f} - acc: {1 - own / 2:.4f} - val_loss: {other:.4f}{score}\n"
        for at, (own, other, score) in enumerate(zip(trained, evaluated, scores, strict=True), 1)
    )


def says(tmp_path: Path, text: str) -> str | None:
    """Return the title of J05, and check how certain it is."""
    log = tmp_path / "train.log"
    log.write_text(text)
    found = next((item for item in explain_logs([str(log)])[0] if item.id == "J05"), None)
    assert found is None or (found.severity, found.confidence) == ("info", "possible")
    return None if found is None else found.title


def test_a_loss_that_rises_in_each_epoch_while_the_accuracy_falls(tmp_path: Path) -> None:
    assert says(tmp_path, lines(FALLS, RISES, LOST)) == "The model overfits: val_loss has risen from 0.655 to 1.388"
    assert says(tmp_path, lines(FALLS[:5], RISES[1:], LOST[1:])) == "The model overfits: val_loss has risen from 0.655 to 1.388"


def test_the_loss_alone_must_double_in_four_epochs(tmp_path: Path) -> None:
    assert says(tmp_path, lines(FALLS, RISES)) == "The model overfits: val_loss has risen from 0.655 to 1.388"
    assert says(tmp_path, lines(FALLS, (0.655, 0.702, 0.741, 0.893, 1.104, 1.288))) is None


@pytest.mark.parametrize(
    ("trained", "evaluated", "accuracy"),
    [
        (FALLS, RISES, (0.681, 0.702, 0.708, 0.711, 0.716, 0.719)),
        (FALLS, RISES, (0.681, 0.702, 0.711, 0.706, 0.709, 0.707)),
        (FALLS, (0.702, 0.655, 0.641, 0.683, 0.741, 0.793), LOST),
        (FALLS, (0.702, 0.655, 0.741, 1.104, 0.893, 1.388), LOST),
        (FALLS, (1.388, 0.655, 0.741, 0.893, 1.104, 1.088), LOST),
        ((0.812, 0.604, 0.433, 0.291, 0.333, 0.122), RISES, LOST),
        ((0.812, 0.784, 0.733, 0.671, 0.599, 0.522), RISES, LOST),
        (FALLS[:4], RISES[:4], LOST[:4]),
    ],
    ids=[
        *("ever more confident answers", "an accuracy that varies", "stopped early", "a small data set that jumps"),
        *("comes back", "training that jumps", "trains little", "four epochs"),
    ],
)
def test_healthy_runs_of_a_few_epochs(
    trained: Sequence[float], evaluated: Sequence[float], accuracy: Sequence[float], tmp_path: Path
) -> None:
    assert says(tmp_path, lines(trained, evaluated, accuracy)) is None


def test_a_penalty_that_grows_as_the_model_learns(tmp_path: Path) -> None:
    text = "".join(
        f"epoch {at}: loss {own:.4f} val_recon_loss {own + 0.1:.4f} val_kl_loss {0.04 * 1.6**at:.4f}\n"
        for at, own in enumerate((*FALLS, 0.098, 0.081, 0.07, 0.061, 0.055), 1)
    )
    assert says(tmp_path, text) is None
    assert says(tmp_path, text.replace("val_kl_loss", "val_loss")) is not None


def test_the_newest_of_several_runs_counts(tmp_path: Path) -> None:
    healthy = lines(FALLS, (0.702, 0.655, 0.612, 0.577, 0.551, 0.529), (0.68, 0.7, 0.71, 0.72, 0.73, 0.74))
    overfits = lines(FALLS, RISES, LOST)
    assert says(tmp_path, healthy + overfits) == "The model overfits: val_loss has risen from 0.655 to 1.388"
    assert says(tmp_path, overfits + healthy) is None


def test_one_that_was_never_as_low_as_at_first_and_rises_each_time(tmp_path: Path) -> None:
    trained = [0.9 * 0.6**at for at in range(9)]
    first_lowest = [0.41 * 1.13**at for at in range(9)]
    assert says(tmp_path, lines(trained, first_lowest)) == "The model overfits: val_loss has risen from 0.41 to 0.9646"
    assert says(tmp_path, lines(trained, [0.41 * 1.06**at for at in range(9)])) is None
    assert says(tmp_path, lines(trained, [0.41 * 1.13**at - 0.2 * (at == 6) for at in range(9)])) is None
