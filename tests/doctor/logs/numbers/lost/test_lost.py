"""Trainings whose losses or gradients are no longer finite, where few lines or none print a loss (J01)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found


def megatron(norms: Iterable[str], loss: str = "", scale: float = 1.0, skipped: int = 0) -> list[str]:
    return [
        f" iteration {at:8d}/ 90000 | consumed samples: {at * 16:12d} | elapsed time per iteration (ms): 913.4 | {loss}"
        f"loss scale: {scale:.1f} | grad norm: {norm} | number of skipped iterations: {skipped:3d} |"
        for at, norm in enumerate(norms, 7310)
    ]


@pytest.mark.parametrize(
    ("lines", "confidence"),
    {
        "without a loss": (megatron(["nan"] * 3), "likely"),
        "beside a finite loss": (megatron(["nan"] * 4, "lm loss: 3.1402E+00 | "), "likely"),
        "after numbers": (megatron(["1.204", "1.311", "nan", "nan", "nan"]), "likely"),
        "without a scale": ([f"step {at} loss 2.{at} gnorm nan lr 0.0003" for at in range(30, 34)], "possible"),
        "three without a scale": ([f"step {at} loss 2.{at} gnorm nan lr 0.0003" for at in range(30, 33)], "possible"),
        "only two": (megatron(["0.871", "nan", "nan"]), None),
        "numbers follow": (megatron([*["nan"] * 4, "2.214"]), None),
        "infinite": (megatron(["inf"] * 4), None),
        "a scaler looks for its scale": (megatron(["nan"] * 4, "lm loss: 1.0871E+01 | ", 65536.0), None),
        "skipped": (megatron(["nan"] * 4, "lm loss: 1.0871E+01 | ", 1.0, 1), None),
        "finite": (megatron(["0.871"] * 9), None),
    }.values(),
)
def test_norms_of_gradients_that_are_nan(lines: list[str], confidence: str | None, tmp_path: Path) -> None:
    finding = found(tmp_path, lines, "J01")
    assert (finding.confidence if finding is not None else None) == confidence


def trainer(losses: Iterable[float], norm: str = "") -> list[str]:
    """Return the reports of Transformers' Trainer, which shows NaN as 0."""
    return [
        str({"loss": loss, "learning_rate": 3e-05, "epoch": at / 50}).replace("'learning", f"{norm}'learning")
        for at, loss in enumerate(losses, 1)
    ]


@pytest.mark.parametrize(
    ("lines", "confidence"),
    {
        "a norm that is NaN": (trainer([0.0] * 4, "'grad_norm': nan, "), "likely"),
        "a norm that is NaN later": (trainer([1.9, 1.8, 0.0, 0.0, 0.0], "'grad_norm': nan, "), "likely"),
        "a sudden 0, in an older release": (trainer([2.31, 1.92, 1.7, *[0.0] * 6]), "possible"),
        "only two": (trainer([0.0] * 2, "'grad_norm': nan, "), None),
        "a norm of 0": (trainer([0.0] * 4, "'grad_norm': 0.0, "), None),
        "learned to 0": (trainer([0.71, 0.22, 0.04, 0.0006, *[0.0] * 6]), None),
        "0 at first": (trainer([*[0.0] * 6, 0.0004, 0.0011]), None),
        "0 for a short time": (trainer([2.31, 1.92, 1.7, *[0.0] * 4]), None),
        "a norm that is finite": (trainer([1.1, 0.9, *[0.0] * 6], "'grad_norm': 0.031, "), None),
    }.values(),
)
def test_losses_that_are_shown_as_0(lines: list[str], confidence: str | None, tmp_path: Path) -> None:
    finding = found(tmp_path, lines, "J01")
    assert (finding.confidence if finding is not None else None) == confidence


YOLO = " Epoch   gpu_mem       box       obj       cls    labels  img_size"
BAR = "     {epoch}/49     3.1G  {box}  {obj}  {cls}        11       512: 100%|##########| 9/9 [00:08<00:00,  1.07it/s]"


def yolo(*losses: str) -> list[str]:
    return [text for epoch, loss in enumerate(losses) for text in (YOLO, BAR.format(epoch=epoch, box=loss, obj=loss, cls=loss))]


PARTS = "[03:11:20] iter: {at}  total_loss: {total}  loss_cls: {cls}  loss_box_reg: {box}  lr: 0.0025  max_mem: 4102M"


@pytest.mark.parametrize(
    ("lines", "confidence"),
    {
        "a table's only row": (yolo("nan"), "likely"),
        "the last row": (yolo("0.0871", "0.0702", "nan"), "likely"),
        "the parts of a loss": ([PARTS.format(at=19, total="nan", cls="nan", box="inf")], "likely"),
        "a later row is finite": (yolo("nan", "0.0913"), None),
        "one part is finite": ([PARTS.format(at=19, total="nan", cls="0.413", box="nan")], None),
        "two losses, NaN": (["step 19 loss_cls: nan loss_box_reg: nan"], "likely"),
        "beside a loss scale": (['{"step": 19, "loss_cls": NaN, "loss_box_reg": NaN, "loss_scale": 8.0}'], "likely"),
        "two losses, infinite": (["step 19 loss_cls: inf loss_box_reg: inf"], "likely"),
        "a line of an evaluation": (
            ["step 19 loss_cls: 0.4 loss_box_reg: 0.3", "Validation: loss_cls: nan loss_box_reg: nan"],
            None,
        ),
        "a later line is finite": (
            ["step 19 loss_cls: nan loss_box_reg: nan", "step 20 loss_cls: 0.4 loss_box_reg: 0.3"],
            None,
        ),
        "finite": (yolo("0.0871", "0.0702"), None),
    }.values(),
)
def test_a_last_report_whose_losses_are_all_lost(lines: list[str], confidence: str | None, tmp_path: Path) -> None:
    finding = found(tmp_path, lines, "J01")
    assert (finding.confidence if finding is not None else None) == confidence


