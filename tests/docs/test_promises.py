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
OTHERS = ("GPUs and the self-test", "Numbers that were once wrong or missing", "Attacks that once broke something")
"""Tables that repeat no other page."""
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


def fault(held: str) -> str | None:
    """Return what is wrong with the second column of a row; None if it names tests that exist, or says why there is none."""
    named = TEST.findall(held)
    if not named and not held.startswith("none: "):
        return ADD_ONE
    if held.count("::") != len(named):
        return f"{held} is not written as `tests/path.py::test_name`"
    for path, name in named:
        if not (REPOSITORY / path).is_file():
            return f"{path} does not exist"
        source = ast.parse((REPOSITORY / path).read_text())
        functions = {item.name for item in ast.walk(source) if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)}
        if name not in functions:
            return f"{path} has no {name}"
    return None


@pytest.mark.parametrize("title", [*SOURCES, *OTHERS])
def test_the_tests_that_hold_a_promise_exist(title: str) -> None:
    assert rows(title)
    faults = {promise: found for promise, held in rows(title).items() if (found := fault(held))}
    assert not faults


def test_every_table_of_the_page_is_checked() -> None:
    assert re.findall(r"^## (.+)$", PAGE, re.MULTILINE) == [*SOURCES, *OTHERS]


@pytest.mark.parametrize(
    "held",
    [
        "",
        "everybody",
        "`tests/docs/test_promises.py::test_that_nobody_wrote`",
        "`tests/docs/test_nothing.py::test_every_table_of_the_page_is_checked`",
        "`tests/docs/test_promises.py::test_every_table_of_the_page_is_checked`, tests/docs/test_promises.py::test_unquoted",
    ],
)
def test_a_row_without_an_existing_test_is_reported(held: str) -> None:
    assert fault("`tests/docs/test_promises.py::test_every_table_of_the_page_is_checked`") is None
    assert fault(held)
