"""Ranks whose work differs from step to step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found

LINE = "[rank {rank}] step {at} loss 2.1 compute {work:.3f}s wait {wait:.3f}s"
ROW = "│  {at} │    {rank} │  {work:.3f} s │    {wait:.3f} s │"
HEADING = "┃ step ┃ rank ┃ compute  ┃ wait     ┃"
WORKS = (0.691, 0.411, 0.511, 0.205)


def turning(rank: int, at: int) -> float:
    return WORKS[(rank + 3 * at) % 4]


def printed(line: str, work_of: Callable[[int, int], float], steps: int = 12, wait: float | None = None) -> list[str]:
    return [
        line.format(
            rank=rank,
            at=100 * at,
            work=work_of(rank, at),
            wait=max(work_of(each, at) for each in range(4)) - work_of(rank, at) if wait is None else wait,
        )
        for at in range(1, steps + 1)
        for rank in range(4)
    ]


@pytest.mark.parametrize("lines", [printed(LINE, turning), [HEADING, *printed(ROW, turning)]], ids=["lines", "a table"])
def test_another_rank_is_the_last_in_each_step(lines: list[str], tmp_path: Path) -> None:
    finding = found(tmp_path, lines, "F03")
    assert finding is not None
    assert finding.confidence == "likely"
    assert finding.title == "The work of the ranks is uneven: they wait for 34% of the time, each step for another one"


@pytest.mark.parametrize(
    "lines",
    {
        "even": printed(LINE, lambda rank, at: 0.5 + 0.01 * ((rank + at) % 4)),
        "the same rank": printed(LINE, lambda rank, at: 0.7 if rank == 2 else 0.4),
        "nobody waits": printed(LINE, turning, wait=0.01),
        "too few steps": printed(LINE, turning, steps=3),
    }.values(),
)
def test_work_that_is_even_or_slow_on_one_rank(lines: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, lines, "F03") is None
