"""Which number of a line is its step, which names its values have, and which lines only repeat another; own samples in the
forms of logs that people have posted.
"""

from __future__ import annotations

import pytest

from gputop.tracking.printed.lines import parse
from gputop.tracking.printed.transcript import Transcript

Values = list[tuple[int, dict[str, float]]]


def read(*lines: str) -> Values:
    transcript = Transcript(with_bars=True)
    return [*transcript.feed("\n".join((*lines, "")).encode()), *transcript.end()]


def metrics_of(line: str) -> dict[str, float]:
    said = parse(line)
    return dict(said.metrics) if said is not None else {}


def step_of(line: str) -> tuple[int | None, int | None]:
    said = parse(line)
    return (said.step, said.steps) if said is not None else (None, None)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("[03/14 09:26:53] engine INFO: Epoch: [2] [ 30/400] learning_rate: 0.25 loss: 1.5", (30, 400)),
        ("[2023/03/14 09:26:53] root INFO: iter: 90, loss: 1.5", (90, None)),
        ("[03/14 09:26:53] loss: 1.5", (None, None)),
        ("[03/14, 09:26] loss: 1.5", (None, None)),
        ("[03/14/2023 09:26:53] loss: 1.5", (None, None)),
        ("[2023/03/14] loss: 1.5", (None, None)),
        ("[30/400] loss: 1.5", (30, 400)),
        ("[ 30/400] 09:26:53 loss: 1.5", (30, 400)),
        ("[30/400 00:12<02:30 loss: 1.5]", (30, 400)),
        ("[30/400, loss: 1.5]", (30, 400)),
        ("batch 30/400 loss: 1.5", (30, 400)),
    ],
)
def test_a_date_is_no_step(line: str, step: tuple[int | None, int | None]) -> None:
    assert step_of(line) == step


@pytest.mark.parametrize(
    ("line", "metrics"),
    [
        ("Mean disc_loss loss: 0.5", {"disc_loss": 0.5}),
        ("Mean grad_penalty loss: nan", {"grad_penalty_loss": pytest.approx(float("nan"), nan_ok=True)}),
        ("Mean m3_actor loss: 0.25", {"m3_actor_loss": 0.25}),
        ("Mean m3_critic loss: 9000.5", {"m3_critic_loss": 9000.5}),
        ("train_step loss: 0.5", {"loss": 0.5}),
        ("rank_0 loss: 0.5", {"loss": 0.5}),
        ("fold_3 loss: 0.5", {"loss": 0.5}),
        ("global_step loss: 0.5", {"loss": 0.5}),
        ("batch_idx loss: 0.5", {"loss": 0.5}),
        ("mean value_function loss: 0.5", {"value_function_loss": 0.5}),
        ("Mean Reward: 1.5. Std of Reward: 0.25.", {"mean_reward": 1.5}),
        ("mean reward: 1.5, standard deviation of the reward: 0.25", {"mean_reward": 1.5}),
        ("Min of loss: 0.25, loss: 0.5", {"loss": 0.5}),
        ("mean of loss: 0.5", {"loss": 0.5}),
        ("loss of model: 0.5", {}),
    ],
)
def test_the_words_before_a_measure_are_part_of_its_name(line: str, metrics: dict[str, float]) -> None:
    assert metrics_of(line) == metrics


