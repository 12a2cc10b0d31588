"""The line on the terminal that says what ``gputop doctor`` still waits for."""

from __future__ import annotations

import io
import sys

import pytest

from gputop.cli.doctor.progress import Progress
from gputop.doctor.findings.finding import Undecided
from gputop.doctor.watch import Outcome


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("needs_s", "words"),
    [
        ((None,), "Undecided: case 0"),
        ((None, 12.4), "Undecided: case 0, case 1 (12 s more at most)"),
        ((0.2,), "Undecided: case 0 (1 s more at most)"),
        ((), "Watching …"),
    ],
)
def test_a_time_is_named_only_where_one_is_known(
    monkeypatch: pytest.MonkeyPatch, needs_s: tuple[float | None, ...], words: str
) -> None:
    """What only a first step would decide has none."""
    terminal = Tty()
    monkeypatch.setattr(sys, "stderr", terminal)
    undecided = tuple(Undecided(None, f"case {number}", seconds) for number, seconds in enumerate(needs_s))
    Progress(as_json=False).see(Outcome((), None, undecided=undecided))
    assert terminal.getvalue().rpartition("\r")[2] == words
