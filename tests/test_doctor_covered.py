"""Every rule is tried on its fault and on what is near to it: in a scene by its id, live, or where a reason says."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from gputop.doctor.rules import IDS

from .doctor_scenes import Scene, ids, play
from .doctor_scenes_near import LOOK_ALIKES, NOT_BY_ID

TESTS = Path(__file__).parent
TABLES = ("FAULTS", "BESIDE", "POSSIBLE")
TOLD_ELSEWHERE = {"LOG": "a text of no other rule: tests/test_doctor_texts.py, tests/test_doctor_logs.py"}


def listed(*tables: str) -> set[str]:
    rooms = [importlib.import_module(f"tests.{path.stem}") for path in TESTS.glob("doctor_scenes_*.py")]
    return {row[0] for room in rooms for table in tables for row in getattr(room, table, ())}


def live() -> set[str]:
    sys.path.insert(0, str(TESTS.parent / "benchmarks"))
    try:
        truth = importlib.import_module("_doctor_truth")
    finally:
        sys.path.pop(0)
    return {item.rule for item in truth.faults() if item.rule}


@pytest.mark.parametrize(("rule", "name", "scene", "seconds"), LOOK_ALIKES, ids=[f"{row[0]}-{row[1]}" for row in LOOK_ALIKES])
def test_what_is_near_to_a_fault_is_not_told(rule: str, name: str, scene: Scene, seconds: int) -> None:
    said = play(scene, seconds)
    firm = {item.id for found in said for item in found if item.confidence != "possible"}
    assert rule not in firm
    if rule == "C12":  # it is never more than possible
        assert all(rule not in ids(found) for found in said)


def test_every_rule_has_a_fault() -> None:
    assert set(IDS) - listed(*TABLES) - live() - TOLD_ELSEWHERE.keys() == set()


def test_every_rule_has_something_near_or_says_where() -> None:
    by_id = listed("LOOK_ALIKES")
    assert set(IDS) - by_id - NOT_BY_ID.keys() == set()
    assert NOT_BY_ID.keys() & by_id == set(), "these have one now"
    for reason in NOT_BY_ID.values():
        assert all((TESTS.parent / part).exists() for part in reason.replace(",", " ").replace(":", " ").split() if "/" in part)