@pytest.mark.parametrize(
    ("line", "metrics"),
    [
        ("[2023-03-14 09:26:53,123][DEBUG] (Test @ epoch 6) auc: 0.75, acc: 0.5", {"test_auc": 0.75, "test_acc": 0.5}),
        ("[2023-03-14 09:26:53,123] [    INFO] - Evaluation f1: 0.75", {"evaluation_f1": 0.75}),
        ("2023-03-14 09:26:53,123 - INFO - Validation loss: 0.75", {"validation_loss": 0.75}),
        ("2023-03-14 09:26:53,123 - fit - INFO - (Val) loss: 0.75", {"val_loss": 0.75}),
        ("2023-03-14 09:26:53,123 - INFO - Evaluation recall: 0.5, f1: 0.75", {"eval_f1": 0.75}),
        ("INFO:tensorflow:Evaluation loss: 0.75", {"evaluation_loss": 0.75}),
        ("2023-03-14 09:26:53.123 | INFO     | fit.loop:run:90 - Val loss: 0.75", {"val_loss": 0.75}),
        ("I0314 09:26:53.123456 4321 solver.cpp:40] Test net output #1: loss = 0.75 (* 1 = 0.75 loss)", {"test_loss": 0.75}),
        ("I0314 09:26:53.123456 4321 solver.cpp:40] Train net output #1: loss = 0.75 (* 1 = 0.75 loss)", {"loss": 0.75}),
        ("[2023-03-14 09:26:53,123][DEBUG] loss: 0.75 at step: 40", {"loss": 0.75}),
        ("[2023-03-14 09:26:53,123] [INFO] test.py:30 - loss: 0.75", {"loss": 0.75}),
        ("2023-03-14 09:26:53,123 - test - INFO - loss: 0.75", {"loss": 0.75}),
        ("INFO:eval:loss: 0.75", {"loss": 0.75}),
        ("INFO:root:train loss: 0.75", {"train_loss": 0.75}),
        ("INFO - Test loss: 0.75 Train loss: 0.5", {"test_loss": 0.75, "train_loss": 0.5}),
        ("Test loss: 0.75 Train loss: 0.5", {"test_loss": 0.75, "train_loss": 0.5}),
        ("2023-03-14 09:26:53 INFO val_loss: 0.75 loss: 0.5", {"val_loss": 0.75, "loss": 0.5}),
        ("2023-03-14 09:26:53 INFO validation: loss: 0.75", {"val_loss": 0.75}),
    ],
)
def test_the_side_stands_behind_a_prefix_of_the_logger(line: str, metrics: dict[str, float]) -> None:
    assert metrics_of(line) == metrics


def test_an_evaluation_behind_a_prefix_has_no_step_of_its_own() -> None:
    assert read(
        "[2023-03-14 09:26:53,123][DEBUG] loss: 0.5 at step: 40",
        "[2023-03-14 09:26:54,123][DEBUG] (Val @ epoch 6) auc: 0.75, step 3",
        "[2023-03-14 09:26:55,123][DEBUG] loss: 0.25 at step: 80",
    ) == [(40, {"loss": 0.5}), (40, {"val_auc": 0.75, "epoch": 6}), (80, {"loss": 0.25, "epoch": 6})]


TF = "INFO:tensorflow:{}"
ABSL = "I0314 09:26:53.123456 140123456789 fit_lib.py:50] {}"
SOLVER = "I0314 09:26:53.123456  4321 solver.cpp:240] {}"
GARDEN = (
    "{0} | step:  {1:>5} | steps/sec:    0.5 | output:",
    "    {{'learning_rate': 0.25,",
    "     'head_loss': {2},",
    "{3}}}",
)


def garden(side: str, step: int, loss: float) -> tuple[str, ...]:
    return tuple("\n".join(GARDEN).format(side, step, loss, "     'training_loss': 0.5").split("\n"))


def logged(lines: tuple[str, ...]) -> tuple[str, ...]:
    return ABSL.format(lines[0]), *lines[1:]


REPEATED: list[tuple[str, tuple[str, ...], Values]] = [
    (
        "a line with and without the prefix of a logger",
        (
            TF.format("global step 8: loss = 0.5 (0.3 sec/step)"),
            ABSL.format("global step 8: loss = 0.5 (0.3 sec/step)"),
            TF.format("global step 9: loss = 0.5 (0.3 sec/step)"),
            ABSL.format("global step 9: loss = 0.5 (0.3 sec/step)"),
        ),
        [(8, {"loss": 0.5}), (9, {"loss": 0.5})],
    ),
    (
        "without a step, each pair is one report, even if the loss stays the same",
        (*(TF.format("loss = 0.5"), ABSL.format("loss = 0.5")), *(TF.format("loss = 0.5"), ABSL.format("loss = 0.5"))),
        [(1, {"loss": 0.5}), (2, {"loss": 0.5})],
    ),
    (
        "a loss that stays the same, behind one prefix or none",
        (*2 * (TF.format("loss = 0.5"),), *2 * ("loss = 0.25",)),
        [(1, {"loss": 0.5}), (2, {"loss": 0.5}), (3, {"loss": 0.25}), (4, {"loss": 0.25})],
    ),
    (
        "a text of several lines",
        (
            *(*logged(garden("train", 20, 2.5)), *garden("train", 20, 2.5)),
            *(*logged(garden("train", 40, 2.5)), *garden("train", 40, 2.5)),
            *(*logged(garden("eval", 40, 3.5)), *garden("eval", 40, 3.5)),
        ),
        [
            *((20, {"head_loss": 2.5}), (20, {"training_loss": 0.5}), (40, {"head_loss": 2.5}), (40, {"training_loss": 0.5})),
            *((40, {"eval_head_loss": 3.5}), (40, {"eval_training_loss": 0.5})),
        ],
    ),
    (
        "the outputs of Caffe's nets, which have the step of the line above them",
        (
            SOLVER.format("    Train net output #2: per_class_accuracy = 0"),
            SOLVER.format("    Train net output #3: mask_loss = 4.5 (* 1 = 4.5 loss)"),
            SOLVER.format("Iteration 20, loss = 2.5"),
            SOLVER.format("    Train net output #0: accuracy = 0.25"),
            SOLVER.format("    Train net output #1: loss = 2.5 (* 1 = 2.5 loss)"),
            SOLVER.format("    Train net output #2: per_class_accuracy = 0"),
            SOLVER.format("    Train net output #3: per_class_accuracy = 1"),
            SOLVER.format("Iteration 40, Testing net (#0)"),
            SOLVER.format("    Test net output #1: loss = 3.5 (* 1 = 3.5 loss)"),
            SOLVER.format("Iteration 40, loss = 2.5"),
            SOLVER.format("    Train net output #1: loss = 2.25 (* 1 = 2.25 loss)"),
            SOLVER.format("    Train net output #4: mask_loss = 2.5 (* 1 = 2.5 loss)"),
        ),
        [
            *((20, {"loss": 2.5}), (20, {"accuracy": 0.25}), (20, {"test_loss": 3.5})),
            *((40, {"loss": 2.5}), (40, {"mask_loss": 2.5})),
        ],
    ),
]


