"""The level, stage or task of a curriculum that a line states, or how long its samples are: "[Stage 2] step 40", "seq_len 512".
Pure.

A loss that jumps where the next one begins has met a harder task, and steps that take longer from there on do more.
"""

from __future__ import annotations

import re

from gputop.losses import STAGES

_STAGE = re.compile(
    rf"(?<![\w/.@-])(?:curriculum[ _]?|difficulty[ _])?({STAGES})"
    r"\s{0,3}[:=#]?\s{0,3}[\[(]?\s{0,3}(\d{1,6}(?:\.\d{1,6})?)(?![\w%]|[.:]\d|-\d)",
    re.IGNORECASE,
)


def stage_of(line: str) -> dict[str, float]:
    """Return the stage that a line states, under the word that it uses; empty if there is none."""
    found = _STAGE.search(line)
    return {found[1].lower().replace(" ", "_"): float(found[2])} if found is not None else {}
