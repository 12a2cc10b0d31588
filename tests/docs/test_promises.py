"""Each promise of the README and of the journal, and each thing that once broke, has tests in docs/promises.md; they exist."""

from __future__ import annotations

import ast
import re

import pytest

from tests import REPOSITORY

PAGE = (REPOSITORY / "docs" / "promises.md").read_text()
SOURCES = {
    "README": (REPOSITORY / "README.md", "What it promises"),
    "The journal": (REPOSITORY / "docs" / "architecture.md", "What the journal promises"),
}
BROKE = ("Numbers that were once wrong or missing", "Attacks that once broke something")
HEADINGS = ("promise", "number", "attack")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
ADD_ONE = "write the first sentence of each promise into docs/promises.md, with the tests that hold it"


def section(text: str, title: str) -> str:
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> dict[str, str]:
    cells = [line.strip("| ").split(" | ") for line in section(PAGE, title).splitlines() if line.startswith("| ")]
    return {promise: held for promise, held in cells if promise not in HEADINGS}


def promises(text: str) -> list[str]:
    """Return the first sentence of each bullet."""
    bullets = re.findall(r"^- (.+(?:\n  .+)*)", text, re.MULTILINE)
    return [re.split(r"(?<=\.)\s", " ".join(bullet.split()))[0] for bullet in bullets]


@pytest.mark.parametrize("title", SOURCES)
def test_each_promise_has_a_row_and_each_row_a_promise(title: str) -> None:
    path, heading = SOURCES[title]
    found = promises(section(path.read_text(), heading))
    assert found
    assert list(rows(title)) == found, ADD_ONE


@pytest.mark.parametrize("title", [*SOURCES, *BROKE])
def test_the_tests_that_hold_a_promise_exist(title: str) -> None:
    assert rows(title)
    for promise, held in rows(title).items():
        named = TEST.findall(held)
        assert named or held.startswith("none: "), f"{promise}: {ADD_ONE}"
        assert held.count("::") == len(named), f"{held} is not written as `tests/path.py::test_name`"
        for path, name in named:
            source = ast.parse((REPOSITORY / path).read_text())
            functions = {item.name for item in ast.walk(source) if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)}
            assert name in functions, f"{path} has no {name}"
