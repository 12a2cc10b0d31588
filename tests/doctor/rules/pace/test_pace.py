"""Input pipeline, cores, stragglers, hangs and lost ranks: each fault first, its look-alikes left alone."""

from __future__ import annotations

import re

import pytest

from tests.doctor.scenes import by_hand, loading, own_work
from tests.doctor.scenes.base import Scene, check_first_verdict, ids, play, verdict
from tests.doctor.scenes.near import rounds as near_rounds
from tests.doctor.scenes.pace import (
    FAULTS,
    HEALTHY,
    LOOK_ALIKES,
    all_dead,
    calm_rank,
    crowded_rank,
    crowded_rank_that_does_more,
    crowded_rank_with_slow_kernels,
    jitter_under_pressure,
    loader_bound,
    never_come,
    of_two_one_waits,
    one_core,
    one_dead,
    one_waits,
    rank_0_draws,
    rank_3_reads_by_hand,
    slow_data,
    slow_gpu,
    slow_virtual_gpu,
    slow_virtual_gpu_under_pressure,
    spiky_loader,
    suspended,
    virtual_jitter,
)

ALIKE = LOOK_ALIKES + own_work.LOOK_ALIKES + loading.LOOK_ALIKES


@pytest.mark.parametrize(("rule", "name", "scene", "seconds"), FAULTS, ids=[f"{row[0]}-{row[1]}" for row in FAULTS])
def test_a_fault_is_the_first_verdict(rule: str, name: str, scene: Scene, seconds: int) -> None:
    check_first_verdict(rule, scene, seconds)


@pytest.mark.parametrize(("rule", "name", "scene", "seconds"), ALIKE, ids=[f"{row[0]}-{row[1]}" for row in ALIKE])
def test_a_look_alike_is_left_alone(rule: str, name: str, scene: Scene, seconds: int) -> None:
    assert all(rule not in ids(found) for found in play(scene, seconds))


@pytest.mark.parametrize(("rule", "name", "scene", "seconds"), own_work.POSSIBLE, ids=[row[1] for row in own_work.POSSIBLE])
def test_what_may_be_intentional_is_only_possible(rule: str, name: str, scene: Scene, seconds: int) -> None:
    said = play(scene, seconds)
    assert {(finding.id, finding.confidence) for found in said for finding in found} == {(rule, "possible")}
    assert said[-1][0].title.endswith(" while nothing trains")


@pytest.mark.parametrize(("rule", "name", "scene", "seconds"), loading.POSSIBLE, ids=[row[1] for row in loading.POSSIBLE])
def test_a_main_thread_that_hardly_trains_may_prepare_the_data(rule: str, name: str, scene: Scene, seconds: int) -> None:
    finding = play(scene, seconds)[-1][0]
    assert (finding.id, finding.confidence) == (rule, "possible")
    assert "its backward threads use 2% at most" in [fact.text for fact in finding.evidence]


@pytest.mark.parametrize(("name", "scene"), own_work.PAUSES, ids=[row[0] for row in own_work.PAUSES])
def test_pauses_between_steps_are_named_by_the_function_that_stacks_show(name: str, scene: Scene) -> None:
    (finding,) = play(scene, 120)[-1]
    assert (finding.id, finding.confidence) == ("E07", "possible")
    assert re.fullmatch(r"Metrics take (4|5)\d% of the time", finding.title)
    assert "mostly at wer.py:12 in beam_search" in finding.evidence[0].text


@pytest.mark.parametrize(("name", "scene"), own_work.NO_PAUSES, ids=[row[0] for row in own_work.NO_PAUSES])
def test_what_is_no_pause_is_left_alone(name: str, scene: Scene) -> None:
    assert not any(ids(found) for found in play(scene, 90))


