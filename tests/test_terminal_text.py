"""Stripping terminal escapes: one result for every reader of a log, and nothing left that a terminal would obey."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.doctor.logs.lines import clean
from gputop.jobs.output.logs import clean_line
from gputop.terminal_text import keep_colors, printable, strip_controls, strip_escapes
from gputop.tracking.printed.transcript import Transcript

LOSS = "step 3 loss: 0.25"
# Pieces that programs really write, whole and cut off, between text and line ends.
ESCAPES = (
    "\x1b[0m",
    "\x1b[1;38;5;12m",
    "\x1b[?25l",
    "\x1b[2 q",
    "\x1b[3",
    "\x1b]0;epoch 1 loss: 9.9\x07",
    "\x1b]8;;file:///tmp/x\x1b\\",
    "\x1b]133;A\x9c",
    "\x1b]0;loss: 9.9\x18",
    "\x1bPq#0;2;0;0;0\x1b\\",
    "\x1bPtmux;\x1b\x1b]0;loss: 9.9\x07\x1b\\",
    "\x1b_Gi=1;loss: 9.9\x1b\\",
    "\x1b^loss: 9.9\x1b\\",
    "\x1bXloss: 9.9\x1b\\",
    "\x1b(B",
    "\x1b7",
    "\x1b",
    "\x9b",
)
WHOLE = tuple(escape for escape in ESCAPES if escape not in ("\x1b[3", "\x1b"))
MIXED = st.lists(st.one_of(st.sampled_from([*ESCAPES, "\n", "\r", "\t", "\u202e", "text"]), st.text(max_size=8))).map("".join)


def loss_in(text: str) -> list[tuple[int, dict[str, float]]]:
    transcript = Transcript()
    return [*transcript.feed(text.encode()), *transcript.end()]


@pytest.mark.parametrize("escape", WHOLE, ids=ascii)
def test_every_reader_of_a_log_sees_the_same_text(escape: str) -> None:
    line = f"{escape}{LOSS}{escape}"
    assert clean_line(line.encode()) == LOSS
    assert clean(line.encode()) == LOSS
    assert loss_in(line) == [(3, {"loss": 0.25})]


@pytest.mark.parametrize("escape", ESCAPES, ids=ascii)
def test_an_escape_is_removed_whole(escape: str) -> None:
    assert strip_escapes(f"before\t{escape}") == "before\t"
    assert strip_escapes(f"before {escape}\nafter\r\n") == "before \nafter\r\n"


def test_a_string_without_its_end_takes_the_rest_of_its_line_only() -> None:
    assert strip_escapes("a\x1b]0;never ended\nb\x1bPnor this\rc") == "a\nb\rc"


def test_twice_encoded_quotes_do_not_swallow_a_line() -> None:
    twice = "“CUDA error”: out of memory".encode().decode("latin-1")
    assert strip_escapes(twice).endswith(": out of memory"), "U+009D is not read as the beginning of a command"


@given(MIXED)
def test_no_escape_survives(text: str) -> None:
    assert not re.search(r"[\x1b\x80-\x9f]", strip_escapes(text))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", strip_controls(text))
    assert not re.search("[\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]", strip_controls(text))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", re.sub(r"\x1b\[[0-9;]*m", "", keep_colors(text)))
    assert printable(text).isprintable()
    assert len(printable(text)) == len(text)


@given(st.text(st.characters(exclude_characters="\x1b", exclude_categories=["Cc"]) | st.sampled_from("\t\n")))
def test_text_without_escapes_is_unchanged(text: str) -> None:
    assert strip_escapes(text) == text
    assert strip_controls(text) == text


@given(MIXED, MIXED, st.sampled_from("\r\n"))
def test_stripping_line_by_line_gives_what_stripping_all_at_once_gives(first: str, second: str, end: str) -> None:
    for strip in (strip_escapes, strip_controls):
        assert strip(first) + strip(end) + strip(second) == strip(first + end + second)


@given(MIXED)
def test_escapes_are_stripped(text: str) -> None:
    assert strip_escapes(strip_escapes(text)) == strip_escapes(text)
