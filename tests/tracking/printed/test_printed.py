"""Progress lines as frameworks and people print them, lines that only look like one."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.tracking.printed.languages import in_english
from gputop.tracking.printed.lines import parse
from gputop.tracking.printed.names import Printed, is_evaluation
from gputop.tracking.printed.tables import Tables
from gputop.tracking.printed.transcript import Transcript

LINES: list[tuple[str, dict[str, float], dict[str, Any]]] = [
    ("loss: 0.43", {"loss": 0.43}, {}),
    (
        "(epoch: 2, iters: 100, time: 0.300, data: 0.200) G_GAN: 1.210 D_real: 0.500 ",
        {"loss_G_GAN": 1.21, "loss_D_real": 0.5},
        {"step": 100, "epoch": 2},
    ),
    ("[iters: 20, time: 0.123] G_L1: 0.1234", {"loss_G_L1": 0.1234}, {"step": 20}),
    ("[batch 20/100] Loss_D: 0.4 Loss_G: 1.2", {"loss_d": 0.4, "loss_g": 1.2}, {"step": 20, "steps": 100}),
    ("Loss = 4.3e-1", {"loss": 0.43}, {}),
    ("12:00:01 INFO loss=0.5 acc: 0.25", {"loss": 0.5, "acc": 0.25}, {}),
    ("   1.2s  ep 3  it   20  ce 1.6012", {"ce": 1.6012}, {"step": 20}),
    ("[0] 10 xent=4.1234", {"xent": 4.1234}, {}),
    ("year 2010 step 1000 mse nan rmse nank", {"mse": math.nan}, {"step": 1000}),
    ("step 20 mse -inf", {"mse": -math.inf}, {"step": 20}),
    ("     20 contrastive 0.53112", {"contrastive": 0.53112}, {}),
    ("epoch=0 it=100 mape=nan", {"mape": math.nan}, {"epoch": 0, "step": 100}),
    ("[iter   100] l1 1.7899  smooth 0.0134  lr 2.0e-03", {"l1": 1.7899, "lr": 2e-3}, {"step": 100}),
    ("epoch 2 charbonnier 0.041 smooth_l1: 0.3", {"charbonnier": 0.041, "smooth_l1": 0.3}, {"epoch": 2}),
    ("step 15  loss 0.526  acc 0.80  labels in batch: {'joy': 32}", {"loss": 0.526, "acc": 0.8}, {"step": 15}),
    (
        "epoch 1 | loss 2.5427 | char acc 24.51% | val loss 3.5914 | val char acc 3.19%",
        {"loss": 2.5427, "acc_percent": 24.51, "val_loss": 3.5914, "val_char_acc_percent": 3.19},
        {"epoch": 1},
    ),
    (
        "step 100 | mel_loss 2.347 | dur_loss 0.587 | total 2.933 | 6.98 it/s",
        {"mel_loss": 2.347, "dur_loss": 0.587, "total_loss": 2.933},
        {"step": 100},
    ),
    ("step 5 cls_loss 0.3 box_loss 0.2 total 0.5 time 0.4", {"cls_loss": 0.3, "box_loss": 0.2, "total_loss": 0.5}, {"step": 5}),
    ("step 5 cls_loss 0.3 box_loss 0.2 total 0.4 s", {"cls_loss": 0.3, "box_loss": 0.2}, {"step": 5}),
    ("step 5 cls_loss 0.3 box_loss 0.2 data 0.1 total 0.4", {"cls_loss": 0.3, "box_loss": 0.2}, {"step": 5}),
    ("episode 400 eps 0.71 mean_return(100) 1.66 len 74", {"mean_return": 1.66}, {}),
    ("epoch 3 triplet: 0.213", {"triplet": 0.213}, {"epoch": 3.0}),
    ("global_step 15 recon 0.4012", {"recon": 0.4012}, {"step": 15}),
    ("epoch 3: objective = 12.5, huber: 0.3", {"objective": 12.5, "huber": 0.3}, {"epoch": 3}),
    ("epoch 3 loss 12.31 rec 4.11 kl 2.20 beta 0.07", {"loss": 12.31, "beta": 0.07}, {"epoch": 3}),
    ("update 5 | return 20.0 | policy loss 0.2", {"return": 20.0, "loss": 0.2}, {"step": 5}),
    ("epoch 3: loss=0.3, kl_weight=0.5", {"loss": 0.3, "kl_weight": 0.5}, {"epoch": 3}),
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
    ("Eval loss:   3%|▎ | 3/100 [00:00<00:02, loss=0.5]", {"eval_loss": 0.5}, {}),
    ("mAP: 45.3%", {"mAP_percent": 45.3}, {}),
    ("mAP: 45.3%|acc: 91%|loss: 0.3", {"mAP_percent": 45.3, "acc_percent": 91.0, "loss": 0.3}, {}),
    ("epoch 3 | mAP: 45.3% | acc: 91%", {"mAP_percent": 45.3, "acc_percent": 91.0}, {"epoch": 3}),
    (
        "235/235 ━━━━━━━━━━━━━━━━━━━━ 3s 12ms/step - accuracy: 0.9123 - loss: 0.3100 - val_loss: 0.2100",
        {"accuracy": 0.9123, "loss": 0.31, "val_loss": 0.21},
        {"step": 235, "steps": 235, "bar": True},
    ),
    ("Epoch 1/5", {}, {"epoch": 1, "epochs": 5}),
    ("Epochs: 3/10", {}, {"epoch": 3, "epochs": 10}),
    ("Epoch [1/5], Step [100/600], Loss: 0.2191", {"loss": 0.2191}, {"epoch": 1, "epochs": 5, "step": 100, "steps": 600}),
    ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.301025", {"loss": 2.301025}, {"epoch": 1}),
    ("Test set: Average loss: 0.0356, Accuracy: 9885/10000 (99%)", {"test_loss": 0.0356, "test_accuracy_percent": 98.85}, {}),
    ("Accuracy: 3/7 (43%), loss: 0.5", {"loss": 0.5, "accuracy_percent": 42.8571}, {}),
    ("ep0 it 20/400 loss 0.3", {"loss": 0.3}, {"step": 20, "steps": 400, "epoch": 0}),
    ("ep 2/9 step 4/50 loss 0.1", {"loss": 0.1}, {"step": 4, "steps": 50, "epoch": 2, "epochs": 9}),
    ("ep 12 step 400 reward 3.5", {"reward": 3.5}, {"step": 400}),
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
    ("INFO:root:Epoch 3 | Train Loss: 0.51 | Val Acc: 93.2%", {"train_loss": 0.51, "val_acc_percent": 93.2}, {"epoch": 3}),
    ("[19]\ttrain-logloss:0.05", {"train-logloss": 0.05}, {"step": 19}),
    ("[0]\ttrain-rmse:1.5\tvalidation_0-mape:2e-3", {"train-rmse": 1.5, "validation_0-mape": 2e-3}, {"step": 0}),
    ("[7]\ttrain-auc:0.98+0.001\ttest-auc:0.9+0.01", {"train-auc": 0.98, "test-auc": 0.9}, {"step": 7}),
    (
        "[100]\ttraining's l2: 0.2\tvalid_0's l2: 0.3\tvalid_0's multi_error: 0.1",
        {"training/l2": 0.2, "valid_0/l2": 0.3, "valid_0/multi_error": 0.1},
        {"step": 100},
    ),
    ("[10]\tcv_agg's binary_logloss: 0.4 + 0.01", {"cv_agg/binary_logloss": 0.4}, {"step": 10}),
    ("Loss at step 10 = 0.3", {"loss": 0.3}, {"step": 10}),
    ("Training loss (for one batch) at step 200: 0.4", {"training_loss": 0.4}, {"step": 200}),
    ("Val loss after epoch 3: 0.25", {"val_loss": 0.25}, {"epoch": 3}),
    ("global_step=1234, episodic_return=20", {"episodic_return": 20}, {"step": 1234}),
    ("accuracy 95%", {"accuracy_percent": 95}, {}),
    ("Accuracy: 64.7%, Avg loss: 1.07", {"accuracy_percent": 64.7, "loss": 1.07}, {}),
    (
        "| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch 11.15 | loss  6.79 | ppl   890.37",
        {"lr": 20, "loss": 6.79, "ppl": 890.37},
        {"epoch": 1, "step": 200, "steps": 2983},
    ),
    (
        "[0/25][3/1583]\tLoss_D: 1.9\tLoss_G: 4.5\tD(x): 0.6",
        {"loss_d": 1.9, "loss_g": 4.5},
        {"epoch": 0, "epochs": 25, "step": 3, "steps": 1583},
    ),
    ("epoch 3 loss np.float32(0.25)", {"loss": 0.25}, {"epoch": 3}),
    ("\t Train loss/train/total: 2.5", {"train_loss/train/total": 2.5}, {}),
    ("Epoch #4: loss/actor: 0.5, loss/scale: 8.0", {"loss/actor": 0.5}, {"epoch": 4}),
    ("Epoch [2/31] loss 0.5", {"loss": 0.5}, {"epoch": 2, "epochs": 31, "step": 2, "steps": 31}),
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
        "loss: 1,234",
        "loss: 0.1-0.5",
        "loss: 2026-01-01",
        "model.safetensors: 45%|████▌     | 1.2G/2.6G [00:10<00:12, 120MB/s]",
        "100%|██████████| 9912422/9912422 [00:00<00:00, 15500000.00it/s]",
        "Accuracy: 9885/10000",
        "torch 2.13.0",
        '  File "train.py", line 12, in loss',
        "map 3 files",
        # The number after a bar's own heading is how far it is.
        "Map:   5%|▌         | 50/1000 [00:00<00:02, 400.00 examples/s]",
        "Running tokenizer on dataset Map: 100%|##########| 100/100 [00:00<00:00, 900.00it/s]",
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
        "[3] model-a: 4",
        "[12:30:01] src/learner.cc:1: loss",
        "[LightGBM] [Info] Total Bins 255",
        "[1] 0.5 0.6",
        "heat loss 5%",
        "error: 404",
        "a loss at step 10",
        "train-error",
    ],
)
def test_other_lines(line: str) -> None:
    assert parse(line) is None


@given(st.text(max_size=300))
def test_no_text_makes_the_parser_fail(text: str) -> None:
    said = parse(text)
    assert said is None or said.metrics or said.epoch is not None
    for _, metrics in Transcript().feed(text.encode("utf-8", "surrogatepass") + b"\n"):
        assert all(isinstance(value, float) for value in metrics.values())


PIECES = ["loss", ":", "=", "1", ".", "e", " ", "{", "}", "'", "epoch", "/", "[", "nan", "|", "acc"]
STARTS = ["", "epoch 3 ", "INFO:root:", "[12/90] ", "  ", "Epoch 3: 50%|###  | 5/10 [00:01<00:01, 4.9it/s, ", "step 7 | "]
SIDES = ["train", "tr", "val", "vl", "eval", "test", "dev", "held-out", "Valid", "Testing", "in-sample", "teacher", ""]
BETWEEN = [" ", ": ", "=", " | ", "] ", " (", "_", "/", " -> "]
MEASURES = ["loss", "acc", "WER", "perplexity", "Loss", "lr", "f1"]
NUMBERS = ["0.5", "1", "nan", "1e-3", "12%", "0,25", "3.1 s", "0.1/0.9", "[0.1, 0.2]"]


@given(st.lists(st.sampled_from(PIECES), max_size=60))
def test_no_piece_of_a_line_makes_the_parser_fail(parts: list[str]) -> None:
    parse("".join(parts))


@given(st.lists(st.tuples(*map(st.sampled_from, (STARTS, SIDES, BETWEEN, MEASURES, BETWEEN, NUMBERS))), min_size=1, max_size=9))
def test_no_line_of_a_training_makes_its_reader_fail(lines: list[tuple[str, ...]]) -> None:
    transcript = Transcript(with_bars=True)
    list(transcript.feed("".join(f"{''.join(line)}\n" for line in lines).encode()))
    list(transcript.end())


@pytest.mark.parametrize("side", ["val", "valid", "validation", "eval", "evaluation", "test", "testing", "dev"])
@pytest.mark.parametrize("line", ["epoch 3 {}: loss 0.9", "{} loss 0.9", "| {} | loss 0.9", "{}:\n  loss 0.9", "loss ({}) 0.9"])
def test_each_word_for_a_side_is_known_wherever_it_stands(side: str, line: str) -> None:
    for text in (line.format(side), line.format(side.capitalize())):
        found = [dict(metrics) for _, metrics in Transcript().feed(text.encode() + b"\n")]
        assert all(is_evaluation(name) for metrics in found for name in metrics if "loss" in name), found


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


def test_steps_that_restart_continue_the_count() -> None:
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


def test_epoch_and_batch_make_one_count() -> None:
    """PyTorch's word_language_model and DCGAN examples; whatever the first line that is seen, and however few there are."""
    lines = [f"| epoch {epoch} | {batch}/ 31 batches | loss 5.0" for epoch in (1, 2, 3) for batch in (2, 20)]
    assert steps_of("\n".join(lines))[0] == [2, 20, 33, 51, 64, 82]
    assert steps_of("\n".join(lines[2:]))[0] == [33, 51, 64, 82]
    assert steps_of("\n".join(lines[::2]))[0] == [2, 33, 64], "one line in each epoch, always of the same batch"
    lines = [f"[{epoch}/3][{batch}/40]\tLoss_D: 1.0" for epoch in (0, 1, 2) for batch in (0, 30)]
    assert steps_of("\n".join(lines)) == ([0, 30, 40, 70, 80, 110], 120)


