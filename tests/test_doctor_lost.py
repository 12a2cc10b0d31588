"""Ranks that end before the others: who is to blame, who waits, and who goes on."""

from __future__ import annotations

import pytest

from .doctor_scenes import Scene, check_first_verdict, first_seen, play, verdict
from .doctor_scenes_lost import (
    DIED_AT,
    FAULTS,
    HEALTHY,
    a_task_fails,
    a_task_is_killed,
    finished_early,
    leaves_and_others_wait,
    left_and_others_lost_it,
    left_by_exit,
    raises_and_others_wait,
)


@pytest.mark.parametrize(("rule", "name", "scene", "seconds"), FAULTS, ids=[row[1] for row in FAULTS])
def test_a_lost_rank_is_the_first_verdict(rule: str, name: str, scene: Scene, seconds: int) -> None:
    check_first_verdict(rule, scene, seconds)


@pytest.mark.parametrize(("name", "scene", "seconds"), HEALTHY, ids=[row[0] for row in HEALTHY])
def test_tasks_that_know_nothing_of_each_other_are_left_alone(name: str, scene: Scene, seconds: int) -> None:
    for second, found in enumerate(play(scene, seconds)):
        assert [(item.id, item.title) for item in found if item.confidence != "possible"] == [], second


@pytest.mark.parametrize("scene", [a_task_fails, a_task_is_killed])
def test_nobody_waits_for_a_task_of_a_sweep(scene: Scene) -> None:
    for found in play(scene, 60):
        assert all(item.severity == "info" and item.confidence != "certain" for item in found if item.id == "G04")
    finding = verdict(scene, 60)
    assert finding.title.endswith("the others go on without it")
    assert "ranks 0, 2 go on: steps come" in [fact.text for fact in finding.evidence]


def test_ranks_that_stand_still_are_said_to_wait() -> None:
    finding = verdict(leaves_and_others_wait, 40)
    assert finding.title == "Rank 1 failed (exit code 1), the others wait for it"
    assert (finding.severity, finding.confidence) == ("error", "certain")
    first = first_seen(play(leaves_and_others_wait, 40), "G04")
    assert first is not None
    assert first - DIED_AT <= 15


def test_the_fix_is_of_what_ended_the_rank() -> None:
    raised, left = verdict(raises_and_others_wait, 40).fix, verdict(leaves_and_others_wait, 40).fix
    assert raised.startswith("# mend train.py:12 first")
    assert "dmesg" not in raised + left
    assert "exit code 1" in left
    assert "dmesg" in verdict(a_task_is_killed, 40).fix


@pytest.mark.parametrize("scene", [left_by_exit, left_and_others_lost_it])
def test_the_rank_that_left_has_the_blame_and_not_those_that_its_launcher_ended(scene: Scene) -> None:
    finding = verdict(scene, 20)
    assert finding.title == "Rank 1 failed (exit code 1), and the run with it"
    assert "ranks 0, 2 ended after it: what they say follows from that" in [fact.text for fact in finding.evidence]


def test_a_rank_that_finished_before_the_others_is_named() -> None:
    finding = verdict(finished_early, 20)
    assert finding.title == "Rank 1 ended while the others trained, and they failed without it"
    assert (finding.severity, finding.confidence) == ("error", "likely")
