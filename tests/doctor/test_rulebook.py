"""The rules in words: docs/rules.md is current, and every line of ``--rules`` fits a terminal of 80 columns."""

from __future__ import annotations

import ast
import re

import pytest

from gputop.doctor import rulebook, textbook
from gputop.doctor.logs.exits import meaning_of
from gputop.doctor.logs.patterns.table import IDS as TEXT_IDS
from gputop.doctor.rules import BY_ID, RULES
from gputop.doctor.said_by import SAID_BY
from tests import REPOSITORY
from tests.house.how_to import step

PAGE = REPOSITORY / rulebook.PAGE
POINTERS = re.compile(r"rules\.md(?:#([\w-]+))?")
CATALOGUE = re.compile(r"\(catalogue[, )]|catalogue[,:]? (section|[A-J]\d\d)|\[H\]", re.I)


def test_the_page_of_the_rules_is_current() -> None:
    current = PAGE.read_text(encoding="utf-8") == rulebook.markdown()
    assert current, f"{rulebook.PAGE} is not current: run `make docs`; {step('A rule', 'Page')}"


def test_the_list_names_each_rule_with_family_and_needs() -> None:
    text = rulebook.listing()
    joined = " ".join(text.split())
    for rule in RULES:
        assert f"{rule.id:<5}{rule.title}  [{rule.family}]" in text.splitlines()
        for need in rule.needs:
            assert " ".join(need.split()) in joined
    assert max(map(len, text.splitlines())) <= rulebook.WIDTH


def test_a_rule_is_found_however_its_id_is_typed() -> None:
    page = rulebook.page_of("A07")
    assert page is not None
    assert [rulebook.page_of(name) for name in ("a07", " A7", "a007")] == [page] * 3
    assert rulebook.page_of("log") == rulebook.explanation(BY_ID["LOG"])
    assert [rulebook.page_of(name) for name in ("A", "7", "A0", "A99", "A7b")] == [None] * 5


def test_only_rules_and_what_finds_the_same_name_a_rule() -> None:
    """What a rule is exempt from, or able to do, is in the rule itself."""
    package = REPOSITORY / "gputop" / "doctor"
    others = ("rules/", "logs/", "preflight/")  # logs and checks before a run find what a rule finds, and say its id
    named = {
        (path.relative_to(package).as_posix(), node.value)
        for path in package.rglob("*.py")
        if not path.relative_to(package).as_posix().startswith(others)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in BY_ID
    }
    assert not named


def test_each_rule_is_explained_within_80_columns() -> None:
    for rule in RULES:
        text = rulebook.explanation(rule)
        joined = " ".join(text.split())
        for sentence in (rule.title, rule.mechanism, rule.signature, rule.look_alike, rule.fix):
            assert sentence in joined, rule.id
        assert max(map(len, text.splitlines())) <= rulebook.WIDTH, rule.id


def test_the_page_says_what_a_rule_hides_and_when() -> None:
    assert "A01, A02, A07, if the run asks for more GPUs than it sees." in rulebook.explanation(BY_ID["A03"])
    assert "Every other rule except those that hide it." in rulebook.explanation(BY_ID["A12"])
    hidden = rulebook.explanation(BY_ID["H02"]).split("Hidden by")[1].split()
    assert hidden[:1] == ["A12,"], "first what hides everything"
    assert {"A07,", "A19,", "B07,", "H01,"} <= set(hidden)


def test_comments_point_at_the_page_and_at_places_that_it_has() -> None:
    anchors = set(re.findall(r'<a id="([\w-]+)">', rulebook.markdown()))
    for path in sorted((REPOSITORY / "gputop").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        assert not CATALOGUE.search(source), path
        for anchor in POINTERS.findall(source):
            assert not anchor or anchor in anchors, f"{path}: {rulebook.PAGE}#{anchor}"


def test_each_known_text_names_the_program_that_prints_it() -> None:
    assert set(SAID_BY) == set(TEXT_IDS)


@pytest.fixture(scope="module")
def manual() -> str:
    return rulebook.markdown()


@pytest.fixture(scope="module")
def listed() -> str:
    return rulebook.listing()


def test_each_text_is_explained_within_80_columns(manual: str, listed: str) -> None:
    headings = {"Printed by", "Text", "What it says", "Why it happens", "Fix", "Looks like"}
    for name, text in textbook.TEXTS.items():
        page = rulebook.page_of(name)
        assert page is not None, name
        assert max(map(len, page.splitlines())) <= rulebook.WIDTH, name
        assert not re.search(r"\{\w+\}", page), f"{name}: a placeholder of a template is left"
        joined = " ".join(page.split())
        for title, means, _ in text.meanings:
            assert title in joined, name
            assert " ".join(means.split()) in joined, name
        assert headings <= set(page.splitlines()), name
        assert f"#### {name}\n" in manual
        assert name in listed


def test_no_word_stands_for_itself_twice() -> None:
    for text in textbook.TEXTS.values():
        for said in text.meanings:
            assert not re.search(r"\b([A-Z]+) \1\b", " ".join(said)), text.id


def test_each_id_that_a_log_can_lead_to_can_be_looked_up() -> None:
    ends = {meaning.id for code in range(-31, 0) if (meaning := meaning_of(code)) is not None and meaning.id is not None}
    caused = {text.id for text in textbook.TEXTS.values()} | {
        cause for text in textbook.TEXTS.values() for cause in text.causes
    }
    for name in (*ends, *caused, "exception", "last_words"):
        assert rulebook.page_of(name) is not None, name
        assert rulebook.page_of(name.upper()) == rulebook.page_of(name.lower())


def test_the_page_of_a_rule_names_the_texts_that_lead_to_it_and_back() -> None:
    assert "oom" in rulebook.explanation(BY_ID["H02"]).split("Known texts")[1].split("\n\n")[0]
    assert "H02: gputop doctor --rules H02" in (rulebook.page_of("oom") or "")


@pytest.mark.parametrize("mistyped", ["modul_missing", "nccl_wachdog"])
def test_ids_that_are_near_a_mistyped_one_are_suggested(mistyped: str) -> None:
    assert rulebook.page_of(mistyped) is None
    assert rulebook.near_ids(mistyped)[0] in ("module_missing", "nccl_watchdog")


def test_a_word_finds_the_rules_and_the_texts_that_mention_it() -> None:
    found = rulebook.mentions(" Worker ")
    assert found is not None
    lines = found.splitlines()
    assert max(map(len, lines)) <= rulebook.WIDTH
    assert f"D06  {BY_ID['D06'].title}  [input]" in lines
    assert any(line.startswith("  worker_killed ") for line in lines)
    assert "C04" not in found
    for word in ("", "in", "no such word"):
        assert rulebook.mentions(word) is None


def test_a_text_found_in_several_ways_says_each_sentence_once() -> None:
    assert textbook.explanation(textbook.TEXTS["file_system"]).count("The file system fails: WHY.") == 1
    several = textbook.markdown().split('<a id="oom"></a>')[1].split("<a id=")[0]
    assert "- **What it says**\n  - GPU NUMBER is full" in several
    assert "\n  - A GPU is full.\n" in several
