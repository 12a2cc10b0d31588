"""The memory of each GPU beside the others'."""

from __future__ import annotations

from pathlib import Path

from tests.doctor.logs.numbers.logs import found

WRAPPED = "4 GPUs, nn.DataParallel"


def printed(first: float, number: int = 4) -> list[str]:
    return [
        f"it {at * 50} loss 2.{at}\n   max mem (GB): gpu0 {first + at / 10:.2f}  gpu1 9.63  gpu2 9.63  gpu3 9.64"
        for at in range(number)
    ]


def test_the_first_gpu_of_data_parallel_holds_more(tmp_path: Path) -> None:
    finding = found(tmp_path, [WRAPPED, *printed(28.9)], "B07")
    assert finding is not None
    assert (finding.confidence, finding.title) == ("likely", "The first of 4 GPUs holds 3.0 times as much memory as the others")


def test_even_memory_or_another_kind_of_parallelism(tmp_path: Path) -> None:
    assert found(tmp_path, [WRAPPED, *printed(10.1)], "B07") is None
    assert found(tmp_path, [WRAPPED, *printed(28.9, 2)], "B07") is None
    assert found(tmp_path, ["DistributedDataParallel", *printed(28.9)], "B07") is None
    assert found(tmp_path, [WRAPPED, *printed(10.1, 1), *printed(28.9)], "B07") is None, "not always"
    assert found(tmp_path, [WRAPPED, *(line.replace("max mem", "util") for line in printed(28.9))], "B07") is None
