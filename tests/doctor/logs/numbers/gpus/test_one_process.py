"""A training of one process beside several GPUs, or beside others like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found

LISTED = [f"GPU {gpu}: NVIDIA A40 (UUID: GPU-2d9c7a10-6a51-5a9e-9a35-5a4a8f1c9d0{gpu})" for gpu in range(4)]
TRAINS = [f"Epoch: [0]  [{step:5d}/59143]  loss: {43 - step / 10:.3f}" for step in range(0, 100, 10)]
TABLE = [
    "|   0  NVIDIA A40     |  97%   5210MiB / 46068MiB |",
    *(f"|   {gpu}  NVIDIA A40     |   0%      4MiB / 46068MiB |" for gpu in (1, 2, 3)),
]


@pytest.mark.parametrize(
    "statement",
    [
        "Not using distributed mode",
        "Distributed environment: NO",
        "world_size=1, distributed=False",
        "distributed training: False",
    ],
)
def test_one_process_on_a_machine_with_several_gpus(statement: str, tmp_path: Path) -> None:
    finding = found(tmp_path, [*LISTED, statement, *TRAINS], "A01")
    assert finding is not None
    assert (finding.title, finding.confidence) == ("One process trains on 1 of 4 GPUs", "likely")


def test_one_gpu_that_works_beside_others(tmp_path: Path) -> None:
    finding = found(tmp_path, [*TRAINS, *TABLE], "A01")
    assert finding is not None
    assert finding.confidence == "possible"
    assert finding.evidence[0].text == "GPU 0 works, and all others are idle"


@pytest.mark.parametrize(
    "lines",
    [
        [*LISTED[:1], "Not using distributed mode", *TRAINS],
        ["Not using distributed mode", *TRAINS],
        [*LISTED, *TRAINS],
        [*LISTED, "world_size=4, distributed=True", *TRAINS],
        [*LISTED, "Not using distributed mode", "model wrapped in DataParallel", *TRAINS],
        [*TRAINS, *(line.replace("   0%", "  98%") for line in TABLE)],
        [*TRAINS, *(line.replace("     4MiB", " 40000MiB") for line in TABLE)],
        [*TRAINS, TABLE[0]],
        ["CUDA_VISIBLE_DEVICES=2", *LISTED, "Not using distributed mode", *TRAINS],
    ],
    ids=["one GPU", "no list", "not alone", "ranks", "DataParallel", "all work", "all in use", "one row", "chosen"],
)
def test_others_are_no_waste(lines: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, lines, "A01") is None


def test_rows_of_a_query(tmp_path: Path) -> None:
    heading = "index, name, memory.used [MiB], utilization.gpu [%]"
    rows = ["0, NVIDIA A100 80GB PCIe, 38411 MiB, 99 %", *(f"{gpu}, NVIDIA A100 80GB PCIe, 4 MiB, 0 %" for gpu in (1, 2, 3))]
    finding = found(tmp_path, ["Distributed environment: NO", *TRAINS, heading, *rows], "A01")
    assert finding is not None
    assert finding.title == "One process trains on 1 of 4 GPUs"
    assert found(tmp_path, ["Distributed environment: NO", *TRAINS, *rows], "A01") is None, "without a heading"
    busy = [row.replace("4 MiB, 0 %", "30000 MiB, 97 %") for row in rows]
    assert found(tmp_path, ["Distributed environment: NO", *TRAINS, heading, *busy], "A01") is None


def test_tasks_that_each_train_alone(tmp_path: Path) -> None:
    lines = [f"{task}: Training with a single process on 1 GPUs." for task in range(4)]
    finding = found(tmp_path, [*lines, *(f"{task}: {line}" for line in TRAINS for task in range(4))], "A18")
    assert finding is not None
    assert finding.title == "4 processes train 4 models: each says that it is alone"
    assert found(tmp_path, [*lines[:1], *TRAINS], "A18") is None
    assert found(tmp_path, [*lines[1:], *TRAINS], "A18") is None, "ranks count from 0"


def ranks(device: str, seen: int, number: int = 4) -> list[str]:
    return [
        f"rank={rank} world={number} pid={20511 + rank} device_count()={seen} model on {device.format(rank)}"
        for rank in range(number)
    ]


def test_ranks_that_all_use_one_gpu(tmp_path: Path) -> None:
    finding = found(tmp_path, [*ranks("cuda:0", 4), *TRAINS], "A07")
    assert finding is not None
    assert finding.title == "4 ranks use one GPU, cuda:0, of 4 that each sees"
    for others in (ranks("cuda:{}", 4), ranks("cuda:0", 1), ranks("cuda:0", 4, 1)):
        assert found(tmp_path, [*others, *TRAINS], "A07") is None


@pytest.mark.parametrize("words", ["processo 0 de 1", "process 0 of 1", "Prozess 0 von 1", "rank 0/1"])
def test_tasks_that_are_each_alone(words: str, tmp_path: Path) -> None:
    lines = [f"{task}: {text}" for task in range(4) for text in (words, "epoch 1 loss 2.0")]
    finding = found(tmp_path, lines, "A18")
    assert finding is not None
    assert finding.title == "4 processes train 4 models: each says that it is alone"
    assert (
        found(
            tmp_path,
            [
                line.replace("0 de 1", "0 de 4").replace("0 of 1", "0 of 4")
                for line in lines
                if "0/1" not in line and "von" not in line
            ],
            "A18",
        )
        is None
    )


def test_ranks_that_horovod_starts_on_one_gpu(tmp_path: Path) -> None:
    line = "[1,{rank}]<stdout>:hvd rank {rank} / 4, local rank {rank}, running on cuda:{gpu} NVIDIA RTX A6000 (4 visible)"
    turns = [f"[1,{rank}]<stdout>:epoch 1 step {at} loss 0.7" for at in range(8) for rank in range(4)]
    one = found(tmp_path, [line.format(rank=rank, gpu=0) for rank in range(4)] + turns, "A07")
    assert one is not None
    assert one.title == "4 ranks use one GPU, cuda:0, of 4 that each sees"
    assert found(tmp_path, [line.format(rank=rank, gpu=rank) for rank in range(4)] + turns, "A07") is None


def test_processes_that_say_at_the_start_that_they_are_alone(tmp_path: Path) -> None:
    said = "2024-09-02,16:40:13 | INFO | Running with a single process. Device cuda:0."
    finding = found(tmp_path, [said, said, said, *TRAINS], "A18")
    assert finding is not None
    assert finding.title == "3 processes train 3 models: each says that it is alone"
    assert found(tmp_path, [said, *TRAINS, said, *TRAINS], "A18") is None, "started twice"
    assert found(tmp_path, [*["[init] rank 0 / world_size 1, device cuda:0, host bee17"] * 4, *TRAINS], "A18") is not None
    assert found(tmp_path, [said, *TRAINS], "A18") is None


def test_tasks_without_a_number_that_are_each_alone(tmp_path: Path) -> None:
    line = "2024-10-08 19:04:1{task} [proceso 0 de 1] época 1 paso {step}/37686  pérdida 9.{task}"
    lines = [line.format(task=task, step=step) for step in (200, 400, 600, 800) for task in range(4)]
    finding = found(tmp_path, lines, "A18")
    assert finding is not None
    assert finding.title == "4 processes train 4 models: each says that it is alone"
    assert found(tmp_path, lines[::4], "A18") is None, "one of them"
