"""A loss that is NaN in the lines of the epochs, long before those of some batches show it."""

from __future__ import annotations

from pathlib import Path

from gputop.cli.doctor.logs import explain_logs


def lines() -> list[str]:
    """Return the losses of 5 good epochs, then of 8 that are NaN; the batches are printed in the newest two only."""
    found = list[str]()
    for epoch in range(1, 14):
        if epoch <= 5 or epoch >= 12:
            loss = f"{2.0 / epoch:.4f}" if epoch <= 5 else "nan"
            found += [f"epoch {epoch} step {epoch * 100 + batch} loss {loss}" for batch in (0, 50)]
        found.append(f"epoch {epoch} train_loss {f'{2.1 / epoch:.4f}' if epoch <= 5 else 'nan'}")
    return found


def test_the_first_loss_that_is_nan_counts(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("\n".join(lines()) + "\n")
    finding = next(item for item in explain_logs([str(log)])[0] if item.id == "J01")
    assert finding.evidence[0].text.startswith("train_loss has not been finite since step 550")


def test_an_epoch_says_where_if_steps_are_only_counted(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"Epoch: 0{epoch} D loss: {'nan' if epoch > 324 else 0.25}\n" for epoch in range(320, 330)))
    finding = next(item for item in explain_logs([str(log)])[0] if item.id == "J01")
    assert finding.title == "The loss is NaN or infinite since epoch 325"
    assert finding.evidence[0].text == "d_loss has not been finite since epoch 325, 0.25 at epoch 324"
    log.write_text("".join(f"D loss: {'nan' if line > 4 else 0.25}\n" for line in range(10)))
    finding = next(item for item in explain_logs([str(log)])[0] if item.id == "J01")
    assert finding.title == "The loss is NaN or infinite since step 6"
