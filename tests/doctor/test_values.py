"""Values that no healthy run has (a loss of 1e200, NaN, facts of wrong types): no rule fails, and one that did is contained."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gputop import units
from gputop.cli.output.once import once_text
from gputop.doctor.diagnosis import Doctor
from gputop.doctor.evidence import windows
from gputop.doctor.findings.finding import Abstained, findings_json
from gputop.doctor.report import text_report
from gputop.doctor.rules import GROUP_RULES, MACHINE_RULES, Rule
from gputop.doctor.rules.ddp.rank_losses import _far
from gputop.facts import record
from gputop.history.buckets import Bucket
from gputop.snapshot import Points, Snapshot
from tests.doctor.scenes import (
    cores,
    dp,
    efficiency,
    hangs,
    hardware,
    live,
    loading,
    lost,
    pace,
    placement,
)
from tests.doctor.scenes import ddp as ddp_scenes
from tests.doctor.scenes.base import ids, play
from tests.doctor.tracked import CALM, ddp, one_process, single
from tests.fuzzing import examples
from tests.samples import EPOCH

ROOMS = (
    cores,
    ddp_scenes,
    dp,
    efficiency,
    hangs,
    hardware,
    live,
    loading,
    lost,
    pace,
    placement,
)
SCENES = [row[2] for room in ROOMS for row in room.FAULTS]
METRICS = (
    "loss",
    "step_s",
    "phase/data",
    "phase/backward",
    "phase/evaluation",
    "checkpoint_s",
    "epoch",
    "first_batch_s",
    "memory_allocated_bytes",
    "memory_peak_bytes",
    "tokens_per_s",
    "samples_per_s",
)
VALUES = (1e200, -1e200, 1e308, -1e308, 1.7e308, 1e154, 5e-324, -0.0, 0.0, 0.3, math.inf, -math.inf, math.nan)
ODD = st.sampled_from(VALUES) | st.floats()
WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**400,
    1e308,
    math.nan,
    math.inf,
    "",
    "x",
    [],
    [[]],
    [None],
    {},
    {"at": math.nan},
)
STEPS = 250


def odd_facts(value: Any, chance: random.Random) -> Any:
    """The same facts with some leaves of the wrong type."""
    if chance.random() < 0.06:
        return chance.choice(WRONG)
    if isinstance(value, Mapping):
        return {name: odd_facts(item, chance) for name, item in value.items()}
    return [odd_facts(item, chance) for item in value] if isinstance(value, list) else value


def _each_odd(facts: Mapping[str, Any], chance: random.Random) -> dict[str, Any]:
    return {name: odd_facts(fact, chance) for name, fact in facts.items()}


def odd(snapshot: Snapshot, values: Sequence[float], chance: random.Random, facts: bool) -> Snapshot:
    """The same machine whose runs tell such values of all that they measure."""
    steps = tuple(range(100, 100 + STEPS))
    times = tuple(EPOCH - STEPS + number for number in range(STEPS))
    runs = tuple(
        replace(run, ranks=tuple(replace(rank, facts=_each_odd(rank.facts, chance)) for rank in run.ranks))
        for run in snapshot.runs
    )
    if not facts:
        runs = snapshot.runs
    points = tuple(
        Points(run.run_id, rank.rank, metric, steps, times, tuple(chance.choice(values) for _ in steps))
        for run in runs
        for rank in run.ranks
        for metric in METRICS
        if chance.random() < 0.8
    )
    return replace(snapshot, runs=runs, points=points)


@given(st.sampled_from(SCENES), st.lists(ODD, min_size=1, max_size=3), st.integers(0, 2**32), st.booleans())
# Shrinking takes minutes; the failing one is printed as it was found.
@settings(
    max_examples=examples(40),
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
def test_no_reported_value_breaks_a_rule(scene, values, seed, facts):
    chance, doctor = random.Random(seed), Doctor()
    for second in (0, 1, 2, 30):
        shot = scene(second)
        if not second or facts:
            shot = odd(shot, values, chance, facts)
        found = doctor.observe(shot)
        findings_json(found)
        text_report(found, doctor.abstained, shot)
        once_text(shot)


def rules_failing(scene, seconds):
    doctor = Doctor()
    play(scene, seconds, doctor)
    return [item for item in doctor.abstained if "failed" in item.why]


@pytest.mark.parametrize("value", [1e200, 1e308, -1e308, math.inf, math.nan, -0.0, 5e-324])
def test_a_diverging_loss_does_not_stop_the_doctor(value, monkeypatch):
    monkeypatch.setattr(Doctor, "raises", False)
    metrics = {**CALM, "loss": lambda rank, step: value * (1 + step % 7 * 0.1)}
    assert rules_failing(lambda second: ddp(second, world=2, metrics=metrics), 20) == []


def test_one_rank_that_runs_away_is_seen_however_far_it_goes():
    for far in (1e100, 1e200, 1e308):
        metrics = {**CALM, "loss": lambda rank, step, far=far: far if rank == 1 else CALM["loss"](rank, step)}
        assert "C11" in ids(play(lambda second, metrics=metrics: ddp(second, world=2, metrics=metrics), 20)[-1]), far


def test_the_mean_of_finite_values_is_finite_and_shows_what_is_not():
    assert units.mean([1e308, 1e308]) == pytest.approx(1e308)
    assert units.mean([1.0, 2.0, 6.0]) == 3.0
    assert math.isnan(units.mean([1e308, math.nan]))
    assert units.mean([1e308, math.inf]) == math.inf
    assert windows.spread([1e308, -1e308]) == math.inf
    assert windows.spread([1.0, 3.0]) == 1.0
    assert _far({0: [1e200] * 3, 1: [2e200] * 3}) == [0, 1]
    bucket = Bucket(0, 0, 1e308, 1e308, 1e308, 1, 1e308)
    bucket.absorb(Bucket(1, 1, 1.5e308, 1.5e308, 1.5e308, 1, 1.5e308))
    assert 1e308 <= bucket.mean <= 1.5e308


def test_the_loss_of_a_line_of_text_is_finite_where_all_ranks_are():
    shot = ddp(3, world=2)
    (run,) = shot.runs
    told = replace(shot, runs=(replace(run, ranks=tuple(replace(r, metrics={"loss": 1e308}) for r in run.ranks)),))
    assert "1.00e+308" in once_text(told)


def test_counts_beyond_any_counter_are_unknown():
    assert record.read_whole(2**63) is None
    assert record.read_whole(7) == 7
    assert record.read_number(10**400) is None


# ---- a rule that fails


def breaks(*_):
    raise KeyError("no such\nthing " * 50)


@pytest.fixture
def broken(monkeypatch):
    """One rule of jobs and one of the machine fail, as they would before a person."""
    monkeypatch.setattr(Doctor, "raises", False)
    rules = tuple(replace(rule, judge=breaks) if rule.id == "C11" else rule for rule in GROUP_RULES)
    machine = tuple(replace(rule, judge_machine=breaks) if rule.id == "G04" else rule for rule in MACHINE_RULES)
    monkeypatch.setattr("gputop.doctor.diagnosis.GROUP_RULES", rules)
    monkeypatch.setattr("gputop.doctor.diagnosis.MACHINE_RULES", machine)


def test_a_failing_rule_is_reported_once_and_the_others_continue(broken):
    fault = next(scene for rule, _, scene, _ in ddp_scenes.FAULTS if rule == "C01")
    doctor = Doctor()
    for second in range(30):
        found = doctor.observe(fault(second))
        failed = [item for item in doctor.abstained if "failed" in item.why]
        assert [item.rule for item in failed] == ["C11", "G04"], second
    assert "C01" in ids(found)
    assert all(isinstance(item, Abstained) and len(item.why) < 200 for item in failed)
    assert failed[0].why.startswith("This rule failed: KeyError: ")
    assert "test_values.py:" in failed[0].why
    assert "please report" in failed[0].needs
    assert {item.rule: item.state for item in doctor.verdicts()}["C11"] == "not_judged"
    text = text_report(found, doctor.abstained, fault(30))
    assert text.count("C11: This rule failed") == 1


def test_a_finding_whose_rule_fails_stays_for_a_while_and_disappears(monkeypatch):
    monkeypatch.setattr(Doctor, "raises", False)
    fault = next(scene for rule, _, scene, _ in hangs.FAULTS if rule == "G04")
    doctor = Doctor()
    assert "G04" in ids(play(fault, 30, doctor)[-1])
    machine = tuple(replace(rule, judge_machine=breaks) if rule.id == "G04" else rule for rule in MACHINE_RULES)
    monkeypatch.setattr("gputop.doctor.diagnosis.MACHINE_RULES", machine)
    later = play(fault, 60, doctor, start=30)
    assert "G04" in ids(later[10])
    assert "G04" not in ids(later[-1])


def test_a_rule_that_fails_fails_the_tests(monkeypatch):
    rules = tuple(replace(rule, judge=breaks) if rule.id == "C11" else rule for rule in GROUP_RULES)
    monkeypatch.setattr("gputop.doctor.diagnosis.GROUP_RULES", rules)
    with pytest.raises(KeyError):
        Doctor().observe(single(0, {}, process=one_process(0, 0)))
    assert isinstance(rules[0], Rule)
