"""What is kept of a log, and what it costs to change it."""

from __future__ import annotations

from dataclasses import replace

from gputop.doctor.logs.kept import Kept
from gputop.doctor.logs.observation import Observation


class Counted(Observation):
    """An observation that counts how often anybody looks at it."""

    looks = 0

    def __getattribute__(self, name: str) -> object:
        Counted.looks += 1
        return super().__getattribute__(name)


def looks(number: int) -> int:
    """How many looks it takes to note this many tracebacks, and to settle each of them."""
    kept, Counted.looks = Kept(), 0
    for block in range(1, number + 1):
        kept.add(Counted("ValueError", "log", block, None, at=block, block=block))
        kept.set_place(block, "train.py:3")
        kept.mark(-block, False, True)
        kept.mark(block, True, False)
        kept.outlive([block])
    return Counted.looks


def test_settling_one_text_does_not_examine_all_others() -> None:
    """A mebibyte of a log with a traceback in every step took 8 s."""
    few = looks(200)
    assert looks(400) <= 2.2 * few


def test_each_change_applies_to_its_own_observation() -> None:
    kept = Kept()
    first, within = Observation("a", "log", 1, None, at=1), Observation("b", "log", 1, None, at=1, block=7)
    for seen in (first, within):
        kept.add(seen)
    kept.mark(1, True, False)
    kept.mark(-7, False, True)
    assert kept.in_order() == [replace(first, went_on=True), replace(within, followed=True)]
    assert kept.take_new() == kept.in_order()
    kept.outlive([1])
    assert [seen.went_on for seen in kept.in_order()] == [True, True]
    assert kept.take_new() == []
