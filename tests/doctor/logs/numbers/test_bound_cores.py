"""Processes that share a core, by what taskset prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found


def log(cores: str, processes: int = 6) -> list[str]:
    return ["epoch 3 loss 0.4", *(f"pid {40211 + at}'s current affinity list: {cores}" for at in range(processes))]


def test_several_processes_on_one_core(tmp_path: Path) -> None:
    finding = found(tmp_path, log("17"), "D03")
    assert finding is not None
    assert finding.title == "6 processes share 1 core: 17"
    assert found(tmp_path, log("4,5"), "D03") is not None


@pytest.mark.parametrize(("cores", "processes"), [("0-15", 6), ("3,5,9", 6), ("17", 2)])
def test_enough_cores_or_few_processes(cores: str, processes: int, tmp_path: Path) -> None:
    assert found(tmp_path, log(cores, processes), "D03") is None