def test_batches_without_an_epoch_continue_the_count_where_they_begin_again() -> None:
    """Scripts print every some batches, so that the last number is not the total."""
    transcript = Transcript()
    text = "".join(f"[{epoch:02d}][{batch:3d}/104] loss: 0.5\n" for epoch in range(3) for batch in range(0, 104, 20))
    assert [step for step, _ in transcript.feed(text.encode())] == [
        104 * epoch + at for epoch in range(3) for at in range(0, 104, 20)
    ]
    assert transcript.total_steps is None


def test_a_line_that_another_rank_prints_late_begins_no_epoch() -> None:
    lines = (f"[{batch}/104] loss: 0.5\n" for batch in (60, 80, 70, 90, 40, 100))
    assert [step for step, _ in Transcript().feed("".join(lines).encode())] == [60, 80, 70, 90, 40, 100]


def test_folds_that_restart_continue_the_count() -> None:
    lines = [f"| epoch {epoch} | {batch}/10 batches | loss 5.0" for _ in "ab" for epoch in (1, 2) for batch in (5, 10)]
    assert steps_of("\n".join(lines))[0] == [5, 10, 15, 20, 25, 30, 35, 40]


SKORCH = """
  epoch    train_loss    valid_acc    valid_loss    cp     dur
-------  ------------  -----------  ------------  ----  ------
      1        \x1b[36m0.6869\x1b[0m       \x1b[32m0.6000\x1b[0m        0.6772     +  0.1041
      2        0.6542       0.5900        0.7000        0.0900
"""
FASTAI = """
epoch     train_loss  valid_loss  error_rate  time
0         1.083022    0.271811    0.087957    00:17
1         0.471283    0.205371    0.071719    00:19
"""
YOLO = """
      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size
        1/2      1.98G      1.123      2.345      1.234         12        640:  50%|█████     | 2/4 [00:01<00:00,  2.5it/s]
        1/2      1.98G      1.100      2.300      1.200         12        640: 100%|██████████| 4/4 [00:01<00:00,  2.5it/s]
                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|██████████| 2/2 [00:00<00:00]
                   all          4         17      0.801      0.702      0.755      0.501

      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size
        2/2      1.98G      1.050      2.200      1.100         12        640:  50%|█████     | 2/4 [00:01<00:00,  2.5it/s]
"""


