"""Forms of lines that people posted, with what a curve of them shows: no number of another thing, and none at a wrong step."""

from __future__ import annotations

import pytest

from gputop.tracking.printed import rates
from gputop.tracking.printed.lines import parse
from gputop.tracking.printed.transcript import Transcript

Values = list[tuple[int, dict[str, float]]]


def read(*lines: str) -> Values:
    transcript = Transcript(with_bars=True)
    return [*transcript.feed("\n".join((*lines, "")).encode()), *transcript.end()]


def metrics_of(line: str) -> dict[str, float]:
    said = parse(line)
    return dict(said.metrics) if said is not None else {}


@pytest.mark.parametrize(
    ("line", "metrics"),
    [
        ("epoch 7 best test acc: 0.85, train loss: 1.25; test acc: 0.45", {"train_loss": 1.25, "test_acc": 0.45}),
        ("Best val loss 0.4 (epoch 3)", {}),
        ("best acc: 0.9", {}),
        ("Best Acc@1: 70.125", {}),
        ("acc 0.75 highest acc 0.875", {"acc": 0.75}),
        ("val loss: 0.5 | lowest val loss so far: 0.25", {"val_loss": 0.5}),
        ("highest validation accuracy: 91.2%", {}),
        ("Max accuracy: 72.5%", {}),
        ("best so far: val acc 0.75 loss 0.25 epoch 3 | lr 0.1, loss 0.5", {"loss": 0.5, "lr": 0.1}),
        ("epoch 4 loss 0.25 [best: acc 0.5 loss 0.125 epoch 2]", {"loss": 0.25}),
        ("New best EMA pseudo Dice: 0.5", {}),
        ("Best results so far: {'acc': 0.5}", {}),
        ("Saved best model: {'acc': 0.5}", {"acc": 0.5}),
        ("new best val loss: 0.25", {"val_loss": 0.25}),
        ("Saved best model, val loss 0.25", {"val_loss": 0.25}),
        ("val_loss 0.5 best_val_loss 0.25", {"val_loss": 0.5, "best_val_loss": 0.25}),
    ],
)
def test_what_is_the_best_so_far_is_not_of_now(line: str, metrics: dict[str, float]) -> None:
    assert metrics_of(line) == metrics


def test_the_epoch_of_the_best_is_not_the_epoch_of_now() -> None:
    assert read("epoch 4 val acc 0.5", "loss 2.0 best val acc 0.6 (epoch 2)", "best_acc: 0.6") == [
        (0, {"val_acc": 0.5, "epoch": 4}),
        (1, {"loss": 2.0, "epoch": 4}),
        (1, {"best_acc": 0.6, "epoch": 4}),
    ]


