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


def test_the_first_batch_by_the_names_of_its_samples(tmp_path: Path) -> None:
    def log(other: str) -> list[str]:
        names = [other if rank == 2 else "video23_001520" for rank in range(4)]
        lists = [
            f"[rank {rank}] epoch 0 first batch: ['{name}', 'video26_01', 'video20_04', 'video08_1'] ..."
            for rank, name in enumerate(names)
        ]
        return ["[rank 0] training on 4 GPUs with DDP, loss 2.2", *lists]

    assert found(tmp_path, log("video23_001520"), "C05") is not None
    assert found(tmp_path, log("video07_000007"), "C05") is None


def test_behind_a_logger_of_any_name_and_with_padded_numbers(tmp_path: Path) -> None:
    ids = "[2255235, 1066807, 2666818, 1709762]"
    lines = [f"2024-12-03 20:12:04 | INFO | bactLM.data | [rank {rank:2d}] first batch ids {ids}" for rank in range(12)]
    assert found(tmp_path, ["training, loss 2.2", *lines], "C05") is not None
