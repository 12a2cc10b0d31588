"""The first lines of two-line errors: what native code prints when it aborts, before the reason on the next line. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEADS = (
    (re.compile(r"terminate called after throwing an instance of '[^']{1,200}'\s*$"), re.compile(r"\s*what\(\):")),
    (re.compile(r"\bpanicked at \S+:\d+:\d+:\s*$"), re.compile(r"\s*\S")),
)


@dataclass(frozen=True, slots=True)
class Head:
    """The first line of such an error, whose reason has not arrived yet."""

    text: str
    raw: str
    """The line with its prefixes."""
    at: int


def is_head(text: str) -> bool:
    """Return whether the next line of the same writer may give the reason."""
    return ("terminate called" in text or "panicked at" in text) and any(head.search(text) is not None for head, _ in _HEADS)


def joined(head: Head, text: str) -> str | None:
    """Return both lines as one; None if the second is not the reason."""
    for first, second in _HEADS:
        if first.search(head.text) is not None and second.match(text) is not None:
            return f"{head.text.rstrip()} {text.strip()}"
    return None
