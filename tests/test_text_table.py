"""The table of the commands, and that all of them use it."""

from __future__ import annotations

from pathlib import Path

import pytest

import gputop.cli
from gputop.cli.output.table import table


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


def test_no_command_pads_columns_by_itself() -> None:
    modules = sorted(Path(gputop.cli.__file__).parent.rglob("*.py"))
    assert [module.name for module in modules if ".ljust" in module.read_text(encoding="utf-8")] == ["table.py"]
