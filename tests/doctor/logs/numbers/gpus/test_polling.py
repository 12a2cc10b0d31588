"""GPUs that are fully busy at low power, in tables of nvidia-smi without other lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found

HEADING = "| NVIDIA-SMI 525.85.12    Driver Version: 525.85.12    CUDA Version: 12.0     |"
Gpu = tuple[int, int, int]
"""Percent, watts of 350, MiB of 24576."""


def table(*gpus: Gpu, names: tuple[str, ...] = (), pids: tuple[int, ...] = ()) -> list[str]:
    lines = [HEADING]
    for number, (percent, watts, mebibytes) in enumerate(gpus):
        lines += [
            f"|   {number}  NVIDIA GeForce ...  Off  | 00000000:{number + 1:02d}:00.0 Off |                  N/A |",
            f"| 31%   52C    P2   {watts:3d}W / 350W | {mebibytes:6d}MiB / 24576MiB |    {percent:3d}%      Default |",
            "|                               |                      |                  N/A |",
        ]
    rows = zip(names, pids or range(701, 720), strict=False)
    return lines + [
        f"|    {gpu}   N/A  N/A {pid:9d}      C   {name:30} {gpus[gpu][2] - 9:8d}MiB |" for gpu, (name, pid) in enumerate(rows)
    ]


POLLS, RESTS, EMPTY, WORKS = (100, 96, 6120), (0, 71, 6108), (0, 18, 9), (99, 331, 6120)


def test_all_gpus_poll(tmp_path: Path) -> None:
    finding = found(tmp_path, table((100, 96, 1130), (99, 99, 760), EMPTY), "G01")
    assert finding is not None
    assert finding.confidence == "possible"
    assert finding.title == "The ranks on GPUs 0, 1 may wait for each other: the GPUs are fully busy at little power"
    assert finding.evidence[0].text == "GPU 0: 100% at 96 of 350 W, 1.1 GiB in use"


@pytest.mark.parametrize(("polls", "who"), [((POLLS,), "GPU 1"), ((POLLS, (100, 101, 6126)), "GPUs 1, 2")])
def test_one_gpu_rests_while_the_others_poll(polls: tuple[Gpu, ...], who: str, tmp_path: Path) -> None:
    finding = found(tmp_path, table(RESTS, *polls, names=("python",) * (1 + len(polls))), "G01")
    assert finding is not None
    assert (finding.confidence, finding.title) == ("possible", f"{who} may wait for the rank on GPU 0, which is idle")
    assert finding.evidence[0].text == "GPU 0: 0% at 71 of 350 W, 6.0 GiB in use"


@pytest.mark.parametrize(
    "lines",
    {
        "a small model on one": table(POLLS, EMPTY),
        "one of them works": table(POLLS, POLLS, WORKS),
        "some power": table((100, 160, 6120), (100, 158, 6120)),
        "different power": table((100, 70, 6120), (100, 110, 6120)),
        "half busy": table((60, 96, 6120), (62, 96, 6120)),
        "no process": table((100, 60, 3), (97, 61, 3)),
        "a server that fills its GPUs": table((100, 96, 22_180), (100, 97, 22_180)),
        "a notebook beside a small model": table((0, 30, 3108), POLLS),
        "steps go on": [*table(POLLS, POLLS), *(f"step {at} loss 0.{9 - at}" for at in range(4))],
        "steps went on, as fairseq prints them": ["| epoch 001:   10 / 300 loss=4.1, lr=0.1", *table(POLLS, POLLS)],
        "a server's log": ["INFO serving on 0.0.0.0:8000", *table(POLLS, POLLS)],
        "a server by its name": table(POLLS, POLLS, names=("VLLM::Worker_TP0", "VLLM::Worker_TP1")),
        "two of one server": table(POLLS, POLLS, names=("VLLM::Worker", "VLLM::Worker")),
        "all idle": table(EMPTY, EMPTY),
        "different programs": table(RESTS, POLLS, names=("python", "./lammps")),
        "one process on both": table(RESTS, POLLS, names=("python", "python"), pids=(701, 701)),
        "two rest": table(RESTS, RESTS, POLLS),
    }.values(),
)
def test_gpus_that_work_as_they_should(lines: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, lines, "G01") is None