def read(text: str) -> list[tuple[int, dict[str, float]]]:
    transcript = Transcript()
    return [*transcript.feed(text.encode()), *transcript.end()]


def test_tables_of_skorch_fastai_and_yolo() -> None:
    assert read(SKORCH) == [
        (1, {"train_loss": 0.6869, "valid_acc": 0.6, "valid_loss": 0.6772, "epoch": 1}),
        (2, {"train_loss": 0.6542, "valid_acc": 0.59, "valid_loss": 0.7, "epoch": 2}),
    ]
    assert read(FASTAI) == [
        (1, {"train_loss": 1.083022, "valid_loss": 0.271811, "error_rate": 0.087957, "epoch": 0}),
        (2, {"train_loss": 0.471283, "valid_loss": 0.205371, "error_rate": 0.071719, "epoch": 1}),
    ]
    assert read(YOLO) == [
        (2, {"box_loss": 1.123, "cls_loss": 2.345, "dfl_loss": 1.234, "epoch": 1}),
        (4, {"box_loss": 1.1, "cls_loss": 2.3, "dfl_loss": 1.2, "epoch": 1}),
        (4, {"mAP50": 0.755, "mAP50-95": 0.501, "epoch": 1}),
        (6, {"box_loss": 1.05, "cls_loss": 2.2, "dfl_loss": 1.1, "epoch": 2}),
    ]


