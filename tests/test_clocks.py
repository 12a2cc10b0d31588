"""The clock of another machine: the truth is always within the error, and what cannot be counts for nothing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.clocks import EAGER, EAGER_S, EVERY_S, ClockAnswer, ClockQuestion, ClockWatch, compared

WAY = st.floats(0.0, 60.0)


@given(offset=st.floats(-1e6, 1e6), there=WAY, waits=WAY, back=WAY)
def test_the_truth_is_within_the_error(offset: float, there: float, waits: float, back: float) -> None:
    question = ClockQuestion(1e9, 1e9 + there + offset)
    found = compared(ClockAnswer(question, 1e9 + there + waits + offset), 1e9 + there + waits + back)
    if found is not None:  # rounding may make no time of almost none
        assert abs(found.offset_s - offset) <= found.error_s + 1e-5
        assert found.error_s == pytest.approx((there + back) / 2, abs=1e-5)


@pytest.mark.parametrize(("received", "answered"), [(None, 6.0), (math.nan, 6.0), (5.0, math.inf), (7.0, 6.0), (5.0, 9.0)])
def test_impossible_times_are_not_compared(received: float | None, answered: float) -> None:
    assert compared(ClockAnswer(ClockQuestion(4.0, received), answered), 7.0) is None


def test_times_near_the_limits_of_floats_are_not_compared() -> None:
    assert compared(ClockAnswer(ClockQuestion(4.0, 1.7e308), 1.7e308), 7.0) is None


def test_the_least_error_counts_and_an_answer_to_no_question_does_not() -> None:
    asked: list[ClockQuestion] = []
    watch = ClockWatch(asked.append)
    for now, error_s in ((10.0, 0.4), (11.0, 0.1), (12.0, 0.2)):
        watch.ask_if_due(now)
        watch.take(ClockAnswer(ClockQuestion(now, now + error_s), now + error_s), now + 2 * error_s)
    assert [question.sent_at for question in asked] == [10.0, 11.0, 12.0]
    assert watch.best is not None
    assert watch.best.error_s == pytest.approx(0.1)
    watch.take(ClockAnswer(ClockQuestion(3.0, 3.0), 3.0), 3.0)
    assert watch.best.error_s == pytest.approx(0.1)


def test_it_asks_often_at_first_then_rarely_and_again_if_the_clock_was_set_back() -> None:
    asked: list[ClockQuestion] = []
    watch = ClockWatch(asked.append)
    for tick in range(300):
        watch.ask_if_due(100.0 + tick / 10)
    times = [question.sent_at for question in asked]
    assert times[:EAGER] == pytest.approx([100.0 + number * EAGER_S for number in range(EAGER)], abs=0.11)
    assert len(times) - EAGER == pytest.approx((30.0 - EAGER * EAGER_S) / EVERY_S, abs=1.0)
    watch.ask_if_due(50.0)
    assert asked[-1].sent_at == 50.0


def test_comparisons_from_before_a_clock_was_set_no_longer_count() -> None:
    watch = ClockWatch(lambda question: None)
    for now, offset_s, error_s in ((10.0, 0.0, 0.01), (11.0, 0.5, 0.1), (12.0, -90.0, 0.3)):
        watch.ask_if_due(now)
        watch.take(ClockAnswer(ClockQuestion(now, now + error_s + offset_s), now + error_s + offset_s), now + 2 * error_s)
        assert watch.best is not None
        assert watch.best.offset_s == pytest.approx(-90.0 if now == 12.0 else 0.0, abs=0.001)