@pytest.mark.parametrize(("lines", "values"), [item[1:] for item in REPEATED], ids=[item[0] for item in REPEATED])
def test_a_report_that_is_printed_twice_counts_once(lines: tuple[str, ...], values: Values) -> None:
    assert read(*lines) == values


def test_the_losses_of_several_tasks_stay_apart() -> None:
    task = "2023-03-14 09:26:53,123 - INFO - task : {}, loss: {}, box_loss: 0.5, num_pos: 8.0"
    lines = (task.format("['cup']", 2.5), task.format("['big_fork', 'spoon']", "nan"))
    nan = pytest.approx(float("nan"), nan_ok=True)
    cup, forks = {"loss/cup": 2.5, "box_loss/cup": 0.5}, {"loss/big_fork_spoon": nan, "box_loss/big_fork_spoon": 0.5}
    assert read(*lines, *lines) == [(1, cup), (1, forks), (2, cup), (2, forks)]
    epoch = "2023-03-14 09:26:53,123 - INFO - Epoch [1/20][15/600]\tlr: 0.25, loss_parse_time: 0.125"
    assert read(epoch, *lines) == [(15, {**cup, "epoch": 1}), (15, {**forks, "epoch": 1})]
    assert metrics_of("task: 3, loss: 2.5") == {"loss": 2.5}


@pytest.mark.parametrize(
    ("line", "metrics"),
    [
        ("iter 5 loss_parse_time: 0.125 loss: 0.5", {"loss": 0.5}),
        ("iter 5 loss/time: 0.125 s", {}),
        ("iter 5 loss_runtime: 0.5", {"loss_runtime": 0.5}),
    ],
)
def test_the_time_of_a_loss_is_no_loss(line: str, metrics: dict[str, float]) -> None:
    assert metrics_of(line) == metrics


def test_the_step_of_pix2pix_stands_above_its_losses() -> None:
    block = ("progress  epoch {}  step {}  image/sec 30.5  remaining 5m", "discrim_loss {}", "gen_loss_GAN 0.5")
    first, second, third = ("\n".join(block).format(*said) for said in ((1, 300, 1.5), (1, 350, 1.25), (2, 50, 1.0)))
    assert read(first, second, third) == [
        *((300, {"discrim_loss": 1.5, "epoch": 1}), (300, {"gen_loss_GAN": 0.5, "epoch": 1})),
        *((350, {"discrim_loss": 1.25, "epoch": 1}), (350, {"gen_loss_GAN": 0.5, "epoch": 1})),
        *((400, {"discrim_loss": 1.0, "epoch": 2}), (400, {"gen_loss_GAN": 0.5, "epoch": 2})),
    ]


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("  4.  5200/9000: episode: 77, duration: 0.5s, episode steps: 140, episode reward: 9.5, loss: 1.5", (5200, 9000)),
        ("  5200/9000: episode: 77, duration: 0.5s, episode steps: 140, episode reward: 9.5, loss: 1.5", (5200, 9000)),
        ("episode 77, episode steps: 140, episode reward: 9.5", (None, None)),
        ("episode 77, step: 140, episode reward: 9.5", (140, None)),
        ("warmup steps: 500, loss: 1.5", (None, None)),
        ("max steps: 500, step: 20, loss: 1.5", (20, None)),
        ("INFO: Brain: Step: 4000. Mean Reward: 1.5.", (4000, None)),
        ("Step 4000. Time Elapsed: 20.5 s. Mean Reward: 1.5.", (4000, None)),
        ("step 4000.5 loss 1.5", (None, None)),
        ("it. 4000. loss 1.5", (None, None)),
    ],
)
def test_which_steps_are_those_of_the_training(line: str, step: tuple[int | None, int | None]) -> None:
    assert step_of(line) == step


