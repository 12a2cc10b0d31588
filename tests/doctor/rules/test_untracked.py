"""Runs that gputop did not start: each rule whose evidence is there judges them, none says what only a journal can say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.doctor.diagnosis import Doctor
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.report import text_report
from gputop.doctor.rulebook import explanation
from gputop.doctor.rules import BY_ID, RULES
from gputop.snapshot import LogMatch, Snapshot
from gputop.untracked.found import process_runs
from tests.doctor.scenes import hangs, hardware, loading, outside, pace, placement
from tests.doctor.scenes.base import Scene, ids, not_tracked, play

JUDGED: dict[str, tuple[str, Scene, int]] = {
    "placement": ("A07", placement.ranks_on_gpu_0, 20),
    "few ranks": ("A02", placement.two_of_eight, 20),
    "throttled": ("I01", hardware.hot, 25),
    "starved of cores": ("D02", pace.quota, 40),
    "suspended": ("G01", hangs.suspended_alone, 20),
    "still": ("G01", hangs.waits_for_an_idle_rank, 110),
    "in bursts": ("D01", loading.bursts_without_workers, 90),
}


@pytest.mark.parametrize("name", JUDGED)
def test_what_is_visible_from_outside_is_judged(name: str) -> None:
    rule, scene, seconds = JUDGED[name]
    assert rule in ids(play(not_tracked(scene), seconds)[-1])
    assert BY_ID[rule].without_tracking != "none"


def test_workers_that_take_turns_do_not_matter_while_no_gpu_waits() -> None:
    assert ids(play(not_tracked(loading.pressed_and_in_time), 40)[-1]) == []


def test_the_output_of_an_untracked_run_counts_as_that_of_a_job_does() -> None:
    """Where it goes to a file or a pane, the sampler follows it, and its texts have the id of the run's curve."""
    evidence, shot = Evidence(), outside.hangs(20)
    text = LogMatch("coll_mismatch", None, "Detected mismatch between collectives on ranks", run_id=shot.runs[0].run_id)
    evidence.observe(replace(shot, logs=(text, replace(text, run_id="another"))))
    (group,) = evidence.groups
    assert evidence.logs(group) == (text,)


def snapshot_of(scene: Scene, second: int) -> Snapshot:
    base = not_tracked(scene)(second)
    return replace(base, process_runs=process_runs(base.processes))


def test_the_report_says_what_is_not_tracked_and_never_that_nothing_runs() -> None:
    doctor = Doctor()
    for second in range(20):
        snapshot = snapshot_of(loading.untracked_ranks, second)
        doctor.observe(snapshot)
    text = " ".join(text_report((), doctor.abstained, snapshot).split())
    assert "0 tracked runs, 1 run not tracked." in text
    missing = sum(rule.without_tracking == "none" for rule in RULES)
    assert f"Not tracked: train.py. For such runs, {missing} of {len(RULES)} rules have no evidence" in text
    assert "gputop run -- CMD" in text
    assert "Not tracked" not in text_report((), (), replace(snapshot, process_runs=()))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("A07", "Nothing is missing."),
        ("B01", "Known: /proc: variables. Missing: journal: data_parallel."),
        ("B03", "Not judged."),
        ("E02", "Known: NVML; CPU time of the main thread. Missing: journal: step_s, phase/data."),
        ("C08", "Known: NCCL RAS; the run's output. Missing: journal: stalled."),
        ("A08", "Known: the run's output; RANK, LOCAL_RANK. Missing: journal: the exception."),
        ("D10", "Missing: journal: phase/data."),
    ],
)
def test_each_rule_says_what_it_knows_without_tracking(rule: str, words: str) -> None:
    assert words in " ".join(explanation(BY_ID[rule]).split("Without tracking")[1].split())
