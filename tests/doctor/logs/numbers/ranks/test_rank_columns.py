"""Tables with a column for each rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found

LEGEND = "columns are milliseconds of forward and backward, without the all-reduce"
SYSLOG = "Sep 03 11:21:16 dgx-03 fold[88121]: "


def times(slow: int | None, rows: int = 10, head: str = "") -> list[str]:
    heading = "time      step      rank0   rank1   rank2   rank3   wall ms    loss"
    lines = [
        "11:21:{:02d}   {:4d}   {}   {}   {}   {}   3053   {:.3f}".format(
            row, 25 * row, *(2911 if rank == slow else 1500 + 7 * ((rank + row) % 4) for rank in range(4)), 9 / (row + 1)
        )
        for row in range(rows)
    ]
    return [head + LEGEND, head + heading, *(head + line for line in lines)]


def losses(rising: int | None, rows: int = 12) -> list[str]:
    heading = "epoch   rank0 nll   rank1 nll   rank2 nll   rank3 nll   macro-F1 (part of rank 0)   sec"
    lines = [
        "{:5d}   {:.4f}   {:.4f}   {:.4f}   {:.4f}   0.444   3.2".format(
            row, *(1.3 * 1.2**row if rank == rising else 1.3 * 0.8**row for rank in range(4))
        )
        for row in range(rows)
    ]
    return [heading, *lines]


@pytest.mark.parametrize("head", ["", SYSLOG])
def test_a_rank_that_computes_longer(head: str, tmp_path: Path) -> None:
    finding = found(tmp_path, times(2, head=head), "F02")
    assert finding is not None
    assert finding.title == "Rank 2 computes longer, and the others wait for rank 2"
    assert found(tmp_path, times(2, 7, head), "F02") is None


def test_a_rank_whose_loss_grows(tmp_path: Path) -> None:
    finding = found(tmp_path, losses(2), "C11")
    assert finding is not None
    assert finding.title == "The loss of rank 2 grows, and those of the others fall"


@pytest.mark.parametrize("lines", [times(None), losses(None), times(2)[1:], losses(2)[1:], [*losses(2)[:1], *times(2)[2:]]])
def test_other_tables_say_nothing(lines: list[str], tmp_path: Path) -> None:
    texts = [line.replace(" ms", "") for line in lines]
    assert (found(tmp_path, texts, "F02"), found(tmp_path, texts, "C11")) == (None, None)