PCDET = "2023-03-14 09:26:53,123   INFO  epoch: 3/40, acc_iter={}, cur_iter={}/200, batch_size=2, loss={}, lr=0.0015"


def test_the_step_behind_a_bar_that_is_glued_to_a_line() -> None:
    glued = "train:   0%|          | 0/200 [00:00<?, ?it/s]"
    assert read(glued + PCDET.format(601, "0", 2.5), PCDET.format(650, "49", 2.25), PCDET.format(700, "99", 2.0)) == [
        (601, {"loss": 2.5, "lr": 0.0015, "epoch": 3}),
        (650, {"loss": 2.25, "lr": 0.0015, "epoch": 3}),
        (700, {"loss": 2.0, "lr": 0.0015, "epoch": 3}),
    ]
    assert read("train:  10%|#         | 20/200 [00:00<00:05, 9.00it/s]epoch 3 loss 2.5") == [(20, {"loss": 2.5, "epoch": 3})]
    assert step_of("epoch: 3/40, cur_iter=49/200, loss=2.5") == (49, 200)


COUNTED: list[tuple[str, tuple[str, ...], list[int]]] = [
    ("a batch", ("Elapsed [0:10:01] batch: 400  d_loss: 0.5", "Elapsed [0:11:01] batch: 450  d_loss: 0.5"), [400, 450]),
    ("its size", 12 * ("loss: 0.5 batch: 32",), [*range(1, 13)]),
    ("its size, which is not equal once", (*6 * ("loss: 0.5 batch: 32",), "loss: 0.5 batch: 20", "loss: 0.5"), [*range(1, 9)]),
    ("one line", ("loss: 0.5 batch: 32",), [1]),
    ("batches that begin again", tuple(f"batch {batch} loss 0.5" for batch in (50, 100, 150, 0, 50)), [50, 100, 150, 150, 200]),
    ("two ranks", tuple(f"batch {batch} loss 0.5" for batch in (50, 50, 100, 100)), [50, 50, 100, 100]),
    ("frames", ("Frame 5120. reward: 9.5", "Frame 7680. reward: 9.75", "Frame 10240. reward: 9.25"), [5120, 7680, 10240]),
    ("numbered frames", tuple(f"Game number: 0{n} Frame number: 00{n}5  Average reward: 9.5" for n in (3, 4)), [35, 45]),
    ("frames of a sample", 4 * ("loss: 0.5 frames: 16",), [1, 2, 3, 4]),
    ("all steps so far", tuple(f"epoch 0, total_step {n}, loss: 0.5" for n in (900, 950)), [900, 950]),
    ("the steps that there are", tuple(f"step: {n} total_steps: 900, loss: 0.5" for n in (1, 2)), [1, 2]),
    ("an evaluation between them", ("batch 50 loss 0.5", "val_loss 0.75", "batch 100 loss 0.5"), [50, 50, 100]),
    ("words of a name", tuple(f"batch_size 3{n} frame/s 4{n} loss 0.5" for n in (1, 2)), [1, 2]),
    ("a rate", tuple(f"loss 0.5, 1{n} s/batch 5{n}.5 frames" for n in (1, 2)), [1, 2]),
    (
        "ESPnet",
        tuple(f"(trainer:486) INFO: {e}epoch:train:{b - 99}-{b}batch: loss=0.5" for e, b in ((2, 500), (3, 100))),
        [500, 600],
    ),
    ("in Chinese", ("训练次数：200, Loss：0.5", "训练次数：300, Loss：0.25"), [200, 300]),
    ("OpenNMT", tuple(f"Epoch  2, {n:>5}/900; acc: 5.5; ppl: 90.5; xent: 4.5; 30 src tok/s" for n in (50, 100)), [950, 1000]),
]


