"""H02 names the lines that held most, where the rank's allocator said them."""

from __future__ import annotations

from dataclasses import replace

from gputop.snapshot import Snapshot
from tests.doctor.scenes.base import verdict
from tests.doctor.scenes.hardware import out_of_memory

GIB = 1 << 30
HELD = {
    "allocated_bytes": 70 * GIB,
    "cached_bytes": 5 * GIB,
    "largest_free_bytes": GIB,
    "lines": [
        {"line": f"train.py:{line} forward", "bytes": size * GIB, "blocks": 2} for line, size in ((9, 40), (7, 20), (5, 10))
    ],
}


def told(second: int) -> Snapshot:
    """As the fault, with what rank 0's allocator held."""
    shot = out_of_memory(second)
    runs = tuple(
        replace(run, ranks=tuple(replace(r, facts={**r.facts, "out_of_memory": HELD}) if r.rank == 0 else r for r in run.ranks))
        for run in shot.runs
    )
    return replace(shot, runs=runs)


def test_the_lines_are_evidence_after_the_text() -> None:
    plain, found = verdict(out_of_memory, 20), verdict(told, 20)
    assert (plain.id, found.id) == ("H02", "H02")
    added = [fact.text for fact in found.evidence if fact not in plain.evidence]
    assert added == [
        "torch held 70.0 GiB, and 5.0 GiB cached but free, 1.0 GiB of it in one piece",
        "40.0 GiB in 2 blocks from train.py:9 forward",
        "20.0 GiB in 2 blocks from train.py:7 forward",
        "10.0 GiB in 2 blocks from train.py:5 forward",
    ]
    assert found.evidence[0] == plain.evidence[0]