DREAMS = "loss=nan (nan): :  {0:2d}% {0}/50 [00:0{1}<00:07, 11.50it/s]Found an inf in the input."
PCDET = (
    "2023-05-14 10:21:33,123   INFO  Train:    2/4 ( 50%) [  {}/200 ( 25%)]  Loss: 4.5 (4.75)  LR: 1.000e-04  "
    "Time cost: 00:15/01:25 [00:15/04:48]  Acc_iter 250"
)
GLUED = (
    "Epoch 3/9:  {}%|██▎     | {}/40 [00:05<00:15,  2.50batch/s, loss={}]2024-05-14 10:21:33.123 | WARNING  | "
    "__main__:fit:90 - Skipped the batch at iter 9120 (epoch 3, batch 10)"
)
WENET = "2024-05-14 10:21:33,123 DEBUG TRAIN Batch {} loss {} loss_att 2.25 loss_ctc inf lr 0.00001905 rank {}"
PROGRESS = "Processing |{}| ({}/{}) Data: 0.0002s | Batch: 0.25s | Total: 0:20:24 | ETA: 0:00:01 | Loss: {} | Acc:  {}"
FULL = 32 * "#"
RSL_RL = """
##########################################################
                 \x1b[1m Learning iteration {}/500 \x1b[0m

                       Computation: 15000 steps/s (collection: 1.5s, learning
0.25s)
               Value function loss: {}
                    Surrogate loss: -0.0025
Episode_Reward/track_lin_vel_xy_exp: 1.5
                       Mean reward: 12.5
----------------------------------------------------------
                   Total timesteps: 98304
"""
YOLO = """
      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size
       {0}/20      9.1G      1.75       2.5      1.25          9        576: 100%|█
                 Class     Images  Instances      Box(P          R      mAP50  mAP50-
                   all         32         18       0.25        0.5       0.75        0.5
"""
CUT_BOX = """|    loss            | 0.25       |
|    n_updates       | 30         |
-----------------------------------
"""
BOX = """-----------------------------------
| time/              |            |
|    total_timesteps | 8192       |
| train/             |            |
|    loss            | 0.5        |
|    n_updates       | 40         |
-----------------------------------
"""
FOUND: list[tuple[str, tuple[str, ...], Values]] = [
    (
        "WeNet, whose fraction is the epoch and the batch",
        (
            WENET.format("2/300", "inf", 0),
            WENET.format("2/400", "4.5", 1),
            "2024-05-14 10:31:33,123 DEBUG CV Batch 2/0 loss 5.5 loss_att 4.5 history loss 5.25 rank 0",
            WENET.format("3/0", "3.5", 0),
        ),
        [
            (300, {"loss": float("inf"), "loss_att": 2.25, "loss_ctc": float("inf"), "lr": 1.905e-5, "epoch": 2}),
            (400, {"loss": 4.5, "loss_att": 2.25, "loss_ctc": float("inf"), "lr": 1.905e-5, "epoch": 2}),
            (400, {"val_loss": 5.5, "val_loss_att": 4.5, "epoch": 2}),
            (400, {"loss": 3.5, "loss_att": 2.25, "loss_ctc": float("inf"), "lr": 1.905e-5, "epoch": 3}),
        ],
    ),
    (
        "a second bar below the training's, which is shorter",
        (
            PROGRESS.format(FULL, 80, 80, 2.5, 0.25),
            PROGRESS.format(FULL, 20, 20, 3.5, 0.125),
            "Epoch: 2 | LR: 0.00025000",
            PROGRESS.format("#" + 31 * " ", 1, 80, 2.25, 0.5),
            PROGRESS.format(FULL, 80, 80, 2.0, 0.5),
            PROGRESS.format("#" + 31 * " ", 1, 20, 3.25, 0.0),
            PROGRESS.format(FULL, 20, 20, 3.0, 0.25),
            "Epoch: 3 | LR: 0.00025000",
            PROGRESS.format(FULL, 80, 80, 1.75, 0.75),
        ),
        [
            (80, {"loss": 2.5, "acc": 0.25}),
            (80, {"val_loss": 3.5, "val_acc": 0.125}),
            (81, {"loss": 2.25, "acc": 0.5, "epoch": 2}),
            (160, {"loss": 2.0, "acc": 0.5, "epoch": 2}),
            (160, {"val_loss": 3.25, "val_acc": 0.0, "epoch": 2}),
            (160, {"val_loss": 3.0, "val_acc": 0.25, "epoch": 2}),
            (240, {"loss": 1.75, "acc": 0.75, "epoch": 3}),
        ],
    ),
    (
        "the bar below the heading of an epoch is the training's, even if it is the shorter one",
        (
            PROGRESS.format(FULL, 90, 90, 4.0, 0.125),
            "Epoch: [2 | 50] LR: 0.1",
            PROGRESS.format(FULL, 40, 40, 2.5, 0.25),
            PROGRESS.format(FULL, 90, 90, 3.5, 0.125),
        ),
        [
            (90, {"loss": 4.0, "acc": 0.125}),
            (80, {"loss": 2.5, "acc": 0.25, "epoch": 2}),
            (80, {"val_loss": 3.5, "val_acc": 0.125, "epoch": 2}),
        ],
    ),
    (
        "without headings, the longer bar is the training's, also where the output begins with the other one",
        (
            PROGRESS.format(FULL, 20, 20, 3.5, 0.125),
            PROGRESS.format(FULL, 80, 80, 2.5, 0.25),
            PROGRESS.format(FULL, 20, 20, 3.0, 0.25),
        ),
        [
            (20, {"loss": 3.5, "acc": 0.125}),
            (80, {"loss": 2.5, "acc": 0.25}),
            (80, {"val_loss": 3.0, "val_acc": 0.25}),
        ],
    ),
    (
        "a line with values is no heading: the bar below it is still the evaluation's",
        (
            "Epoch: 2 | LR: 0.00025000",
            PROGRESS.format(FULL, 80, 80, 2.5, 0.25),
            "epoch 2 train_loss 2.5",
            PROGRESS.format(FULL, 20, 20, 3.0, 0.25),
        ),
        [
            (160, {"loss": 2.5, "acc": 0.25, "epoch": 2}),
            (160, {"train_loss": 2.5, "epoch": 2}),
            (160, {"val_loss": 3.0, "val_acc": 0.25, "epoch": 2}),
        ],
    ),
    (
        "several hosts, each behind its address",
        (
            "10.1.0.4: {'loss': 2.5, 'learning_rate': 1e-05, 'epoch': 0.5}",
            "10.1.0.7: {'loss': 2.5, 'learning_rate': 1e-05, 'epoch': 0.5}",
            "10.1.0.7: {'loss': 2.25, 'learning_rate': 1e-05, 'epoch': 0.75}",
            "10.1.0.4: {'loss': 2.25, 'learning_rate': 1e-05, 'epoch': 0.75}",
            "10.1.0.9: {'loss': 2.25, 'learning_rate': 1e-05, 'epoch': 0.75}",
            "10.1.0.4: {'loss': 2.25, 'learning_rate': 1e-05, 'epoch': 1.0}",
        ),
        [
            (1, {"loss": 2.5, "learning_rate": 1e-5, "epoch": 0.5}),
            (2, {"loss": 2.25, "learning_rate": 1e-5, "epoch": 0.75}),
            (3, {"loss": 2.25, "learning_rate": 1e-5, "epoch": 1.0}),
        ],
    ),
    (
        "several hosts, each behind a name, and words that name none",
        (
            "worker-1: {'loss': 2.5}",
            "worker-2: {'loss': 2.75}",
            "a17: {'loss': 2.0}",
            "b18: {'loss': 2.0}",
            "train: {'loss': 1.5}",
            "train: {'loss': 1.5}",
        ),
        [(1, {"loss": 2.5}), (2, {"loss": 2.0}), (3, {"loss": 1.5}), (4, {"loss": 1.5})],
    ),
    (
        "ms-swift, which has both counts in one",
        ('{"loss": 0.75, "learning_rate": 4e-05, "epoch": 0.25, "global_step/max_steps": "150/600", "percentage": "25.0%"}',),
        [(150, {"loss": 0.75, "learning_rate": 4e-5, "epoch": 0.25})],
    ),
    (
        "a step and all steps in one name",
        ("Epoch 4, step/total_step: 10/40 25.00% Loss:2.5", "Epoch 5, step/total_step: 10/40 25.00% Loss:2.25"),
        [(10, {"loss": 2.5, "epoch": 4}), (50, {"loss": 2.25, "epoch": 5})],
    ),
    (
        "YOLO's rows of an evaluation, if the bars are cut",
        (YOLO.format(1), YOLO.format(2)),
        [
            (1, {"box_loss": 1.75, "cls_loss": 2.5, "dfl_loss": 1.25, "epoch": 1}),
            (1, {"mAP50": 0.75, "epoch": 1}),
            (2, {"box_loss": 1.75, "cls_loss": 2.5, "dfl_loss": 1.25, "epoch": 2}),
            (2, {"mAP50": 0.75, "epoch": 2}),
        ],
    ),
    (
        "the end of a box, whose steps stand above it",
        (CUT_BOX, BOX),
        [(1, {"loss": 0.25}), (8192, {"loss": 0.5})],
    ),
    (
        "a box without any step but its updates",
        (f"{35 * '-'}\n{CUT_BOX}",),
        [(30, {"loss": 0.25})],
    ),
    (
        "rsl_rl's block below its iteration",
        (RSL_RL.format(41, "inf"), RSL_RL.format(42, 0.5)),
        [
            (41, {"value_function_loss": float("inf")}),
            (41, {"surrogate_loss": -0.0025}),
            (41, {"mean_reward": 12.5}),
            (42, {"value_function_loss": 0.5}),
            (42, {"surrogate_loss": -0.0025}),
            (42, {"mean_reward": 12.5}),
        ],
    ),
    (
        "OpenPCDet",
        (PCDET.format(50), PCDET.format(99)),
        [
            (250, {"loss": 4.5, "lr": 1e-4, "epoch": 2}),
            (299, {"loss": 4.5, "lr": 1e-4, "epoch": 2}),
        ],
    ),
    (
        "another line behind a bar without a line break",
        (GLUED.format(25, 10, 2.5), GLUED.format(30, 12, 2.25)),
        [(10, {"loss": 2.5, "epoch": 3}), (12, {"loss": 2.25, "epoch": 3})],
    ),
    (
        "the values behind a bar without a line break",
        (" 10%|█    | 5/50 [00:01<00:09, 5.00it/s]loss: 2.5",),
        [(5, {"loss": 2.5})],
    ),
    (
        "a bar of a number alone, which is drawn again",
        (DREAMS.format(2, 1), DREAMS.format(2, 1), DREAMS.format(4, 2)),
        [(2, {"loss": pytest.approx(float("nan"), nan_ok=True)}) for _ in range(2)]
        + [(4, {"loss": pytest.approx(float("nan"), nan_ok=True)})],
    ),
    (
        "a value in each line below the heading of an epoch",
        (
            "TRAIN EPOCH  0:",
            "loss             2.500000",
            "accuracy         0.250000",
            "Val epoch 0 has acc 0.125 and loss 2.75",
            "TRAIN EPOCH  1:",
            "loss             2.250000",
            "accuracy         0.500000",
        ),
        [
            (1, {"loss": 2.5, "epoch": 0}),
            (1, {"accuracy": 0.25, "epoch": 0}),
            (1, {"val_acc": 0.125, "val_loss": 2.75, "epoch": 0}),
            (2, {"loss": 2.25, "epoch": 1}),
            (2, {"accuracy": 0.5, "epoch": 1}),
        ],
    ),
    (
        "nnU-Net, whose heading stands behind the time",
        (
            "2024-05-14 10:21:33.123456: Epoch 7 ",
            "2024-05-14 10:31:33.123456: train_loss -0.5 ",
            "2024-05-14 10:31:33.123457: val_loss -0.25 ",
            "2024-05-14 10:31:33.123458: Yayy! New best EMA pseudo Dice: 0.75 ",
            "2024-05-14 10:31:34.123456: Epoch 8 ",
            "2024-05-14 10:41:33.123456: train_loss -0.625 ",
        ),
        [
            (1, {"train_loss": -0.5, "epoch": 7}),
            (1, {"val_loss": -0.25, "epoch": 7}),
            (2, {"train_loss": -0.625, "epoch": 8}),
        ],
    ),
    (
        "a batch in parentheses",
        (
            "[ Tue May 14 10:21:33 2024 ] Training epoch: 2",
            "[ Tue May 14 10:22:33 2024 ] \tBatch(10/40) done. Loss: 2.5  lr:0.1",
        ),
        [(50, {"loss": 2.5, "lr": 0.1, "epoch": 2})],
    ),
    (
        "the epoch and the batch between a loss and its value",
        ("Loss [1, 20](epoch, minibatch):  2.5", "root - INFO - The train loss of epoch2-batch-10:2.25"),
        [(20, {"loss": 2.5, "epoch": 1}), (30, {"train_loss": 2.25, "epoch": 2})],
    ),
    (
        "decibels",
        ("PSNR:31.5dB l1:0.5 Test:24.75dB 8.13s best:25.5dB",),
        [(1, {"psnr": 31.5, "l1": 0.5, "test_psnr": 24.75})],
    ),
    (
        "other names of an accuracy and an error",
        ("Epoch 2 Tot Loss: 2.5 Accu :0.25", "Epoch: 3 - train loss: 2.5e-01 - valid loss: 1.25e-01, valid error: 5.0e-02"),
        [
            (1, {"tot_loss": 2.5, "accu": 0.25, "epoch": 2}),
            (2, {"train_loss": 0.25, "valid_loss": 0.125, "valid_error": 0.05, "epoch": 3}),
        ],
    ),
    (
        "MXNet, whose batches have no number of all of them",
        (
            "INFO:root:Epoch[0] Batch [150]\tSpeed: 410.50 samples/sec\tTrain-accuracy=0.125",
            "INFO:root:Epoch[0] Batch [300]\tSpeed: 410.50 samples/sec\tTrain-accuracy=0.25",
            "INFO:root:Epoch[0] Train-accuracy=0.375",
            "INFO:root:Epoch[0] Validation-accuracy=0.25",
            "INFO:root:Epoch[1] Batch [150]\tSpeed: 410.50 samples/sec\tTrain-accuracy=0.5",
        ),
        [
            (150, {"Train-accuracy": 0.125, "epoch": 0}),
            (300, {"Train-accuracy": 0.25, "epoch": 0}),
            (300, {"Train-accuracy": 0.375, "epoch": 0}),
            (300, {"Validation-accuracy": 0.25, "epoch": 0}),
            (450, {"Train-accuracy": 0.5, "epoch": 1}),
        ],
    ),
    (
        "two ranks that print the same batches of an epoch",
        (
            "[Epoch 0 Batch 40] Training: accuracy=0.25",
            "[Epoch 0 Batch 40] Training: accuracy=0.375",
            "[Epoch 0 Batch 80] Training: accuracy=0.5",
            "[Epoch 0 Batch 80] Training: accuracy=0.625",
        ),
        [
            (40, {"accuracy": 0.25, "epoch": 0}),
            (40, {"accuracy": 0.375, "epoch": 0}),
            (80, {"accuracy": 0.5, "epoch": 0}),
            (80, {"accuracy": 0.625, "epoch": 0}),
        ],
    ),
    (
        "other words for such a batch",
        (
            "Epoch 1 Batch 0 Loss 4.5",
            "Epoch 1 Batch 200 Loss 3.5",
            "epoch: 2, batch_id: 200, auc:0.5, loss: 2.5",
            "Epoch 2 | batch idx 400 | loss 2.25",
        ),
        [
            (0, {"loss": 4.5, "epoch": 1}),
            (200, {"loss": 3.5, "epoch": 1}),
            (400, {"auc": 0.5, "loss": 2.5, "epoch": 2}),
            (600, {"loss": 2.25, "epoch": 2}),
        ],
    ),
    (
        "the size of a batch behind the epoch is no count",
        ("epoch 1, batch size 64, loss 2.5", "epoch 2, batch size 64, loss 2.25", "epoch 3 batch 0.5s loss 2.0"),
        [(1, {"loss": 2.5, "epoch": 1}), (2, {"loss": 2.25, "epoch": 2}), (3, {"loss": 2.0, "epoch": 3})],
    ),
    (
        "mpirun's ranks, whose lines have no step",
        (
            "[1,1]<stdout>:train loss: 2.5",
            "[1,0]<stdout>:train loss: 2.625",
            "[1,0]<stdout>:train loss: 2.25",
            "[1,1]<stdout>:train loss: 2.125",
            "[1,0]<stdout>:val loss: 2.0",
            "[1,1]<stdout>:train loss: 1.875",
            "[1,0]<stdout>:train loss: 1.75",
        ),
        [(1, {"train_loss": 2.5}), (2, {"train_loss": 2.25}), (2, {"val_loss": 2.0}), (3, {"train_loss": 1.75})],
    ),
    (
        "mpirun's ranks behind the time, on their bars",
        (
            "Fri Mar  3 10:21:33 2023[1,1]<stdout>:30/30 [====================] - 3s 100ms/step - loss: 2.5",
            "Fri Mar  3 10:21:33 2023[1,0]<stdout>:30/30 [====================] - 3s 100ms/step - loss: 2.5",
            "Fri Mar  3 10:21:36 2023[1,0]<stdout>:10/30 [======>.............] - 3s 100ms/step - loss: 2.25",
            "Fri Mar  3 10:21:36 2023[1,1]<stdout>:10/30 [======>.............] - 3s 100ms/step - loss: 2.375",
            "Fri Mar  3 10:21:37 2023[1,0]<stdout>:20/30 [======>.............] - 3s 100ms/step - loss: 2.0",
            "Fri Mar  3 10:21:37 2023[1,1]<stdout>:20/30 [======>.............] - 3s 100ms/step - loss: 2.125",
        ),
        [(30, {"loss": 2.5}), (40, {"loss": 2.25}), (50, {"loss": 2.0})],
    ),
    (
        "a rank that only prints what no other one does, and one that ends",
        (
            "[default3]:lm loss: 2.5",
            "[default3]:lm loss: 2.25",
            "[default0]:starts",
            "[default0]:lm loss: 2.0",
            *(f"[default3]:lm loss: 1.{number}" for number in range(5)),
        ),
        [(1, {"lm_loss": 2.5}), (2, {"lm_loss": 2.25}), (3, {"lm_loss": 1.3}), (4, {"lm_loss": 1.4})],
    ),
    (
        "a carriage return and an escape that a service wrote as digits",
        (
            "[1,mpirank:0,algo-1]<stdout>:#015Validation DataLoader 0: 100% 4/4 [00:00<00:00, 90.5it/s]#033[A",
            "[1,mpirank:0,algo-1]<stdout>:#015Epoch 2: 100% 8/8 [00:00<00:00, 40.5it/s, loss=2.5, v_num=0]",
            "[1,mpirank:1,algo-2]<stdout>:#015Epoch 2: 100% 8/8 [00:00<00:00, 40.5it/s, loss=2.75, v_num=0]",
            "[1,mpirank:0,algo-1]<stdout>:#015                              #033[A",
            "[1,mpirank:0,algo-1]<stdout>:#015Epoch 2:   0% 0/8 [00:00<?, ?it/s, loss=2.5, v_num=0]    "
            "#015Epoch 3:   0% 0/8 [00:00<?, ?it/s, loss=2.5, v_num=0]",
            "[1,mpirank:0,algo-1]<stdout>:#015Epoch 3:  50% 4/8 [00:00<00:00, 35.5it/s, loss=2.25, v_num=0]",
        ),
        [
            (8, {"loss": 2.5, "epoch": 2}),
            (8, {"loss": 2.5, "epoch": 2}),
            (8, {"loss": 2.5, "epoch": 3}),
            (12, {"loss": 2.25, "epoch": 3}),
        ],
    ),
    (
        "Fairseq's oldest form, without a bar",
        (
            "| epoch 003   500 / 2400 loss=2.50 (2.75), wps=800, wpb=700, bsz=24, lr=0.01, clip=100%, gnorm=2.5",
            "| epoch 003  1000 / 2400 loss=2.25 (2.50), wps=800, wpb=700, bsz=24, lr=0.01, clip=100%, gnorm=2.5",
            "| epoch 003 | train loss 2.50 | train ppl 5.66 | s/checkpoint     500 | words/s    800 | bsz    24 | lr 0.010000",
            "| epoch 003 | valid on 'valid' subset   200 / 300 loss=3.50",
            "| epoch 003 | valid on 'valid' subset | valid loss 3.25 | valid ppl 9.51",
            "| epoch 004   500 / 2400 loss=2.00 (2.25), wps=800, wpb=700, bsz=24, lr=0.01, clip=100%, gnorm=2.5",
        ),
        [
            (5300, {"loss": 2.5, "lr": 0.01, "epoch": 3}),
            (5800, {"loss": 2.25, "lr": 0.01, "epoch": 3}),
            (5800, {"train_loss": 2.5, "train_ppl": 5.66, "lr": 0.01, "epoch": 3}),
            (5800, {"val_loss": 3.5, "epoch": 3}),
            (5800, {"valid_loss": 3.25, "valid_ppl": 9.51, "epoch": 3}),
            (7700, {"loss": 2.0, "lr": 0.01, "epoch": 4}),
        ],
    ),
    (
        "Fairseq's bar, whose meters are empty before the first update",
        (
            "| epoch 001:   1%| | 12/1200 [00:30<59:00, 2.5s/it, loss=0.000, ppl=1.00, wps=0, wpb=0, bsz=0, num_updates=0, ",
            "| epoch 001:   2%| | 24/1200 [01:00<58:00, 2.5s/it, loss=9.500, ppl=724.08, ups=0.5, wpb=9, num_updates=20, ",
        ),
        [(20, {"loss": 9.5, "ppl": 724.08, "epoch": 1})],
    ),
    (
        "a rate in a bar is no metric",
        ("Training:  10%|█    | 4/40 [00:04<01:27,  4.50s/it, loss=2.5, it/s=3.5, tok/s=900.5, s/it=0.25, loss/s1=1.5]",),
        [(4, {"loss": 2.5, "loss/s1": 1.5})],
    ),
    (
        "darknet, whose layers have no loss",
        (
            " 210: 8.125000, 9.250000 avg loss, 0.001000 rate, 2.500000 seconds, 13440 images, 4.250000 hours left",
            "Loaded: 0.000031 seconds",
            "Region 16 Avg IOU: 0.500000, Class: 0.750000, Obj: 0.250000, No Obj: 0.010000, .5R: 0.500000, count: 8",
            "Region 23 Avg IOU: -nan, Class: -nan, Obj: -nan, No Obj: 0.010000, .5R: -nan, .75R: -nan,  count: 0",
            "v3 (mse loss, Normalizer: (iou: 0.750000, cls: 1.000000) Region 82 Avg (IOU: 0.250000, GIOU: 0.125000), count: 3",
            "v3 (iou loss, Normalizer: (iou: 0.07, obj: 1.00, cls: 1.00) Region 94 Avg (IOU: 0.25), count: 3, class_loss = 1",
            "211: -nan, -nan avg, 0.001000 rate, 2.500000 seconds, 13504 images",
        ),
        [
            (210, {"loss": 8.125, "avg_loss": 9.25, "lr": 0.001}),
            (211, pytest.approx({"loss": float("nan"), "avg_loss": float("nan"), "lr": 0.001}, nan_ok=True)),
        ],
    ),
    (
        "evaluations that say when they took place",
        (
            "Validation result (beam) at epoch   1, step      300: bleu:   1.50, loss: 2500.5000, duration: 61.5000s",
            "Validation result (beam) at epoch   2, step      600: bleu:   2.50, loss: 2250.5000, duration: 60.5000s",
        ),
        [(300, {"val_bleu": 1.5, "val_loss": 2500.5, "epoch": 1}), (600, {"val_bleu": 2.5, "val_loss": 2250.5, "epoch": 2})],
    ),
    (
        "an evaluation that counts on its own, and one below lines that count",
        ("Validation step 20: loss: 2.5", "epoch 1 loss 3.0", "Validation at step 600, loss: 2.25"),
        [(0, {"val_loss": 2.5}), (1, {"loss": 3.0, "epoch": 1}), (1, {"val_loss": 2.25, "epoch": 1})],
    ),
    (
        "the older name of the accuracy in PyTorch's example on ImageNet",
        (
            "Epoch: [0][20/400]\tTime 0.250 (0.500)\tLoss 6.5000 (6.7500)\tPrec@1 0.500 (0.250)\tPrec@5 1.500 (1.250)",
            "Test: [20/40]\tTime 0.250 (0.500)\tLoss 6.2500 (6.5000)\tPrec@1 0.750 (0.500)\tPrec@5 1.750 (1.500)",
            " * Prec@1 0.625 Prec@5 1.625",
        ),
        [
            (20, {"loss": 6.5, "prec@1": 0.5, "prec@5": 1.5, "epoch": 0}),
            (20, {"test_loss": 6.25, "test_prec@1": 0.75, "test_prec@5": 1.75, "epoch": 0}),
            (20, {"test_prec@1": 0.625, "test_prec@5": 1.625, "epoch": 0}),
        ],
    ),
    (
        "Torch7, whose loss is called Err",
        (
            "Epoch: [1][20/400]     Time 2.500 Err 6.2500 Top1-%: 2.50 LR 1e-02 DataLoadingTime 0.125",
            " | Epoch: [1][40/400]    Time 0.250  Data 0.001  Err 6.0000  top1  97.500  top5  90.000",
            "Err 3 files",
        ),
        [
            (20, {"loss": 6.25, "lr": 0.01, "epoch": 1}),
            (40, {"loss": 6.0, "top1": 97.5, "top5": 90.0, "epoch": 1}),
        ],
    ),
    (
        "CNTK, whose means are over so many samples",
        (
            "Finished Epoch[1 of 4]: [Training] loss = 2.250000 * 20480, metric = 37.50% * 20480 1.250s (16384.0 samples/s);",
            "Finished Epoch[1 of 4]: [Training] loss = 2.250000 * 20480, metric = 37.50% * 20480 1.500s (13653.0 samples/s);",
            " Minibatch[   1- 100]: loss = 2.000000 * 6400, metric = 30.00% * 6400;",
            "Finished Epoch[2 of 4]: [Training] loss = 2.250000 * 20480, metric = 37.50% * 20480 1.250s (16384.0 samples/s);",
        ),
        [(1, {"loss": 2.25, "epoch": 1}), (2, {"loss": 2.0, "epoch": 1}), (3, {"loss": 2.25, "epoch": 2})],
    ),
    (
        "the cost of an epoch, where it is no time and no price",
        (
            "Epoch: 0001 cost= 12.250000000",
            "Epoch: 0002 cost=11.250000000 W= 0.5 b= 0.75",
            "Epoch: 0003 Avg. cost = 10.25",
            "Epoch[2] Time cost=21.75",
            "epoch 3 cost: 35.25",
            "Epoch: 0003 cost: 35.25 s",
            "Epoch: 0003 time cost= 35.25",
            "cost after 3 days: 12.5",
        ),
        [(1, {"loss": 12.25, "epoch": 1}), (2, {"loss": 11.25, "epoch": 2}), (3, {"loss": 10.25, "epoch": 3})],
    ),
    (
        "the cost after an iteration",
        ("Cost after iteration 0: 0.75", "Cost after iteration 100: 0.625"),
        [(0, {"loss": 0.75}), (100, {"loss": 0.625})],
    ),
    (
        "MXNet's accuracy among the best few",
        ("Node[0] Epoch[1] Batch [50]\tSpeed: 410.50 samples/sec\tTrain-top_k_accuracy_5=0.75",),
        [(50, {"Train-top_k_accuracy_5": 0.75, "epoch": 1})],
    ),
    (
        "a date without a year is no count of batches",
        (
            "[03/14 10:21:33] ppdet.engine INFO: Epoch: [0] [ 10/80] learning_rate: 0.5 loss: 2.5",
            "[03/14 10:22:33] ppdet.engine INFO: Epoch: [0] [ 20/80] learning_rate: 0.5 loss: 2.25",
        ),
        [(10, {"learning_rate": 0.5, "loss": 2.5, "epoch": 0}), (20, {"learning_rate": 0.5, "loss": 2.25, "epoch": 0})],
    ),
    (
        "records of an evaluation by name",
        (
            '{"name": "train", "epoch": 1, "iteration": 40, "average loss": 2.5, "cer": 0.75}',
            '{"name": "validation", "epoch": 1, "iteration": 5, "average loss": 2.25, "cer": 0.5}',
        ),
        [(40, {"average loss": 2.5, "cer": 0.75, "epoch": 1}), (40, {"val_average loss": 2.25, "val_cer": 0.5, "epoch": 1})],
    ),
    (
        "an older form of OpenPCDet, behind its bar",
        (
            "train:   0%|          | 0/80 [00:00<?, ?it/s]2023-03-14 10:21:33,123   INFO  epoch: 2/9, acc_iter=160, "
            "cur_iter=0/80, batch_size=4, loss=2.5, lr=0.5",
            "2023-03-14 10:21:43,123   INFO  epoch: 2/9, acc_iter=200, cur_iter=40/80, batch_size=4, loss=2.25, lr=0.5",
        ),
        [(160, {"loss": 2.5, "lr": 0.5, "epoch": 2}), (200, {"loss": 2.25, "lr": 0.5, "epoch": 2})],
    ),
    (
        "ESPnet",
        (
            "2023-03-14 10:21:33,123 (trainer:500) INFO: 2epoch:train:1-250batch: iter_time=0.25, loss=2.5, train_time=0.5",
            "2023-03-14 10:22:33,123 (trainer:500) INFO: 2epoch:train:251-500batch: iter_time=0.25, loss=2.25",
            "2023-03-14 10:23:33,123 (trainer:500) INFO: 3epoch:train:1-250batch: iter_time=0.25, loss=2.0",
        ),
        [(250, {"loss": 2.5, "epoch": 2}), (500, {"loss": 2.25, "epoch": 2}), (750, {"loss": 2.0, "epoch": 3})],
    ),
    (
        "the first OpenNMT-py",
        (
            "Epoch  1,   400/2000; acc:   5.50; ppl: 3500.25; xent:   8.25; 3635 src tok/s; 3723 tgt tok/s;    100 s elapsed",
            "Epoch  2,   400/2000; acc:   6.50; ppl: 3000.25; xent:   8.00; 3635 src tok/s; 3723 tgt tok/s;    600 s elapsed",
        ),
        [
            (400, {"acc": 5.5, "ppl": 3500.25, "xent": 8.25, "epoch": 1}),
            (2400, {"acc": 6.5, "ppl": 3000.25, "xent": 8.0, "epoch": 2}),
        ],
    ),
    (
        "keras-rl, whose episodes have steps, too",
        (
            "  1200/9000: episode: 10, duration: 1.5s, episode steps: 120, episode reward: 120.0, loss: 2.5",
            "8.  1500/9000: episode: 11, duration: 1.5s, episode steps: 300, episode reward: 300.0, loss: 2.25",
        ),
        [(1200, {"episode_reward": 120.0, "loss": 2.5}), (1500, {"episode_reward": 300.0, "loss": 2.25})],
    ),
    (
        "the spread of rewards, and a step before the end of a sentence",
        (
            "INFO:unityagents: Brain: Step: 2000. Mean Reward: -2.5. Std of Reward: 0.500.",
            "INFO:unityagents: Brain: Step: 4000. Mean Reward: -1.5. Std of Reward: 0.250.",
        ),
        [(2000, {"mean_reward": -2.5}), (4000, {"mean_reward": -1.5})],
    ),
    (
        "a table that says in a column whether a row is the training's",
        (
            "accuracy | loss | epoch | train | time",
            "-- | -- | -- | -- | --",
            "0.500 | 1.250 | 0 | True | 00:21",
            "0.625 | 1.125 | 0 | False | 00:01",
            "0.750 | 0.875 | 1 | True | 00:21",
        ),
        [
            (1, {"accuracy": 0.5, "loss": 1.25, "epoch": 0}),
            (1, {"val_accuracy": 0.625, "val_loss": 1.125, "epoch": 0}),
            (2, {"accuracy": 0.75, "loss": 0.875, "epoch": 1}),
        ],
    ),
    (
        "the quotes of a forum",
        ("{‘loss’: 2.5, ‘step’: 10}", "{“loss”: 2.25, “step”: 20}"),
        [(10, {"loss": 2.5}), (20, {"loss": 2.25})],
    ),
]


