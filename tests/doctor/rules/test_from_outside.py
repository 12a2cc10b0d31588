"""What main threads wait for, and steps that are only printed: slow data, a slow rank and hangs of untracked runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.snapshot import Snapshot, Workers
from tests.doctor.scenes import outside as scenes
from tests.doctor.scenes.base import Scene, play
from tests.samples import EPOCH


def told(scene: Scene, rule: str, seconds: int) -> Finding | None:
    return next((item for item in play(scene, seconds)[-1] if item.id == rule), None)


@pytest.mark.parametrize("scene", [scenes.sleeps, scenes.reads_sockets], ids=["sleeps", "reads sockets"])
def test_a_training_process_that_waits_most_of_the_time_may_wait_for_data(scene: Scene) -> None:
    finding = told(scene, "D01", 60)
    assert finding is not None
    assert finding.confidence == "possible"
    assert finding.evidence[0].source == "/proc/4000/syscall"
    assert finding.evidence[0].value == pytest.approx(2 / 3, abs=0.05)


def test_a_wait_for_workers_counts_only_if_there_are_some() -> None:
    assert told(scenes.waits_for_workers, "D01", 60) is None

    def with_workers(second: int) -> Snapshot:
        base = scenes.waits_for_workers(second)
        (process,) = base.processes
        return replace(base, processes=(replace(process, workers=Workers(2, 190.0)),))

    finding = told(with_workers, "D01", 60)
    assert finding is not None
    assert "workers" in finding.cause


@pytest.mark.parametrize(
    "scene",
    [
        scenes.computes,
        scenes.waits_for_threads,
        scenes.plays,
        scenes.serves,
        scenes.sleeps_and_prints_nothing,
        scenes.one_sleeps,
        scenes.pipeline,
    ],
    ids=["computes", "waits for threads", "plays", "serves", "prints nothing", "one of two", "pipeline"],
)
def test_other_main_threads_do_not_wait_for_data(scene: Scene) -> None:
    assert told(scene, "D01", 60) is None


def test_the_one_rank_that_waits_while_the_others_wait_for_it_is_named() -> None:
    finding = told(scenes.one_sleeps, "F01", 60)
    assert finding is not None
    assert (finding.confidence, finding.title) == ("possible", "All ranks may wait for rank 1, which waits for its data")
    assert told(scenes.one_sleeps, "F01", 14) is None, "too few looks"


@pytest.mark.parametrize(
    "scene",
    [scenes.both_sleep, scenes.pipeline, scenes.server_of_parameters, scenes.computes],
    ids=["both", "pipeline", "a server of parameters", "one process"],
)
def test_no_rank_is_named_if_none_waits_alone(scene: Scene) -> None:
    assert told(scene, "F01", 60) is None


def test_ranks_that_all_wait_and_log_no_step_any_more_hang() -> None:
    said = [next((item for item in found if item.id == "G01"), None) for found in play(scenes.hangs, 130)]
    first = next(second for second, item in enumerate(said) if item is not None)
    assert 40 + 15 <= first <= 40 + 25
    assert said[first].confidence == "possible"
    assert said[-1].confidence == "likely"
    assert any("no step has been logged for" in fact.text for fact in said[-1].evidence)


def test_without_steps_a_hang_takes_longer_and_stays_possible() -> None:
    said = [next((item for item in found if item.id == "G01"), None) for found in play(scenes.hangs_and_prints_nothing, 130)]
    first = next(second for second, item in enumerate(said) if item is not None)
    assert 40 + 30 <= first <= 40 + 45
    assert {item.confidence for item in said if item is not None} == {"possible"}


def test_ranks_that_pause_again_and_again_do_not_hang() -> None:
    assert all(not found for found in play(scenes.pauses, 200))


def test_a_rank_that_does_something_else_while_the_others_wait_for_it_is_named() -> None:
    finding = told(scenes.one_left, "G01", 90)
    assert finding is not None
    assert (finding.confidence, finding.title) == (
        "possible",
        "The training may hang: rank 0 waits, and rank 1 does something else",
    )
    assert finding.pids[0] == 4001


def test_a_rank_that_works_between_steps_that_are_logged_seldom_is_left_alone() -> None:
    assert told(scenes.logs_seldom, "G01", 130) is None


def test_the_one_rank_that_computes_while_the_others_wait_for_it_is_named() -> None:
    finding = told(scenes.one_computes, "F05", 60)
    assert finding is not None
    assert (finding.confidence, finding.title) == ("possible", "All ranks may wait for rank 0, which does more in each step")
    for scene in (scenes.pipeline, scenes.server_of_parameters, scenes.one_sleeps, scenes.computes):
        assert told(scene, "F05", 60) is None


def test_a_rank_that_has_waited_since_it_connected_is_named_while_the_others_train() -> None:
    finding = told(scenes.idle_rank, "G01", 90)
    assert finding is not None
    assert finding.confidence == "possible"
    assert finding.title == "Rank 1 may hang: no CPU used for 40 s, while the others work"
    assert finding.pids == (4001,)
    assert told(scenes.serves_weights, "G01", 90) is None
    assert told(scenes.one_computes, "G01", 90) is None


def test_ranks_that_wait_in_a_barrier_while_rank_0_prepares_the_data_do_not_hang() -> None:
    for seconds in (60, 100):
        assert told(scenes.prepares_data, "G01", seconds) is None
    assert told(scenes.prepares_data_and_prints, "G01", 100) is None, "values of before the last minute are no progress"


@pytest.mark.parametrize("name", sorted(scenes.BUSY_FOR_ALL))
def test_a_rank_that_works_for_all_is_named_only_after_minutes(name: str) -> None:
    said = [next((item for item in found if item.id == "G01"), None) for found in play(scenes.BUSY_FOR_ALL[name], 420)]
    first = next((second for second, item in enumerate(said) if item is not None), None)
    assert first is not None
    assert first >= 40 + 300
    assert said[first].confidence == "possible"


def test_a_short_sleep_of_a_rank_that_works_for_all_changes_nothing() -> None:
    assert told(scenes.evaluates_with_pauses, "G01", 250) is None


@pytest.mark.parametrize("name", sorted(scenes.ASLEEP))
def test_a_rank_that_sleeps_while_the_others_wait_for_it_is_named_at_once(name: str) -> None:
    said = [next((item for item in found if item.id == "G01"), None) for found in play(scenes.ASLEEP[name], 90)]
    assert next(second for second, item in enumerate(said) if item is not None) <= 40 + 30


def young(scene: Scene) -> Scene:
    """The same run, which has just begun and is connected to nothing."""

    def begun(second: int) -> Snapshot:
        base = scene(second)
        return replace(base, processes=tuple(replace(p, started_at=EPOCH, threads=()) for p in base.processes))

    return begun


def test_young_ranks_that_are_seen_to_run_do_not_wait_for_others() -> None:
    assert told(young(scenes.waits_for_files), "G03", 90) is None
    never = scenes.outside(scenes.always("socket"), scenes.always("socket"), printed=False, percent=lambda number, second: 1.0)
    assert told(young(never), "G03", 90) is not None
    logs = scenes.outside(scenes.always("socket"), scenes.always("socket"), percent=lambda number, second: 1.0)
    assert told(young(logs), "G03", 90) is None, "its output shows steps"
