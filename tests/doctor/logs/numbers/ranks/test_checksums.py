"""Checksums of the weights that ranks print."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found

LINES = [
    "rank {rank} epoch {turn} mae 0.24 grad norm 0.31 param checksum {value:.5f} 19.7s",
    "[rank{rank}] step {turn} loss 1.27 weight norm: {value:.5f}",
    "[sıra {rank}/4] 13:06:02 dönem 1 adım {turn} kayıp 1.15 |w| {value:.5f} |g| 2.6",
    "[ランク{rank}] エポック{turn} 損失=1.5 重みの総和={value:.5f}",
]
Value = Callable[[int, int], float]


def printed(line: str, value: Value, turns: int = 3, ranks: int = 4) -> list[str]:
    return [line.format(rank=rank, turn=turn, value=value(rank, turn)) for turn in range(turns) for rank in range(ranks)]


def apart(rank: int, turn: int) -> float:
    return 1184.2 + 3 * turn + 0.7 * rank


@pytest.mark.parametrize("line", LINES)
def test_weights_that_drift_apart(line: str, tmp_path: Path) -> None:
    finding = found(tmp_path, printed(line, apart), "C03")
    assert finding is not None
    assert finding.title == "The weights of 4 ranks differ: nothing averages their gradients"
    assert finding.evidence[0].text == "rank 0: 1190.20000"


@pytest.mark.parametrize(
    "lines",
    {
        "averaged": printed(LINES[0], lambda rank, turn: 1184.2 + turn),
        "two of them agree": printed(LINES[0], lambda rank, turn: apart(rank // 2, turn)),
        "local steps between averages": printed(LINES[0], lambda rank, turn: 1184.2 if turn % 2 else apart(rank, turn), 6),
        "once": printed(LINES[0], apart, 1),
        "one rank": printed(LINES[0], apart, ranks=1),
        "sharded": ["FSDP: sharding strategy FULL_SHARD", *printed(LINES[0], apart)],
        "weights of samples": printed("rank {rank} epoch {turn} loss 1.2 weight sum {value:.3f}", apart),
        "norms of gradients": printed("rank {rank} epoch {turn} grad norm {value:.5f}", apart),
    }.values(),
)
def test_weights_that_may_differ(lines: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, lines, "C03") is None


@pytest.mark.parametrize("line", LINES)
def test_weights_that_are_equal_at_first(line: str, tmp_path: Path) -> None:
    finding = found(tmp_path, printed(line, lambda rank, turn: apart(rank * (turn > 0), turn)), "C03")
    assert finding is not None
    assert finding.evidence[-1].text == "so in 2 reports, all later ones"