SORTED = """\
 pass | batch | running loss | batch accuracy | cuisines in the last batch
    1 |     2 |       6.2730 |          0.008 | brazilian: 64
    1 |    10 |       1.2452 |          0.524 | british: 60, greek: 4
"""
TIMED = """\
clock                 update   hs_rmse[m]   tp_mae[s]   windows/s   ms/update
2024-04-11 17:00:45      400       0.7944       1.952       405.5        78.9
2024-04-11 17:01:18      800       0.7710       1.902       388.1        82.4
"""
RESULTS = """\
06 Feb 10:47    INFO  epoch 33 training [time: 9.49s, train loss: 2.7027]
06 Feb 10:47    INFO  valid result:
auc : 0.5863    logloss : 3.4431
"""


def test_tables_of_people() -> None:
    assert read(SORTED) == [
        (1, {"running_loss": 6.273, "batch_accuracy": 0.008}),
        (2, {"running_loss": 1.2452, "batch_accuracy": 0.524}),
    ]
    assert read(TIMED) == [(400, {"hs_rmse": 0.7944, "tp_mae": 1.952}), (800, {"hs_rmse": 0.771, "tp_mae": 1.902})]
    tables = Tables()
    paces = [tables.pace for line in TIMED.splitlines() if tables.read(line) is not None]
    assert paces == [{"time": pytest.approx(0.0789)}, {"time": pytest.approx(0.0824)}]


