"""What well-known projects print, as they print it: the steps and the metrics that a curve shows of it."""

from __future__ import annotations

import pytest

from gputop.losses import loss_metric
from gputop.tracking.printed.transcript import Transcript

Values = list[tuple[int, dict[str, float]]]


def read(*lines: str) -> Values:
    transcript = Transcript(with_bars=True)
    return [*transcript.feed("\n".join((*lines, "")).encode()), *transcript.end()]


MMENGINE = "05/14 10:21:33 - mmengine - INFO - "
MMENGINE_ROW = "lr: 1.0000e-03  eta: 0:05:12  time: 0.1234  data_time: 0.0212  memory: 512  loss: "
DINO = "  eta: 1:23:45  loss: {} (10.5)  lr: 0.000100 (0.000100)  time: 0.912  data: 0.012  max mem: 9000"
YOLOX = (
    "2024-05-14 10:21:33 | INFO     | yolox.core.trainer:261 - epoch: {}/300, iter: 10/1849, mem: 4000Mb, iter_time: 0.412s, "
    "data_time: 0.001s, total_loss: 14.2, iou_loss: 4.1, conf_loss: 8.1, cls_loss: 2.0, lr: 1.1e-06, size: 640, ETA: 2 days"
)
FOUND: list[tuple[str, tuple[str, ...], Values]] = [
    (
        "MMEngine, by epochs",
        (
            f"{MMENGINE}Epoch(train)  [1][ 50/937]  {MMENGINE_ROW}2.5",
            f"{MMENGINE}Epoch(val)  [1][157/157]    accuracy/top1: 55.1000  data_time: 0.01  time: 0.05",
            f"{MMENGINE}Epoch(train)  [2][ 50/937]  {MMENGINE_ROW}2.25",
        ),
        [
            (50, {"loss": 2.5, "lr": 1e-3, "epoch": 1}),
            (50, {"val_accuracy/top1": 55.1, "epoch": 1}),
            (987, {"loss": 2.25, "lr": 1e-3, "epoch": 2}),
        ],
    ),
    (
        "MMEngine, by iterations",
        (
            f"{MMENGINE}Iter(train) [  50/10000]  {MMENGINE_ROW}2.5",
            f"{MMENGINE}Iter(val) [100/100]    mIoU: 30.5  data_time: 0.01",
            f"{MMENGINE}Iter(train) [ 100/10000]  {MMENGINE_ROW}2.25",
        ),
        [(50, {"loss": 2.5, "lr": 1e-3}), (50, {"val_mIoU": 30.5}), (100, {"loss": 2.25, "lr": 1e-3})],
    ),
    (
        "PyTorch's tutorial on CIFAR",
        ("[1,  2000] loss: 2.173", "[1, 12000] loss: 1.300", "[2,  2000] loss: 1.250", "Finished Training"),
        [
            (2000, {"loss": 2.173, "epoch": 1}),
            (12000, {"loss": 1.3, "epoch": 1}),
            (14000, {"loss": 1.25, "epoch": 2}),
        ],
    ),
    (
        "verl, below Ray",
        (
            "\x1b[36m(TaskRunner pid=4242)\x1b[0m step:1 - global_seqlen/min:15123 - actor/pg_loss:np.float64(-0.0125) - "
            "actor/lr:np.float64(1e-06) - training/global_step:1 - critic/score/mean:0.25 - timing_s/step:42.1",
            "(TaskRunner pid=4242) step:2 - actor/pg_loss:0.5 - actor/lr:1e-06 - critic/rewards/mean:0.375",
        ),
        [
            (1, {"actor/pg_loss": -0.0125, "actor/lr": 1e-6, "critic/score/mean": 0.25}),
            (2, {"actor/pg_loss": 0.5, "actor/lr": 1e-6, "critic/rewards/mean": 0.375}),
        ],
    ),
    (
        "CleanRL, with environments of several versions",
        (
            "global_step=22, episode_reward=-22.5",
            "global_step=55, episodic_return=[33.]",
            "SPS: 1201",
            "global_step=80, episodic_return=41.0",
        ),
        [(22, {"episode_reward": -22.5}), (55, {"episodic_return": 33.0}), (80, {"episodic_return": 41.0})],
    ),
    (
        "JSON lines with a record for each metric",
        (
            '{"name": "train/loss", "step": 3, "value": 0.5, "timestamp": 1700000000.5}',
            '{"name": "lr", "step": 3, "value": 0.1}',
            '{"key": "val_loss", "value": 0.75, "timestamp": 1700000000500, "step": 3}',
            '{"metric": "loss", "value": 0.25, "iteration": 4, "split": "val"}',
            '{"tag": "train/loss", "step": 5, "value": 0.125}',
            '{"name": "loss", "value": "half", "step": 6}',
        ),
        [(3, {"train/loss": 0.5}), (3, {"val_loss": 0.75}), (4, {"val_loss": 0.25}), (5, {"train/loss": 0.125})],
    ),
    (
        "DINO",
        (f"Epoch: [0/100]  [  20/2502]{DINO.format(10.5)}", f"Epoch: [1/100]  [  20/2502]{DINO.format(9.5)}"),
        [(20, {"loss": 10.5, "lr": 1e-4, "epoch": 0}), (2522, {"loss": 9.5, "lr": 1e-4, "epoch": 1})],
    ),
    (
        "timm",
        (
            "Train: 0 [  50/1251 (  4%)]  Loss: 6.91 (6.93)  Time: 0.550s,  460.12/s  (0.600s,  425.00/s)  LR: 1.000e-05",
            "Test: [  48/48]  Time: 0.123 (0.234)  Loss:   6.512 ( 6.612)  Acc@1:   5.000 (  4.900)",
            "Train: 1 [  50/1251 (  4%)]  Loss: 6.5 (6.6)  Time: 0.550s,  460.12/s  (0.600s,  425.00/s)  LR: 1.000e-05",
        ),
        [
            (50, {"loss": 6.91, "lr": 1e-5, "epoch": 0}),
            (50, {"test_loss": 6.512, "test_acc@1": 5.0, "epoch": 0}),
            (1301, {"loss": 6.5, "lr": 1e-5, "epoch": 1}),
        ],
    ),
    (
        "PyTorch's quickstart",
        (
            "Epoch 1",
            "-------------------------------",
            "loss: 2.303245  [   64/60000]",
            "Test Error: ",
            " Accuracy: 41.5%, Avg loss: 2.153 ",
            "",
            "Epoch 2",
            "-------------------------------",
            "loss: 2.103245  [   64/60000]",
        ),
        [
            (64, {"loss": 2.303245, "epoch": 1}),
            (64, {"test_accuracy_percent": 41.5, "test_loss": 2.153, "epoch": 1}),
            (60064, {"loss": 2.103245, "epoch": 2}),
        ],
    ),
    (
        "one line in each epoch, always of the same step",
        ("Epoch [1/10], Step [90/100], Loss: 2.5", "Epoch [2/10], Step [90/100], Loss: 2.25"),
        [(90, {"loss": 2.5, "epoch": 1}), (190, {"loss": 2.25, "epoch": 2})],
    ),
    (
        "Keras, into a file",
        (
            "Epoch 1/5",
            "100/100 [==============================] - 5s 50ms/step - loss: 2.5 - val_loss: 2.25",
            "Epoch 2/5",
            "100/100 [==============================] - 5s 50ms/step - loss: 2.0 - val_loss: 1.75",
        ),
        [(100, {"loss": 2.5, "val_loss": 2.25, "epoch": 1}), (200, {"loss": 2.0, "val_loss": 1.75, "epoch": 2})],
    ),
    (
        "tqdm without a length",
        ("10it [00:01,  9.50it/s, loss=2.5]\rTrain: 20it [00:02,  9.50it/s, loss=2.25]",),
        [(10, {"loss": 2.5}), (20, {"loss": 2.25})],
    ),
    (
        "Lightning's bar of rich",
        (
            "Epoch 0/9  ━━━━━━╸━━━━━━━━━ 10/100 0:00:01 • 0:00:09 9.50it/s v_num: 0.000 train_loss: 2.5",
            "Epoch 0/9  ━━━━━━━╸━━━━━━━━ 20/100 0:00:02 • -:--:-- 9.50it/s v_num: 0.000 train_loss: 2.25",
        ),
        [(10, {"train_loss": 2.5, "epoch": 0}), (20, {"train_loss": 2.25, "epoch": 0})],
    ),
    (
        "LitGPT",
        (
            "Epoch 1 | iter 10 step 1 | loss train: 2.5, val: n/a | iter time: 340.12 ms (step)",
            "Epoch 1 | iter 20 step 2 | loss train: 2.25, val: 2.75 | iter time: 340.12 ms (step)",
        ),
        [(10, {"train_loss": 2.5, "epoch": 1}), (20, {"train_loss": 2.25, "val_loss": 2.75, "epoch": 1})],
    ),
    (
        "a unit or a kind in parentheses",
        ("Epoch 1/5:   1%|     | 40/4580 [00:10<20:00,  3.80img/s, loss (batch)=0.5]", "step 41 loss (val): 0.75"),
        [(40, {"loss": 0.5, "epoch": 1}), (41, {"val_loss": 0.75, "epoch": 1})],
    ),
    (
        "TensorFlow's detection",
        ("INFO:tensorflow:Step 100 per-step time 0.512s loss=2.5",),
        [(100, {"loss": 2.5})],
    ),
    (
        "OpenCLIP",
        ("Train Epoch: 0 [   2048/1000000 (0%)] Batch (t): 1.012, 2024.1/s, 253.0/s/gpu LR: 0.0001 Loss: 7.5 (7.5)",),
        [(1, {"lr": 1e-4, "loss": 7.5, "epoch": 0})],
    ),
    (
        "LeRobot, which shortens steps",
        ("step:800 smpl:6K ep:5 loss:6.125 grdn:150.123 lr:1.0e-05", "step:12K smpl:96K ep:20 loss:2.125 lr:1.0e-05"),
        [(800, {"loss": 6.125, "lr": 1e-5}), (12_000, {"loss": 2.125, "lr": 1e-5})],
    ),
    (
        "Megatron's validation",
        (
            " iteration     1000/  5000 | learning rate: 1.5E-04 | lm loss: 3.5E+00 | loss scale: 1.0 |",
            " validation loss at iteration 1000 | lm loss value: 3.25E+00 | lm loss PPL: 2.5E+01 | ",
        ),
        [(1000, {"learning_rate": 1.5e-4, "lm_loss": 3.5}), (1000, {"val_lm_loss": 3.25, "val_ppl": 25.0})],
    ),
    (
        "OLMo",
        (
            "[step=10/1000,epoch=0]",
            "    train/CrossEntropyLoss=9.125",
            "    throughput/total_tokens=41,943,040",
            "[step=20/1000,epoch=0]",
            "    train/CrossEntropyLoss=9.0",
            "saved",
            "    loss=1.5",
        ),
        [
            (10, {"train/CrossEntropyLoss": 9.125, "epoch": 0}),
            (20, {"train/CrossEntropyLoss": 9.0, "epoch": 0}),
            (20, {"loss": 1.5, "epoch": 0}),
        ],
    ),
    (
        "OLMo-core",
        (
            "2024-05-14 10:21:33.123\thost:0\tolmo_core.console_logger:80\tINFO\t[step=10/1000,epoch=1]",
            "    train/CE loss=9.125",
        ),
        [(10, {"loss": 9.125, "epoch": 1})],
    ),
    (
        "Composer",
        (
            "[epoch=1][batch=10/1000]:",
            "\t Train time/batch: 9",
            "\t Train loss/train/total: 9.125",
            "\t Train metrics/train/LanguageCrossEntropy: 9.0",
            "[epoch=2][batch=10/1000]:",
            "\t Train loss/train/total: 8.125",
        ),
        [
            (10, {"train_loss/train/total": 9.125, "epoch": 1}),
            (10, {"train_metrics/train/languagecrossentropy": 9.0, "epoch": 1}),
            (1010, {"train_loss/train/total": 8.125, "epoch": 2}),
        ],
    ),
    (
        "Coqui",
        (
            "   --> TIME: 2024-05-14 10:21:33 -- STEP: 10/100 -- GLOBAL_STEP: 110",
            "     | > loss: 2.5  (2.40000)",
            "     | > step_time: 0.5",
            "   --> TIME: 2024-05-14 10:21:43 -- STEP: 20/100 -- GLOBAL_STEP: 120",
            "     | > loss: 2.25  (2.30000)",
        ),
        [(110, {"loss": 2.5}), (120, {"loss": 2.25})],
    ),
    (
        "words in front of a dictionary",
        ("epoch 3, step 40: {'loss': 2.5}", "Validation: {'loss': 2.25, 'acc': 0.5}", "eval results {'f1': 0.75}"),
        [
            (40, {"loss": 2.5, "epoch": 3}),
            (40, {"val_loss": 2.25, "val_acc": 0.5, "epoch": 3}),
            (40, {"eval_f1": 0.75, "epoch": 3}),
        ],
    ),
    (
        "LLaMA-Factory's JSON lines",
        (
            '{"current_steps": 10, "total_steps": 100, "loss": 2.5, "lr": 4.9e-05, "epoch": 0.1, "percentage": 10.0}',
            '{"current_steps": 20, "total_steps": 100, "eval_loss": 2.25, "epoch": 0.2, "percentage": 20.0}',
        ),
        [(10, {"loss": 2.5, "lr": 4.9e-5, "epoch": 0.1}), (20, {"eval_loss": 2.25, "epoch": 0.2})],
    ),
    (
        "Fairseq's JSON of an epoch",
        (
            '2024-01-01 | INFO | train_inner | {"epoch": 1, "loss": "10.5", "num_updates": "100", "lr": "1e-05"}',
            '2024-01-01 | INFO | valid | {"epoch": 1, "valid_loss": "8.5", "valid_num_updates": "131"}',
        ),
        [(100, {"loss": 10.5, "lr": 1e-5, "epoch": 1}), (131, {"valid_loss": 8.5, "epoch": 1})],
    ),
    (
        "messages in a JSON log",
        (
            '{"asctime": "2024-05-14 10:21:33", "levelname": "INFO", "message": "step 10 loss 2.5"}',
            '{"log": "step 20 loss 2.25\\n"}',
        ),
        [(10, {"loss": 2.5}), (20, {"loss": 2.25})],
    ),
    (
        "JSON lines of several splits",
        (
            '{"step": 1, "loss": 2.5, "split": "train"}',
            '{"step": 1, "loss": 3.5, "split": "val"}',
            '{"mode": "train", "epoch": 1, "iter": 50, "loss": 2.25}',
            '{"mode": "val", "epoch": 1, "iter": 5000, "bbox_mAP": 0.25}',
            '{"mode": "train", "epoch": 2, "iter": 50, "loss": 2.0}',
        ),
        [
            (1, {"loss": 2.5}),
            (1, {"val_loss": 3.5}),
            (50, {"loss": 2.25, "epoch": 1}),
            (50, {"val_bbox_mAP": 0.25, "epoch": 1}),
            (100, {"loss": 2.0, "epoch": 2}),
        ],
    ),
    (
        "JSON lines with the steps of W&B and Lightning",
        (
            '{"_step": 5, "_timestamp": 1764155000.5, "train/loss": 2.5}',
            '{"trainer/global_step": 7, "train/loss": 2.25}',
            '{"train/step": 9, "time/step": 1.0, "train/loss": 2.0}',
            '{"steps": 11, "train/loss": 1.75}',
        ),
        [
            (5, {"train/loss": 2.5}),
            (7, {"train/loss": 2.25}),
            (9, {"train/loss": 2.0, "time/step": 1.0}),
            (11, {"train/loss": 1.75}),
        ],
    ),
    (
        "full-width punctuation",
        ("epoch：1，step：10，loss：0.5", "Step：20，Loss：0.25"),
        [(10, {"loss": 0.5, "epoch": 1}), (20, {"loss": 0.25, "epoch": 1})],
    ),
    (
        "clu, which Flax's examples use",
        ("I0514 10:21:33.123456 140123 logging_writer.py:48] [10] loss=2.5, learning_rate=0.001",),
        [(10, {"loss": 2.5, "learning_rate": 0.001})],
    ),
    (
        "NeMo's bar",
        ("Epoch 0:  10%|█  | 100/1000 [00:10<01:30, 10.0it/s, v_num=0, reduced_train_loss=5.25, train_step_timing in s=0.1]",),
        [(100, {"reduced_train_loss": 5.25, "epoch": 0})],
    ),
    (
        "Ultralytics' newer bar",
        (
            "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size",
            "\x1b[K        1/3      2.1G      1.5      2.5      1.25         12        640: 12% ━╸──── 1/8 3.5it/s 0.3s",
            "\r\x1b[K        1/3      2.1G      1.25      2.25      1.0         12        640: 100% ━━━━━━ 8/8 3.5it/s 2.3s",
            "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100% ━━━━━━ 1/1 2.1it/s",
            "                   all        128        929      0.641      0.537      0.605      0.446",
        ),
        [
            (1, {"box_loss": 1.5, "cls_loss": 2.5, "dfl_loss": 1.25, "epoch": 1}),
            (8, {"box_loss": 1.25, "cls_loss": 2.25, "dfl_loss": 1.0, "epoch": 1}),
            (8, {"mAP50": 0.605, "mAP50-95": 0.446, "epoch": 1}),
        ],
    ),
    (
        "a table of rich",
        (
            "┏━━━━━━━┳━━━━━━━━━━━━┳━━━━━━━━━┓",
            "┃ epoch ┃ train_loss ┃ val_acc ┃",
            "┡━━━━━━━╇━━━━━━━━━━━━╇━━━━━━━━━┩",
            "│ 1     │ 2.5        │ 0.125   │",
            "│ 2     │ 2.25       │         │",
            "└───────┴────────────┴─────────┘",
        ),
        [(1, {"train_loss": 2.5, "val_acc": 0.125, "epoch": 1}), (2, {"train_loss": 2.25, "epoch": 2})],
    ),
    (
        "a table that is printed whole after each epoch",
        (
            "+-------+------------+----------+",
            "| Epoch | Train Loss | Val Loss |",
            "+-------+------------+----------+",
            "|     1 |     2.5    |   2.125  |",
            "+-------+------------+----------+",
            "+-------+------------+----------+",
            "| Epoch | Train Loss | Val Loss |",
            "+-------+------------+----------+",
            "|     1 |     2.5    |   2.125  |",
            "|     2 |     2.25   |   2.0    |",
            "+-------+------------+----------+",
        ),
        [
            (1, {"train_loss": 2.5, "val_loss": 2.125, "epoch": 1}),
            (2, {"train_loss": 2.25, "val_loss": 2.0, "epoch": 2}),
        ],
    ),
    (
        "a Markdown table",
        ("| Step | Train Loss |", "|------|------------|", "| 10 | 2.5 |", "| 20 | 2.25 |"),
        [(10, {"train_loss": 2.5}), (20, {"train_loss": 2.25})],
    ),
    (
        "spaCy",
        (
            "E    #       LOSS TOK2VEC  LOSS NER  ENTS_F  ENTS_P  ENTS_R  SCORE ",
            "---  ------  ------------  --------  ------  ------  ------  ------",
            "  0       0          0.00     45.25    0.00    0.00    0.00    0.00",
            "  1     200         32.50   1045.25   40.10   45.00   38.00    0.40",
        ),
        [
            (0, {"loss_tok2vec": 0.0, "loss_ner": 45.25, "epoch": 0}),
            (200, {"loss_tok2vec": 32.5, "loss_ner": 1045.25, "epoch": 1}),
        ],
    ),
]


