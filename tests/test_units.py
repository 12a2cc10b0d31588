from __future__ import annotations

import ast
import math
import re
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop import units
from gputop.errors import UsageError
from gputop.sources.nvml import problems
from tests import REPOSITORY


@pytest.mark.parametrize(
    ("text", "seconds"), [("1", 1.0), ("500ms", 0.5), ("2s", 2.0), (" 1.5 s ", 1.5), ("5m", 300.0), ("1h", 3600.0)]
)
def test_lengths_of_time_are_read(text: str, seconds: float) -> None:
    assert units.parse_duration(text) == seconds


def test_memory_in_use_is_not_known_without_both_of_its_sizes() -> None:
    assert units.gib_of(12 * 2**30, 64 * 2**30) == "12/64 GiB"
    assert units.gib_of(None, 64 * 2**30) == units.gib_of(12 * 2**30, None) == units.gib_of(None, None) == "N/A"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "N/A"), (0.0, "0"), (0.4, "0.4"), (0.0423, "0.042"), (-0.4, "-0.4"), (7.25, "7.2"), (9.96, "10"), (9.94, "9.9")],
)
def test_a_small_number_is_not_rounded_to_nothing(value: float | None, text: str) -> None:
    assert units.rounded(value) == text
    assert (units.rounded(1839.6), units.rounded(math.inf), units.rounded(math.nan)) == ("1 840", "inf", "NaN")


@pytest.mark.parametrize("text", ["", "fast", "-1", "1 2", "5x", "nan", "1e3"])
def test_other_text_is_refused_with_advice(text: str) -> None:
    with pytest.raises(UsageError, match="Write it like"):
        units.parse_duration(text)


def test_unknown_is_named() -> None:
    for say in (
        units.bytes_text,
        units.gib,
        units.percent,
        units.number,
        units.metric,
        units.count,
        units.rate,
        units.duration,
    ):
        assert say(None) == "N/A"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "250 ms"), (3, "3s"), (192, "3m12s"), (7260, "2h01m"), (90000, "1d01h"), (0, "0s"), (math.inf, "N/A")],
)
def test_durations(seconds: float, text: str) -> None:
    assert units.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.4312345, "0.4312"), (1234.56, "1235"), (math.nan, "NaN"), (-math.inf, "-inf"), (1e-7, "1.00e-07"), (12345.6, "12346")],
)
def test_metrics(value: float, text: str) -> None:
    assert units.metric(value) == text


@given(st.floats())
def test_no_metric_is_wider_than_ten_cells(value: float) -> None:
    assert len(units.metric(value)) <= 10


@given(st.floats(min_value=0, max_value=1e15))
def test_sizes_stay_short(value: float) -> None:
    assert len(units.bytes_text(value)) <= 10


@pytest.mark.parametrize(
    ("numbers", "prose", "compact"),
    [
        ((), "", ""),
        ((3,), "3", "3"),
        ((0, 1), "0, 1", "0-1"),
        ((5, 0, 2, 1, 6, 1), "0-2, 5, 6", "0-2,5-6"),
        (range(8), "0-7", "0-7"),
    ],
)
def test_numbers_with_neighbors_joined(numbers: tuple[int, ...], prose: str, compact: str) -> None:
    assert (units.ranges(numbers), units.ranges(numbers, compact=True)) == (prose, compact)


def test_each_process_list_that_is_refused_names_its_gpus() -> None:
    assert "processes on GPU 3." in problems.processes_refused([3]).message
    assert "processes on GPUs 0-2, 5." in problems.processes_refused([0, 1, 2, 5]).message


def test_signals_have_linux_names() -> None:
    known = {number: number.name for number in signal.Signals if number < signal.SIGRTMIN}
    assert {number: units.signal_name(number) for number in known} == known
    assert [units.signal_name(number) for number in (0, 32, 40)] == ["signal 0", "signal 32", "signal 40"]


def test_texts_write_percent_without_a_space() -> None:
    """As ``units.percent`` does: one form on screens, in findings and in documents."""
    pages = [REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("*.md")]
    wrong = [str(page) for page in pages if re.search(r"\d %(?!\w)", page.read_text())]
    for module in (REPOSITORY / "gputop").rglob("*.py"):
        source = module.read_text()
        for node in ast.walk(ast.parse(source)) if re.search(r" %(?!\w)", source) else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"(^|\d) %(?!\w)", node.value):
                wrong.append(f"{module}:{node.lineno}")
    assert not wrong


def test_little_memory_is_not_nothing() -> None:
    assert [units.gib_or_mib(value) for value in (None, 0, 19 << 20, 1 << 30)] == [units.UNKNOWN, "0M", "19M", "1.0G"]


def test_joined_numbers_may_have_another_form() -> None:
    assert units.ranges((12_000, 12_001, 12_002, 14_000), form=units.count) == "12 000-12 002, 14 000"
