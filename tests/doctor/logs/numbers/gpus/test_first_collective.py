"""A first collective operation that never ends, by NCCL's lines and a table of nvidia-smi below them."""

from __future__ import annotations

from pathlib import Path

from tests.doctor.logs.numbers.logs import found

NCCL = [
    f"box:3312{rank}:33161 [{rank}] NCCL INFO comm 0x5631d4a0c0d0 rank {rank} nranks 2 cudaDev {rank} - Init COMPLETE"
    for rank in range(2)
]


def log(table_at: str = "20:31:52", percent: int = 100, after: str = "") -> list[str]:
    rows = [
        row
        for gpu in range(2)
        for row in (
            f"|   {gpu}  NVIDIA GeForce RTX 4090        Off |   00000000:01:00.0 Off |                  Off |",
            f"| 30%   49C    P2             98W /  450W |    4104MiB /  24564MiB |    {percent:3d}%      Default |",
        )
    ]
    smi = [f"Sat Nov  2 {table_at} 2024", "+---+", "| NVIDIA-SMI 550.54.14   Driver Version: 550.54.14 |", *rows]
    return ["[19:44:13] rank0 model loaded", "[19:44:13] rank1 model loaded", *NCCL, *filter(None, [after]), *smi]


def test_gpus_that_spin_long_after_nccl_is_ready(tmp_path: Path) -> None:
    finding = found(tmp_path, log(), "G02")
    assert finding is not None
    assert finding.title == "The first collective operation of 2 ranks does not end"
    assert finding.evidence[1].text == "2 GPUs are at 95% or more, 47m39s later"


def test_processes_that_have_run_for_long_by_ps(tmp_path: Path) -> None:
    ready = "All distributed processes registered. Starting with 2 processes"
    ps = [
        "    PID                  STARTED     ELAPSED     TIME CMD",
        "   9411 Thu Nov 14 21:58:31 2024       48:32 00:48:40 python -u train.py",
        "   9502 Thu Nov 14 21:58:39 2024    02:48:24 00:48:27 python -u train.py",
    ]
    finding = found(tmp_path, [ready, *log()[4:], *ps], "G02")
    assert finding is not None
    assert finding.evidence[1].text == "2 GPUs are at 95% or more, after the processes have run for 2h48m"
    assert ready in finding.evidence[0].text, "NCCL has said nothing"
    assert found(tmp_path, [ready, *log()[4:], *ps[1:]], "G02") is None, "no heading"
    assert (
        found(tmp_path, [ready, *log()[4:], *(line.replace("48:", "00:").replace("02:", "00:") for line in ps)], "G02") is None
    )


def test_a_rank_whose_calls_show_that_it_waits(tmp_path: Path) -> None:
    rows = ["0, NVIDIA GeForce RTX 4090, 100 %, 71.40 W, 1904 MiB", "1, NVIDIA GeForce RTX 4090, 100 %, 69.88 W, 1904 MiB"]
    dump = ['Thread 5512 (active): "MainThread"', "    _verify_param_shape_across_processes (torch/distributed/utils.py:265)"]
    finding = found(tmp_path, [*NCCL, *rows, *dump], "G02")
    assert finding is not None
    assert finding.evidence[1].text == "2 GPUs are at 95% or more, while a rank waits in a collective operation"
    assert finding.evidence[1].value is None
    assert found(tmp_path, [*NCCL, *rows], "G02") is None
    assert found(tmp_path, [*dump, *NCCL, *rows], "G02") is None, "it waited before NCCL was ready"
    assert found(tmp_path, [*NCCL, *(row.replace("100 %", "3 %") for row in rows), *dump], "G02") is None


def test_a_training_that_goes_on_or_has_just_begun(tmp_path: Path) -> None:
    assert found(tmp_path, log(table_at="19:46:01"), "G02") is None, "soon after"
    assert found(tmp_path, log(percent=40), "G02") is None, "not busy"
    assert found(tmp_path, log(after="[19:44:31] step 10 loss 2.31"), "G02") is None, "it goes on"
    assert found(tmp_path, log()[:2] + log()[4:], "G02") is None, "no word of NCCL"
