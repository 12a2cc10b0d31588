"""gputop doctor --rules: the list, one rule, and an id that does not exist, as a program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gputop.doctor.rules import RULES
from tests.cli.doctor.test_log_command import doctor


def test_the_list_names_every_rule() -> None:
    result = doctor("--rules")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert all(any(line.startswith(f"{rule.id:<5}{rule.title}") for line in lines) for rule in RULES)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("given", ["A07", "a07"])
def test_a_rule_is_explained(given: str) -> None:
    result = doctor("--rules", given)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("A07  Several ranks share one GPU")
    for heading in ("Why it happens", "How it shows", "Looks like", "Fix", "Needs", "Hides"):
        assert heading in result.stdout.splitlines()


@pytest.mark.parametrize("given", ["module_missing", "MODULE_MISSING"])
def test_a_text_of_a_log_is_explained_by_the_id_that_its_finding_shows(given: str, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nModuleNotFoundError: No module named 'x'\n"
    )
    found = json.loads(doctor("--log", str(log), "--json").stdout)["findings"][0]
    assert found["id"] == "module_missing"
    assert "import x" in found["refuted_by"]
    result = doctor("--rules", given)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("module_missing  A text in a log")
    assert "Python" in result.stdout
    listed = doctor("--rules").stdout
    assert "module_missing" in listed


def test_an_unknown_rule_is_refused_with_those_that_are_near() -> None:
    result = doctor("--rules", "G77")
    assert result.returncode == 2
    assert "No rule has the id 'G77'" in result.stderr
    assert "G01, G02, G03, G04, G05" in result.stderr
    assert "gputop doctor --rules lists them" in result.stderr


def test_a_word_lists_what_mentions_it() -> None:
    result = doctor("--rules", "no_sync")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("C04  no_sync is misused")
    assert "gputop doctor --rules ID explains one." in result.stdout


@pytest.mark.parametrize("other", [("--json",), ("--watch", "5s"), ("--run", "x")])
def test_what_is_about_findings_does_not_go_with_rules(other: tuple[str, ...]) -> None:
    result = doctor("--rules", "A07", *other)
    assert result.returncode == 2
    assert "as text" in result.stderr
