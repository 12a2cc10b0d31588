"""The steps of "How to add" in CONTRIBUTING.md, for the messages of tests that fail if a step was left out."""

from __future__ import annotations

import re
from functools import cache

from tests import REPOSITORY

PAGE = "CONTRIBUTING.md"


@cache
def steps() -> dict[tuple[str, str], str]:
    """Return each step's text by the section ("A rule") and the step's name ("Scenes")."""
    found = {}
    below = (REPOSITORY / PAGE).read_text(encoding="utf-8").partition("\n## How to add\n")[2]
    for walk in below.split("\n### ")[1:]:
        title = walk.partition("\n")[0].strip()
        for number, name, text in re.findall(r"^(\d+)\. \*\*(.+?)\.\*\* (.*?)(?=^\d+\. |\Z)", walk, re.DOTALL | re.MULTILINE):
            found[title, name] = f"{title}, step {number}, {name}: {' '.join(text.split())}"
    return found


def step(walk: str, name: str) -> str:
    """Return what a test says if this step was left out.

    Raises:
        KeyError: the page has no such step.
    """
    return f"see {PAGE}, how to add. {steps()[walk, name]}"
