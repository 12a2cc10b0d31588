"""The text table, and that everything outside the screens uses it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gputop
from gputop.terminal_text import columns, table


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table(("RUN", "STATE", "LOSS"), [("a", "running", "0.5"), ("longer", "ok", "")]) == [
        "RUN     STATE    LOSS",
        "a       running  0.5",
        "longer  ok",
    ]


def test_a_heading_alone() -> None:
    assert table(("RUN", "STATE"), []) == ["RUN  STATE"]


def test_a_row_with_a_cell_too_few_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        table(("RUN", "STATE"), [("a",)])


def test_columns_of_numbers_are_aligned_to_the_right() -> None:
    rows = [("20.0 ms", "8x", "mm"), ("1.5 s", "12x", "t")]
    assert columns(rows, right=(0, 1)) == ["20.0 ms   8x  mm", "  1.5 s  12x  t"]
    assert columns([]) == []


def test_a_cell_cannot_control_the_terminal() -> None:
    assert "\x1b" not in "".join(columns([("\x1b[2J", "x")]))


def test_nothing_else_pads_columns_of_text() -> None:
    padding = re.compile(r"\.[lr]just\b|:[<>]\{")
    package = Path(gputop.__file__).parent
    modules = {path.relative_to(package).as_posix(): path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    found = {name for name, source in modules.items() if not name.startswith(("tui/", "_demos/")) and padding.search(source)}
    others = {
        "jobs/record.py",  # a record of a fixed size in a file
        "jobs/log_file.py",  # a first line of a fixed size in a file
        "doctor/report.py",  # paragraphs that hang behind a name
        "doctor/textbook.py",  # titles that hang behind an id
        "cli/selftest.py",  # each line is printed once it is known
        "cli/doctor/progress.py",  # one line of progress, overwritten
    }
    assert found - others == {"terminal_text.py"}