@pytest.mark.parametrize(("lines", "values"), [item[1:] for item in FOUND], ids=[item[0] for item in FOUND])
def test_values_and_their_steps(lines: tuple[str, ...], values: Values) -> None:
    assert read(*lines) == values


@pytest.mark.parametrize(
    ("line", "metrics"),
    [
        ("Map:  96%|██████████", {}),
        ("Map:   0%|          ", {}),
        ("Map (num_proc=8):  40%|####      WARNING: stopped", {}),
        ("Map:  32% 320/1000 [00:10<00:20, 32.0 examples/s]", {}),
        ("mAP: 45.3%|acc: 91%", {"mAP_percent": 45.3, "acc_percent": 91.0}),
        ("mAP: 45.3% | acc: 91%", {"mAP_percent": 45.3, "acc_percent": 91.0}),
        ("loss_ctc inf lr 0.5 loss 2.5", {"loss_ctc": float("inf"), "lr": 0.5, "loss": 2.5}),
        ("Mean value_function loss: 0.5", {"value_function_loss": 0.5}),
        ("lost 3 dB, signal loss 2.5 dB", {}),
        ("test error: 3 files", {}),
        ("solver.cpp:229] **Iteration 2300, loss = 5.07946**", {"loss": 5.07946}),
        ("x**2 + y**2 with loss = 2**3", {}),
        ("step_78540:\tloss_-4.065555573", {"loss": -4.065555573}),
        ("step_7854 loss_0.5", {"loss": 0.5}),
        (
            "INFO: iter: 20, lr: 0.0085, 'loss': 'inf', 'loss_xy': '0.25', eta: 1",
            {"loss": float("inf"), "lr": 0.0085, "loss_xy": 0.25},
        ),
        ('{"step": 10, "loss": "0.5", "epoch": "007"}', {"loss": 0.5}),
        ("INFO: iter: 20, 'loss': 'none', 'acc': '3 of 4'", {}),
        ("saved step_100_loss_0.5.pt", {}),
    ],
)
def test_metrics_of_a_line(line: str, metrics: dict[str, float]) -> None:
    assert metrics_of(line) == metrics


