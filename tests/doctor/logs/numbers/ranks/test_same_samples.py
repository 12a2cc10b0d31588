"""Ids of samples that all ranks print."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found

LINES = ["[{rank}] step {at} shard 3 first doc id {id} loss 2.1", "rank {rank} step {at}: sample_id={id} loss 2.1"]
IDS = (79834, 73228, 33320, 46810, 25560, 27817, 55163)


def printed(line: str, id_of: Callable[[int, int], int], ranks: int = 2) -> list[str]:
    return [line.format(rank=rank, at=20 * at, id=id_of(rank, at)) for at in range(len(IDS)) for rank in range(ranks)]


@pytest.mark.parametrize(("line", "confidence"), zip(LINES, ("possible", "likely"), strict=True))
def test_the_same_samples_at_each_step(line: str, confidence: str, tmp_path: Path) -> None:
    finding = found(tmp_path, printed(line, lambda rank, at: IDS[at]), "C05")
    assert finding is not None
    assert (finding.confidence, finding.title) == (confidence, "All 2 ranks train on the same samples")
    assert finding.evidence[1].text == "so at 7 steps, all there are"


def test_the_same_list_of_samples(tmp_path: Path) -> None:
    lines = [f"[rank {rank}/2] first ids [64330, 67686, 39622, 33065]" for rank in range(2)]
    lines.append("[rank 0/2] epoch 0 loss 2.1")
    assert found(tmp_path, lines, "C05") is not None
    assert found(tmp_path, [lines[0], lines[1].replace("64330", "1"), lines[2]], "C05") is None
    assert found(tmp_path, [f"[rank {rank}/2] first ids [1, 2, 3, 4]" for rank in range(2)], "C05") is None, "before a shuffle"


@pytest.mark.parametrize(
    "lines",
    {
        "others": printed(LINES[1], lambda rank, at: IDS[(at + rank) % len(IDS)]),
        "the same once": printed(LINES[1], lambda rank, at: IDS[at] + rank * (at > 0)),
        "one rank": printed(LINES[1], lambda rank, at: IDS[at], ranks=1),
        "one and the same": printed(LINES[1], lambda rank, at: 5),
        "a count": printed(LINES[1], lambda rank, at: 32 * at),
        "batches": printed("rank {rank} step {at}: batch idx {id} loss 2.1", lambda rank, at: IDS[at]),
        "ranks of one model": ["tensor parallel size 2", *printed(LINES[1], lambda rank, at: IDS[at])],
        "samples seen": printed("rank {rank} step {at}: samples {id}", lambda rank, at: IDS[at]),
    }.values(),
)
def test_ids_that_say_nothing(lines: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, lines, "C05") is None
