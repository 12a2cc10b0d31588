"""A rule is one object, and the folder is the registry: whatever rule stands in it is one of the doctor's."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from gputop.doctor import rules
from gputop.doctor.findings.finding import CONFIDENCES, SEVERITIES, Finding
from gputop.doctor.rules import BY_ID, GROUP_RULES, HIDES, IDS, MACHINE_RULES, RULES, registry
from gputop.doctor.rules.support.rule import EVERYTHING, Rule, Subject
from tests.doctor.scenes import placement
from tests.doctor.scenes.base import ids, play
from tests.house.how_to import step

FOLDER = Path(rules.__file__).parent
MODULES = sorted(path for path in FOLDER.rglob("*.py") if path.parent != FOLDER)
SENTENCES = ("mechanism", "signature", "look_alike", "fix")
JUDGES = re.compile(r"([A-I]\d\d|LOG): ")
UNSORTED_MOST, IN_A_CASE_MOST = 8, 9


def imported(path: Path) -> object:
    name = ".".join(path.relative_to(FOLDER).with_suffix("").parts).removesuffix(".__init__")
    return importlib.import_module(f"{rules.__name__}.{name}")


@pytest.mark.parametrize("path", MODULES, ids=[str(path.relative_to(FOLDER)) for path in MODULES])
def test_every_rule_of_a_module_is_registered(path: Path) -> None:
    tree = ast.parse(path.read_text())
    made = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Rule"]
    constants = [node for node in tree.body if isinstance(node, ast.Assign) and node.value in made]
    assert len(constants) == len(made), "a rule is a constant of its module, so that the registry finds it"
    for node in constants:
        name = ast.unparse(node.targets[0])
        assert getattr(imported(path), name) is BY_ID[name], f"{name} is called by another id, or is not registered"


def test_every_judging_function_has_a_rule() -> None:
    judging = {rule.judge or rule.judge_machine for rule in RULES}
    for path in MODULES:
        for name, value in vars(imported(path)).items():
            if callable(value) and JUDGES.match(value.__doc__ or "") and not isinstance(value, type):
                assert value in judging, f"{path.name}: {name} judges, and no Rule names it; {step('A rule', 'Rule')}"


@pytest.mark.parametrize("rule", RULES, ids=IDS)
def test_a_rule_explains_itself(rule: Rule) -> None:
    judge = rule.judge or rule.judge_machine
    assert judge is not None
    assert (judge.__doc__ or "").startswith(f"{rule.id}: "), f"the docstring of {judge}; {step('A rule', 'Judge')}"
    assert rule.subject in get_args(Subject)
    for name in SENTENCES:
        text = getattr(rule, name)
        assert text.endswith("."), name
        assert "  " not in text, name
    assert not rule.title.endswith(".")
    assert len(rule.title) <= 60
    for condition in rule.conditions:
        assert not condition.endswith((".", ";")), condition
        assert "  " not in condition, condition
        assert len(condition.split()) <= 60, f"split it into several conditions: {condition}"
    assert len(rule.conditions) <= UNSORTED_MOST or len(rule.cases) > 1, "nobody reads so long a list: sort it by cases"
    for case in rule.cases:
        assert case.conditions, case.name
        assert len(case.conditions) <= IN_A_CASE_MOST, case.name
        assert not case.name.endswith((".", ":"))
        assert bool(case.name) == (len(rule.cases) > 1)
    assert rule.needs
    assert "catalogue" not in repr(rule)
    assert list(rule.severities) == [level for level in SEVERITIES if level in rule.severities] != []
    assert list(rule.confidences) == [level for level in CONFIDENCES if level in rule.confidences] != []


def test_ids_and_places_are_unique_and_what_is_hidden_exists() -> None:
    assert len(set(IDS)) == len(IDS) == len(GROUP_RULES) + len(MACHINE_RULES)
    assert [rule.order for rule in RULES] == sorted({rule.order for rule in RULES})
    for root, symptoms in HIDES.items():
        assert root not in symptoms
        assert symptoms <= set(IDS)
        assert len(set(BY_ID[root].hides)) == len(BY_ID[root].hides)


def test_a_rule_that_hides_everything_leaves_out_what_hides_it() -> None:
    everything = [rule for rule in RULES if rule.hides == EVERYTHING]
    assert [rule.id for rule in everything] == ["A12"]
    causes = {rule.id for rule in RULES if "A12" in rule.hides}
    assert causes == {"A05", "A13", "I05", "I10"}
    assert HIDES["A12"] == set(IDS) - causes - {"A12"}


# ---- a registry of its own

RULE = """
from gputop.doctor.rules.support.rule import Rule