@pytest.mark.parametrize(("lines", "values"), [item[1:] for item in FOUND], ids=[item[0] for item in FOUND])
def test_values_and_their_steps(lines: tuple[str, ...], values: Values) -> None:
    assert read(*lines) == values


@pytest.mark.parametrize("lines", [FOUND[0][1], ("Epoch(val) [1][157/157]  loss: 1.0",)])
def test_batches_of_an_evaluation_are_not_the_total(lines: tuple[str, ...]) -> None:
    transcript = Transcript()
    assert [*transcript.feed("\n".join((*lines, "")).encode())]
    assert transcript.total_steps is None


def test_the_same_step_in_another_epoch_may_be_the_whole_count() -> None:
    """A train line and a line of the evaluation at the border of an epoch, with the number of the same step."""
    assert [
        step for step, _ in read("epoch 1 step 100 loss 2", "epoch 2 step 100 val_loss 3.5", "epoch 2 step 110 loss 1")
    ] == [
        100,
        100,
        110,
    ]
    assert [step for step, _ in read("epoch 1.9 step 100 loss 2", "epoch 2.0 step 100 loss 3")] == [100, 100]


def test_ranks_that_print_the_same_step_late_begin_no_epoch() -> None:
    lines = [
        f"[rank{rank}] epoch {epoch} step 10/10 loss 2.0" for rank, epoch in ((0, 1), (1, 1), (0, 2), (1, 1), (1, 2), (0, 3))
    ]
    assert [step for step, _ in read(*lines)] == [10, 10, 20, 20, 20, 30]


