"""A loss that diverges in a run with few reports (J02)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs
from gputop.doctor.findings.finding import Finding


def said(tmp_path: Path, lines: Sequence[str]) -> Finding | None:
    log = tmp_path / "train.log"
    log.write_text("\n".join(lines) + "\n")
    return next((item for item in explain_logs([str(log)])[0] if item.id == "J02"), None)


def epochs(losses: Sequence[float], text: str = "epoch {at} loss {loss:.4f}") -> list[str]:
    return [text.format(at=at, loss=loss, rate=1e-5 * 2**at, size=128 * 2 ** (at // 6)) for at, loss in enumerate(losses)]


FALLS = [2.31, 2.02, 1.86, 1.71, 1.62]
STAYS_UP = [44.2, 71.3, 71.6, 71.6, 71.5]


def test_a_loss_that_jumps_and_stays_up(tmp_path: Path) -> None:
    finding = said(tmp_path, epochs(FALLS + STAYS_UP))
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("warning", "possible")
    assert finding.title == "The loss has jumped to 71.5, 44.1 times its lowest, and stays there"
    assert finding.evidence[0].text == "the newest 5 losses are 44.2 or more, and the one before was 1.62"


@pytest.mark.parametrize(
    "lines",
    {
        "three": epochs(FALLS + STAYS_UP[:3]),
        "a spike that passes": epochs([*FALLS, *STAYS_UP, 1.9]),
        "it falls again": epochs([*FALLS, 71.6, 64.0, 51.2, 40.9, 33.1]),
        "it began with a jump": epochs([0.02, *STAYS_UP]),
        "a running sum": epochs(list(itertools.accumulate([0.1, *[2.1] * 6]))),
        "a range test": epochs(FALLS + STAYS_UP, "epoch {at} loss {loss:.4f} lr {rate:.2e}"),
        "longer sequences": epochs(FALLS + STAYS_UP, "epoch {at} loss {loss:.4f} seq_len {size}"),
        "an agent": epochs(FALLS + STAYS_UP, "epoch {at} loss {loss:.4f} reward {at:.1f}"),
        "one of two models": epochs(FALLS + STAYS_UP, "epoch {at} d_loss {loss:.4f} g_loss 0.7"),
        "a penalty": epochs(FALLS + STAYS_UP, '{{"epoch": {at}, "loss": {loss:.4f}, "penalty_weight": {size}}}'),
        "below 0": epochs([-value for value in FALLS + STAYS_UP]),
    }.values(),
)
def test_a_loss_that_is_as_it_should_be(lines: list[str], tmp_path: Path) -> None:
    assert said(tmp_path, lines) is None


def both(trained: Sequence[float], evaluated: Sequence[float]) -> list[str]:
    pairs = enumerate(zip(trained, evaluated, strict=True))
    return [
        text
        for at, (loss, of_evaluation) in pairs
        for text in (f"step {at * 50} train: loss = {loss}", f"step {at * 50} val: loss = {of_evaluation}")
    ]


def test_the_newest_losses_of_training_and_evaluation(tmp_path: Path) -> None:
    finding = said(tmp_path, both([1.4, 1.2, 1.9, 61.7], [2.6, 2.7, 3.0, 80.4]))
    assert finding is not None
    assert (finding.confidence, finding.title) == ("possible", "The loss has grown to 61.7, 51.4 times its lowest")
    assert said(tmp_path, both([1.4, 1.2, 1.9, 61.7], [2.6, 2.7, 3.0, 3.1])) is None, "one batch"
    assert said(tmp_path, both([1.4, 1.2, 1.9, 1.1], [2.6, 2.7, 3.0, 80.4])) is None, "it overfits"
    assert said(tmp_path, both([1.4, 61.7], [2.6, 80.4])) is None, "two reports"


def huge(loss: Callable[[int], float], norm: Callable[[int], float], number: int = 14) -> list[str]:
    return [f"Step {at * 100}: loss={loss(at):.4f}, grad_norm={norm(at):.4f}" for at in range(70, 70 + number)]


def test_huge_losses_with_huge_gradients_that_do_not_fall(tmp_path: Path) -> None:
    finding = said(tmp_path, huge(lambda at: 3.1e8 + 1e8 * (at % 3), lambda at: 1e4 * at))
    assert finding is not None
    assert (finding.confidence, finding.title[:30]) == ("possible", "The loss is 5.10e+08 with grad")


@pytest.mark.parametrize(
    ("loss", "norm", "number"),
    {
        "a sum that falls": (lambda at: 9e8 / (at - 60), lambda at: 7e5, 14),
        "gradients that fall": (lambda at: 3e8, lambda at: 9e6 / (at - 60), 14),
        "small gradients": (lambda at: 3e8, lambda at: 100.0 * at, 14),
        "small losses": (lambda at: 310.0, lambda at: 1e4 * at, 14),
        "few": (lambda at: 3e8, lambda at: 1e4 * at, 8),
    }.values(),
)
def test_large_losses_that_are_not_huge_or_fall(
    loss: Callable[[int], float], norm: Callable[[int], float], number: int, tmp_path: Path
) -> None:
    assert said(tmp_path, huge(loss, norm, number)) is None