@pytest.mark.parametrize(
    ("line", "times"),
    [
        ("Validation result at epoch   3, step      900: loss: 2.5, duration: 61.5s", {}),
        ("Validation epoch 3 loss: 2.5, duration: 61.5s", {"evaluation_s": 61.5}),
        ("2epoch:train:1-250batch: iter_time=0.25, forward_time=0.1, loss=2.5, train_time=0.5", {}),
        ("train_time=61.5 loss=2.5", {"training_s": 61.5}),
        ("Validation epoch 3 loss 2.5 61.5s", {"evaluation_s": 61.5}),
        ("Epoch 3 loss: 2.5, duration: 61.5s", {"epoch_s": 61.5}),
    ],
)
def test_the_time_of_an_evaluation_is_not_that_of_an_epoch(line: str, times: dict[str, float]) -> None:
    assert rates.whole_times(line) == times


TOKENS = {"tokens_per_sec": 25_500.0}
NANOTRON = (
    "05/14/2024 10:21:33 [INFO|DP=0|PP=0|TP=0]: iteration: 120 / 900 | consumed_tokens: 1.5G | "
    "elapsed_time_per_iteration_ms: {} | tokens_per_sec: 25.5K | tokens_per_sec_per_gpu: 12.8K | lm_loss: {} | lr: 1e-05"
)