@pytest.mark.parametrize(("lines", "steps"), [item[1:] for item in COUNTED], ids=[item[0] for item in COUNTED])
def test_a_count_that_rises_is_the_step(lines: tuple[str, ...], steps: list[int]) -> None:
    assert [step for step, _ in read(*lines)] == steps


def test_the_first_line_waits_for_its_step() -> None:
    transcript = Transcript()
    assert list(transcript.feed(b"batch 50 loss 0.5\n")) == []
    assert list(transcript.feed(b"")) == [], "it would be step 1"
    assert list(transcript.feed(b"batch 100 loss 0.25\n")) == [(50, {"loss": 0.5}), (100, {"loss": 0.25})]


def test_lines_of_a_count_that_does_not_rise_wait_only_while_more_comes() -> None:
    transcript = Transcript()
    assert list(transcript.feed(b"batch 32 loss 0.5\nbatch 32 loss 0.25\n")) == []
    assert list(transcript.feed(b"")) == [(1, {"loss": 0.5}), (2, {"loss": 0.25})]


def test_espnet_names_the_epoch_before_the_word() -> None:
    line = "[host] 2023-03-14 09:26:53,446 (trainer:486) INFO: 4epoch:train:101-200batch: loss=0.5, lr_0=0.25, train_time=0.125"
    assert read(line)[0] == (200, {"loss": 0.5, "epoch": 4})


def test_a_record_names_the_side_that_it_is_of() -> None:
    record = '{{"name": "{}", "epoch": {}, "loss": {}, "iteration": 9.0}}'
    assert read(record.format("train", 3, 0.5), record.format("validation", 3, 0.75), record.format("validation", 4, 0.5)) == [
        (9, {"loss": 0.5, "epoch": 3}),
        (9, {"val_loss": 0.75, "epoch": 3}),
        (9, {"val_loss": 0.5, "epoch": 4}),
    ]
    assert metrics_of('{"name": "test", "loss": 0.5, "step": 3}') == {"loss": 0.5}  # may be the name of the run
    assert metrics_of('{"name": "eval-2", "loss": 0.5, "step": 3}') == {"loss": 0.5}


def test_a_column_says_whether_a_row_is_of_the_training() -> None:
    heading = ("accuracy | loss | epoch | train | time", "-- | -- | -- | -- | --")
    rows = ("0.25 | 1.5 | 0 | True | 00:20", "0.5 | 1.75 | 0 | False | 00:01", "0.75 | 1.25 | 1 | True | 00:20")
    assert read(*heading, *rows) == [
        (1, {"accuracy": 0.25, "loss": 1.5, "epoch": 0}),
        (1, {"val_accuracy": 0.5, "val_loss": 1.75, "epoch": 0}),
        (2, {"accuracy": 0.75, "loss": 1.25, "epoch": 1}),
    ]


def test_the_best_scores_so_far_are_no_step() -> None:
    line = "loss: 0.5, acc: 61.5, test_acc: 70.5, f1: 69.5"
    now = {"loss": 0.5, "acc": 61.5, "test_acc": 70.5, "f1": 69.5}
    assert read(line, "max_acc:70.5  f1:69.5", line) == [(1, now), (2, now)]
    assert read(line, "best_f1: 69.5, acc: 61.5", line) == [(1, now), (2, now)]
    assert metrics_of("max_acc: 70.5, loss: 0.5") == {"max_acc": 70.5, "loss": 0.5}
    assert metrics_of("val_loss 0.5 best_val_loss 0.25") == {"val_loss": 0.5, "best_val_loss": 0.25}


@pytest.mark.parametrize(
    ("line", "metrics"),
    [
        ("epoch: 2 step: 30, loss is 0.5", {"loss": 0.5}),
        ("step 30, total loss is 2.5, test accuracy is 0.25", {"total_loss": 2.5, "test_accuracy": 0.25}),
        (
            "[Iteration 30][Wall Clock 9.5s] Trained 8 records in 0.5 seconds. Loss is Infinity. Rate is 0.5.",
            {"loss": float("inf")},
        ),
        ("the loss is 3 times higher", {}),
        ("loss is nan at once", {}),
        ("E10 iter[ 1/ 9] | [Loss] 0.5 | [step]  90", {"loss": 0.5}),
        (
            "<epoch:  1, iter:     300, lr:2.500e-04> l_pix: 5.0000e-01 l_g_gan: 2.5e-01 ",
            {"loss_pix": 0.5, "loss_g_gan": 0.25, "lr": 2.5e-4},
        ),
        ("Epoch: [2][       3 /       8]\t Time: 0.25  Err_G: 0.5  Err_D: 1.5", {"loss_G": 0.5, "loss_D": 1.5}),
        ("step 3 - loss: 0.5 - **val_loss: 0.25** - val_acc: 0.75", {"loss": 0.5, "val_loss": 0.25, "val_acc": 0.75}),
        ("Step 30: Cross entropy = 0.5", {"Cross_entropy": 0.5}),
        ("2 ** loss: 0.5 * 3", {}),
        ("Loss is nan, stopping training", {}),
        ("[Loss] 3 warnings", {}),
        ("l_pix: 0.5", {}),
    ],
)
def test_other_words_for_a_loss_and_its_value(line: str, metrics: dict[str, float]) -> None:
    assert metrics_of(line) == metrics


