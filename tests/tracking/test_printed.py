"""Progress lines as frameworks and people print them, lines that only look like one."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.tracking.printed import Printed, Transcript, parse

LINES: list[tuple[str, dict[str, float], dict[str, Any]]] = [
    ("loss: 0.43", {"loss": 0.43}, {}),
    ("[batch 20/100] Loss_D: 0.4 Loss_G: 1.2", {"loss_d": 0.4, "loss_g": 1.2}, {"step": 20, "steps": 100}),
    ("Loss = 4.3e-1", {"loss": 0.43}, {}),
    ("epoch 3 step 120 loss 0.4", {"loss": 0.4}, {"epoch": 3, "step": 120}),
    ("epoch 3 step 120/2000 loss 0.4012 512 samples/s", {"loss": 0.4012}, {"epoch": 3, "step": 120, "steps": 2000}),
    ('{"loss": 0.4, "step": 10, "lr": 1e-4}', {"loss": 0.4, "lr": 1e-4}, {"step": 10}),
    ('INFO {"train": {"loss": 0.4}, "val": {"loss": 0.5}}', {"train/loss": 0.4, "val/loss": 0.5}, {}),
    ('{"loss": NaN, "time": 5.0}', {"loss": math.nan}, {}),
    ("{'loss': nan, 'epoch': 0.5}", {"loss": math.nan}, {"epoch": 0.5}),
    ("{'loss': 2.3, 'learning_rate': 5e-05, 'epoch': 0.1}", {"loss": 2.3, "learning_rate": 5e-5}, {"epoch": 0.1}),
    ("{'loss': '2.302', 'grad_norm': '1.2', 'epoch': '0.1'}", {"loss": 2.302, "grad_norm": 1.2}, {"epoch": 0.1}),
    (
        "Epoch 1:  45%|████▌     | 45/100 [00:10<00:12,  4.50it/s, loss=0.43, lr=0.001]",
        {"loss": 0.43, "lr": 0.001},
        {"epoch": 1, "step": 45, "steps": 100, "bar": True},
    ),
    (
        "Epoch 0:  50%|█████     | 50/100 [00:01<00:01, 40.00it/s, v_num=0, train_loss=0.5, mine=2.0]",
        {"train_loss": 0.5, "mine": 2.0},
        {"epoch": 0, "step": 50, "steps": 100, "bar": True},
    ),
    ("Validation:  45%|██ | 45/100 [00:10<00:12, 4.5it/s, loss=0.3]", {"val_loss": 0.3}, {}),
    (
        "235/235 ━━━━━━━━━━━━━━━━━━━━ 3s 12ms/step - accuracy: 0.9123 - loss: 0.3100 - val_loss: 0.2100",
        {"accuracy": 0.9123, "loss": 0.31, "val_loss": 0.21},
        {"step": 235, "steps": 235, "bar": True},
    ),
    ("Epoch 1/5", {}, {"epoch": 1, "epochs": 5}),
    ("Epoch [1/5], Step [100/600], Loss: 0.2191", {"loss": 0.2191}, {"epoch": 1, "epochs": 5, "step": 100, "steps": 600}),
    ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.301025", {"loss": 2.301025}, {"epoch": 1}),
    ("Test set: Average loss: 0.0356, Accuracy: 9885/10000 (99%)", {"test_loss": 0.0356}, {}),
    ("iter 100: loss 2.3012, time 100.00ms, mfu -100.00%", {"loss": 2.3012}, {"step": 100}),
    ("step 0: train loss 4.2874, val loss 4.2823", {"train_loss": 4.2874, "val_loss": 4.2823}, {"step": 0}),
    (
        "Epoch: [0]  [ 10/235]  eta: 0:00:10  lr: 0.1  img/s: 300.1  loss: 1.23 (1.50)  acc1: 50.0 (40.0)",
        {"lr": 0.1, "loss": 1.23, "acc1": 50.0},
        {"epoch": 0, "step": 10, "steps": 235},
    ),
    (
        "Epoch: [0][ 10/235]\tTime  0.1 ( 0.2)\tLoss 6.9e+00 (7.0e+00)\tAcc@1 0.00 (0.1)",
        {"loss": 6.9, "acc@1": 0.0},
        {"epoch": 0, "step": 10, "steps": 235},
    ),
    (
        " iteration       10/  100 | learning rate: 1.5E-04 | lm loss: 1.07E+01 | loss scale: 1.0 | grad norm: 2.1 |",
        {"learning_rate": 1.5e-4, "lm_loss": 10.7, "grad_norm": 2.1},
        {"step": 10, "steps": 100},
    ),
    (
        "epoch 001:  10 / 100 loss=5.4, nll_loss=5.1, ppl=35.2, num_updates=10, lr=1e-05",
        {"loss": 5.4, "nll_loss": 5.1, "ppl": 35.2, "lr": 1e-5},
        {"epoch": 1, "step": 10},
    ),
    ("[2026-01-01 10:00:00,123] step: 5 loss: tensor(2.3, grad_fn=<NllLossBackward0>)", {"loss": 2.3}, {"step": 5}),
    ("INFO:root:Epoch 3 | Train Loss: 0.51 | Val Acc: 93.2%", {"train_loss": 0.51, "val_acc": 93.2}, {"epoch": 3}),
]


@pytest.mark.parametrize(("line", "metrics", "rest"), LINES, ids=[line[:40] for line, _, _ in LINES])
def test_progress_lines(line: str, metrics: dict[str, float], rest: dict[str, Any]) -> None:
    said = parse(line)
    assert said is not None
    assert dict(said.metrics) == pytest.approx(metrics, nan_ok=True)
    assert said == Printed(said.metrics, **rest)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "packet loss: 5%",
        "5 packets transmitted, 5 received, 0% packet loss, time 4005ms",
        "Namespace(lr=0.1, loss=3, epochs=5)",
        "lr: 0.001",
        "batch_size=64 epochs=5",
        "Using loss: cross_entropy",
        "loss_scale: 65536",
        "loss=1,234.5",
        "loss: 0,43",
        "loss: 0.1-0.5",
        "loss: 2026-01-01",
        "model.safetensors: 45%|████▌     | 1.2G/2.6G [00:10<00:12, 120MB/s]",
        "100%|██████████| 9912422/9912422 [00:00<00:00, 15500000.00it/s]",
        "Accuracy: 9885/10000",
        "torch 2.13.0",
        '  File "train.py", line 12, in loss',
        "map 3 files",
        "top - 10:00:00 up 3 days",
        "top 10 results",
        "acc 3 of 5",
        "UserWarning: loss 3x",
        '{"level": "info", "time": 123, "pid": 4, "msg": "loss"}',
        '{"loss_weight": 0.5}',
        '{"loss": "high"}',
        '{"loss": true}',
        "--> 120     loss = 0.5 * x",
        "loss = criterion(y, t)",
        "class Loss(nn.Module): # 3",
        "step 3",
        "CrossEntropyLoss(weight=0.5, loss=1)",
        "Epoch 5 is the last one",
    ],
)
def test_other_lines(line: str) -> None:
    assert parse(line) is None


@given(st.text(max_size=300))
def test_no_text_makes_it_fail(text: str) -> None:
    said = parse(text)
    assert said is None or said.metrics or said.epoch is not None
    for _, metrics in Transcript().feed(text.encode("utf-8", "surrogatepass") + b"\n"):
        assert all(isinstance(value, float) for value in metrics.values())


@given(
    st.lists(
        st.sampled_from(["loss", ":", "=", "1", ".", "e", " ", "{", "}", "'", "epoch", "/", "[", "nan", "|", "acc"]),
        max_size=60,
    )
)
def test_no_piece_of_a_line_makes_it_fail(parts: list[str]) -> None:
    parse("".join(parts))


FINITE = st.floats(-1e6, 1e6).map(lambda value: float(f"{value:.6g}"))


@given(
    loss=FINITE,
    lr=st.floats(1e-9, 1).map(lambda value: float(f"{value:.3g}")),
    step=st.integers(0, 10**9),
    epoch=st.integers(0, 999),
)
def test_what_is_printed_is_read_back(loss: float, lr: float, step: int, epoch: int) -> None:
    for line in (
        f"epoch {epoch} step {step} loss {loss} lr {lr}",
        f"[{epoch=}] {step=} loss={loss} lr={lr}".replace("epoch=", "epoch ").replace("step=", "step "),
        f"Epoch: {epoch} | Step: {step}/1000000000 | Loss: {loss} | LR: {lr}",
        json.dumps({"epoch": epoch, "step": step, "loss": loss, "lr": lr}),
        repr({"epoch": float(epoch), "step": step, "loss": loss, "lr": str(lr)}),
    ):
        said = parse(line)
        assert said is not None, line
        assert (said.metrics["loss"], said.metrics["lr"], said.step, said.epoch) == (loss, lr, step, epoch), line


def steps_of(text: str) -> tuple[list[int], int | None]:
    transcript = Transcript()
    return [step for step, _ in [*transcript.feed(text.encode()), *transcript.end()]], transcript.total_steps


def test_steps_that_start_again_go_on() -> None:
    text = "\n".join(f"Epoch [{epoch}/3], Step [{step}/40], Loss: 1.0" for epoch in (1, 2, 3) for step in (20, 40))
    assert steps_of(text) == ([20, 40, 60, 80, 100, 120], 120)


def test_steps_over_all_epochs_stay() -> None:
    assert steps_of("\n".join(f"epoch {step // 30} step {step}/90 loss 1" for step in range(0, 90, 10))) == (
        list(range(0, 90, 10)),
        90,
    )
    assert steps_of("epoch 0 step 10/90 loss 1") == ([10], None), "nothing tells yet what it counts"
    assert steps_of("step 10/90 loss 1") == ([10], 90)


def test_keras_and_its_bars() -> None:
    bar = "\r{0}/10 ━━━━━━━━━ 0s 1ms/step - loss: 0.5"
    epoch = "Epoch {0}/2\n" + bar.format(1) + bar.format(5) + bar.format(10) + " - val_loss: 0.4\n"
    assert steps_of(epoch.format(1).replace("{0}", "1") + epoch.format(2)) == ([1, 5, 10, 11, 15, 20], 20)


def test_lines_without_any_step_are_counted_and_evaluations_are_not() -> None:
    assert steps_of("loss: 3\nloss: 2\nval loss: 2.5\nloss: 1\nbye\n") == ([1, 2, 2, 3], None)


def test_pieces_of_any_size_are_one_text() -> None:
    text = "Epoch 1: 45%|█| 45/100 [00:10<00:12, loss=0.43]\r\n\x1b[32mloss: 0.5\x1b[0m\nstep 7 ünd loss 0.25".encode()
    whole = Transcript()
    expected = [*whole.feed(text), *whole.end()]
    assert [step for step, _ in expected] == [45, 45, 7]
    for size in (1, 2, 7):
        pieces = Transcript()
        found = [said for start in range(0, len(text), size) for said in pieces.feed(text[start : start + size])]
        assert [*found, *pieces.end()] == expected


def test_a_line_without_an_end_takes_no_memory() -> None:
    transcript = Transcript()
    for _ in range(100):
        assert list(transcript.feed(b"x" * 10_000)) == []
    assert len(transcript._partial) <= 4000
    assert [metrics for _, metrics in transcript.feed(b"\nloss: 1\n")] == [{"loss": 1.0}]
