"""Titles of findings in short. Pure."""

from __future__ import annotations

import re

_CLAUSE_END = re.compile(r"[:;] ")
_TOPIC = re.compile(r"(GPU \d+|\S+): ")


def first_clause(title: str) -> str:
    """Return a title up to the end of its first clause; a topic such as "GPU 0:" or "DDP:" alone says nothing."""
    topic = _TOPIC.match(title)
    start = topic.end() if topic else 0
    return title[:start] + _CLAUSE_END.split(title[start:])[0]