def judge(evidence, job):
    return None

{name} = Rule(
    id="{id}", order={order}, family="f", title="t", severities=("info",), confidences=("possible",), needs=("n",),
    threshold="t", mechanism="m.", signature="s.", look_alike="l.", fix="f.", judge=judge, hides={hides},
)
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package whose modules a test writes; returns what the registry finds in it."""
    (tmp_path / "ruleset" / "family").mkdir(parents=True)
    for folder in ("ruleset", "ruleset/family"):
        (tmp_path / folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    def found(**sources: str) -> list[str]:
        for name, source in sources.items():
            (tmp_path / "ruleset" / "family" / f"{name}.py").write_text(source)
        importlib.invalidate_caches()
        return [rule.id for rule in registry.rules_of(registry.modules(importlib.import_module("ruleset")))]

    yield found
    for name in [name for name in sys.modules if name.partition(".")[0] == "ruleset"]:
        del sys.modules[name]


def rule(name: str, order: int, hides: tuple[str, ...] = (), number: str | None = None) -> str:
    return RULE.format(name=name, id=number or name, order=order, hides=hides)


def test_a_new_module_registers_its_rules_in_their_order(package) -> None:
    other = "from ruleset.family.one import Z01 as imported\n" + rule("Z02", 1)
    assert package(one=rule("Z01", 2), two=other) == ["Z02", "Z01"]


def test_two_rules_with_one_id_are_refused(package) -> None:
    with pytest.raises(ValueError, match="id Z01"):
        package(one=rule("Z01", 1), two=rule("Z02", 2, number="Z01"))


def test_two_rules_in_one_place_are_refused(package) -> None:
    with pytest.raises(ValueError, match="order 1"):
        package(one=rule("Z01", 1), two=rule("Z02", 1))


def test_hiding_a_rule_that_does_not_exist_is_refused(package) -> None:
    with pytest.raises(ValueError, match=r"Z01 hides rules that do not exist: Z09\."):
        package(one=rule("Z01", 1, hides=("Z09",)))


def test_a_rule_needs_one_function_and_words_for_a_condition() -> None:
    one = RULES[0]
    with pytest.raises(ValueError, match="either judge or judge_machine"):
        replace(one, judge=None, judge_machine=None)
    with pytest.raises(ValueError, match="hides_if and hides_when"):
        replace(one, hides_if=lambda finding: True, hides_when="")


@pytest.mark.parametrize(
    ("name", "severity", "confidence", "explains"),
    [
        ("A03", "warning", "certain", True),
        ("A03", "info", "certain", False),
        ("G04", "error", "certain", True),
        ("G04", "error", "likely", True),
        ("G04", "info", "likely", False),
        ("G04", "warning", "possible", False),
    ],
)
def test_a_condition_is_part_of_the_rule(name, severity, confidence, explains) -> None:
    condition = BY_ID[name].hides_if
    assert condition is not None
    assert condition(Finding(name, severity, confidence, "t", (), "c", "f")) is explains


def test_the_engine_asks_the_rule_whether_it_explains(monkeypatch) -> None:
    late_mask = next(scene for name, _, scene, *_ in placement.FAULTS if name == "A04")
    assert ids(play(late_mask, 16)[-1]) == ["A04"]
    never = replace(BY_ID["A04"], hides_if=lambda finding: False, hides_when="never")
    monkeypatch.setattr("gputop.doctor.roots.BY_ID", {**BY_ID, "A04": never})
    assert ids(play(late_mask, 16)[-1]) == ["A04", "A01"]


def test_the_engine_names_no_rule() -> None:
    source = "".join((FOLDER.parent / f"{module}.py").read_text() for module in ("diagnosis", "cases", "roots"))
    assert not re.search(r"\b[A-I]\d\d\b", source), "what holds for one rule stands on the rule"