@pytest.mark.parametrize(
    ("line", "paces", "metrics"),
    [
        (NANOTRON.format("12.5K", "2.5"), {"it_per_sec": 0.08, **TOKENS}, {**TOKENS, "lm_loss": 2.5, "lr": 1e-5}),
        (NANOTRON.format("250", "1.25K"), {"it_per_sec": 4.0, **TOKENS}, {**TOKENS, "lm_loss": 1250.0, "lr": 1e-5}),
        (
            "[step 50]  mlm_loss=2.5  throughput=12.5K tks/s  time=2500.12, latency=2500.0 ms/batch",
            {"it_per_sec": 0.4, "tokens_per_sec": 12_500.0},
            {"mlm_loss": 2.5},
        ),
        ("loss = 2.5, step = 25 (1.750 sec)", {}, {"loss": 2.5}),
    ],
)
def test_short_numbers_of_a_pace(line: str, paces: dict[str, float], metrics: dict[str, float]) -> None:
    assert rates.paces(line) == pytest.approx(paces)
    assert metrics_of(line) == metrics


def test_the_time_of_a_step_is_not_that_of_a_part_of_it() -> None:
    times = "  Data time: {}({})  Forward time: 0.25(0.25)  Batch time: 0.5(0.5)\n"
    transcript = Transcript(with_pace=True)
    assert list(transcript.feed((PCDET.format(50) + times.format(0.125, 0.125)).encode())) == [
        (250, {"data_time": 0.125, "time": 0.5, "it_per_sec": 2.0, "loss": 4.5, "lr": 1e-4, "epoch": 2})
    ]
    assert "data_time" not in dict(list(transcript.feed((PCDET.format(" 0") + times.format(0.5, 0.5)).encode())))[200]
