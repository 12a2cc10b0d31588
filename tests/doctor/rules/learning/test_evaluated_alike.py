"""Evaluations that are equal to the last digit although the run trains: its weights do not change (J03)."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from gputop.cli.doctor.logs import explain_logs

LINES: dict[str, Callable[[int, float, float], str]] = {
    "errors": lambda epoch, train, val: f"Epoch {epoch:03d} - train MSE: {train:.5f} - val MSE: {val:.5f} - 3s",
    "losses": lambda epoch, train, val: f"[{epoch}/100] loss {train:.4f}, valid loss {val:.4f}",
    "JSON": lambda epoch, train, val: json.dumps({"epoch": epoch, "train/loss": train, "eval/loss": round(val, 6)}),
}
Course = Callable[[int, random.Random], tuple[float, float]]
COURSES: dict[str, tuple[Course, bool]] = {
    "nothing changes the weights": (lambda epoch, rng: (1 + rng.gauss(0, 0.01), 1.05019), True),
    "the data has nothing to learn": (lambda epoch, rng: (1 + rng.gauss(0, 0.01), 1.05 + rng.gauss(0, 0.001)), False),
    "what is evaluated is another model": (lambda epoch, rng: (math.exp(-epoch / 8), 1.05019), False),
    "a value of few digits": (lambda epoch, rng: (1 + rng.gauss(0, 0.01), 0.5), False),
    "it learns": (lambda epoch, rng: (math.exp(-epoch / 8), 0.2 + math.exp(-epoch / 8)), False),
}


def said(lines: list[str], tmp_path: Path) -> dict[str, str]:
    """Return the confidence of each finding on a log."""
    log = tmp_path / "train.log"
    log.write_text("\n".join(lines) + "\n")
    return {item.id: item.confidence for item in explain_logs([str(log)])[0]}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("course", COURSES)
def test_equal_evaluations_beside_a_loss_that_stays_show_weights_that_do_not_change(
    line: str, course: str, tmp_path: Path
) -> None:
    rng = random.Random(3)
    values_of, found = COURSES[course]
    lines = [LINES[line](epoch, *values_of(epoch, rng)) for epoch in range(1, 31)]
    assert said(lines, tmp_path).get("J03") == ("likely" if found else None)


def test_a_few_equal_evaluations_are_not_enough(tmp_path: Path) -> None:
    lines = [f"step {step} loss {1 + step % 3 / 1000:.4f}" for step in range(1, 200)]
    for evaluations, found in ((4, "possible"), (6, "likely")):
        between = [f"{line}\nstep {step} val loss 1.0502" for step, line in enumerate(lines, 1) if step <= evaluations]
        assert said([*between, *lines[evaluations:]], tmp_path).get("J03") == found


def test_a_score_that_is_the_same_is_a_sign_beside_a_loss_that_stays(tmp_path: Path) -> None:
    def lines(epochs: int, fall: float = 0.0) -> list[str]:
        ends = [f"Epoch {at}/60 train {0.914 - fall * at:.4f} val dice 0.0880 (11.2s)" for at in range(1, epochs + 1)]
        steps = [
            [f"  [{at}, {10 * k:3d}/40] dice loss: {0.914 - fall * at + k % 3 / 300:.4f}" for k in range(1, 5)]
            for at in range(1, epochs + 1)
        ]
        return [line for inside, end in zip(steps, ends, strict=True) for line in (*inside, end)]

    assert said(lines(8), tmp_path).get("J03") == "possible"
    assert said(lines(7), tmp_path).get("J03") is None
    assert said(lines(12, fall=0.05), tmp_path).get("J03") is None


def flat_after_the_first(first: float, evaluated: float) -> list[str]:
    """Return what a run says whose loss has fallen from ``first`` to 1; its evaluations differ by up to ``evaluated``."""
    lines = []
    for step in range(1, 101):
        lines.append(f"step {step} loss {(first if step < 10 else 1) + step % 3 / 250:.4f}")
        if step % 10 == 0:
            lines.append(f"step {step} val loss {1.05 + evaluated * (step % 20 == 0):.4f}")
    return lines


@pytest.mark.parametrize(
    ("first", "evaluated", "found"),
    {
        "the answers' frequencies alone": (1.04, 0.001, True),
        "the loss has fallen far": (1.6, 0.001, False),
        "the evaluations differ": (1.04, 0.02, False),
    }.values(),
)
def test_a_loss_that_stays_after_its_first_reports_beside_evaluations_that_stay(
    first: float, evaluated: float, found: bool, tmp_path: Path
) -> None:
    assert ("J03" in said(flat_after_the_first(first, evaluated), tmp_path)) is found


def test_a_score_that_stays_zero_while_the_training_learns(tmp_path: Path) -> None:
    def log(score: float, end: float, evaluations: int = 5) -> bool:
        lines = []
        for at in range(evaluations * 6):
            fallen = (2.0 - end) * at / (evaluations * 6 - 1)
            lines.append(f"epoch {at // 6 + 1} step {at} loss {2.0 - fallen + at % 3 / 100:.4f}")
            if at % 6 == 5:
                lines.append(f"epoch {at // 6 + 1} val mAP {score:.4f}")
        file = tmp_path / "train.log"
        file.write_text("\n".join(lines) + "\n")
        return any(item.id == "J05" for item in explain_logs([str(file)])[0])

    assert log(0.0, 0.4)
    assert not log(0.012, 0.4)
    assert not log(0.0, 1.6), "it has not learned much"
    assert not log(0.0, 0.4, 3)


@pytest.mark.parametrize(
    ("train", "evaluated", "collapsed"),
    {
        "the evaluation's loss moves": (lambda at: 0.69 + at % 3 / 300, lambda at: 0.688 + at % 4 / 500, True),
        "the mean of an epoch moves": (lambda at: (1.28, 0.97, 0.74, 1.05, 1.31, 1.26)[at % 6], None, True),
        "only the noise of the training": (lambda at: 0.69 + at % 3 / 300, None, False),
    }.values(),
)
def test_a_score_that_stays_beside_a_loss_that_moves_is_one_class_for_all(
    train: Callable[[int], float], evaluated: Callable[[int], float] | None, collapsed: bool, tmp_path: Path
) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        "".join(
            f"Epoch:{at}, Train_loss:{train(at):.4f}, "
            + (f"Val_loss:{evaluated(at):.4f}, " if evaluated is not None else "")
            + "Val_acc:0.5417\n"
            for at in range(18)
        )
    )
    finding = next(item for item in explain_logs([str(log)])[0] if item.id == "J03")
    assert finding.confidence == "possible"
    assert ("the same class to every input" in finding.cause) is collapsed
    assert ("no step changes them" in finding.cause) is not collapsed


@pytest.mark.parametrize(
    ("precision", "end", "epochs", "found"),
    {
        "it never finds anything": (0.0, 0.2, 12, True),
        "it finds a little": (0.0041, 0.2, 12, False),
        "it has not learned much": (0.0, 0.8, 12, False),
        "the first epochs": (0.0, 0.2, 6, False),
    }.values(),
)
def test_a_detector_that_finds_nothing_while_the_parts_of_its_loss_fall(
    precision: float, end: float, epochs: int, found: bool, tmp_path: Path
) -> None:
    lines = []
    for epoch in range(1, epochs + 1):
        share = 1 - (1 - end) * epoch / epochs
        losses = "      ".join(f"{part * share:.4g}" for part in (3.1, 9.7, 1.9))
        lines += [
            "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size",
            f"      {epoch}/40      9.1G      {losses}          9        512: 100%|##########| 6/6 [00:03<00:00,  1.81it/s]",
            "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|##########| 2/2 "
            "[00:00<00:00,  3.1it/s]",
            f"                   all         31         44          0          0    {precision:g}    {precision / 2:g}",
        ]
    assert (said(lines, tmp_path).get("J05") == "possible") is found
