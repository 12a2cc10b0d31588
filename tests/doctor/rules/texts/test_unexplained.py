"""A run that failed with an exception that no pattern knows: the journal's words, for as long as anybody asks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.doctor.diagnosis import Doctor
from gputop.doctor.findings.finding import Finding
from gputop.snapshot import Run
from tests import samples
from tests.doctor.scenes.base import gpus
from tests.samples import EPOCH

ODD = {"error": {"type": "shards.TokenBudgetExceeded", "message": "shard 17 has 12 tokens more", "where": "train.py:5"}}
CLOSED = {"error": {"type": "RuntimeError", "message": "Connection closed by peer [127.0.0.1]:22467", "where": "train.py:60"}}
COMMAND = ("python", "train.py")


def failed_run(*facts: dict, state: str = "failed", begun: float = 0.0, ended: float = 100.0, name: str = "run-1") -> Run:
    base = samples.run(len(facts), state=state, job_id=None)
    ranks = tuple(
        replace(rank, state=state, facts=fact, last_log_at=EPOCH + ended - number, exit_code=1)
        for number, (rank, fact) in enumerate(zip(base.ranks, facts, strict=True))
    )
    ended_at = None if state == "running" else EPOCH + ended
    return replace(base, run_id=name, name=name, ranks=ranks, command=COMMAND, created_at=EPOCH + begun, ended_at=ended_at)


def said(*runs: Run, at: float = 110.0) -> list[Finding]:
    shot = samples.snapshot(0, devices=gpus([], 2), processes=(), runs=runs, points=())
    return [item for item in Doctor().observe(replace(shot, time=EPOCH + at)) if item.id == "exception"]


def test_it_is_shown_with_its_place_and_the_command_to_repeat() -> None:
    (finding,) = said(failed_run(ODD))
    assert (finding.severity, finding.confidence) == ("error", "certain")
    assert finding.title == "run-1 failed with TokenBudgetExceeded at train.py:5"
    assert finding.evidence[0].text == "shards.TokenBudgetExceeded: shard 17 has 12 tokens more"
    assert finding.fix == "# read train.py:5, and the output before the error\npython train.py"
    assert finding.run == "run-1"


def test_of_several_ranks_the_one_whose_text_follows_from_no_other_is_named() -> None:
    """Rank 0 lost its peer, and its record is the older one."""
    (finding,) = said(failed_run(CLOSED, ODD))
    assert finding.title == "run-1: rank 1 failed with TokenBudgetExceeded at train.py:5"


@pytest.mark.parametrize(
    ("runs", "at"),
    [
        ((failed_run(ODD), failed_run({}, state="running", begun=105.0, name="run-2")), 110.0),
        ((failed_run(ODD), failed_run({}, state="finished", begun=105.0, name="run-2")), 110.0),
        ((failed_run(ODD),), 100.0 + 3700.0),
        ((failed_run(ODD, state="finished"),), 110.0),
        ((failed_run(ODD, state="running"),), 110.0),
    ],
    ids=["its command runs again", "its command ran well since", "it ended an hour ago", "it ended well", "it is alive"],
)
def test_an_old_error_or_one_that_ended_nothing_is_not_shown(runs: tuple[Run, ...], at: float) -> None:
    assert said(*runs, at=at) == []


def test_another_command_of_the_same_time_does_not_hide_it() -> None:
    other = replace(failed_run({}, state="running", begun=105.0, name="run-2"), command=("python", "other.py"))
    assert len(said(failed_run(ODD), other)) == 1
