"""Collectives in another order on some rank, by NCCL's lines on each call (C08)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found


def calls(rank: int, names: Sequence[str], first: int = 0x28C, ranks: int = 4, communicator: str = "") -> list[str]:
    """Return what NCCL prints of the calls of one rank."""
    return [
        f"node3:{450 + rank}:{450 + rank} [{rank}] NCCL INFO {name}: opCount {first + at:x} sendbuff 0x7f5dd32b2100 recvbuff "
        f"0x7f5dd32b2100 count 9984512 datatype 7 op 0 root 0 comm {communicator or f'0x55bef020137{rank}'} [nranks={ranks}] "
        f"stream 0x55bef02013{rank}0"
        for at, name in enumerate(names)
    ]


SAME = ["AllReduce", "AllReduce", "AllGather"]
OTHER = ["AllReduce", "AllGather", "AllReduce"]


def test_a_rank_that_calls_another_collective(tmp_path: Path) -> None:
    finding = found(tmp_path, [*calls(0, SAME), *calls(1, SAME), *calls(2, OTHER)], "C08")
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("error", "likely")
    title = "Ranks call different collectives: AllGather and AllReduce, both number 28d of a communicator of 4 ranks"
    assert finding.title == title
    assert finding.evidence[0].text == "node3:452, GPU 2: AllGather of 9984512 elements"


@pytest.mark.parametrize(
    "lines",
    {
        "the same": [*calls(0, SAME), *calls(1, SAME)],
        "a single rank": calls(0, SAME),
        "one is ahead": [*calls(0, SAME), *calls(1, [*SAME, "AllReduce"])],
        "other numbers": [*calls(0, SAME), *calls(1, OTHER, first=0x400)],
        "communicators of another size": [*calls(0, SAME), *calls(1, OTHER, ranks=2)],
        "several communicators": [*calls(0, SAME), *calls(0, OTHER, communicator="0xabc"), *calls(1, SAME)],
        "several jobs": [line for rank in range(5) for line in calls(rank, SAME if rank % 2 else OTHER)],
    }.values(),
)
def test_collectives_in_one_order(lines: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, lines, "C08") is None
