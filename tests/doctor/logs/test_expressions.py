"""No expression over a line of a log takes time with the square of its length: judged by its form, not by the clock."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

from gputop.doctor import logs
from gputop.doctor.logs import after, leads, lines
from gputop.doctor.logs.patterns.table import PATTERNS
from gputop.doctor.logs.quoted import written_samples
from gputop.jobs.output import printed_log
from tests.doctor.logs.backtracking import quadratic

NAMES = [item.name for item in pkgutil.walk_packages(logs.__path__, f"{logs.__name__}.")]
MODULES = (printed_log, *map(importlib.import_module, NAMES))
OVER_BLOCKS = (written_samples._BEGUN, written_samples._MARKED)
"""These read a bounded number of lines and bytes."""
EXPRESSIONS = {
    f"{module.__name__.removeprefix('gputop.')}.{name}": found
    for module in MODULES
    for name, found in vars(module).items()
    if isinstance(found, re.Pattern) and found not in OVER_BLOCKS
}
MATCHED = (after._OWN_WORDS, lines._ANEW)
"""Those that are tried at a line's first character only."""


def test_no_known_text_is_quadratic_in_the_length_of_a_line() -> None:
    assert {pattern.expression: found for pattern in PATTERNS if (found := quadratic(pattern.expression)) is not None} == {}


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_no_other_expression_over_lines_is_quadratic(expression: re.Pattern[str] | re.Pattern[bytes]) -> None:
    text = expression.pattern if isinstance(expression.pattern, str) else expression.pattern.decode("latin-1")
    assert quadratic(f"^(?:{text})" if expression in MATCHED else text) is None


@pytest.mark.parametrize(
    "lead",
    [
        "2026-06-11 10:00:12,001 ERROR api: ",
        "[2026-06-11T10:00:12.5Z] [rank 3] ",
        "1-2x3-4y5-6z7-8: ",
        "1-2--3-4--5-6--7-8 ",
        "1-2Z53-4Z55-6Z57-8 ",
        "10:00/a/10:00/b/10:00/c/",
    ],
)
def test_no_pattern_learned_from_a_log_is_quadratic(lead: str) -> None:
    learned = leads.Leads()
    found = learned.learn(f"{lead}Traceback (most recent call last):", f'{lead}  File "/a/train.py", line 3, in main')
    assert found is not None
    assert quadratic(f"^(?:{found[0]})") is None
    assert learned.strip(f"{lead}KeyError: 3") == (found[0], "KeyError: 3")


def test_the_times_in_words_learned_from_a_log_differ_from_line_to_line() -> None:
    learned = leads.Leads()
    at = "2026-06-11 10:00:12,001 ERROR api: "
    assert learned.learn(f"{at}Traceback (most recent call last):", f'{at}  File "/a/train.py", line 3, in main') is not None
    for other in ("2026-06-12 11:59:00 ERROR api: ", "2026-06-12 11:59:00.123456Z ERROR api: "):
        line = f"{other}KeyError: 3"
        assert (learned.strip(line) or ("", ""))[1] == "KeyError: 3"
    line = "2026-06-11 10:00:12,001 INFO api: step 3"
    assert learned.strip(line) is None


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
