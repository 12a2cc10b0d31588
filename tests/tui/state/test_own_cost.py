"""What gputop says of its own cost."""

from __future__ import annotations

import pytest

from gputop.tui.state.own_cost import EVERY_S, Cost, OwnCost


class Ticking:
    """A clock, and the CPU time of a process, that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.spent_s = 7.0

    def pass_by(self, seconds: float, spent_s: float = 0.0) -> None:
        self.now += seconds
        self.spent_s += spent_s


def test_the_start_does_not_count_and_a_number_stays_until_the_next() -> None:
    time = Ticking()
    own = OwnCost(lambda: time.now, lambda: time.spent_s)
    assert own.update(50.0, 100_000) is None
    time.pass_by(EVERY_S / 2, 0.1)
    assert own.update(1.0, 101_000) is None, "not known yet"
    time.pass_by(EVERY_S / 2, 0.1)
    first = own.update(2.0, 106_000)
    assert first == pytest.approx(Cost(2.0 + 1.5, 600.0))
    time.pass_by(1.0, 0.9)
    assert own.update(2.0, 200_000) is first
    time.pass_by(EVERY_S)
    assert own.update(None, 106_000) == Cost(pytest.approx(0.9 / 11 * 100 + 2.0), 0.0), "a new terminal counts from 0"


def test_values_that_are_not_counted_are_left_out() -> None:
    time = Ticking()
    own = OwnCost(lambda: time.now, lambda: time.spent_s)
    own.update(None, None)
    time.pass_by(EVERY_S, 0.25)
    cost = own.update(None, None)
    assert cost is not None
    assert cost.words() == "2.5%"
