"""Ranks that say they have joined."""

from __future__ import annotations

from pathlib import Path

from tests.doctor.logs.numbers.logs import found


def joins(*ranks: int, world: int = 8) -> list[str]:
    return [f"{rank}: Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/{world}" for rank in ranks]


def test_one_that_never_does(tmp_path: Path) -> None:
    finding = found(tmp_path, joins(0, 1, 2, 3, 4, 6, 7), "G03")
    assert finding is not None
    assert finding.title == "Rank 5 of 8 has not joined"
    two = found(tmp_path, joins(0, 1, 2, 3, 6, 7), "G03")
    assert two is not None
    assert two.title == "Ranks 4, 5 of 8 have not joined"


def test_another_start_begins_without_the_ranks_of_the_one_before(tmp_path: Path) -> None:
    finding = found(tmp_path, [*joins(*range(8)), "Epoch 0: step 10 loss 0.5", *joins(0, 1, 2, 3, 4, 6, 7)], "G03")
    assert finding is not None
    assert finding.title == "Rank 5 of 8 has not joined"
    assert [fact.text for fact in finding.evidence] == ["7 ranks say that they are joining, and no step follows"]


def test_all_or_a_training_that_goes_on(tmp_path: Path) -> None:
    most = joins(0, 1, 2, 3, 4, 6, 7)
    registered = "All distributed processes registered. Starting with 8 processes"
    for log in (
        joins(*range(8)),
        [*most, registered],
        [*most, "Epoch 0: step 10 loss 0.5"],
        joins(0, 1),
        [*most, *joins(*range(8))],
    ):
        assert found(tmp_path, log, "G03") is None