CONDITIONS = """\
candidate: step 25 loss 1.962
candidate: step 50 loss 0.751
repeat,corruption,severity,loss,accuracy
0,fog,0,0.4103,0.8633
0,fog,5,2.9120,0.2110
"""


def test_tables_whose_rows_or_columns_are_of_one_side() -> None:
    def metrics(heading: str, *rows: str) -> list[dict[str, float]]:
        tables = Tables()
        tables.read(heading)
        return [dict(found.metrics) for row in rows if (found := tables.read(row)) is not None]

    nequip = metrics(
        "  Train        Epoch      wal       LR       loss_f         loss      f_mae",
        "! Train            1  273.752    0.02        0.326        0.483      0.464",
        "! Validation       1  273.752    0.02        0.359        0.512      0.487",
    )
    assert nequip[0]["loss"] == 0.483
    assert nequip[1]["validation_loss"] == 0.512
    assert "loss" not in nequip[1]
    grouped = metrics(
        "epoch | train_loss  train_mIoU | val_loss  val_mIoU |   lr", "    1 |   1.1332  0.3644 |  1.6542   0.3766 | 3e-04"
    )
    assert grouped == [{"train_loss": 1.1332, "train_mIoU": 0.3644, "val_loss": 1.6542, "val_mIoU": 0.3766, "lr": 3e-4}]
    german = metrics(
        in_english(" Ep |   Lernrate | Verlust Tr. | Verlust Pr. | Treffer Tr. | Treffer Pr. | F1 Pr."),
        "  1 |    1,0e-03 |      1,1501 |      1,0584 |     48,27 % |     56,09 % | 0,502",
    )
    assert german == [
        {
            "lr": 0.001,
            "train_loss": 1.1501,
            "val_loss": 1.0584,
            "train_accuracy_percent": 48.27,
            "val_accuracy_percent": 56.09,
            "val_f1": 0.502,
        }
    ]


def test_a_table_that_counts_nothing_is_no_part_of_a_training_that_counts_steps() -> None:
    rows = [(50, {"accuracy": 0.8633}), (50, {"accuracy": 0.211})]
    assert read(CONDITIONS) == [(25, {"loss": 1.962}), (50, {"loss": 0.751}), *rows]
    evaluated = CONDITIONS.replace("severity,loss", "severity,test_loss").replace("\n0,fog,5,2.9120,0.2110", "")
    assert read(evaluated)[2:] == [(50, {"test_loss": 0.4103, "accuracy": 0.8633})]
    assert read(CONDITIONS.partition("50 loss 0.751\n")[2]) == [
        (1, {"loss": 0.4103, "accuracy": 0.8633}),
        (2, {"loss": 2.912, "accuracy": 0.211}),
    ]


def test_a_blank_alone_may_be_between_two_names_of_a_heading() -> None:
    spinning = "steps   ep_ret ep_std   q_loss   secs\n"
    assert read(f"{spinning}50000   118.9   18.0   1.7   61.2\n100000   121.4 17.2   1.5   122.0\n") == [
        (50_000, {"ep_ret": 118.9, "q_loss": 1.7}),
        (100_000, {"ep_ret": 121.4, "q_loss": 1.5}),
    ]


def test_a_unit_with_a_blank_before_it_is_no_cell() -> None:
    assert read("epoch  train_loss  valid_auc  time\n1  0.3370  0.7200  9.8 s\n2  0.3145  0.7300  10 min\n") == [
        (1, {"train_loss": 0.337, "valid_auc": 0.72, "epoch": 1}),
        (2, {"train_loss": 0.3145, "valid_auc": 0.73, "epoch": 2}),
    ]


def test_the_time_of_an_epoch_in_a_table_is_no_pace_of_its_steps() -> None:
    tables = Tables()
    for line in ("epoch  loss  time", "1  2.31  41.5", "2  1.97  41.2"):
        tables.read(line)
        assert tables.pace == {}


def test_a_heading_whose_names_have_one_blank_between_them() -> None:
    assert read("ep  lr        tr_loss tr_acc  va_loss va_acc  sec\n01  9.98e-04  1.1956  0.4696  2.1073  0.2078  38.3\n") == [
        (1, {"lr": 9.98e-4, "train_loss": 1.1956, "train_acc": 0.4696, "val_loss": 2.1073, "val_acc": 0.2078, "epoch": 1})
    ]


