"""How a step's time is spent, in words, and why: by the doctor's finding, else by the shares."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.snapshot import Run
from gputop.tui.drawing.line import plain
from gputop.tui.drawing.run_panel import step_shares
from gputop.tui.drawing.runs.why_slow import step_words
from tests import samples

BALANCED = {"step_s": 0.1, "phase/data": 0.001, "phase/forward": 0.03, "phase/backward": 0.06, "phase/optimizer": 0.006}


def run_of(*changes: dict[str, float]) -> Run:
    run = samples.run(len(changes))
    ranks = (replace(rank, metrics={**BALANCED, **change}) for rank, change in zip(run.ranks, changes, strict=True))
    return replace(run, ranks=tuple(ranks))


def words(run: Run, cells: int = 200, *findings: Finding) -> str:
    return plain(step_words(run, step_shares(run), findings, cells))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([{}], "data 1%  forward 30%  backward 60%  optimizer 6%   it computes: the backward pass takes most"),
        (
            [{"phase/data": 0.04, "phase/forward": 0.02, "phase/backward": 0.03}],
            "data 40%  forward 20%  backward 30%  optimizer 6%   it waits for data",
        ),
        (
            [{"phase/communication": 0.04}, {"phase/communication": 0.04}, {"phase/communication": 0.001}],
            "data 1%  forward 30%  backward 33%  waiting for rank 2 27%  optimizer 6%   2 ranks wait for rank 2",
        ),
        (
            [{"phase/communication": 0.04}] * 2,
            "data 1%  forward 30%  backward 20%  waiting for ranks 40%  optimizer 6%   ranks wait for one another",
        ),
        (
            [{"step_s": 0.4}],
            "data 0%  forward 8%  backward 15%  optimizer 2%  not measured 76%",
        ),
    ],
)
def test_each_cause_is_named(changes: list[dict[str, float]], said: str) -> None:
    assert words(run_of(*changes)) == said


def test_what_does_not_fit_is_shortened_but_not_the_reason() -> None:
    run = run_of({"phase/data": 0.04, "phase/forward": 0.02, "phase/backward": 0.03})
    assert words(run, 68) == "data 40%  fwd 20%  bwd 30%  opt 6%   it waits for data"


def test_the_largest_phase_makes_room_for_its_parts() -> None:
    run = run_of({"phase/communication": 0.01})
    parts = "data 1%  fwd 30%  bwd 50%  wait 10%  opt 6%"
    assert words(run, 90) == f"{parts}   it computes: the backward pass takes most"
    assert words(run, 70) == parts


def test_the_doctors_finding_about_this_run_comes_first() -> None:
    run = run_of({})
    slow = Finding("E10", "warning", "likely", "The run slows down", (), "cause", "fix", run=run.run_id)
    assert words(run, 200, slow).endswith("optimizer 6%   The run slows down")
    for other in (replace(slow, run="another"), replace(slow, id="J02")):
        assert "The run slows down" not in words(run, 200, other)
