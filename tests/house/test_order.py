"""Every test runs once, whatever the order; the long ones begin early in the share of some test process."""

from __future__ import annotations

import pytest

from tests.order import dealt


@pytest.mark.parametrize("processes", [1, 2, 6, 40])
@pytest.mark.parametrize("short", [0, 3, 1000])
def test_every_test_is_dealt_once_and_the_long_ones_are_not_late(short: int, processes: int) -> None:
    long = [[-1, -2, -3], [-4], [-5], [-6, -7], [-8], [-9], [-10]]
    found = dealt(range(short), long, processes)
    assert sorted(found) == [*range(-10, 0), *range(short)]
    assert [test for test in found if test >= 0] == [*range(short)]
    if short == 1000 and processes < 40:
        share = len(found) / processes
        assert all(found.index(test) % share < 0.6 * share for group in long for test in group)
    for group in long:
        at = found.index(group[0])
        assert found[at : at + len(group)] == group, "they share what their module has set up"


def test_they_do_not_all_begin_at_the_same_time() -> None:
    found = dealt(range(900), [[-1], [-2], [-3]], 3)
    assert [found.index(test) for test in (-1, -2, -3)] == [0, 301 + 50, 602 + 100]
