"""What the steps of a run are spent on, by the parts that it prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gputop.doctor.logs.numbers.parts import Legend, kind_of, parts_of, spent
from tests.doctor.logs.numbers.logs import found

DEEPSPEED = "[Rank 0] time (ms) | fwd: 218.67 | bwd: 5725.52 | bwd_inner: 443.38 | bwd_allreduce: 5282.15 | step: 61.87"


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("step 100 data 1.025s fwd 0.084s bwd+allreduce 0.200s", {"data": 1.025, "fwd": 0.084, "bwd+allreduce": 0.2}),
        (DEEPSPEED, {"fwd": 0.21867, "bwd_inner": 0.44338, "bwd_allreduce": 5.28215, "step": 0.06187}),
        ("compute 0.602 s  input 0.003 s  wait 1.215 s", {"compute": 0.602, "input": 0.003, "wait": 1.215}),
        ("timing: data 3ms | fwd 120ms | bwd 220ms", {"data": 0.003, "fwd": 0.12, "bwd": 0.22}),
        ("step 20 loss 1.7 n=24 data 6 comp 335 sync 195 total 536", {"data": 6, "comp": 335, "sync": 195, "total": 536}),
        (
            '{"step": 50, "mel_loss": 1.5, "step_s": 1.6, "wait_batch_s": 1.4, "fwd_bwd_s": 0.2}',
            {"step_s": 1.6, "wait_batch_s": 1.4, "fwd_bwd_s": 0.2},
        ),
        ("Epoch: [0] [ 20/400] loss: 6.9 (6.8) time: 0.41 data: 0.01 max mem: 9211", {"time": 0.41, "data": 0.01}),
        (
            "step 50  batch ready    910  fwd+bwd   119  all-reduce     12  loss 5.047",
            {"batch ready": 910, "fwd+bwd": 119, "all-reduce": 12},
        ),
        (
            "it 100 | load 2 ms | forward 74 ms | waits for others 236 ms",
            {"load": 0.002, "forward": 0.074, "waits for others": 0.236},
        ),
        ("s_until_batch: 1.787, s_forward: 0.067, pictures_per_s: 8.0", {"s_until_batch": 1.787, "s_forward": 0.067}),
        ("data wait 1.0 %, time 6.8 min", {}),
        (
            "Train: [3/80][41/312] Data 6.214 (0.871) Batch 6.502 (1.244) Remain 08:14:20 loss: 0.7712 Lr: 0.0041",
            {"data": 6.214, "batch": 6.502},
        ),
        (
            "Train Epoch: 2 [ 51200/912000 (6%)] Data (t): 3.871 Batch (t): 4.265, 240.1/s LR: 0.0005 Loss: 3.2120 (3.4019)",
            {"data": 3.871, "batch": 4.265},
        ),
        ("Epoch: [1][7/9000]  Time 1.51 LR 1e-02 DataLoadingTime 0.04", {"time": 1.51, "data_loading_time": 0.04}),
        ("[4] StepTime: 0.31 FetchTime: 0.12", {"step_time": 0.31, "fetch_time": 0.12}),
        ("TIME 0.31 LossTime 0.12 Sometime 0.4", {}),
        ("batch 0.5 data 3 of 9 files", {}),
        ("batch 32.0 loss 0.4", {}),
        ("step=100 fetch_errors=2 fetch_retries=3 wait_ms=3 step_ms=414", {"wait_ms": 0.003, "step_ms": 0.414}),
        ("step=100 fetch_errors=2 fetch_retries=3 update 7 total 30", {}),
        ("epoch 3 train_loss 0.3 val_loss 0.4 train_acc 0.9 lr 0.001", {}),
        ("batch 20 of 30, epoch 2, step 4", {}),
    ],
)
def test_the_parts_of_a_line(line: str, parts: dict[str, float]) -> None:
    assert parts_of(line) == pytest.approx(parts)


def test_the_names_of_a_row_are_said_once() -> None:
    legend = Legend()
    row = "40 loss 2.295 0.015 / 0.617 / 0.415"
    assert legend.parts_of(row) == {}
    assert legend.parts_of("columns are seconds of the step: load / compute / wait in all_reduce") == {}
    assert legend.parts_of(row) == {"load": 0.015, "compute": 0.617, "wait in all_reduce": 0.415}
    assert legend.parts_of("0.015 / 0.617") == {}
    assert legend.parts_of("cats / dogs / birds") == {}
    assert legend.parts_of(row) != {}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(
            ("data_time", "data"),
            ("wait_batch_s", "data"),
            ("timing/dataloader_wait_s", "data"),
            ("bwd_allreduce", "communication"),
        ),
        *(("wait in all_reduce", "communication"), ("waited", "waiting"), ("preview+log", "logging"), ("save", "saving")),
        *(("time", "whole"), ("step_s", "whole"), ("fwdbwd", "compute"), ("validate", "evaluation"), ("happiness", None)),
    ],
)
def test_what_a_part_is_spent_on(name: str, kind: str | None) -> None:
    assert kind_of(name) == kind


def test_a_whole_is_no_part_unless_it_is_too_short_to_be_one() -> None:
    assert spent({"data": 1.0, "fwd": 0.5, "total": 1.6}) == pytest.approx({"data": 1.0, "compute": 0.6})
    assert spent({"fwd": 1.0, "bwd": 2.0, "step": 0.1}) == pytest.approx({"compute": 3.1})


def reports(line: Callable[[int], str], number: int = 5) -> list[str]:
    return [text for step in range(1, number + 1) for text in line(step).splitlines()]


def deepspeed(step: int) -> str:
    return f"steps: {step} loss: {9 / step:.2f}\n{DEEPSPEED}"


def composer(wait: float) -> Callable[[int], str]:
    return lambda step: (
        f"[batch={step}/48000]:\n\t Train time/batch: {step}\n\t Train timing/dataloader_wait_s: {wait:.2f}\n"
        f"\t Train timing/forward_backward_s: 1.33\n\t Train loss/train/total: {6 - step / 10:.4f}"
    )


def line(text: str) -> Callable[[int], str]:
    return lambda step: f"step {step * 10} loss {9 / step:.3f} {text}"


FAULTS = [
    (deepspeed, "E06", "likely"),
    (composer(13.0), "D01", "likely"),
    (line("wait 0.400s fwd 0.500s"), "D01", "possible"),
    (line("fwd 0.200s bwd 0.300s ckpt 0.600s"), "E07", "likely"),
    (line("fwd 0.200s bwd 0.300s metrics 0.200s"), "E07", "possible"),
    (line("train 1.000s eval 1.200s"), "E07", "possible"),
]


@pytest.mark.parametrize(("lines", "id_", "confidence"), FAULTS)
def test_what_takes_much_of_a_step_is_named(lines: Callable[[int], str], id_: str, confidence: str, tmp_path: Path) -> None:
    finding = found(tmp_path, reports(lines), id_)
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("warning", confidence)
    assert found(tmp_path, reports(lines, 4), id_) is None


@pytest.mark.parametrize(
    "lines",
    [
        composer(0.1),
        line("data 0.100s fwd 0.500s"),
        line("fwd 0.200s bwd 0.300s allreduce 0.200s"),
        line("fwd 0.200s bwd 0.300s ckpt 0.050s"),
        line("train 1.000s eval 0.500s"),
        line("data 0.500s"),
    ],
)
def test_usual_shares_are_no_trouble(lines: Callable[[int], str], tmp_path: Path) -> None:
    texts: Sequence[str] = reports(lines, 30)
    assert [found(tmp_path, texts, id_) for id_ in ("D01", "E06", "E07")] == [None] * 3


def test_ranks_that_wait_do_so_for_each_other_and_a_process_alone_for_its_data(tmp_path: Path) -> None:
    alone = reports(line("wait 0.900s compute 0.500s"), 8)
    assert found(tmp_path, alone, "D01") is not None
    ranks = [f"[rank {rank}] {text}" for text in alone for rank in (0, 1)]
    assert found(tmp_path, ranks, "E06") is not None
    assert found(tmp_path, ranks, "D01") is None


def test_timers_of_megatron(tmp_path: Path) -> None:
    def timers(sync: float, number: int) -> list[str]:
        rows = {
            "forward-backward": 1320.0,
            "forward-compute": 440.0,
            "backward-compute": 850.0,
            "all-grads-sync": sync,
            "optimizer-inner-step": 120.0,
            "optimizer": 146.0,
        }
        step = " [2024-12-02 03:12:28] iteration 10/ 60000 | elapsed time per iteration (ms): 4834.7 | lm loss: 9.1E+00 |"
        block = [
            step,
            step,
            "(min, max) time across ranks (ms):",
            *(f"    {name} {'.' * 30}: ({value - 9:.2f}, {value:.2f})" for name, value in rows.items()),
        ]
        return block * number

    finding = found(tmp_path, timers(2920.0, 3), "E06")
    assert finding is not None
    assert finding.title == "Communication takes much of the step: 69% of each step, by its own numbers"
    assert found(tmp_path, timers(120.0, 3), "E06") is None
    assert found(tmp_path, timers(2920.0, 1), "E06") is None


def test_lines_about_a_batch_and_about_an_evaluation_are_no_report(tmp_path: Path) -> None:
    lines = [
        line
        for at in range(12)
        for line in (
            f"epoch {at} it 900 mse 0.0{90 - at} 4.8 it/s data 0.003s",
            f"epoch {at} valid rmse 0.8{at} K  eval 28 s  saved",
        )
    ]
    assert found(tmp_path, lines, "E07") is None


def epochs(number: int, reports_each: int, waited: Callable[[int, int], float]) -> list[str]:
    """Return reports that each are the mean of 50 batches; ``waited``: the seconds per batch, by epoch and report."""
    return [
        f"Epoch [{epoch}][{report * 50}/1040]  lr: 2.000e-02, time: {0.21 + waited(epoch, report):.3f}, "
        f"data_time: {waited(epoch, report):.3f}, memory: 4120, loss: {5 / (epoch + report):.4f}"
        for epoch in range(1, number + 1)
        for report in range(1, reports_each + 1)
    ]


@pytest.mark.parametrize(
    ("lines", "confidence"),
    [
        (epochs(1, 8, lambda epoch, report: 4.8 if report == 1 else 0.004), None),
        (epochs(3, 3, lambda epoch, report: 1.9 if report == 1 else 0.004), None),
        (epochs(12, 8, lambda epoch, report: 1.9 if report == 1 else 0.004), None),
        (epochs(1, 8, lambda epoch, report: 4.8 if report == 1 else 0.4), "likely"),
        (epochs(12, 8, lambda epoch, report: 1.9 if report == 1 else 0.4), "likely"),
        (epochs(1, 8, lambda epoch, report: 0.9 if report % 3 == 0 else 0.004), "likely"),
        (epochs(1, 12, lambda epoch, report: 4.8 if report == 7 else 0.004)[6:], "likely"),  # not a start
        (epochs(8, 1, lambda epoch, report: 0.4), "likely"),
        (epochs(30, 1, lambda epoch, report: 0.4), "likely"),
    ],
)
def test_the_wait_at_the_start_is_no_lasting_one(lines: list[str], confidence: str | None, tmp_path: Path) -> None:
    finding = found(tmp_path, lines, "D01")
    assert (finding.confidence if finding is not None else None) == confidence


@pytest.mark.parametrize(
    "line",
    [
        "Train: [3/80][{at}/312] Data {data:.3f} ({data:.3f}) Batch {whole:.3f} ({whole:.3f}) Remain 08:14 loss: {loss:.4f}",
        "Train Epoch: 2 [{at}00/91200 (6%)] Data (t): {data:.3f} Batch (t): {whole:.3f}, 240.1/s LR: 0.0005 Loss: {loss:.4f}",
    ],
)
@pytest.mark.parametrize(("waited", "found_"), [(0.9, True), (0.05, False)])
def test_waits_beside_the_time_of_a_batch(line: str, waited: float, found_: bool, tmp_path: Path) -> None:
    lines = [line.format(at=at, data=waited, whole=waited + 0.3, loss=3 - at / 40) for at in range(40, 52)]
    assert (found(tmp_path, lines, "D01") is not None) is found_


def paddle(waited: Callable[[int], float], number: int, first: int = 1, line: str = "") -> list[str]:
    """Return reports of Paddle's trainers, each the mean of 20 steps; ``waited``: the seconds per step, by the report."""
    line = line or (
        "[2022/03/04 08:00:{report:02d}] ppocr INFO: epoch: [2/90], iter: {step}, lr: 0.001000, loss: {loss:.6f}, "
        "acc: 0.312500, reader_cost: {data:.5f} s, batch_cost: {whole:.5f} s, samples: 640, ips: {rate:.5f}"
    )
    reports = ((report, waited(report)) for report in range(first, first + number))
    return [
        line.format(report=report, step=20 * report, loss=4 / report, data=data, whole=data + 0.6, rate=32 / (data + 0.6))
        for report, data in reports
    ]