@pytest.mark.parametrize(
    "heading",
    ["| Model | Params | Top1 acc | Loss |", "| class | images | precision | recall | mAP50 |", "| GPU | loss | util |"],
)
def test_a_table_between_bars_without_steps_or_epochs_is_not_progress(heading: str) -> None:
    row = "| a " + "| 0.5 " * (heading.count("|") - 2) + "|"
    assert read(heading, row, row.replace("0.5", "0.25")) == []


def test_a_heading_counts_only_for_what_is_indented_below_it() -> None:
    assert read("INFO loss=0.5 [step=10/1000]", "  loss=0.25 [epoch=1][batch=20/100]:") == [
        (10, {"loss": 0.5}),
        (20, {"loss": 0.25, "epoch": 1}),
    ]
    assert read("Test Error: ", "loss: 0.5") == [(1, {"loss": 0.5})]
    assert read("validation starts", "  loss: 0.5") == [(1, {"loss": 0.5})]


@pytest.mark.parametrize(
    ("names", "loss"),
    [
        (("loss_box_reg", "loss_cls", "total_loss"), "total_loss"),
        (("Loss/classification_loss", "Loss/total_loss"), "Loss/total_loss"),
        (("iou_loss", "cls_loss", "total_loss", "val_total_loss"), "total_loss"),
        (("loss/aux", "loss/train/total"), "loss/train/total"),
        (("train_loss", "total_loss"), "train_loss"),
        (("total_loss", "loss"), "loss"),
        (("cls_loss", "val_total_loss"), "cls_loss"),
        (("train_loss_epoch", "train_loss_step"), "train_loss_step"),
        (("loss_epoch", "val_loss_step"), "loss_epoch"),
    ],
)
def test_the_sum_of_the_losses_is_shown_before_its_parts(names: tuple[str, ...], loss: str) -> None:
    assert loss_metric(names) == loss
