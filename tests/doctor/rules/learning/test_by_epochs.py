"""What a few epochs show: a loss that was lowest at first (J02), and losses, scores or gradients that never change (J03)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs

WORSE = [0.176, 0.184, 0.1816, 0.1915, 0.1928, 0.1964, 0.1948, 0.1971, 0.1899, 0.1957, 0.1923]


def says(tmp_path: Path, lines: Iterable[str]) -> tuple[str, str] | None:
    """Return the first finding's id and title; all of them are only possible."""
    log = tmp_path / "train.log"
    log.write_text("".join(f"{line}\n" for line in lines))
    findings, _ = explain_logs([str(log)])
    assert all(item.confidence == "possible" for item in findings)
    return (findings[0].id, findings[0].title) if findings else None


def keras(losses: Sequence[float], beside: Sequence[str] = (), first: int = 1) -> list[str]:
    """Return what Keras prints; ``beside``: for each epoch, or the same for all."""
    return [
        line
        for at, loss in enumerate(losses)
        for line in (
            f"Epoch {first + at}/20",
            f"1213/1213 [==============================] - 3s - loss: {loss:.4f}"
            + (f" - {beside[at % len(beside)]}" if beside else ""),
        )
    ]


def test_a_loss_that_was_lowest_in_the_first_epoch(tmp_path: Path) -> None:
    title = "The loss has been higher in each of 10 epochs than in the first: 0.194 lately"
    assert says(tmp_path, keras(WORSE)) == ("J02", title)


def test_a_loss_with_an_evaluation_in_a_line_of_its_own(tmp_path: Path) -> None:
    lines = [
        line
        for at, loss in enumerate(WORSE, 1)
        for line in (f"epoch {at} train loss {loss:.4f}", f"epoch {at} val loss {2 * loss:.4f}")
    ]
    found = says(tmp_path, lines)
    assert found is not None
    assert found[0] == "J02"


def test_a_loss_that_was_lowest_in_the_first_report(tmp_path: Path) -> None:
    losses = [1.8309, 2.4141, 2.2371, 2.3634, 2.4474, 2.3407, 2.4538, 2.4789, 2.4712, 2.2194, 2.4809, 2.1969, 2.5656]
    best = ["inf", *[f"{losses[0]:.4f}"] * len(losses)]
    lines = [f"iter: {500 * at or 100} mean_loss: {loss:.4f} best_mean_loss: {best[at]}" for at, loss in enumerate(losses)]
    title = "The loss has been higher in each of 12 reports than in the first: 2.402 lately"
    assert says(tmp_path, lines) == ("J02", title)
    assert says(tmp_path, lines[:10]) is None, "few"


@pytest.mark.parametrize(
    "lines",
    {
        "few": keras(WORSE[:8]),
        "not each epoch": [f"epoch {2 * at + 1} loss {loss:.4f}" for at, loss in enumerate(WORSE)],
        "a little, all the time": keras([0.176, *[0.1800 + at % 3 / 1000 for at in range(10)]]),
        "means, in the middle": [
            f"step {9000 + 100 * at} mean_loss {loss * (1 + (at > 0)):.4f}" for at, loss in enumerate(WORSE)
        ],
        "means, not by far": [f"step {100 * at or 4} mean_loss {loss:.4f}" for at, loss in enumerate([*WORSE, 0.19])],
        "it comes back": keras([*WORSE, 0.175]),
        "hardly": keras([0.176, *[0.178 + at % 3 / 1000 for at in range(10)]]),
        "in the middle of a run": keras(WORSE, first=7),
        "a score improves": keras(WORSE, [f"acc: {0.5 + at / 40:.4f}" for at in range(len(WORSE))]),
        "an agent": keras(WORSE, ["episode_reward: 12.0"]),
        "single batches": [f"step {100 * at} loss {loss * (1 + (at > 1)):.4f}" for at, loss in enumerate([*WORSE, 0.2], 1)],
        "batches": [f"step {100 * (at + 1)} loss {loss:.4f}" for at, loss in enumerate(WORSE)],
        "in the middle, by steps": [
            f"step {9000 + 100 * at} loss {loss * (1 + (at > 0)):.4f}" for at, loss in enumerate(WORSE)
        ],
    }.values(),
)
def test_a_loss_that_may_be_higher(lines: list[str], tmp_path: Path) -> None:
    assert says(tmp_path, lines) is None


SAME = ["accuracy: 0.9983 - val_loss: 0.0265 - val_accuracy: 0.9983"]


def test_a_loss_and_a_score_that_never_change(tmp_path: Path) -> None:
    title = "The loss and accuracy are the same in each of the last 6 epochs: 0.0266 and 0.9983"
    assert says(tmp_path, keras([0.0291] + [0.0266] * 7, SAME)) == ("J03", title)


def test_the_epochs_of_equal_losses_beside_an_evaluation_of_its_own(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    lines = [
        line
        for at in range(1, 9)
        for line in (
            f"epoch {at} train loss 0.0266 train acc 0.9983",
            f"epoch {at} val loss 0.02{60 + at} val acc 0.99{60 + at}",
        )
    ]
    log.write_text("\n".join(lines) + "\n")
    finding = next(item for item in explain_logs([str(log)])[0] if item.id == "J03")
    assert finding.evidence[0].text.endswith("equal to the last digit, up to epoch 8")


@pytest.mark.parametrize(
    "lines",
    {
        "few": keras([0.0291] + [0.0266] * 5, SAME),
        "few, and no others": keras([0.0266] * 5, SAME),
        "the loss moves": keras([0.0291] + [0.0266] * 6 + [0.0265], SAME),
        "the score moves": keras([0.0266] * 8, ["acc: 0.9983", "acc: 0.9984"]),
        "few digits": keras([0.0010] * 8, ["accuracy: 0.9983"]),
        "no score": keras([0.0266] * 8),
        "not by epochs": [f"step {at} loss: 0.0266 accuracy: 0.9983" for at in range(9)],
    }.values(),
)
def test_what_may_be_the_same(lines: list[str], tmp_path: Path) -> None:
    assert says(tmp_path, lines) is None


def norms(values: Sequence[str], losses: Sequence[float]) -> list[str]:
    return [
        f"04/24 02:03:{at + 10} - mmengine - INFO - Epoch(train)  [16][{50 * (at + 1)}/290]  lr: 1.7e-03  time: 0.1792  "
        f"data_time: 0.0081  memory: 4843  grad_norm: {norm}  loss: {loss:.4f}"
        for at, (norm, loss) in enumerate(zip(values, losses, strict=True))
    ]


FLAT = [208.4161, 208.5272, 209.18, 208.8468, 209.0484]


def test_gradients_that_are_zero(tmp_path: Path) -> None:
    title = "The gradients are 0 in each of 4 reports, and the loss stays at 209"
    assert says(tmp_path, norms(["0.0000", "0.0000", "nan", "0.0000", "0.0000"], FLAT)) == ("J03", title)


@pytest.mark.parametrize(
    "lines",
    {
        "few": norms(["0.0000"] * 3, FLAT[:3]),
        "some": norms(["0.0000", "0.0000", "0.0001", "0.0000", "0.0000"], FLAT),
        "the loss falls": norms(["0.0000"] * 5, [208.4, 204.1, 200.3, 196.2, 193.0]),
        "no loss": norms(["0.0000"] * 5, [0.0] * 5),
    }.values(),
)
def test_gradients_that_are_small(lines: list[str], tmp_path: Path) -> None:
    assert says(tmp_path, lines) is None