PADDLE_REC = (
    "epoch: 0, batch_id: {step}, auc: 0.61, avg_reader_cost: {data:.5f} sec, avg_batch_cost: {whole:.5f} sec, "
    "avg_samples: 32.00000, ips: {rate:.5f} ins/s, loss: {loss:.4f}"
)
PADDLE_DETECTION = (
    "[03/04 08:00:{report:02d}] ppdet.engine INFO: Epoch: [2] [ {step}/2030] learning_rate: 0.000125 loss: {loss:.6f} "
    "eta: 2:03:04 batch_cost: {whole:.4f} data_cost: {data:.4f} ips: {rate:.4f} images/s"
)


MMCV = (
    "2020-05-15 14:41:{report:02d},633 - mmdet - INFO - Epoch [1][{step}/2500]\tlr: 0.00125, eta: 1 day, 15:06:01, "
    "time: {whole:.3f}, data_time: {data:.3f}, memory: 6226, loss_cls: 0.3341, acc: 86.3379, loss: {loss:.4f}"
)


@pytest.mark.parametrize("text", ["", PADDLE_REC, PADDLE_DETECTION, MMCV])
@pytest.mark.parametrize(
    ("waited", "number", "first", "confidence"),
    [
        (lambda report: 2.9 + report % 3, 4, 31, "likely"),
        (lambda report: 0.02, 4, 31, None),
        (lambda report: 2.9 if report == 1 else 0.02, 4, 1, None),  # the workers start
        (lambda report: 9.0 / report**3, 4, 1, None),  # and a slow disk is read for the first time
        (lambda report: 2.9 if report == 33 else 0.02, 4, 31, None),  # once
        (lambda report: 2.9, 2, 31, None),
        (lambda report: 2.9, 30, 1, "likely"),
        (lambda report: 0.02, 30, 1, None),
    ],
)
def test_the_costs_of_paddle(
    waited: Callable[[int], float], number: int, first: int, confidence: str | None, text: str, tmp_path: Path
) -> None:
    finding = found(tmp_path, paddle(waited, number, first, text), "D01")
    assert (finding.confidence if finding is not None else None) == confidence


