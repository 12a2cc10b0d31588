"""A loss that leaps up and stays there in a short log; and healthy ones that only jump (J02)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs

LEARNS = (2.214, 1.806, 1.533, 1.402, 1.291, 1.247, 1.192, 1.164, 1.121)


def says(tmp_path: Path, text: str) -> str | None:
    """Return the title of J02, and check how certain it is."""
    log = tmp_path / "train.log"
    log.write_text(text)
    found = next((item for item in explain_logs([str(log)])[0] if item.id == "J02"), None)
    assert found is None or found.confidence == "possible"
    return None if found is None else found.title


def epochs(losses: Sequence[float], beside: str = "") -> str:
    return "".join(
        f"Epoch {at}/60\n512/512 [==============================] - 9s - loss: {loss:.4f}{beside.format(at)}\n"
        for at, loss in enumerate(losses, 1)
    )


def steps(losses: Sequence[float], name: str = "loss") -> str:
    return "".join(f"global step {310 + at}: {name} = {loss:.4f} (0.214 sec/step)\n" for at, loss in enumerate(losses))


def test_epochs_that_are_far_above_all_before(tmp_path: Path) -> None:
    title = "The loss has grown to 17.21, 15.4 times its lowest"
    assert says(tmp_path, epochs([*LEARNS, 9.042, 17.2231, 17.2244, 17.2118])) == title


@pytest.mark.parametrize(
    "text",
    [
        epochs([*LEARNS, 9.042, 17.2231, 17.2244]),
        epochs([*LEARNS, 17.22, 14.1, 11.9, 9.77]),
        epochs([*LEARNS, 17.22, 17.3, 17.1, 1.09]),
        epochs([*LEARNS, 5.9, 6.1, 6.2, 6.11]),
        epochs([*LEARNS[:5], 9.042, 17.2231, 17.2244, 17.2118]),
        epochs([*LEARNS, 9.042, 17.2231, 17.2244, 17.2118], " - kl_weight: 0.{:02d}"),
        steps([*LEARNS, 9.042, 17.2231, 17.2244, 17.2118]),
        epochs([*LEARNS, 9.042, 17.2231, 17.2244, 17.2118]).replace("loss", "info_nce_loss"),
    ],
    ids=["few", "falls again", "a spike", "twice the first", "few before", "a term", "single batches", "contrastive"],
)
def test_epochs_that_jump(text: str, tmp_path: Path) -> None:
    assert says(tmp_path, text) is None


def test_steps_that_are_orders_of_magnitude_above_all_before(tmp_path: Path) -> None:
    title = "The loss has grown to 201993, 1.05e+06 times its lowest"
    assert says(tmp_path, steps([0.2113, 0.1927, 8112.4, 31882.1, 19711.6, 92210.3, 201993.2])) == title
    assert says(tmp_path, steps([0.2113, 8112.4, 31882.1, 19711.6, 92210.3, 201993.2])) is not None


@pytest.mark.parametrize(
    "text",
    [
        steps([0.2113, 0.1927, 8112.4, 31882.1, 19711.6, 92210.3]),
        steps([0.2113, 0.1927, 8112.4, 31882.1, 19711.6, 92210.3, 0.2231]),
        steps([0.2113, 0.1927, 81.4, 318.1, 197.6, 922.3, 2019.2]),
        steps([0.0001, 0.0002, 1112.4, 1318.1, 1297.6, 1922.3, 2019.2]),
        steps([0.0003, 0.0002, 8.4, 11.1, 9.6, 12.3, 19.2]),
        steps([0.2113, 0.1927, 8112.4, 31882.1, 19711.6, 92210.3, 201993.2], "critic_loss"),
    ],
    ids=["four", "recovers", "hundreds", "from nothing", "a term that begins at 0", "a critic"],
)
def test_steps_that_grow(text: str, tmp_path: Path) -> None:
    assert says(tmp_path, text) is None
