"""Errors that a program prints on several lines: the first ones are held until the rest has arrived. Pure.

Native code that aborts says why on the next line. The NVIDIA driver breaks one of its sentences. rich, and other programs that
write for a terminal, break long lines between words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_HEADS = (
    (re.compile(r"terminate called after throwing an instance of '[^']{1,200}'\s*$"), re.compile(r"\s*what\(\):")),
    (re.compile(r"\bpanicked at \S+:\d+:\d+:\s*$"), re.compile(r"\s*\S")),
)
_DRIVER = re.compile(r"NVRM: The NVIDIA GPU [\da-fA-F:.]{4,20}(?: \(PCI ID: [^)]{1,20}\))?(?: installed in this)?\s*$")
_OF_THE_DRIVER = re.compile(r"NVRM: (?=\(PCI ID|installed in|system has|has fallen|fallen off)")
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]{0,200}(?:Error|Exception|Exit|Interrupt)\w{0,20}: \S")
_BOX_ENDS = re.compile(r"╰─{20,400}╯\s*$")
LINES_MAX = 4
"""A broken line has at most this many parts."""
TERMINAL_COLUMNS = 80
"""The width that rich assumes where there is no terminal (rich.console)."""


@dataclass(frozen=True, slots=True)
class Head:
    """The first lines of such an error, whose rest has not arrived yet."""

    text: str
    """The lines so far, as one."""
    raw: str
    """The first line with its prefixes."""
    at: int
    columns: int = 0
    """The width at which its lines were broken; 0 if a program's form tells its lines."""
    doubtful: bool = False
    """Whether only the width says that the line was broken."""
    rest: tuple[tuple[str, str, int], ...] = ()
    """Its further lines: the text, the line with its prefixes, and its number."""

    @property
    def first(self) -> str:
        """Only its first line."""
        return self.text[: len(self.text) - sum(len(text.strip()) + 1 for text, _, _ in self.rest)]


def head_of(text: str, raw: str, previous: str, at: int) -> Head | None:
    """Return the head if the next line of the same writer may continue this one; ``previous``: the line before it."""
    if ("terminate called" in text or "panicked at" in text) and any(head.search(text) is not None for head, _ in _HEADS):
        return Head(text, raw, at)
    if "NVRM: The NVIDIA GPU" in text and _DRIVER.search(text) is not None:
        return Head(text, raw, at)
    if "╯" in previous and _EXCEPTION.match(text) is not None:
        box = _BOX_ENDS.search(previous)
        return Head(text, raw, at, len(box[0].rstrip())) if box is not None else None
    if raw[-1:] == " " and raw[-2:] != "  " and TERMINAL_COLUMNS - 20 <= len(raw) <= TERMINAL_COLUMNS:
        return Head(text, raw, at, TERMINAL_COLUMNS, doubtful=True)  # the break leaves the space
    return None


def extended(head: Head, text: str, raw: str, at: int) -> Head | None:
    """Return the head with its next line; None if the line does not continue it."""
    words = text.split(maxsplit=1)
    if len(head.rest) + 1 >= LINES_MAX or not words:
        return None
    if not head.columns:
        found = _OF_THE_DRIVER.search(text)
        if found is None:
            return None
        text = text[found.end() :]
    else:
        last = head.rest[-1][0] if head.rest else head.text
        if text[0].isspace() or max(len(last), len(text)) > head.columns or len(last) + 1 + len(words[0]) <= head.columns:
            return None
    return replace(head, text=f"{head.text.rstrip()} {text.strip()}", rest=(*head.rest, (text, raw, at)))


def joined(head: Head, text: str) -> str | None:
    """Return both lines of an error of two lines as one; None if the second is not the reason."""
    for first, second in _HEADS:
        if first.search(head.text) is not None and second.match(text) is not None:
            return f"{head.text.rstrip()} {text.strip()}"
    return None