def test_the_line_between_the_phases_is_named_where_the_script_was_mostly_seen_there() -> None:
    unseen, seen = verdict(own_work.prepares_between_steps), verdict(own_work.measures_between_steps)
    assert unseen.title == "73% of each step passes in the script's own code while nothing trains"
    assert seen.title == "69% of each step passes mostly in auc_of_everything (train.py:57) while nothing trains"
    assert "in 9 of 15 looks at its stack, it was in auc_of_everything, mostly at train.py:57" in [
        f.text for f in seen.evidence
    ]
    assert "train.py:57" in seen.fix
    assert "DataLoader" not in " ".join([seen.fix, *(fact.text for fact in seen.evidence)]), "its loader is quick"
    apart = [[3, "train.py:57", "f"], [3, "train.py:60", "g"]]
    scattered = verdict(lambda second: own_work.measures_between_steps(second, lines=apart))
    assert scattered.title == "69% of each step passes in the script's own code while nothing trains"


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ([[3, "a.py:7", "auc"], [3, "a.py:9", "auc"], [1, "a.py:30", "main"]], "mostly in auc (a.py:7)"),
        ([[7, "a.py:7", "<module>"], [1, "a.py:9", "<module>"]], "mostly at a.py:7"),
        ([[3, "a.py:7", "<module>"], [3, "a.py:9", "<module>"]], "in the script's own code"),
    ],
)
def test_lines_count_together_in_a_function_and_not_in_a_script(lines: list[list[object]], place: str) -> None:
    finding = verdict(lambda second: own_work.measures_between_steps(second, lines=lines))
    assert finding.title == f"69% of each step passes {place} while nothing trains"


@pytest.mark.parametrize(
    ("rule", "name", "scene", "seconds"), near_rounds.POSSIBLE, ids=[row[1] for row in near_rounds.POSSIBLE]
)
def test_a_rank_may_wait_between_two_exchanges(rule: str, name: str, scene: Scene, seconds: int) -> None:
    """Federated learning may mean it so; what it is not: something of its own that stalls the loop (E07)."""
    said = play(scene, seconds)
    assert {(finding.id, finding.confidence) for found in said for finding in found} == {(rule, "possible")}
    assert said[-1][0].title.startswith("Rank 0 waits for rank 1, which")
    assert said[-1][0].title.endswith("82% of the time")


@pytest.mark.parametrize("scene", [near_rounds.exchange_takes_long, near_rounds.apart], ids=["all stop", "no exchange"])
def test_ranks_that_stop_together_or_exchange_nothing_wait_for_none(scene: Scene) -> None:
    assert all({"F02", "F03"}.isdisjoint(ids(found)) for found in play(scene, 60))


@pytest.mark.parametrize(("name", "scene", "seconds"), HEALTHY, ids=[row[0] for row in HEALTHY])
def test_a_healthy_run_has_no_finding_above_possible(name: str, scene: Scene, seconds: int) -> None:
    for second, found in enumerate(play(scene, seconds)):
        assert [f.id for f in found if f.confidence != "possible"] == [], second


def test_the_culprit_is_the_rank_that_does_not_wait() -> None:
    finding = verdict(slow_data)
    assert finding.title == "All ranks wait for rank 1, which waits for its data"
    assert finding.pids == (4001,)
    assert "80%" in finding.evidence[0].text
    assert "50.2 ms longer" in finding.evidence[1].text
    assert verdict(slow_gpu).title.startswith("All ranks wait for rank 2")
    assert verdict(rank_0_draws).title.startswith("All ranks wait for rank 0")
    assert verdict(rank_3_reads_by_hand).title == "All ranks wait for rank 3, which does more between the steps"


def test_the_share_of_data_is_of_sums_and_names_the_loader() -> None:
    finding = verdict(loader_bound, 40)
    assert "48%" in finding.title
    assert finding.severity == "error"
    assert any("num_workers=0" in fact.text for fact in finding.evidence)
    assert "num_workers=" in finding.fix
    assert "32%" in verdict(spiky_loader, 40).title


def test_pinned_workers_hide_that_the_loader_is_slow() -> None:
    said = play(one_core, 40)[-1]
    assert ids(said)[0] == "D03"
    assert "D01" not in ids(said)
    assert "sched_setaffinity" in said[0].fix


