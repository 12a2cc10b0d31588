"""Rows of tables whose cells have the names of their columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.doctor.logs.numbers.rows import Rows, parts_in
from tests.doctor.logs.numbers.logs import found


def last(*lines: str) -> dict[str, str]:
    rows = Rows()
    return dict([rows.of(line) for line in lines][-1])


@pytest.mark.parametrize(
    ("heading", "row", "cells"),
    [
        ("step   loss   dt(ms)", "1010  2.952   606.3", {"step": "1010", "loss": "2.952", "dt(ms)": "606.3"}),
        ("| step | loss | data |", "|   20 | 7.85 |  0.9 |", {"step": "20", "loss": "7.85", "data": "0.9"}),
        ("│ step │ loss │ data │", "│   20 │ 7.85 │  0.9 │", {"step": "20", "loss": "7.85", "data": "0.9"}),
        ("epoch,train loss,lr", "1,0.55,0.001", {"epoch": "1", "train loss": "0.55", "lr": "0.001"}),
        ("time      step   loss   lr", "22:11:14   1010   2.95   3e-4", {"step": "1010", "loss": "2.95", "lr": "3e-4"}),
        (
            "steps   ep_ret ep_std   loss",
            "50000   118.9   18.0   1.7",
            {"steps": "50000", "ep_ret": "118.9", "ep_std": "18.0", "loss": "1.7"},
        ),
        (
            "2025-01-21 14:03:48 INFO  [0/8]   rank  tokens/step  fwd+bwd ms",
            "2025-01-21 14:03:48 INFO  [0/8]      7        24693       676.4",
            {"rank": "7", "tokens/step": "24693", "fwd+bwd ms": "676.4"},
        ),
    ],
)
def test_a_row_has_the_names_of_its_columns(heading: str, row: str, cells: dict[str, str]) -> None:
    assert last(heading, row) == cells
    assert last(row) == {}
    assert last(heading, f"{row}   4   4   4") == {}
    assert last(heading, "a line of prose without numbers") == {}


def test_half_of_a_row_or_more_are_numbers() -> None:
    heading = "rank   host   state   loss"
    assert last(heading, "3   gpu-n2   running   0.5") == {"rank": "3", "host": "gpu-n2", "state": "running", "loss": "0.5"}
    assert last(heading, "3   gpu-n2   waiting   none yet") == {}
    assert last(heading, "the ranks   that are   left wait   for rank 3") == {}


def test_parts_of_a_row_need_units_or_clear_names() -> None:
    parts = parts_in({"step": "20", "data ms": "0.9", "forward": "70.2", "tok/s": "23709"})
    assert parts == pytest.approx({"data": 0.0009, "forward": 0.0702})
    assert parts_in({"step": "20", "data": "0.9", "fwd": "70.2", "bwd": "140.1"}) == {"data": 0.9, "fwd": 70.2, "bwd": 140.1}
    assert parts_in({"step": "20", "data": "9", "time": "70"}) == {}, "counts"
    assert parts_in({"epoch": "1", "train loss": "0.55", "rmse_val": "0.8", "segundos": "1.93"}) == {}
    assert parts_in({"steps": "50000", "eval_ret": "120.6", "fps": "1228"}) == {}


def test_a_table_shows_what_a_step_is_spent_on(tmp_path: Path) -> None:
    heading = "|  step |   loss | data | forward | backward (compute) | allreduce not hidden | step ms | tok/s |"
    rows = [
        f"|  {at * 20:4d} |  {7 - at / 9:.3f} |  0.9 |    70.2 |              145.9 |  {{:.1f}} |  1382.1 | 23709 |"
        for at in range(1, 12)
    ]
    assert found(tmp_path, [heading, *(row.format(1116.1) for row in rows)], "E06") is not None
    assert found(tmp_path, [heading, *(row.format(16.1) for row in rows)], "E06") is None


def test_a_table_behind_a_logger_shows_the_rank_with_the_most_work(tmp_path: Path) -> None:
    def log(most: int, slow: float) -> list[str]:
        head = "2025-01-21 14:03:48 INFO  [0/8]"
        lines = []
        for at in range(8):
            lines += [
                f"{head} step {at * 100}  loss {5 - at / 9:.3f}",
                f"{head}   rank  speeches  tokens/step  fwd+bwd ms  wait in allreduce ms",
            ]
            for rank in range(4):
                tokens, work = (most, slow) if rank == 3 else (1721 + rank * 10, 67.6)
                lines.append(
                    f"{head}      {rank}        24         {tokens}        {work}                 {slow - work + 4:.1f}"
                )
        return lines

    finding = found(tmp_path, log(24693, 676.4), "F03")
    assert finding is not None
    assert finding.title.startswith("Rank 3 has more work")
    assert found(tmp_path, log(1750, 68.0), "F03") is None
