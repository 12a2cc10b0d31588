"""GPUs that are hardly used, by what lines say."""

from __future__ import annotations

from pathlib import Path

from tests.doctor.logs.numbers.logs import found

HEADING = "epoch,step,loss,auc,t_load_ms,t_step_ms,rows_per_s,gpu_util_pct,gpu_mem_mib"


def rows(load: float = 0.033, step: float = 1.49, used: int = 8, number: int = 12) -> list[str]:
    return [HEADING, *(f"1,{at * 5000},0.3{at:02d},0.78,{load},{step},42389,{used + at % 2},612" for at in range(number))]


def test_too_little_work_in_a_step(tmp_path: Path) -> None:
    finding = found(tmp_path, rows(), "E02")
    assert finding is not None
    assert finding.confidence == "likely"
    assert finding.title.startswith("Too little work in a step: the GPU is 8% busy, and a step takes 1 ms")
    line = "step {0} loss 0.{0} gpu_util 9% data 0.0001s fwd 0.0012s bwd 0.0021s"
    assert found(tmp_path, [line.format(at + 10) for at in range(12)], "E02") is not None


def test_a_gpu_that_waits_for_something_else(tmp_path: Path) -> None:
    assert found(tmp_path, rows(load=1.2), "E02") is None, "for data"
    assert found(tmp_path, rows(step=149.0), "E02") is None, "long steps"
    assert found(tmp_path, rows(used=70), "E02") is None
    assert found(tmp_path, rows(number=5), "E02") is None
    assert found(tmp_path, [line.replace("gpu_util_pct", "cpu_util_pct") for line in rows()], "E02") is None