@pytest.mark.parametrize("line", ["Epoch #015 loss: 0.5", "epoch#015 loss: 0.5"])
def test_a_number_with_zeros_is_no_escaped_return(line: str) -> None:
    assert read(line, line.replace("15", "16"))[0] == (1, {"loss": 0.5, "epoch": 15})


def test_the_size_of_a_batch_behind_the_epoch_is_no_step() -> None:
    lines = [f"Epoch {epoch} | batch 16 | loss 0.5" for epoch in (3, 4, 5)]
    assert [step for step, _ in read(*lines)] == [1, 2, 3]
    lines = [f"Epoch {epoch} | batch {batch} | loss 0.5" for epoch in (3, 4) for batch in (100, 200)]
    assert [step for step, _ in read(*lines)] == [100, 200, 300, 400]


def test_a_file_called_test_may_train() -> None:
    assert read("[2024-05-14 10:21:33] test.py:30 loss 0.5") == [(1, {"loss": 0.5})]


def test_a_score_next_to_its_best_is_that_of_now() -> None:
    assert metrics_of("best_acc: 0.9, acc: 0.8") == {"best_acc": 0.9, "acc": 0.8}
    assert metrics_of("max_acc: 0.9 acc: 0.8") == {"max_acc": 0.9, "acc": 0.8}


def test_the_epoch_in_the_caption_of_a_bar_is_no_step() -> None:
    caption = "Epoch: [9/40]:  91%|█████████▏| "
    assert step_of(f"{caption}447/493 [01:03<00:06,  7.08it/s, Batch Loss: 2.5]") == (447, 493)
    assert step_of("Epoch [9/40], loss: 2.5") == (9, 40)
    steps = [step for step, _ in read(*(f"{caption}{batch}/493 [01:03<00:06, Batch Loss: 2.5]" for batch in (447, 448)))]
    assert steps == [447, 448]


def test_the_batch_stands_in_parentheses_behind_the_epoch() -> None:
    line = "Epoch:[{}/2]({}/500) loss:2.5 lr:0.0002 epoch_Time:170.0min:"
    assert step_of(line.format(1, 100)) == (100, 500)
    assert [step for step, _ in read(*(line.format(*at) for at in ((1, 0), (1, 400), (2, 0), (2, 100))))] == [0, 400, 500, 600]


def test_a_range_of_batches_ends_at_the_step() -> None:
    lines = [f"Epoch[0] Batch [{at}-{at + 20}]\tSpeed: 90.1 samples/sec\tLoss={9 - at / 100}" for at in (0, 20, 40)]
    assert [step for step, _ in read(*lines)] == [20, 40, 60]


def test_benchmarks_of_tensorflow_print_step_and_loss_around_their_speed() -> None:
    assert read(
        "Step\tImg/sec\ttotal_loss",
        "1\timages/sec: 55.5 +/- 0.0 (jitter = 0.0)\t8.264",
        "10\timages/sec: 55.4 +/- 0.1 (jitter = 0.3)\t8.258",
        "total images/sec: 55.3",
    ) == [(1, {"loss": 8.264}), (10, {"loss": 8.258})]
    assert metrics_of("10\timages/sec: 6.0 +/- 0.1 (jitter = 0.2)\t0.000\t0.000\t0.000") == {}


def test_a_second_training_of_the_same_length_counts_on() -> None:
    lines = [
        line
        for epochs in ((1, 2, 3), (1, 2, 3))
        for epoch in epochs
        for line in (f"Epoch {epoch}/3", f"100/100 [==============================] - 1s - loss: {2 - epoch / 10}")
    ]
    assert [step for step, _ in read(*lines)] == [100, 200, 300, 400, 500, 600]
