"""Every rule is tried on its fault and on what is near to it: in scenes by its id, or, of faults, live."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from gputop.doctor.rules import BY_ID, IDS
from tests import REPOSITORY
from tests.doctor.scenes.near.pairs import LEVELS, Pair, heard
from tests.house.how_to import step

SCENES = Path(__file__).parents[1] / "scenes"
NAMES = [".".join(path.relative_to(REPOSITORY).with_suffix("").parts) for path in sorted(SCENES.rglob("[a-z]*.py"))]
ROOMS = [importlib.import_module(name) for name in NAMES]
PAIRS: tuple[Pair, ...] = tuple(pair for room in ROOMS for pair in getattr(room, "PAIRS", ()))
TABLES = ("FAULTS", "BESIDE", "POSSIBLE")


def listed(*tables: str) -> set[str]:
    return {row[0] for room in ROOMS for table in tables for row in getattr(room, table, ())}


def live() -> set[str]:
    sys.path.insert(0, str(REPOSITORY / "benchmarks"))
    try:
        truth = importlib.import_module("accuracy.truth")
    finally:
        sys.path.pop(0)
    return {item.rule for item in truth.faults() if item.rule}


@pytest.mark.parametrize("pair", PAIRS, ids=[f"{pair.rule}-{pair.name}" for pair in PAIRS])
def test_a_fault_is_found_and_its_look_alike_is_not(pair: Pair) -> None:
    told, _ = heard(pair.fault, pair.seconds)
    mild = BY_ID[pair.rule].confidences == ("possible",)  # such a rule is never louder
    floor = max(LEVELS.index(pair.at_most), LEVELS.index("" if mild else "possible"))
    assert LEVELS.index(told.get(pair.id, "")) > floor, f"the fault: {told}; {step('A rule', 'Scenes')}"
    told, first = heard(pair.near, pair.seconds)
    assert LEVELS.index(told.get(pair.id, "")) <= LEVELS.index(pair.at_most), (
        f"what is near to it: {told}; {step('A rule', 'Scenes')}"
    )
    if pair.verdict is not None:
        assert first == pair.verdict


def test_every_pair_belongs_to_a_rule_and_has_a_unique_name() -> None:
    assert {pair.rule for pair in PAIRS} <= set(IDS)
    names = [(pair.rule, pair.name) for pair in PAIRS]
    assert len(set(names)) == len(names)


def test_every_rule_has_a_fault() -> None:
    missing = set(IDS) - listed(*TABLES) - live() - {pair.rule for pair in PAIRS}
    assert not missing, f"{', '.join(sorted(missing))} has no fault in tests/doctor/scenes; {step('A rule', 'Scenes')}"


def test_every_rule_has_a_look_alike() -> None:
    missing = set(IDS) - listed("LOOK_ALIKES") - {pair.rule for pair in PAIRS}
    assert not missing, f"{', '.join(sorted(missing))} has no look-alike in tests/doctor/scenes; {step('A rule', 'Scenes')}"


def test_every_look_alike_belongs_to_a_fault_that_is_played() -> None:
    """Of rooms that test their faults and their look-alikes each by itself."""
    alone = {row[0] for room in ROOMS if not hasattr(room, "PAIRS") for row in getattr(room, "LOOK_ALIKES", ())}
    assert alone - listed(*TABLES) == set()