def test_a_heading_whose_names_have_two_words() -> None:
    assert read("epoch  mse loss  mae loss\n1  0.51  0.40\n") == [(1, {"mse_loss": 0.51, "mae_loss": 0.4, "epoch": 1})]


def test_the_results_of_an_evaluation_stand_below_its_name() -> None:
    assert read(RESULTS) == [
        (1, {"train_loss": 2.7027, "epoch": 33}),
        (1, {"val_auc": 0.5863, "val_logloss": 3.4431, "epoch": 33}),
    ]


@pytest.mark.parametrize(
    "line",
    ["step 15 loss 0.526 labels: {'joy': 32}", "labels in batch {0: 40} step 15 loss 0.526", "step 15 {'a': 1} loss 0.526"],
)
def test_a_dictionary_about_something_else_hides_no_loss(line: str) -> None:
    printed = parse(line)
    assert printed is not None
    assert (dict(printed.metrics), printed.step) == ({"loss": 0.526}, 15)


@pytest.mark.parametrize(
    ("heading", "row", "metrics"),
    [
        (
            "Epoch   gpu_mem       box       obj       cls    labels  img_size",
            "0/299     10.8G   0.11000   0.04000       nan        80       640: 100%|███| 231/231 [01:00<00:00,  3.61it/s]",
            {"box_loss": 0.11, "obj_loss": 0.04, "cls_loss": math.nan},
        ),
        (
            "Epoch   gpu_mem       box       obj       cls     total    labels  img_size",
            "0/299     10.8G       0.1       0.2       0.3       0.6        80   640: 100%|███| 231/231 [01:00<00:00,  3it/s]",
            {"box_loss": 0.1, "obj_loss": 0.2, "cls_loss": 0.3, "total_loss": 0.6},
        ),
        (
            "Epoch   gpu_mem      GIoU       obj       cls     total   targets  img_size",
            "0/299     10.8G       0.1       0.2       0.3       0.6        80   640: 100%|███| 231/231 [01:00<00:00,  3it/s]",
            {"GIoU_loss": 0.1, "obj_loss": 0.2, "cls_loss": 0.3, "total_loss": 0.6},
        ),
    ],
)
def test_the_parts_of_the_loss_of_older_yolos(heading: str, row: str, metrics: dict[str, float]) -> None:
    found = read(f"{heading}\n{row}\n")
    assert [step for step, _ in found] == [231]
    assert found[0][1] == pytest.approx({**metrics, "epoch": 0}, nan_ok=True)


def test_such_names_in_other_tables_are_not_losses() -> None:
    assert read("Epoch   box   obj   total\n0   1   2   3\n") == []
    assert read("gpu_mem   free   total   pid\n10.8G   1   2   3\n") == []


BOX = """
-----------------------------------
| rollout/           |            |
|    ep_len_mean     | 22.4       |
| time/              |            |
|    iterations      | {}         |
|    total_timesteps | {}         |
| train/             |            |
|    loss            | 0.31       |
|    value_loss      | {}       |
|    n_updates       | 10         |
-----------------------------------
"""


def test_a_box_is_one_step_with_the_number_that_it_states() -> None:
    text = BOX.format(1, 2048, 0.5) + BOX.format(2, 4096, 0.25)
    assert read(text) == [(2048, {"loss": 0.31, "value_loss": 0.5}), (4096, {"loss": 0.31, "value_loss": 0.25})]
    assert [step for step, _ in read(text.replace("total_timesteps", "fps            "))] == [1, 2]


def test_a_table_of_final_results_adds_no_step() -> None:
    table = "\n| metric | value |\n|--------|-------|\n| loss | 0.3 |\n| accuracy | 0.9 |\n"
    assert read("loss: 2\nloss: 1\n" + table + table) == [(1, {"loss": 2.0}), (2, {"loss": 1.0})]


def test_rows_of_csv_are_read() -> None:
    assert read("epoch,train_loss,val_loss\n0,2.5,nan\n1,2.25\nso,it,ends\n")[0][0] == 1
    assert read("epoch,train_loss,lr\n0,2.5,0.1\n1,2.25,0.1\n") == [
        (1, {"train_loss": 2.5, "lr": 0.1, "epoch": 0}),
        (2, {"train_loss": 2.25, "lr": 0.1, "epoch": 1}),
    ]
    assert read("loss, accuracy and time,are shown\n1,2,3\n") == []


def test_a_heading_of_a_table_makes_no_row_of_prose() -> None:
    assert read(FASTAI.splitlines()[1] + "\nthis is no row 5\n1 2 three 4 5\n0 0.1 0.2\n  --- --- --- --- ---\n") == []


