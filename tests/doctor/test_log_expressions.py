"""No expression over a line of a log takes time with the square of its length: judged by its form, not by the clock."""

from __future__ import annotations

import re

import pytest

from gputop.doctor.logs import after, explain, heads, last_words, launcher, lines, scan, tracebacks
from gputop.doctor.logs.patterns.table import PATTERNS
from gputop.jobs.output import printed_log
from tests.doctor.backtracking import quadratic

SEARCHED = [
    getattr(module, name)
    for module in (after, explain, heads, last_words, launcher, lines, scan, tracebacks, printed_log)
    for name in vars(module)
    if isinstance(getattr(module, name), re.Pattern)
]
MATCHED = (
    *(after._NO_LINE_OF_ITS_OWN, after._OWN_WORDS, lines._ANEW),
    *(last_words._EXCEPTION, last_words._SAID),
)
"""Those that are tried at a line's first character only."""


def test_no_known_text_takes_the_square_of_a_line_to_search_for() -> None:
    assert {pattern.expression: found for pattern in PATTERNS if (found := quadratic(pattern.expression)) is not None} == {}


@pytest.mark.parametrize("expression", SEARCHED, ids=lambda expression: str(expression.pattern)[:30])
def test_no_other_expression_over_lines_does(expression: re.Pattern[str] | re.Pattern[bytes]) -> None:
    text = expression.pattern if isinstance(expression.pattern, str) else expression.pattern.decode("latin-1")
    assert quadratic(f"^(?:{text})" if expression in MATCHED else text) is None


@pytest.mark.parametrize(
    ("expression", "shared"),
    [
        (r"(\S+): error", "\x00"),
        (r"device .*?failed", "device \x00"),
        (r"gpu \d+ .*? [\d.]+ GiB", "gpu 0 \x00"),
        (r"^.*\w+!", "0"),
        (r"^(?:a|b+)+!", "b"),
        (r"^\s*(?:x|.*Error)", "\t"),
        (r"(?i)LOSS\w*=", "LOSS0"),
        (r"^(?!.*first .*second)", "first \x00"),
    ],
)
def test_repeats_that_can_share_characters_are_found(expression: str, shared: str) -> None:
    assert quadratic(expression) == shared


@pytest.mark.parametrize(
    "expression",
    [
        r"(?<!\S)(\S+): error",
        r"\b(\w+) failed",
        r"device .{0,80}failed",
        r"rank \d+ of \d+ ",
        r"^\S+: \d+ left",
        r"device (?P<rest>.*)",
        r"^(?!.*INFO).*connect",
    ],
)
def test_repeats_that_something_keeps_apart_are_not(expression: str) -> None:
    assert quadratic(expression) is None
