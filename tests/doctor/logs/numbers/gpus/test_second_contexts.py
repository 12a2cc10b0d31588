"""Second contexts of processes, in tables of nvidia-smi without other lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found

HEADING = "|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |"


def rows(held: Mapping[int, Mapping[int, int]], name: str = "python") -> list[str]:
    """Return the rows of processes. ``held``: the MiB of each process, by its PID, by the GPU."""
    return [
        f"|    {gpu}   N/A  N/A {pid:9d}      C   {name:38} {mebibytes:8d}MiB |"
        for gpu, on_gpu in held.items()
        for pid, mebibytes in on_gpu.items()
    ]


ON_THE_FIRST = {2: {511: 6120, 512: 1402, 513: 1402, 514: 1404}, 3: {512: 3310}, 4: {513: 3310}, 6: {514: 3298}}
EACH_ON_EACH = {
    gpu: {900 + own: 18_204 + own if own == gpu else 611 for own in range(4)}  # each of four ranks on all GPUs
    for gpu in range(4)
}


@pytest.mark.parametrize("name", ["python", "python3.10", "/usr/bin/python3", "...envs/segment/bin/python"])
def test_contexts_on_the_first_gpu_that_the_processes_see(name: str, tmp_path: Path) -> None:
    finding = found(tmp_path, [HEADING, *rows(ON_THE_FIRST, name)], "H01")
    assert finding is not None
    assert (finding.confidence, finding.title) == ("likely", "3 processes of other GPUs also hold memory on GPU 2")
    assert finding.evidence[0].text == "PID 512: 3.2 GiB on GPU 3, 1.4 GiB on GPU 2"


def test_contexts_on_each_other_s_gpus(tmp_path: Path) -> None:
    finding = found(tmp_path, rows(EACH_ON_EACH), "H01")
    assert finding is not None
    assert (finding.confidence, finding.title) == ("likely", "4 processes also hold memory on each other's GPUs: 0-3")
    cut = found(tmp_path, [*rows({gpu: EACH_ON_EACH[gpu] for gpu in (0, 1)}), "..."], "H01")
    assert cut is not None
    assert cut.title == "4 processes also hold memory on each other's GPUs: 0, 1"


def test_contexts_that_differ_are_possible(tmp_path: Path) -> None:
    held = {0: {31: 9000, 32: 420, 33: 610}, 1: {32: 9100}, 2: {33: 9120}}
    finding = found(tmp_path, rows(held), "H01")
    assert finding is not None
    assert finding.confidence == "possible"


DIFFERENT = {0: {31: 9000, 32: 420, 33: 610}, 1: {32: 9100}, 2: {33: 9120}}
ONE_MORE = {0: {1: 12_000, 2: 512}, 1: {2: 12_100}}
BUSY = [
    "step 1 loss 0.5",
    "|   0  NVIDIA A100-SXM...  On   | 00000000:07:00.0 Off |                    0 |",
    "| N/A   52C    P0   300W / 400W |   9999MiB / 81920MiB |     99%      Default |",
]


@pytest.mark.parametrize("held", [DIFFERENT, ONE_MORE], ids=["different sizes", "one more"])
@pytest.mark.parametrize("name", ["python", "./my_trainer"])
def test_a_training_makes_it_likely(held: Mapping[int, Mapping[int, int]], name: str, tmp_path: Path) -> None:
    finding = found(tmp_path, [*BUSY, *rows(held, name)], "H01")
    assert finding is not None
    assert finding.confidence == "likely"


@pytest.mark.parametrize(
    "lines",
    {
        "one more, on another GPU": rows({1: {1: 12_000, 2: 512}, 2: {2: 12_100}}),
        "one more, and two that share a GPU": rows({0: {1: 12_000, 2: 512}, 1: {2: 12_100, 3: 12_000}}),
        "a server next to the training": rows({0: {1: 12_000, 2: 512, 3: 512}, 1: {2: 12_100}, 2: {3: 12_000}}, "vllm"),
        "two alike that are large": rows({0: {1: 9000, 2: 1402, 3: 1402}, 1: {2: 3300}, 2: {3: 3300}}),
        "three that are large and differ": rows(
            {0: {1: 9000, 2: 1402, 3: 1502, 4: 1602}, 1: {2: 5300}, 2: {3: 5300}, 3: {4: 5300}}
        ),
    }.values(),
)
def test_a_training_whose_processes_hold_what_they_use(lines: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, [*BUSY, *lines], "H01") is None


@pytest.mark.parametrize(
    "lines",
    {
        "each on its own": rows({0: {1: 22_000}, 1: {2: 22_004}, 2: {3: 22_004}}),
        "several on each": rows({0: {1: 4100, 2: 4100, 3: 4102}, 1: {4: 4100, 5: 4100, 6: 4100}}),
        "models over all GPUs": rows({gpu: {1: 15_000, 2: 9000} for gpu in range(4)}),
        "layers over two": rows({0: {1: 12_000, 2: 700}, 1: {1: 11_000, 2: 12_500}}),
        "one process more": rows({0: {1: 12_000, 2: 512}, 1: {2: 12_100}}),
        "a model for all on one": rows({0: {1: 9000, 2: 2900, 3: 2900, 4: 2900}, 1: {2: 9000}, 2: {3: 9000}, 3: {4: 9000}}),
        "two of three apart": rows({0: {1: 9000, 2: 300, 3: 5000}, 1: {2: 9000}, 2: {3: 9000}}),
        "the server of MPS": rows({gpu: {1: 30, 10 + gpu: 9000} for gpu in range(4)}, "nvidia-cuda-mps-server"),
        "servers": rows(ON_THE_FIRST, "/usr/local/bin/ollama"),
        "another program": rows(ON_THE_FIRST, "./gromacs"),
        "nobody of its own": rows({0: {2: 400, 3: 400}, 1: {2: 9000}, 2: {3: 9000}}),
    }.values(),
)
def test_processes_that_hold_what_they_use(lines: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, lines, "H01") is None
    assert found(tmp_path, [*lines, "| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |"], "H01") is None


def test_users_without_pids_are_no_processes(tmp_path: Path) -> None:
    boxes = [(0, "ada(9000M) eve(300M) kim(300M)"), (1, "eve(9000M)"), (2, "kim(9000M)")]
    lines = [f"[{gpu}] NVIDIA RTX A6000 | 61'C,  97 % |  9700 / 49140 MB | {users}" for gpu, users in boxes]
    assert found(tmp_path, ["step 1 loss 0.5", *lines], "H01") is None
