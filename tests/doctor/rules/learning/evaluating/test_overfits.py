"""A model that overfits: the loss of its evaluations rises for long after its best (J05)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs

Course = Callable[[int], float]


def says(tmp_path: Path, trained: Course, evaluated: Course, dice: Course | None, epochs: int = 40) -> str | None:
    """Return the title of J05 in the log of such a run, and check how certain it is."""
    lines = []
    for epoch in range(epochs):
        score = "" if dice is None else f"  val dice {dice(epoch):.4f}"
        lines.append(f"[{epoch + 1:03d}/200] train loss {trained(epoch):.4f}  val loss {evaluated(epoch):.4f}{score}  8.6s")
    log = tmp_path / "train.log"
    log.write_text("\n".join(lines) + "\n")
    found = next((item for item in explain_logs([str(log)])[0] if item.id == "J05"), None)
    assert found is None or (found.severity, found.confidence) == ("info", "possible")
    return None if found is None else found.title


def learns(epoch: int) -> float:
    return 0.6 * 0.88**epoch + 0.01


def turns(epoch: int) -> float:
    return 0.65 - 0.03 * epoch if epoch < 10 else 0.35 + 0.012 * (epoch - 10)


def falls_back(epoch: int) -> float:
    return 0.55 + 0.03 * epoch if epoch < 10 else 0.84 - 0.004 * (epoch - 10)


@pytest.mark.parametrize("dice", [None, falls_back], ids=["the loss alone", "with a score"])
def test_a_loss_that_rises_for_long_after_its_best_is_that_of_a_model_that_overfits(
    dice: Course | None, tmp_path: Path
) -> None:
    assert says(tmp_path, learns, turns, dice) == "The model overfits: val_loss has risen from 0.35 to 0.686"


def test_lightning_shows_one_loss_twice(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        "".join(
            f"Epoch {at}: 100%|██████████| 412/412 [00:38<00:00, 10.84it/s, v_num=18, train_loss_step={learns(at) * 1.1:.3f}, "
            f"val_loss={turns(at):.3f}, train_loss_epoch={learns(at):.3f}]\n"
            for at in range(40)
        )
    )
    found = next((item for item in explain_logs([str(log)])[0] if item.id == "J05"), None)
    assert found is not None
    assert found.title == "The model overfits: val_loss has risen from 0.35 to 0.686"


@pytest.mark.parametrize(("best", "found"), [("Acc@1", True), ("Acc@5", False)])
def test_what_is_among_the_first_five_stays_there_for_long(best: str, found: bool, tmp_path: Path) -> None:
    """The score that falls: beside one that stays, only the stricter one counts."""
    other = "Acc@5" if best == "Acc@1" else "Acc@1"
    log = tmp_path / "train.log"
    log.write_text(
        "".join(
            f"Train: {at} [ 120/241 ( 50%)]  Loss: {learns(at):.3f} ({learns(at):.3f})  Time: 0.210s,  LR: 3.000e-04\n"
            f"Test: [  30/30]  Loss:   {turns(at):.3f} ( {turns(at):.3f})  {best}:  {100 * falls_back(at):.2f}  {other}:  93\n"
            for at in range(40)
        )
    )
    assert any(item.id == "J05" for item in explain_logs([str(log)])[0]) is found


def test_a_loss_that_doubles_with_noise_does_so_too(tmp_path: Path) -> None:
    title = says(tmp_path, learns, lambda epoch: turns(epoch) + 0.04 * (epoch % 2) * (epoch > 10), None, 60)
    assert title is not None
    assert title.startswith("The model overfits: val_loss has risen from 0.35 to 0.9")


def much_worse(epoch: int) -> float:
    return 0.65 - 0.1 * epoch if epoch < 3 else 0.45 + 0.15 * (epoch - 2)


def test_a_loss_that_doubles_within_a_few_evaluations_does_so_too(tmp_path: Path) -> None:
    quickly = "The model overfits: val_loss has risen from 0.45 to "
    assert (says(tmp_path, lambda epoch: 0.6 * 0.7**epoch, much_worse, None, 9) or "").startswith(quickly)
    at_once = (0.65, 0.6, 0.55, 0.5, 0.45, 0.8, 1.0, 1.2)
    assert says(tmp_path, lambda epoch: 0.6 * 0.7**epoch, at_once.__getitem__, None, len(at_once)) is None, "too few since"
    assert says(tmp_path, lambda epoch: 0.6 * 0.7**epoch, lambda epoch: much_worse(epoch) - 0.2 * (epoch == 6), None, 9) is None


@pytest.mark.parametrize(
    ("trained", "evaluated", "dice", "epochs"),
    [
        (learns, turns, lambda epoch: 0.5 + 0.01 * epoch, 40),
        (learns, turns, falls_back, 20),
        (learns, lambda epoch: min(turns(epoch), 0.45), falls_back, 40),
        (learns, lambda epoch: turns(epoch) if epoch < 30 else 0.4, falls_back, 40),
        (lambda epoch: 0.6 - 0.005 * epoch, turns, falls_back, 40),
        (learns, lambda epoch: 0.6 + 0.012 * epoch, falls_back, 12),
        (learns, lambda epoch: turns(epoch) if epoch < 10 else 1.2 - 0.02 * (epoch - 10), falls_back, 40),
    ],
    ids=["the score rises", "too soon", "a little", "comes back", "trains little", "few evaluations", "falls again"],
)
def test_other_courses_are_left_alone(
    trained: Course, evaluated: Course, dice: Course | None, epochs: int, tmp_path: Path
) -> None:
    title = says(tmp_path, trained, evaluated, dice, epochs)
    assert title is None or "overfits" not in title


def test_a_score_that_falls_makes_a_smaller_rise_enough(tmp_path: Path) -> None:
    rises: Course = lambda epoch: 1.8 * 1.04 ** max(0, epoch - 3) + 0.9 * max(0, 3 - epoch)  # noqa: E731
    falls: Course = lambda epoch: 0.58 * 0.99**epoch  # noqa: E731
    assert says(tmp_path, learns, rises, falls, epochs=12) == "The model overfits: val_loss has risen from 1.8 to 2.369"
    assert says(tmp_path, learns, rises, None, epochs=12) is None
    assert says(tmp_path, learns, rises, lambda epoch: 0.58 + epoch / 100, epochs=12) is None


def test_losses_of_a_short_name_with_their_scores(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        "".join(
            f"Epoch {at:03d} | train bce {learns(at):.4f} auc {1 - learns(at) / 3:.4f} | "
            f"val bce {0.46 * 1.06 ** max(0, at - 7) + 0.02 * max(0, 7 - at):.4f} auc {0.76 - at / 300:.4f} | 2.2s\n"
            for at in range(40)
        )
    )
    found = next((item for item in explain_logs([str(log)])[0] if item.id == "J05"), None)
    assert found is not None
    assert found.title.startswith("The model overfits: val_bce has risen")


def test_an_error_that_is_never_again_as_low_as_at_first(tmp_path: Path) -> None:
    def log(
        evaluated: Course,
        trained: Course = lambda at: 0.05 + 0.165 * 0.6**at,
        epochs: int = 30,
        auc: Course | None = None,
        error: str = "rmse",
    ) -> str | None:
        file = tmp_path / "train.log"
        file.write_text(
            "".join(
                f"epoch {at:3d}: train rmse {trained(at):.4f}  val {error} {evaluated(at):.4f}"
                f"{'' if auc is None else f' val auc {auc(at):.4f}'}  1.5 s\n"
                for at in range(epochs)
            )
        )
        return next((item.title for item in explain_logs([str(file)])[0] if item.id == "J05"), None)

    stays: Course = lambda at: 0.396 + 0.02 * (at > 0) + at % 5 / 500  # noqa: E731
    assert log(stays) == "val_rmse has never fallen below its first value, 0.396, and is now 0.422"
    assert log(stays, epochs=14) is None
    assert log(stays, auc=lambda at: 0.75 + at % 4 / 90) is None, "a score tells more"
    assert log(stays, auc=lambda at: 0.79 - at / 900) is None, "a score tells more, also one that falls"
    assert log(stays, error="mae") is None, "it is not what the training measures"
    assert log(lambda at: 0.396 - 0.001 * at) is None, "it falls"
    assert log(stays, lambda at: 0.15 + 0.4 * 0.6**at) is None, "it is not far above"
