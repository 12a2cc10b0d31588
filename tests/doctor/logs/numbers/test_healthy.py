"""Healthy logs whose numbers look like those of a fault: losses, scores, inference, preparation, searches, folds.

No finding on them may be more than "possible", and no line may raise an exception.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gputop.cli.doctor.logs import explain_logs
from gputop.jobs.output.printed_log import printed_findings
from tests.doctor.logs.numbers.logs import clock


def falls(at: int, start: float = 2.0, end: float = 0.1) -> float:
    return start / (at + 1) + end


def alarms(tmp_path: Path, lines: list[str]) -> list[tuple[str, str]]:
    log = tmp_path / "train.log"
    log.write_text("\n".join(lines) + "\n")
    found, _ = explain_logs([str(log)])
    return [(item.id, item.title) for item in found if item.severity in ("warning", "error") and item.confidence != "possible"]


EACH_LINE: dict[str, Callable[[int], str]] = {
    # Losses, scores and statistics with the names of parts of a step.
    "losses of splits": lambda at: (
        f"epoch {at:3d} train: {falls(at):.4f} val: {falls(at, 4):.4f} test: {falls(at, 4, 0.3):.4f}"
    ),
    "losses of parts": lambda at: f"step {at} loss {falls(at):.3f} input 0.91 grad 0.12",
    "losses of domains": lambda at: f"step {at} loss {falls(at):.3f} data_wiki 2.31 data_books 2.50 train 2.4",
    "scores of splits": lambda at: f"epoch {at} train_r2 0.500 val_r2 0.610 test_r2 0.612",
    "graphs": lambda at: f"Epoch: {at:03d}, Train: {0.9 - falls(at, 0.4):.4f}, Val: 0.7500, Test: 0.7600, Best Val: 0.7600",
    "contrast": lambda at: f"step {at * 50} sync 0.412 model 0.22 temp 0.07",
    "statistics": lambda at: f"layer {at} input: 0.931 grad: 0.123 update: 0.003",
    "policies": lambda at: f"step {at} log_std -0.31 log 0.53 actor 0.23 critic 0.11",
    "physics": lambda at: f"it {at * 100} total {falls(at, 0.7):.4f} data {falls(at, 0.5):.4f} grad {falls(at):.4f}",
    "a data term": lambda at: f"[{at}] data_term: {falls(at, 5, 1):.4f} smooth: {falls(at):.4f} backward_consistency: 0.02",
    "augmentation": lambda at: f"epoch {at} augment 0.50 train 0.33",
    "learning rates": lambda at: f"step {at} backbone 0.0001 train 0.001 input 0.01",
    "lips": lambda at: f"Epoch {at} sync {falls(at, 0.2, 0.5):.3f} gen {falls(at):.3f} perceptual 0.2 train 0.1",
    "sums": lambda at: f"step {at * 10} | total {falls(at):.4f} | comm {falls(at, 0.5):.4f} | policy {falls(at):.4f}",
    # Words that name something else than at first sight.
    "data time before step time": lambda at: f"it {at} loss {falls(at):.3f} data time: 0.010 step time: 0.500",
    "a rate per GPU": lambda at: f"step {at} loss {2 - at / 30:.3f} tokens/s/gpu {3000 + at % 7}",
    "a rate that is unknown": lambda at: f"step {at} loss {2 - at / 30:.3f} it/s nan",
    "seconds per step": lambda at: f"step {at} acc {0.5 + at / 100:.2f} loss 0.4 s/it 0.25",
    "offloaded": lambda at: f"--gres=gpu:4 offload_optimizer=(device='cpu') step {at} loss {falls(at):.3f}",
    "an average on the CPU": lambda at: f"4 x NVIDIA A100 | ema device cpu | step {at} loss {falls(at):.3f}",
    "the CPU on purpose": lambda at: f"8 x NVIDIA H100 | --device cpu | device: cpu | step {at} loss {falls(at):.3f}",
    "a small model": lambda at: f"device cuda step {at} loss {falls(at):.3f} gpu_mem: 0.0 GB",
    "use of the CPU": lambda at: f"step {at} loss 2.{at:02d} CPU utilization: 12.1% GPU utilization: 96.0% fwd 1.1ms bwd 2.2ms",
    "local SGD": lambda at: f"[rank {at % 2}] local sgd step {at // 2} loss 1.0 param sum {12.3 + at / 7:.4f}",
    "sums in another order": lambda at: f"[rank {at % 2}] step {at // 2} loss 1.0 param sum {12.345 + at % 2 / 1e4:.4f}",
    "one model": lambda at: f"[rank {at % 2}] tp=2 step {at // 2} loss 1.0 sample id {(at // 2 * 7919) % 1013}",
    "a preview": lambda at: f"[rank {at % 2}] step {at // 2} loss 1.0 preview sample id {(at // 2 * 7919) % 1013}",
    "values": lambda at: f"step {at} loss {falls(at):.3f} value 9.0s policy 1.0s",
    "densities": lambda at: f"step {at} loss {falls(at):.3f} log_prob 9.0s compute 1.0s",
    "the age of a checkpoint": lambda at: f"step {at} loss {falls(at):.3f} ckpt_age 300s compute 1.0s",
    "waits for the GPU": lambda at: f"step {at} loss {falls(at):.3f} cuda sync 9.0ms fwd 1.0ms",
    "no wrapper": lambda at: f"not using DataParallel, step {at} loss {falls(at):.3f} mem GiB gpu0 29.0 gpu1 9.6",
    "batches of an evaluation": lambda at: f"[rank {at % 2}] val batch {at // 2}/{101 + at % 2} loss 0.3",
    "uneven on purpose": lambda at: f"[rank {at % 2}] with Join([model]): batch {at // 2}/{101 + at % 2} loss 0.3",
    "actors": lambda at: f"[rank {at % 2}] actor step {at // 2} loss 1.0 compute {1 + at % 2}.0s wait {1 - at % 2}.0s",
    "tokens": lambda at: f"rank {at % 2} epoch {at // 2} token ids 101 2023 2003 1037 102 loss 1.0",
    "groups": lambda at: f"batch {at} loss 1.0 labels [{at // 20}, {at // 20}, {at // 20}, {at // 20}, {at // 20}]",
    "a teacher's mode": lambda at: f"train step {at} loss {falls(at):.3f} teacher.training=False lr 0.1",
    "a precision": lambda at: f"train step {at} loss {falls(at):.3f} mixed precision training=False lr 0.1",
    "a short wait": lambda at: f"{clock(at * 10)} step {at} loss {falls(at):.3f}, last step 0.4s ago",
    "a metric that stays": lambda at: f"{clock(at * 60)} [rank 0] no progress for {at} min in val loss, patience 90",
    "energy": lambda at: f"Schritt {at}: Zeit 2 s, Verlust {1.3 * at * at + 1:.1f} kWh",
    "a long training": lambda at: (
        f"Training time {at + 1} day, 2:03:04 eval time 120 s" if at % 9 == 0 else f"epoch {at} loss 0.3"
    ),
    "names of models": lambda at: f"resnet-50: data 0.01s fwd 0.{3 + at % 2}s wait 0.{1 + at % 2}s",
    # Programs that do not train.
    "inference": lambda at: f"batch {at} queue 0.2ms input 3.1ms compute 1.2ms output 0.1ms",
    "tokenizing": lambda at: f"shard {at}: load 1.2s tokenize 5.3s save 0.8s",
    "resizing": lambda at: f"[{at}/50] load 1.20s resize 0.30s save 2.80s",
    "testing": lambda at: f"Test: [{at}/100]  Time 0.313 (0.310)  Data 0.250 (0.240)  Loss 0.9{at % 10} (0.93)  Acc@1 78.1",
    "hosts of a service": lambda at: f"cam{at % 3}: decode {5.2 if at % 3 else 0.3}ms infer 3.0ms sync {5.0 - at % 3}ms",
    "models": lambda at: ("resnet18: fwd 1.2ms bwd 7.4ms load 0.1ms", "resnet50: fwd 9.2ms bwd 2.1ms load 0.1ms")[at % 2],
    "times of batches": lambda at: f"size {at // 10} iter {at % 10}/50 time {0.5 if at % 10 else 9.5:.3f}s",
    "a cluster": lambda at: f"{clock(at * 30)} waiting for workers to connect: {at % 5} of 8 ready",
    "a queue": lambda at: f"{clock(at * 60)} still waiting for data on queue (no batches for {at * 60} s)",
    "warming up": lambda at: f"{clock(at * 10)} still in warmup: {at} images",
    "unchanged": lambda at: f"{clock(at * 10)} epoch {at}: lr unchanged since yesterday, accuracy 0.{at:02d}",
    # What has ranks, numbers or names in another sense.
    "matrices": lambda at: f"rank {4 << at % 3}: step {at // 3 * 10}/{500 << at % 2} loss {falls(at // 3):.3f}",
    "recall": lambda at: f"Rank-{(1, 5, 10)[at % 3]} : time 0.31 batch 12/{(300, 400, 500)[at % 3]}",
    "folds": lambda at: f"{at % 5}: epoch {at // 15} batch {at % 3 * 100 + 1}/{300 + at % 5} loss {falls(at // 15):.3f}",
    "seeds": lambda at: f"[{at % 4}] seed={at % 4} epoch {at // 4} loss {falls(at // 4) if at % 4 != 3 else 1 + 0.02 * at:.3f}",
    "folds by name": lambda at: f"fold_{at % 3}: train {(0.3, 0.3, 1.2)[at % 3]} val {(0.9, 0.9, 0.3)[at % 3]}",
    "answers": lambda at: f"query {at // 10} doc {at} rank {at % 10 + 1} loss {1.0 - (0.004 if at % 10 else -0.004) * at:.3f}",
    "single runs": lambda at: f"{at % 4}: Not using distributed mode, seed={at % 4}",
    "masked ranks": lambda at: f"[rank{at % 4}]: using device cuda:0 (4 GPUs visible, CUDA_VISIBLE_DEVICES={at % 4})",
    # Memory that grows on purpose, or is none.
    "loading": lambda at: f"loaded shard {at}/60, RSS {2.0 + at * 1.3:.1f} GB",
    "wrapping": lambda at: f"wrapping block {at}: memory allocated {at * 0.3 + 0.1:.2f} GB",
    "larger images": lambda at: f"epoch {at} size {128 + 8 * at} loss {falls(at):.3f} gpu mem {4 + at * 0.3:.1f}G",
    "batch sizes": lambda at: f"Trying batch size {16 * at + 16}: peak mem {1.5 * at + 1.5:.1f}GB ok",
    "replay": lambda at: f"step {at * 1000} reward {at:.1f} replay mem {0.5 + at * 0.12:.2f} GB",
    "a memory bank": lambda at: f"epoch {at} memory: {1000 + at * 100} loss {falls(at):.3f}",
    # Numbers that are undefined while the loss is fine.
    "no positives": lambda at: f"Epoch {at} loss {falls(at):.4f} auroc {'nan' if at > 40 else 0.9}",
    "no episodes": lambda at: f"iter {at} reward_mean {float(at) if at < 50 else 'nan'} fps 1000 loss 0.3",
    "one overflow": lambda at: f"step {at}: loss {falls(at):.3f} scale 1024 gnorm {'nan' if at >= 57 else 0.3}",
    "a frozen part": lambda at: f"step {at} loss {falls(at):.3f} distill {'nan' if at > 30 else 0.3}",
}


@pytest.mark.parametrize("name", EACH_LINE)
def test_lines_that_look_like_a_fault(name: str, tmp_path: Path) -> None:
    assert alarms(tmp_path, [EACH_LINE[name](at) for at in range(60)]) == []


TABLES: dict[str, tuple[str, Callable[[int], str]]] = {
    "elapsed": ("step   loss   time", lambda at: f"{at * 100:>5}  {falls(at):.4f}  {31.2 * (at + 1):.1f}"),
    "elapsed, as CSV": ("step,train_loss,val_loss,time_s", lambda at: f"{at},{falls(at):.4f},{falls(at):.4f},{31.2 * at:.1f}"),
    "elapsed and read": ("epoch  step  loss  time  data", lambda at: f"0  {at}  {falls(at):.3f}  {3 * at}  {2 * at}"),
    "recall": ("epoch  rank1  rank5  rank10", lambda at: f"{at}  {70 + at:.1f}  {80 + at:.1f}  {90 + at / 9:.1f}"),
    "the same twice": ("ms  rank0  rank0  rank0", lambda at: f"{at}  1  2  3"),
}


@pytest.mark.parametrize("name", TABLES)
def test_columns_that_look_like_a_fault(name: str, tmp_path: Path) -> None:
    heading, row = TABLES[name]
    assert alarms(tmp_path, [heading, *(row(at) for at in range(60))]) == []


def timed(*events: tuple[float, str]) -> list[str]:
    """Return lines that each come some seconds after the one before."""
    seconds, lines = 36_000.0, []
    for pause, text in events:
        seconds += pause
        lines.append(f"{clock(seconds)} {text}")
    return lines


PAUSES: dict[str, list[tuple[float, str]]] = {
    "requests": [
        (60.0 if not at else 1.0, f"INFO batch {at} of request {of}: 32 items") for of in range(8) for at in range(20)
    ],
    "trials": [(50.0 if not at else 5.0, f"trial {of} step {at} loss {falls(at):.3f}") for of in range(6) for at in range(10)],
    "rollouts": [(20.0 if not at else 1.0, f"update {at}/8 loss 0.300") for _ in range(20) for at in range(8)],
    "collecting": [(40.0 if not at else 1.0, f"ppo batch {at + 1}/10 pg_loss -0.010") for _ in range(20) for at in range(10)],
    "archives": [(30.0 if not at else 1.0, f"wrote batch {at} of archive {of}") for of in range(10) for at in range(10)],
    "labels": [(300.0 if not at else 1.0, f"round {of} step {at} loss {falls(at):.3f}") for of in range(8) for at in range(12)],
    "preempted": [
        (900.0 if not at else 20.0, f"step {of * 500 + at * 50} loss {falls(of * 10 + at):.3f}")
        for of in range(5)
        for at in range(10)
    ],
    "ranks that are ready": [
        *((60.0, f"[rank {at}] init_process_group(nccl) done") for at in range(8)),
        (300.0, "compiling the model, this takes a while"),
    ],
    "nodes that have joined": [
        *((20.0, f"rendezvous: node {at} connected, {at + 1} of 20 ready") for at in range(20)),
        *((100.0, f"Finished shard {at}") for at in range(5)),
    ],
    "an upload": [
        *((1.0, f"step {at} loss {falls(at):.3f}") for at in range(50)),
        *((60.0, f"uploading: last batch {at * 60} s ago, {10 * at}% sent") for at in range(10)),
    ],
}


@pytest.mark.parametrize("name", PAUSES)
def test_pauses_that_look_like_a_fault(name: str, tmp_path: Path) -> None:
    assert alarms(tmp_path, timed(*PAUSES[name])) == []


_WORDS = st.sampled_from(
    [
        *("[rank 0]", "[rank 1]", "node1:", "[1,0]<stdout>:", "0:", "rank0", "rank1", "epoch", "step", "batch", "loss", "time"),
        *("data", "fwd", "wait", "mem", "rss", "GB", "ms", "s", "first batch after", "took", "nan", "inf", "0", "0.0", "1e999"),
        *(
            "-1",
            "3/0",
            "0/0",
            "12:00:00",
            "99:99:99",
            "2024-13-45 10:00:00",
            "٣",
            "²",
            "%",
            "|",
            "---",
            "{",
            "}",
            '"',
            ":",
            "=",
        ),
        *("load / compute / wait", "0.0 / 0.0 / 0.0", "joined 1 of 2", "still waiting", "reward", "return", "world_size: 1"),
        *("cuda:0", "samples", "batches", "batch size 0", "\r", "\x1b[0m", "\ud800", "elapsed", "train", "val"),
    ]
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(_WORDS, min_size=1, max_size=12).map(" ".join), min_size=1, max_size=12), st.integers(1, 6))
def test_no_line_raises(tmp_path: Path, lines: list[str], times: int) -> None:
    log = tmp_path / "train.log"
    log.write_bytes("\n".join(lines * times).encode("utf-8", "surrogatepass"))
    printed_findings(log)
    explain_logs([str(log)])


@pytest.mark.parametrize(
    "lines",
    [
        [f"epoch {epoch} batch {at}/4 took 0.00s" for epoch in range(4) for at in range(1, 5)],
        [f"epoch {epoch} step {at} loss 0.{9 - epoch} wait 0.0s" for epoch in range(4) for at in range(6)],
        ["[rank 0] 100 samples, 2 batches, batch size 0", "[rank 1] 100 samples, 2 batches, batch size 0"],
        ["ms  rank0  rank1", *["1 0 0"] * 20],
        ["[rank 0] step 1 fwd 0.0s bwd 0.0s data 0.0s", "[rank 1] step 1 fwd 0.0s bwd 0.0s data 0.0s"] * 20,
    ],
    ids=["first batches", "waits", "batches", "columns", "parts"],
)
def test_zeros_divide_nothing(lines: list[str], tmp_path: Path) -> None:
    assert alarms(tmp_path, lines) == []