def fairseq(exponents: Iterable[int], between: int = 0) -> list[str]:
    lines = []
    for exponent in exponents:
        lines.append(f"| WARNING: overflow detected, setting loss scale to: {2.0**exponent}")
        lines += [f"| epoch 011: {at} / 2400 loss=5.91, nll_loss=4.5" for at in range(between)]
    return lines


def deepspeed(exponents: Iterable[int], steps: int = 1, start: int = 900) -> list[str]:
    return [
        f"  9%|9         | {start + at * steps}/10000 [2:10:07<22:01:10,  8.6s/it][2024-04-02 05:11:20,018] [INFO] "
        f"[loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: "
        f"{2**exponent}, reducing to {2 ** (exponent - 1)}"
        for at, exponent in enumerate(exponents)
    ]


@pytest.mark.parametrize(
    ("lines", "confidence"),
    {
        "fairseq": (fairseq(range(2, -9, -1)), "likely"),
        "on each rank": ([line for line in fairseq(range(2, -9, -1)) for _ in range(2)], "likely"),
        "DeepSpeed": (deepspeed(range(11, 2, -1)), "likely"),
        "only the end of it": (deepspeed(range(6, 1, -1)), "likely"),
        "Apex": (
            [f"Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {2.0**at}" for at in range(9, -1, -1)],
            "likely",
        ),
        "a schedule of the script's own": (
            [f"reducing loss scale to {10.0**at}" for at in range(8, -2, -1)],
            None,
        ),
        "Megatron's start": (deepspeed(range(32, 26, -1), start=1), None),
        "a long start": (deepspeed(range(32, 10, -1), start=1), None),
        "good steps in between": (deepspeed(range(11, 2, -1), steps=40), None),
        "progress in between": (fairseq(range(2, -9, -1), between=4), None),
        "few, far above": (fairseq(range(12, 6, -1)), None),
        "it goes on": ([*deepspeed(range(11, 2, -1)), *(f"step {at} loss 2.1{at}" for at in range(910, 930))], None),
    }.values(),
)
def test_a_loss_scale_that_falls_and_falls(lines: list[str], confidence: str | None, tmp_path: Path) -> None:
    finding = found(tmp_path, lines, "J01")
    assert (finding.confidence if finding is not None else None) == confidence


def test_the_scales_are_those_at_which_the_gradients_were_seen_to_overflow(tmp_path: Path) -> None:
    for lines in (deepspeed(range(7, 1, -1)), fairseq(range(6, 0, -1))):
        finding = found(tmp_path, [*lines, "{'loss': 1.9, 'epoch': 0.3}"], "J01")
        assert finding is not None
        assert finding.title == "The gradients overflow 6 times in a row, at each loss scale from 128 down to 4"
        assert "diverged" not in finding.cause


SMALL = "2025-05-20 02:38:47,195 WARNING [train.py:1047] (7/8) Grad scale is small: {}"
APEX = "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {}"


@pytest.mark.parametrize("text", [SMALL, APEX])
def test_a_loss_scale_that_is_tiny(text: str, tmp_path: Path) -> None:
    lines = ["step 10 loss 2.31", text.format("3.0517578125e-05"), "step 20 loss 2.30", "step 30 loss 2.29"]
    finding = found(tmp_path, lines, "J01")
    assert finding is not None
    assert (finding.confidence, finding.title) == ("likely", "The gradients overflow at each loss scale, down to 3.05e-05")
    assert found(tmp_path, [*lines, text.format("128.0")], "J01") is None, "it has recovered"
    assert found(tmp_path, [line.replace("e-05", "e-02") for line in lines], "J01") is None, "once, far above"


def skipped(*numbers: int) -> list[str]:
    return [
        f"2025-03-08 11:20:41.582 | WARNING | train:fit:402 - Skipping batch at iter {at} (epoch 14): non-finite loss"
        for at in numbers
    ]


@pytest.mark.parametrize(
    ("lines", "confidence"),
    {
        "most": (skipped(811, 812, 814), "likely"),
        "the loss is named first": ([f"step {at}: loss is nan, skipping this batch" for at in (70, 71, 72)], "likely"),
        "now and then": (skipped(811, 1712, 2914), None),
        "only two": (skipped(811, 812), None),
        "two, one of them on two ranks": (skipped(811, 811, 813), None),
        "one, on three ranks": (skipped(811, 811, 811), None),
    }.values(),
)
def test_batches_that_are_skipped(lines: list[str], confidence: str | None, tmp_path: Path) -> None:
    finding = found(tmp_path, [*(f"step {at} loss 1.{at}" for at in range(40, 60)), *lines], "J01")
    assert (finding.confidence if finding is not None else None) == confidence
