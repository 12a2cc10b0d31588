"""Tables of torch.profiler in a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found

HEADING = (
    "                Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg     Self CUDA   Self CUDA %    "
    "CUDA total  CUDA time avg    # of Calls  "
)
RULE = "-" * 55 + "  " + "------------  " * 10


def row(name: str, own: float = 1.0, total: float = 2.0, gpu: float = 0.0, calls: int = 400) -> str:
    return (
        f"{name:>55}  {own:10.2f}%      12.300ms  {total:10.2f}%       1.352s     456.892us      20.000ms  {gpu:10.2f}%      "
        f"20.000ms       2.098us  {calls:12d}  "
    )


TOTALS = ("Self CPU time total: 2.914s", "Self CUDA time total: 1098.200ms")


def table(*rows: str, totals: tuple[str, ...] = TOTALS) -> list[str]:
    return [RULE, HEADING, RULE, *rows, row("aten::mm", 1.4, 2.4, 27.4), RULE, *totals]


WAITS = row("cudaStreamSynchronize", 44.0, 44.0, calls=3720)
READS = row("aten::item", 0.2, 46.4, calls=2960)
CUT = row("enumerate(DataLoader)#_SingleProcessDataLoaderIter._...", 61.0, 63.2, calls=40)
LOADS = row("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 61.0, 63.2, calls=40)


@pytest.mark.parametrize(
    ("rows", "id_", "title"),
    [
        ((WAITS, READS), "E01", "The loop waits for the GPU in every step: 44% of the processor's time in a profile"),
        ((LOADS, READS), "D01", "The run waits for data: 63% of the processor's time in a profile"),
        ((CUT, READS), "D01", "The run waits for data: 63% of the processor's time in a profile"),
        (
            (row("cudaLaunchKernel", 33.7, 33.7, calls=92350),),
            "E02",
            "Too little work in a step: starting the kernels takes long: 34% of the processor's time in a profile",
        ),
        (
            (row("ampere_sgemm_128x64_tn", gpu=22.0), row("sm80_xmma_dgrad_implicit_gemm_indexed_f32f32_f32f32_...", gpu=20.3)),
            "E03",
            "Matrices are multiplied in float32, without tensor cores: 42% of the GPU's time in a profile",
        ),
        (
            (row("Memcpy HtoD (Pageable -> Device)", gpu=38.0),),
            "D05",
            "Copies to the GPU take long: 38% of the GPU's time in a ",
        ),
        (
            (row("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclD...", gpu=74.0),),
            "E06",
            "Communication takes much of the step: 74%",
        ),
    ],
)
def test_what_takes_the_time(rows: tuple[str, ...], id_: str, title: str, tmp_path: Path) -> None:
    finding = found(tmp_path, table(*rows), id_)
    assert finding is not None
    assert finding.title.startswith(title)
    assert finding.confidence == "likely"


@pytest.mark.parametrize(
    "lines",
    {
        "the profiler's own wait": table(row("cudaDeviceSynchronize", 70.0, 70.0, calls=2), READS),
        "a wait without a read": table(WAITS),
        "a small share": table(row("cudaStreamSynchronize", 8.0, 8.0), READS),
        "a GPU that always computes": table(WAITS, READS, LOADS, totals=(TOTALS[0], "Self CUDA time total: 2.612s")),
        "an earlier table": [*table(WAITS, READS), *table(READS)],
        "no table": [WAITS, READS, LOADS],
        "after the table": [*table(), "Training goes on", WAITS, READS],
    }.values(),
)
def test_what_is_in_order(lines: list[str], tmp_path: Path) -> None:
    assert all(found(tmp_path, lines, id_) is None for id_ in ("E01", "D01", "D05", "E06"))


@pytest.mark.parametrize(
    ("lines", "id_"),
    [
        (table(row("cudaStreamSynchronize", 25.0, 25.0), READS), "E01"),
        (table(WAITS, READS, totals=TOTALS[:1]), "E01"),
        ([*table(), *table(WAITS, READS, totals=TOTALS[:1])], "E01"),
        (table(row("ncclDevKernel_AllReduce_Sum_f32_RING_LL", gpu=52.0)), "E06"),
    ],
    ids=["a smaller share", "no time of the GPU", "that of an earlier table", "NCCL beside other kernels"],
)
def test_what_is_only_possible(lines: list[str], id_: str, tmp_path: Path) -> None:
    finding = found(tmp_path, lines, id_)
    assert finding is not None
    assert finding.confidence == "possible"


def test_a_table_with_fewer_columns(tmp_path: Path) -> None:
    def log(name: str, share: str) -> list[str]:
        line = "-" * 40 + "  " + "-" * 12
        heading = "Name    Self CPU %     Self CUDA   Self CUDA %    CUDA total  CUDA time avg    # of Calls"
        row = f"            {name}         0.00%       11.822s        {share}%       11.822s     112.590ms           105"
        return ["it 10 | loss 0.2231 | step 2.6s", line, heading, line, row, line, "Self CPU time total: 13.077s"]

    assert found(tmp_path, log("ncclDevKernel_AllReduce_Sum_f32_RING_LL(...", "90.41"), "E06") is not None
    assert found(tmp_path, log("ncclDevKernel_AllReduce_Sum_f32_RING_LL(...", "9.41"), "E06") is None
    assert found(tmp_path, log("sm80_xmma_gemm_f32tf32_f32f32", "90.41"), "E06") is None


def test_a_table_of_the_gpu_alone(tmp_path: Path) -> None:
    def log(gather: str, scatter: str) -> list[str]:
        line = "-" * 40 + "  " + "-" * 12
        heading = "Name     Self CUDA   Self CUDA %    CUDA total    # of Calls"
        rows = [
            f"    ncclDevKernel_AllGather_RING_LL(ncclDevComm*, un...        9.104s     {gather}%     9.104s            66",
            f"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevC...        5.213s     {scatter}%     5.213s            33",
        ]
        return ["step: 50  loss: 10.2584", line, heading, line, *rows, line]

    finding = found(tmp_path, log("58.51", "33.50"), "E06")
    assert finding is not None
    assert finding.confidence == "likely"
    assert "92%" in finding.title
    assert found(tmp_path, log("5.51", "3.50"), "E06") is None