@given(value=FINITE, step=st.integers(0, 10**6), name=st.sampled_from(["logloss", "auc", "rmse", "ndcg@5"]))
def test_what_boosting_prints_is_read_back(value: float, step: int, name: str) -> None:
    for line, key in (
        (f"[{step}]\ttrain-{name}:{value}", f"train-{name}"),
        (f"[{step}]\tvalid_0's {name}: {value}", f"valid_0/{name}"),
    ):
        said = parse(line)
        assert said is not None, line
        assert (dict(said.metrics), said.step) == ({key: value}, step)
    said = parse(f"Loss at step {step} = {value}")
    assert said is not None
    assert (said.metrics["loss"], said.step) == (value, step)


@given(rows=st.lists(st.tuples(FINITE, FINITE), min_size=1, max_size=5))
def test_what_a_table_prints_is_read_back(rows: list[tuple[float, float]]) -> None:
    text = "epoch     train_loss  accuracy\n" + "".join(f"{i}  {a}   {b}\n" for i, (a, b) in enumerate(rows))
    assert [(said["train_loss"], said["accuracy"]) for _, said in read(text)] == rows


@pytest.mark.parametrize(
    "piece",
    ["[1]\t", "a-", "loss ", "loss at ", "a's b: 1 ", "| ", "epoch  loss  ", "[1/2]", "1/2 ", "((", "0.1", "\t", "=1", "{'"],
)
def test_parsing_time_does_not_grow_with_repeats_in_a_line(piece: str) -> None:
    """A line that a pattern needs exponential or cubic time for would not end within the time limit of a test."""
    for start in ("", "[1]\t", "loss ", "epoch  loss  x\n"):
        for end in ("", "!", "loss: 1"):
            read(start + piece * (4000 // len(piece)) + end)


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


TRAINER = (
    "\r  8%|▊         | 10/120 [00:00<00:01, 91.05it/s]"
    "\r                                                \r"
    "{'loss': '1.919', 'grad_norm': '3.55', 'learning_rate': '4.625e-05', 'epoch': '0.1667'}\n"
    "\r  8%|▊         | 10/120 [00:00<00:01, 91.05it/s]\r  9%|▊         | 14/120 [00:00<00:01, 91.05it/s]\r        \r"
    "{'loss': '1.967', 'grad_norm': '7.178', 'learning_rate': '4.208e-05', 'epoch': '0.3333'}\n"
    "\r 17%|█▋        | 20/120 [00:00<00:01, 91.05it/s]\n"
    "\r  0%|          | 0/15 [00:00<?, ?it/s]\x1b[A\n\n\x1b[A"
    "{'eval_loss': '2.25', 'eval_runtime': '0.0263', 'epoch': '0.3333'}\n"
    "\r 17%|█▋        | 20/120 [00:00<00:01, 91.05it/s]\r100%|██████████| 15/15 [00:00<00:00, 578.73it/s]\x1b[A\n"
)


@pytest.mark.parametrize("piece", [1, 64, 1 << 20])
def test_a_line_of_the_trainer_has_the_step_of_the_bar_that_is_drawn_below_it(piece: int) -> None:
    transcript, data = Transcript(with_bars=True), TRAINER.encode()
    found = [item for at in range(0, len(data), piece) for item in transcript.feed(data[at : at + piece])]
    assert [(step, metrics.get("loss", metrics.get("eval_loss"))) for step, metrics in found] == [
        (10, 1.919),
        (20, 1.967),
        (20, 2.25),
    ]
    assert (transcript.total_steps, transcript.counts_lines) == (120, False)


def test_a_line_of_the_trainer_may_have_no_bar_of_its_own_below_it() -> None:
    """Who posts a log may leave out bars that are only drawn again."""
    lines: list[str] = []
    for step in range(78, 79 * 8, 78):
        epoch = step / 312
        lines += [f"  5%|▌     | {step}/1560 [00:32<10:10,  2.43it/s]"]
        lines += [f"{{'loss': {1 / step:.4f}, 'grad_norm': 1.5, 'epoch': {epoch}}}"]
        if step % 312 == 0:
            lines += ["100%|██████████| 27/27 [00:33<00:00,  1.24s/it]"]
            lines += [f"{{'eval_loss': 0.7, 'eval_runtime': 33.0, 'epoch': {epoch}}}"]
    transcript = Transcript(with_bars=True)
    found = [item for line in lines for item in transcript.feed(f"{line}\n".encode())] + list(transcript.end())
    steps = [step for step, metrics in found if "loss" in metrics]
    assert steps == list(range(78, 79 * 8, 78))
    assert [step for step, metrics in found if "eval_loss" in metrics] == [312, 624]
    assert all(metrics["loss"] == pytest.approx(1 / step, abs=1e-4) for step, metrics in found if "loss" in metrics)


@pytest.mark.parametrize(
    ("shown", "steps"),
    [
        ("1 line 2 3 line 4 5 line 6", [2, 4, 6]),
        ("9 line 18 27 line 36", [18, 36]),
        ("30 line 50 80 line 100", [50, 100]),
        ("10 line 20 line 30", [10, 20]),
    ],
    ids=["a step before", "halfway", "at any step", "no bars below"],
)
def test_a_bar_above_a_line_of_the_trainer_may_be_one_of_an_earlier_step(shown: str, steps: list[int]) -> None:
    """tqdm draws some of the bars between two lines: the one below a line is its own."""
    line = "{'loss': 0.5, 'grad_norm': 1.5, 'epoch': 0.1}"
    rows = [line if word == "line" else f"  5%|▌     | {word}/1560 [00:32<10:10,  2.43it/s]" for word in shown.split()]
    found = Transcript(with_bars=True).feed("\n".join([*rows, ""]).encode())
    assert [step for step, metrics in found if "loss" in metrics] == steps


def test_without_a_bar_the_trainer_s_lines_are_counted_and_marked_as_counted() -> None:
    """Its bar goes to standard error, or is turned off."""
    lines = [line for line in TRAINER.splitlines() if line.startswith("{")][:2]
    transcript = Transcript(with_bars=True)
    assert [step for step, _ in transcript.feed(f"{lines[0]}\n{lines[1]}\n".encode())] == [1]
    assert [step for step, _ in transcript.feed(b"")] == [2], "nothing follows: it is not held any longer"
    assert transcript.counts_lines
    assert list(transcript.end()) == []
    shown = Transcript()
    list(shown.feed(b"step 3 loss 2\n"))
    assert not shown.counts_lines


def test_a_bar_with_a_description_does_not_count_the_steps_of_the_trainer() -> None:
    """The bar of the training is off, and each checkpoint draws its own."""
    bar = "\rWriting model shards: {0}00%|███| {0}/1 [00:00<?, ?it/s]"
    saves = f"{bar.format(0)}{bar.format(1)}\n"
    line = "{'loss': '%g', 'grad_norm': '4.4', 'learning_rate': '3e-04', 'epoch': '0.01'}\n"
    transcript = Transcript(with_bars=True)
    text = "".join(f"{line % loss}{saves}" for loss in (10.5, 9.5, 8.5))
    assert [(step, metrics["loss"]) for step, metrics in transcript.feed(text.encode())] == [(1, 10.5), (2, 9.5), (3, 8.5)]
    assert (transcript.total_steps, transcript.counts_lines) == (None, True)


def test_the_bar_of_the_trainer_may_have_the_prefix_of_a_launcher() -> None:
    text = "{'loss': '2.5', 'grad_norm': '4.4', 'epoch': '0.01'}\n[default0]:  8%|▊         | 10/120 [00:00<00:01, 91.05it/s]\n"
    assert [step for step, _ in Transcript(with_bars=True).feed(text.encode())] == [10]


def test_the_summary_of_the_trainer_is_not_a_step() -> None:
    lines = [
        "{'loss': '2.5', 'epoch': '0.5'}",
        "{'loss': '2.0', 'epoch': '1'}",
        "{'train_runtime': '3.1', 'train_loss': '2.2'}",
    ]
    found = list(Transcript().feed("\n".join([*lines, ""]).encode()))
    assert [(step, "loss" in metrics) for step, metrics in found] == [(1, True), (2, True), (2, False)]


@pytest.mark.parametrize(
    ("heading", "stage"),
    [
        ("--- level 3 of 8: 5 shapes, noise 1.0", {"level": 3.0}),
        ("==> Stage 2: longer sequences", {"stage": 2.0}),
        ("[Phase 1/4] frozen backbone", {"phase": 1.0}),
        ("Curriculum difficulty=0.35", {"difficulty": 0.35}),
        ("task: 4", {"task": 4.0}),
        ("the level of 5 m, and phase 90%", {}),
        ("stage-2 weights of ckpt/level3", {}),
    ],
)
def test_lines_below_a_stage_carry_it(heading: str, stage: dict[str, float]) -> None:
    assert list(Transcript().feed(f"{heading}\nstep 10 loss 0.5\n".encode())) == [(10, {**stage, "loss": 0.5})]


@pytest.mark.parametrize("line", ["epochs: 4", "  epochs: 4", "Epochs = 30", "- epochs 10"])
def test_how_many_epochs_a_configuration_asks_for_is_not_the_number_of_one(line: str) -> None:
    assert parse(line) is None
