"""The loss that shows how a run learns, where the run prints its mean over each epoch as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs


@pytest.mark.parametrize(
    ("each", "mean", "found"),
    [
        ("bce+dice loss", "mean train loss", True),
        ("train_loss_step", "train_loss_epoch", True),
        ("loss_a", "loss_b", False),
        ("d_loss", "train_loss", False),
    ],
    ids=["another name", "Lightning", "two losses", "a discriminator"],
)
def test_the_mean_of_each_epoch_is_no_other_loss(each: str, mean: str, found: bool, tmp_path: Path) -> None:
    lines = []
    for step in range(40):
        lines.append(f"iter {step * 10}: {each}: {1.6 * 1.12**step:.4f}")
        if step % 10 == 9:
            lines.append(f"epoch done, {mean}: {1.5 * 1.12**step:.4f}, val loss: {1.7 * 1.12**step:.4f}")
    log = tmp_path / "train.log"
    log.write_text("\n".join(lines) + "\n")
    assert ("J02" in {item.id for item in explain_logs([str(log)])[0]}) is found
