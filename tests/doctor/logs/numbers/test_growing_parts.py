"""A part of each iteration that takes ever longer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gputop.doctor.findings.finding import Finding
from tests.doctor.logs.numbers.logs import found

Course = Callable[[int], float]


def grows(
    tmp_path: Path, part: Course, other: Course = lambda at: 70.0, name: str = "train", number: int = 40
) -> Finding | None:
    lines = [
        f"it {at:3d} games 64 | update  {other(at) + at % 3:.1f}s | {name} {part(at):6.1f}s | loss {5 / (at + 1):.3f} win 0.57"
        for at in range(number)
    ]
    return found(tmp_path, lines, "E10")


def test_it_is_named_with_those_that_stay(tmp_path: Path) -> None:
    finding = grows(tmp_path, lambda at: 20.0 + 4 * at)
    assert finding is not None
    assert (finding.confidence, finding.title) == ("likely", "train takes ever longer: 4.2 times as long as at first")
    assert [fact.text for fact in finding.evidence] == ["38 at first, 158 now, by 40 lines", "update takes as long as before"]


def test_less_growth_and_plays_are_only_possible(tmp_path: Path) -> None:
    slower = grows(tmp_path, lambda at: 40.0 + 2 * at)
    longer = grows(tmp_path, lambda at: 20.0 + 4 * at, name="episodes")
    assert slower is not None
    assert longer is not None
    assert (slower.confidence, longer.confidence) == ("possible", "possible")


@pytest.mark.parametrize(
    ("part", "other", "name", "number"),
    [
        (lambda at: 20.0 + 4 * at, lambda at: 70.0, "train", 11),
        (lambda at: 20.0 + 4 * at, lambda at: 20.0 + 3 * at, "train", 40),
        (lambda at: 20.0 + 4 * at, lambda at: 70.0, "elapsed", 40),
        (lambda at: 20.0 + 4 * at, lambda at: 70.0, "rollout", 40),
        (lambda at: 20.0 if at < 20 else 80.0, lambda at: 70.0, "train", 40),
        (lambda at: 20.0 + 0.3 * at, lambda at: 70.0, "train", 40),
        (lambda at: 1.0 + 0.2 * at, lambda at: 70.0, "train", 40),
    ],
    ids=["few", "all grow", "a clock", "a schedule", "once", "a little", "a small part"],
)
def test_look_alikes(part: Course, other: Course, name: str, number: int, tmp_path: Path) -> None:
    assert grows(tmp_path, part, other, name, number) is None