@pytest.mark.parametrize(
    ("waited", "number", "confidence"),
    [
        (lambda report: 2.9 + report % 3, 4, "likely"),
        (lambda report: 2.9 + report % 3, 2, None),
        (lambda report: 2.9 if report == 31 else 0.02, 4, None),
        (lambda report: 2.9 if report == 33 else 0.02, 4, None),
        (lambda report: 0.02, 4, None),
    ],
)
def test_costs_that_are_means_of_whole_epochs(
    waited: Callable[[int], float], number: int, confidence: str | None, tmp_path: Path
) -> None:
    text = (
        "[2023/03/09 08:{report}:37] ppocr INFO: epoch: [{report}/500], global_step: {report}, lr: 0.000972, acc: 0.070312, "
        "loss: {loss:.6f}, avg_reader_cost: {data:.5f} s, avg_batch_cost: {whole:.5f} s, avg_samples: 128.0, ips: {rate:.5f}"
    )
    finding = found(tmp_path, paddle(waited, number, 31, text), "D01")
    assert (finding.confidence if finding is not None else None) == confidence


def timers(all_reduce_ms: float, number: int = 4) -> list[str]:
    """Return Megatron's timers in one line, each the mean over an interval, after those of its start."""
    start = "time (ms) | model-and-optimizer-setup: 1736.32 | train/valid/test-data-iterators-setup: 2674.95"
    line = (
        "time (ms) | forward-compute: {forward:.2f} | backward-compute: {backward:.2f} | backward-params-all-reduce: {all:.2f} "
        "| optimizer-copy-to-main-grad: 21.18 | optimizer-unscale-and-check-inf: 835.71 | optimizer: 857.27"
    )
    return [start] + [line.format(forward=604 + 9 * at, backward=701 + 9 * at, all=all_reduce_ms) for at in range(number)]


