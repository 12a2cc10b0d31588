"""The order of the tests: those that last long and wait begin early, so that none of them is left when the others are done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def dealt(short: Sequence[T], long: Sequence[Sequence[T]], processes: int) -> list[T]:
    """Deal the long tests out to the test processes, each of which begins with an equal share of the list (xdist's worksteal).

    They begin one after another within the first half of the shares: while all processes wait, the cores have nothing to do.
    """
    found: list[T] = []
    for process in range(processes):
        share = short[len(short) * process // processes : len(short) * (process + 1) // processes]
        at = len(share) * process // processes // 2
        found += [*share[:at], *(test for group in long[process::processes] for test in group), *share[at:]]
    return found
