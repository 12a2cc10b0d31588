"""Bars of ranks with unequal numbers of batches (C07)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.doctor.logs.numbers.logs import found


def bars(done: int, totals: Sequence[int], since: str = "41:20") -> list[str]:
    return [f" 99%|#########9| {done}/{of} [{since}<00:02,  2.4it/s]" for of in totals]


UNEQUAL = (6122, 6124, 6121, 6124, 6125)


@pytest.mark.parametrize(
    ("lines", "is_found"),
    {
        "all stop before their ends": ([*bars(6000, UNEQUAL, "40:31"), *bars(6118, UNEQUAL)], True),
        "on lines of their own": ([part for bar in bars(6118, UNEQUAL) for part in ("99%", bar.rpartition("| ")[2])], True),
        "three bars": (bars(6118, UNEQUAL[:3]), True),
        "two totals": (bars(6118, (6122, 6124, 6122, 6124)), False),
        "two bars": (bars(6118, UNEQUAL[:2]), False),
        "far from their ends": (bars(3018, UNEQUAL), False),
        "equal totals": (bars(6118, [6122] * 5), False),
        "different data": (bars(118, (120, 240, 512)), False),
        "one after the other": (
            [bar for at, of in enumerate(UNEQUAL, 5) for bar in bars(6118, [of], f"0{at}:10")],
            False,
        ),
        "they end": ([*bars(6118, UNEQUAL), *(bar for of in UNEQUAL for bar in bars(of, [of]))], False),
    }.values(),
)
def test_bars_of_unequal_totals_that_stop_together(lines: list[str], is_found: bool, tmp_path: Path) -> None:
    finding = found(tmp_path, lines, "C07")
    assert (finding is not None) is is_found
