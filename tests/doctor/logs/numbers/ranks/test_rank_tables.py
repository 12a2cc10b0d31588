"""Tables and lines with the parts of a step of each rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found


def table(late: int = 5, data: float = 1.29, title: str = "per-rank means over the last 200 steps (s)") -> list[str]:
    rows = [(0.010, 0.121, 1.516) if rank != late else (data, 0.123, 1.526 - data) for rank in range(8)]
    return [
        title,
        "┃ rank ┃ host/gpu ┃ data  ┃ forward ┃ backward+sync ┃ clips ┃",
        *(f"│    {at} │ gpu-n2/{at} │ {row[0]:.3f} │   {row[1]:.3f} │ {row[2]:.3f} │  9600 │" for at, row in enumerate(rows)),
        "└──────┴──────────┴───────┴─────────┴───────────────┴───────┘",
    ]


def test_a_table_with_a_row_for_each_rank(tmp_path: Path) -> None:
    finding = found(tmp_path, ["step 200 loss 0.4", *table(), *table(), *table()], "F01")
    assert finding is not None
    assert finding.title == "Rank 5 waits for its data, and the others wait for rank 5"
    assert found(tmp_path, [*table(late=9), *table(late=9), *table(late=9)], "F01") is None
    assert found(tmp_path, table(), "F01") is None, "once"
    assert found(tmp_path, [*table(), *table(late=2), *table(late=7)], "F01") is None, "another one each time"
    assert found(tmp_path, [*table(title="step 200"), *table(title="step 400")], "F01") is None, "two single steps"


LINE = "step {at} | loss 2.{at} | step 228 ms | data 1.1 1.3 1.1 1.0 | fwd+bwd {work} | wait {wait}"


@pytest.mark.parametrize("between", [" ", ", "])
def test_several_numbers_in_a_line(between: str, tmp_path: Path) -> None:
    late = [LINE.format(at=at, work="142 140 219 139", wait="85 86 9 87").replace("1.1 1.3", "1.1 1.3") for at in range(10, 20)]
    finding = found(tmp_path, [line.replace(" ", between) if between == "" else line for line in late], "F02")
    assert finding is not None
    assert finding.title.startswith("Rank 2 computes longer")
    even = [LINE.format(at=at, work="142 140 141 139", wait="8 8 9 7") for at in range(10, 20)]
    assert found(tmp_path, even, "F02") is None
    assert found(tmp_path, late[:3], "F02") is None
    apart = [LINE.format(at=at, work="142 140 219 139", wait="8 8 9 7") for at in range(10, 20)]
    assert found(tmp_path, apart, "F02") is None, "nobody waits for it"


def test_a_list_of_ranks_for_each_part(tmp_path: Path) -> None:
    def report(slow: float) -> list[str]:
        parts = {
            "forward-backward": 2378.0,
            "forward-compute": 441.0,
            "backward-compute": 861.0,
            "all-grads-sync": 1124.0 if slow > 900 else 60.0,
        }
        own = parts | {"backward-compute": slow, "all-grads-sync": 60.0}
        lists = [
            [f"  {name}:", *(f"     rank  {rank}: {(own if rank == 2 else parts)[name]:.2f}" for rank in range(4))]
            for name in parts
        ]
        return [
            " [2024-12-05 14:21:04] iteration       10/   50000 | lm loss: 9.8E+00 |",
            "times across ranks (ms):",
            *(line for part in lists for line in part),
        ]

    finding = found(tmp_path, 3 * report(1964.0), "F02")
    assert finding is not None
    assert finding.title == "Rank 2 computes longer, and the others wait for rank 2"
    assert found(tmp_path, 3 * report(861.0), "F02") is None
    assert found(tmp_path, report(1964.0), "F02") is None, "once"


def test_a_line_for_each_part_with_all_ranks(tmp_path: Path) -> None:
    def report(at: int, slow: float) -> list[str]:
        works = [slow if rank == 2 else 0.41 + at / 1000 for rank in range(4)]
        return [
            f"2025-04-14 16:13:04 [R0] step    {at}00  recon 0.6106  step_time 0.925s  data 0.005s",
            "   fwd+bwd per rank (s): " + " ".join(f"r{rank}={work:.3f}" for rank, work in enumerate(works)),
            "   allreduce wait   (s): "
            + " ".join(f"r{rank}={max(works) - work + 0.01:.3f}" for rank, work in enumerate(works)),
        ]

    finding = found(tmp_path, [line for at in range(6) for line in report(at, 0.87)], "F02")
    assert finding is not None
    assert finding.title == "Rank 2 computes longer, and the others wait for rank 2"
    assert found(tmp_path, [line for at in range(6) for line in report(at, 0.41)], "F02") is None
    assert found(tmp_path, [line for at in range(3) for line in report(at, 0.87)], "F02") is None, "three times"


def test_columns_that_a_comment_names(tmp_path: Path) -> None:
    def rows(at: int, late: int) -> list[str]:
        return [
            f"{20 * at:5d}  r{rank}  1.298  {0.961 if rank == late else 0.007}  {0.331 if rank == late else 1.285}  6.718"
            for rank in range(4)
        ]

    heading = "# columns: step, rank, t_step, t_data, t_fwdbwd, loss"
    finding = found(tmp_path, [heading, *(row for at in range(8) for row in rows(at, 2))], "F01")
    assert finding is not None
    assert finding.title == "Rank 2 waits for its data, and the others wait for rank 2"
    assert found(tmp_path, [heading, *(row for at in range(8) for row in rows(at, 9))], "F01") is None


def experts(heading: str, slow: float, waits: float) -> list[str]:
    lines = [heading]
    for at in range(8):
        lines += [f"[{at * 250:5d}] loss {5 - at / 4:.3f}  step 334 ms", "   rank  tokens_recv  fwd_bwd_ms  wait_all_to_all_ms"]
        lines += [
            f"   {rank:4d}  {15668:9d}  {slow if rank == 5 else 80.9:8.1f}  {4 if rank == 5 else waits:8.1f}"
            for rank in range(8)
        ]
    return lines


def test_experts_that_get_most_tokens(tmp_path: Path) -> None:
    finding = found(tmp_path, experts("8 ranks, expert parallel 8, top-1 routing", 190.0, 117.0), "F03")
    assert finding is not None
    assert finding.title.startswith("Rank 5 computes longer: its experts get more tokens")
    for heading in ("8 ranks, tensor parallel 8", "expert parallel 8, pipeline parallel 2"):
        log = experts(heading, 190.0, 117.0)
        assert found(tmp_path, log, "F03") is None, "its parts of the model are meant to differ"
        assert found(tmp_path, log, "F02") is None


def nodes(slow: float, sync: float, first: str = "node") -> list[str]:
    lines = ["timers: cuda events per phase, mean over the last 200 steps"]
    for at in range(4):
        lines += [
            f"step {at * 200:6d}  loss 0.3{at}",
            f"  {first}      data_wait   forward  backward      sync   step(ms)  gpu_clk(MHz)",
        ]
        for node in range(71, 77):
            late = node == 74
            back, wait = (slow, 12.0) if late else (130.0, sync)
            lines.append(f"  node{node}          1.8      64.5     {back}     {wait}      423.0          1404")
    return lines


def test_a_row_for_each_host(tmp_path: Path) -> None:
    finding = found(tmp_path, nodes(332.0, 214.0), "K01")
    assert finding is not None
    assert finding.title == "Host node74 computes longer, and the others wait for host node74"
    assert found(tmp_path, nodes(131.0, 12.0), "K01") is None
    assert found(tmp_path, nodes(332.0, 214.0, "shop"), "K01") is None