def test_a_hang_names_the_rank_that_is_somewhere_else() -> None:
    for scene in (one_waits, of_two_one_waits):
        finding = verdict(scene, 20)
        assert finding.title == "The training hangs: all ranks wait for rank 1"
        assert finding.pids == (4001,)
        assert "py-spy dump --pid 4001" in finding.fix
        assert any("train.py:41 read_line" in fact.text for fact in finding.evidence)
    stopped = verdict(suspended, 20)
    assert (stopped.confidence, stopped.fix) == ("certain", "kill -CONT 4001")


def test_a_dead_rank_is_named_with_its_signal_and_hides_the_hang() -> None:
    said = play(one_dead, 20)[-1]
    assert said[0].title == "Rank 2 was ended by SIGKILL, the others wait for it"
    assert "G01" not in ids(said)
    assert verdict(all_dead, 20).title == "Rank 2 was ended by SIGKILL, and the run with it"


def test_ranks_that_never_came_are_counted() -> None:
    finding = verdict(never_come)
    assert finding.title == "Only 3 of 4 ranks run, and they wait for the others"
    assert finding.confidence == "certain"


def test_a_rank_whose_cores_others_take_is_no_slow_gpu() -> None:
    """On a crowded machine the longer times of one rank show who got less of the cores."""
    for scene in (crowded_rank, crowded_rank_that_does_more):
        findings = play(scene, 60)[-1]
        (found,) = findings
        assert found.confidence == "possible"
        assert "120 times a second" in " ".join(fact.text for fact in found.evidence)
        assert "other programs" in found.cause
        assert "nvidia-smi" not in found.fix


def test_a_rank_that_is_rarely_interrupted_is_slow_itself() -> None:
    assert verdict(calm_rank).confidence == "likely"
    assert verdict(calm_rank).id == "F02"


def test_a_gpu_that_is_seen_to_take_longer_is_slow_on_a_crowded_machine_too() -> None:
    found = verdict(crowded_rank_with_slow_kernels)
    assert (found.id, found.confidence) == ("F02", "likely")
    assert "nvidia-smi" in found.fix


def test_a_virtual_gpu_is_never_slow_as_a_card_is() -> None:
    found = verdict(slow_virtual_gpu)
    assert (found.id, found.confidence) == ("F02", "likely")
    assert "nvidia-smi" not in found.fix
    for word in ("hot", "clocked", "smaller card"):
        assert word not in found.cause
    pressed = play(slow_virtual_gpu_under_pressure, 60)[-1]
    assert [(item.id, item.confidence) for item in pressed] == [("F02", "possible")]


def test_who_is_late_on_the_cores_of_a_crowded_machine_says_little_about_a_run() -> None:
    """Cards are not its cores: there, other programs are what slows the ranks in turn."""
    crowded = lambda second: virtual_jitter(second, 85.0)  # noqa: E731
    said = [play(scene, 60)[-1][0] for scene in (crowded, virtual_jitter, jitter_under_pressure)]
    assert [(item.id, item.confidence) for item in said] == [("F04", "possible"), ("F04", "likely"), ("F04", "likely")]
    assert "processes waited for a core in 85% of the last 10 s" in [fact.text for fact in said[0].evidence]


def test_a_rank_that_takes_longer_is_named_where_gradients_are_averaged_by_hand() -> None:
    """The others wait between their backward pass and the step."""
    found = verdict(by_hand.longer_on_rank_1, 40)
    assert (found.id, found.confidence) == ("F02", "likely")
    assert "rank 1" in found.title
    assert any("time after the backward pass is 160.0 ms" in fact.text for fact in found.evidence)


@pytest.mark.parametrize(("name", "scene", "seconds"), by_hand.UNLIKE, ids=[row[0] for row in by_hand.UNLIKE])
def test_ranks_that_differ_by_design_are_no_stragglers(name: str, scene: Scene, seconds: int) -> None:
    assert not [item for found in play(scene, seconds) for item in ids(found) if item.startswith("F")]
