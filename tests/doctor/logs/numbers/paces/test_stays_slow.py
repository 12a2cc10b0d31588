"""A run that becomes much slower from one report to the next and never recovers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found

Rate = Callable[[int], float]
MXNET = "INFO:root:Epoch[{epoch}] Batch [{step}]\tSpeed: {rate:.2f} samples/sec\tTrain-accuracy={score:.6f}"
PLAIN = "epoch {epoch} step {step} | loss {score:.4f} | lr 0.0010 | {rate:.1f} img/s"


def lines(rate: Rate, numbers: Sequence[int], form: str = MXNET, epoch: Callable[[int], int] = lambda at: 3) -> list[str]:
    """Return a report every 50 steps; ``rate`` has small changes from one to the next."""
    return [
        form.format(epoch=epoch(at), step=50 * at, rate=rate(at) * (1 + at % 3 / 50), score=(at * 7 % 11 + at) / 100)
        for at in numbers
    ]


def falls(factor: float, at: int = 30) -> Rate:
    return lambda number: 412 if number < at else 412 / factor


@pytest.mark.parametrize("form", [MXNET, PLAIN])
@pytest.mark.parametrize(
    ("factor", "numbers", "confidence"),
    [
        (2.4, range(20, 41), "possible"),
        (6.0, range(20, 41), "likely"),
        (6.0, range(1, 60), "likely"),
        (6.0, range(27, 33), "possible"),
        (2.4, range(27, 33), None),
        (1.6, range(1, 60), None),
        (6.0, range(28, 32), None),
        (6.0, range(1, 33), None),  # hardly any report after it
        (6.0, range(27, 60), None),  # and hardly any before it
    ],
)
def test_a_run_that_stays_slow(
    factor: float, numbers: Sequence[int], confidence: str | None, form: str, tmp_path: Path
) -> None:
    finding = found(tmp_path, lines(falls(factor), numbers, form), "E10")
    assert (finding.confidence if finding is not None else None) == confidence
    if finding is not None:
        assert finding.title.startswith("The run slows down: since step 1 500, each takes ")
        assert finding.evidence[0].value / finding.evidence[1].value == pytest.approx(factor, rel=0.05)


def test_one_report_may_cover_steps_of_both_kinds(tmp_path: Path) -> None:
    assert found(tmp_path, lines(lambda at: 412 if at < 30 else 150 if at == 30 else 60, range(20, 41)), "E10") is not None


NUMBERS = range(20, 41)
SLOW = falls(6.0)


def with_line(text: str) -> list[str]:
    told = lines(SLOW, NUMBERS)
    return [*told[:10], text, *told[10:]]


def changed(old: str, new: str, form: str = PLAIN) -> list[str]:
    return [
        text.replace(old, new) if number >= 30 else text
        for number, text in zip(NUMBERS, lines(SLOW, NUMBERS, form), strict=True)
    ]


SIZED = PLAIN + " | size 224"
TERMS = PLAIN + " | adv_loss 0.0000"
HEALTHY: dict[str, list[str]] = {
    "it comes back": lines(lambda at: 60 if 30 <= at < 38 else 412, NUMBERS),
    "up and down": lines(lambda at: 60 if at // 5 % 2 else 412, NUMBERS),
    "it varied before": lines(lambda at: 60 if at >= 30 else 412 if at % 2 else 280, NUMBERS),
    "it nearly recovers": lines(lambda at: 412 if at < 30 else 190 if at in (35, 39) else 60, range(20, 50)),
    "a start that is fast": lines(falls(6.0, 4), range(1, 13)),
    "an epoch begins": lines(SLOW, NUMBERS, epoch=lambda at: 3 + (at >= 30)),
    "the steps begin again": lines(SLOW, [*range(20, 30), *range(1, 12)]),
    "a stage is named": with_line("=> stage 2: all layers are trained"),
    "larger images are named": with_line("Image size is now 448"),
    "it is evaluated": with_line("Evaluating 5000 images ..."),
    "it was started again": with_line("Resumed from last.pth on 1 x NVIDIA T4"),
    "larger images in each line": changed("size 224", "size 448", SIZED),
    "a stage in each line": changed("epoch 3", "stage 2 epoch 3"),
    "another term of the loss": [
        text.replace("adv_loss 0.0000", f"adv_loss 0.{number}31") if number >= 30 else text
        for number, text in zip(NUMBERS, lines(SLOW, NUMBERS, TERMS), strict=True)
    ],
    "more samples in a step": [
        f"{text} | {1 / (0.5 if at < 10 else 3):.2f} it/s" for at, text in enumerate(lines(lambda at: 412, NUMBERS))
    ],
    "steps of a policy": lines(SLOW, NUMBERS, "step {step} reward {score:.2f} loss 0.{step} {rate:.1f} samples/s"),
    "an evaluation of its own": [
        *lines(lambda at: 412, NUMBERS[:10]),
        *lines(lambda at: 60, NUMBERS[10:], "Test: " + PLAIN),
    ],
}


@pytest.mark.parametrize("name", HEALTHY)
def test_other_changes_of_the_pace(name: str, tmp_path: Path) -> None:
    assert found(tmp_path, HEALTHY[name], "E10") is None


@pytest.mark.parametrize(
    "rate",
    [
        lambda at: 412 if at < 28 else 60 if at > 32 else (290, 230, 180, 130, 90)[at - 28],
        lambda at: 412 if at < 30 else 90 if at % 2 else 50,
    ],
    ids=["over several reports", "to various rates"],
)
def test_a_fall_that_has_no_step_is_not_said_to_have_one(rate: Rate, tmp_path: Path) -> None:
    finding = found(tmp_path, lines(rate, NUMBERS), "E10")
    assert finding is not None
    assert "since step" not in finding.title


def test_an_unknown_line_before_it_makes_it_unsure(tmp_path: Path) -> None:
    finding = found(tmp_path, with_line("Hello there"), "E10")
    assert finding is not None
    assert finding.confidence == "possible"


def test_a_bar_that_turns_from_steps_per_second_to_seconds_per_step(tmp_path: Path) -> None:
    bar = " {share}%|███▌      | {step}/9000 [01:40<10:00, {rate}, loss=2.{step}]"
    told = [bar.format(share=at, step=at * 90, rate="4.02it/s" if at < 30 else "1.95s/it") for at in range(15, 50)]
    assert found(tmp_path, told, "E10") is not None
