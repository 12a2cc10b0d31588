"""The level, stage or task of a curriculum that a line states: "--- level 3 of 8", "[Stage 2] step 40". Pure.

A loss that jumps where the next one begins has met a harder task.
"""

from __future__ import annotations

import re

_STAGE = re.compile(
    r"(?<![\w/.@-])(?:curriculum[ _]?|difficulty[ _])?(level|stage|phase|lesson|difficulty|curriculum|task)"
    r"\s{0,3}[:=#]?\s{0,3}[\[(]?\s{0,3}(\d{1,6}(?:\.\d{1,6})?)(?![\w%]|[.:]\d|-\d)",
    re.IGNORECASE,
)


def stage_of(line: str) -> dict[str, float]:
    """Return the stage that a line states, under the word that it uses; empty if there is none."""
    found = _STAGE.search(line)
    return {found[1].lower(): float(found[2])} if found is not None else {}
