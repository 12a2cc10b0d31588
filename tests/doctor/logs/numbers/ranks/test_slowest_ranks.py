"""Tables of only the slowest ranks of a step."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found

STEP_S = 95.0


def table(
    late: Collection[int], data_s: float = 61.5, unit: str = "s", waits: bool = True, others_s: float = 0.02
) -> list[str]:
    """Return the table of a step in which these ranks are late."""
    listed = [*late, *(rank for rank in (40, 7, 92, 13, 55) if rank not in late)]
    rows = []
    for rank in listed:
        data = data_s if rank in late else others_s
        rest = STEP_S - data if waits else STEP_S - data_s
        rows.append(f"    {rank:4d}  {data:10.3f}  {rest:10.3f}")
    return [f"step took {STEP_S}{unit}; slowest ranks by data_time:", "    rank   data_time   step_time", *rows, ""]


def test_ranks_that_others_wait_for(tmp_path: Path) -> None:
    finding = found(tmp_path, [*table([24]), *table([24])], "F01")
    assert finding is not None
    assert (finding.confidence, finding.title) == ("likely", "Rank 24 waits for its data, and the others wait for it")
    assert finding.evidence[0].text == "rank 24 waited 1m01s of 1m35s for data; 5 others of the table did not"
    turns = found(tmp_path, [*table([24, 25]), *table([32, 33])], "F01")
    assert turns is not None
    assert (turns.confidence, turns.title) == (
        "possible",
        "Ranks 24, 25, 32, 33 wait for their data, and the others wait for them",
    )


@pytest.mark.parametrize(
    "lines",
    {
        "once": table([24]),
        "milliseconds": [*table([24], unit="ms"), *table([24], unit="ms")],
        "no unit": [*table([24], unit=""), *table([24], unit="")],
        "short": [*table([24], 6.0), *table([24], 6.0)],
        "all wait": [*table([24], others_s=50.0), *table([24], others_s=50.0)],
        "nobody waits for it": [*table([24], waits=False), *table([24], waits=False)],
        "few of the tables": [*table([24]), *table([24]), *table([]), *table([]), *table([])],
        "no table of the slowest": [line.replace("slowest", "first") for line in (*table([24]), *table([24]))],
    }.values(),
)
def test_ranks_that_are_on_time(lines: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, lines, "F01") is None