def test_timers_of_megatron_in_one_line(tmp_path: Path) -> None:
    finding = found(tmp_path, timers(2672.65), "E06")
    assert finding is not None
    assert (finding.confidence, finding.title) == (
        "possible",
        "Communication takes much of the step: 55% of each step, by its own numbers",
    )
    assert found(tmp_path, timers(972.65), "E06") is None, "a third; without the parts of the optimizer, more"
    assert found(tmp_path, timers(2672.65, 2), "E06") is None, "few"


def test_a_cost_that_is_no_time(tmp_path: Path) -> None:
    lines = [f"step {at} train_cost: {3 / at:.4f} batch_cost: {2.9 / at:.4f} cost: {2.1 / at:.4f}" for at in range(1, 40)]
    assert found(tmp_path, lines, "D01") is None


def test_batches_in_the_first_epoch_are_not_the_first_batch(tmp_path: Path) -> None:
    lines = [text.replace("[2/90]", "[1/90]") for text in paddle(lambda report: 2.9, 8, 31)]
    assert found(tmp_path, lines, "D01") is not None


@pytest.mark.parametrize(("seconds", "often", "confidence"), [(3.4, 1, "likely"), (5.4, 7, "possible"), (0.05, 1, None)])
def test_a_name_in_camel_case_that_ends_with_time(seconds: float, often: int, confidence: str | None, tmp_path: Path) -> None:
    lines = [
        f"Epoch: [3][{at}/8000]\t Time 1.402 Err {7 - at / 90:.4f} Top1-%: 1.20 LR 1e-02 DataLoadingTime "
        f"{44.2 if at == 1 else 0.04 if at % often else seconds:.3f}"
        for at in range(1, 15)
    ]
    finding = found(tmp_path, lines, "D01")
    assert (finding.confidence if finding is not None else None) == confidence
