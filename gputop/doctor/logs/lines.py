"""Parse one line of a log: its plain text, its rank, and its timestamp. Pure."""

from __future__ import annotations

import re
import time

from gputop.terminal_text import strip_controls
from gputop.wire import parse_json

# torch's own "[rank0]:", torchrun's --tee "[default0]:", gputop's "[rank 0] ", and srun --label's "0: ".
_PREFIX = re.compile(r"^(?:\[(?:rank|default)(?P<rank>\d+)\]:? ?|\[rank (?P<ours>\d+)\] |\[launcher\] |(?P<srun>\d{1,4}): )")
_GLOG = re.compile(r"(?:^|\[)[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d+))?\b")
_ISO = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)[ T_](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?")
TRACEBACK = "Traceback (most recent call last)"
_RICH_FRAME = re.compile(r"^│ (?P<file>\S.*?):(?P<line>\d+) in (?P<function>\S+)\s*│$")
_GROUP_MARGIN = re.compile(r"^ {2,24}\| ")
_TIME_WITHIN = 60
"""A timestamp appears within this many characters of the line's beginning."""


def clean(raw: bytes) -> str:
    """Return the bytes of one line as text, without escape sequences and control characters."""
    return strip_controls(raw.decode("utf-8", "replace"))


def rank_and_text(line: str) -> tuple[int | None, str]:
    """Return the rank in the line's prefix (None without one), and the rest of the line."""
    found = _PREFIX.match(line)
    if found is None:
        return None, line
    rank = found["rank"] or found["ours"] or found["srun"]
    return (int(rank) if rank is not None else None), line[found.end() :]


def unfolded(line: str) -> list[str]:
    """Return the lines of a traceback that a logger wrote into one JSON object, with its rank; else the line itself."""
    if not line.startswith("{") or TRACEBACK not in line:
        return [line]
    try:
        found = parse_json(line.encode())
    except ValueError:
        return [line]
    values = found.values() if isinstance(found, dict) else ()
    text = next((value for value in values if isinstance(value, str) and TRACEBACK in value), None)
    if text is None:
        return [line]
    rank = next((found[name] for name in ("rank", "global_rank") if type(found.get(name)) is int), None)
    return [line if rank is None else f"[rank{rank}]: {line}" for line in text[text.find(TRACEBACK) :].splitlines()]


def unboxed(text: str) -> str:
    """Return a line as Python writes it, without the box of rich or the margin of an exception group."""
    if text[:1] == " ":
        return _GROUP_MARGIN.sub("", text)
    if text[:1] not in "╭│╰":
        return text
    if TRACEBACK in text:
        return f"{TRACEBACK}:"
    frame = _RICH_FRAME.match(text)
    return f'  File "{frame["file"]}", line {frame["line"]}, in {frame["function"]}' if frame is not None else "    …"


def time_of(line: str, written_at: float | None = None) -> float | None:
    """Return the timestamp at the line's beginning (local time); glog's has no year, so use that of ``written_at``."""
    head = line[:_TIME_WITHIN]
    found = _ISO.search(head)
    try:
        if found is not None:
            year, month, day, hour, minute, second = (int(found[group]) for group in range(1, 7))
            return time.mktime((year, month, day, hour, minute, second, 0, 0, -1)) + _fraction(found[7])
        found = _GLOG.search(head)
        if found is None or written_at is None:
            return None
        month, day, hour, minute, second = (int(found[group]) for group in range(1, 6))
        year = time.localtime(written_at).tm_year
        at = time.mktime((year, month, day, hour, minute, second, 0, 0, -1)) + _fraction(found[6])
        # A December log that was last written in January.
        return at if at <= written_at + 86_400 else time.mktime((year - 1, month, day, hour, minute, second, 0, 0, -1))
    except (OverflowError, ValueError):
        return None


def _fraction(digits: str | None) -> float:
    return float(f"0.{digits}") if digits else 0.0


_ANEW = re.compile(
    r"\[|[IWEF]\d{4} |=====|-----|\*\*\*\*\*|\d{4}-\d\d-\d\d|(?:INFO|WARNING|ERROR|DEBUG)\b|\{"
    # Whoever started the process, on its end: a shell, a batch system, make, a tracker.
    r"|srun: |slurmstepd: |make(?:\[\d+\])?: |wandb: |(?:Killed|Aborted|Terminated|Segmentation fault|Bus error)(?:\s*\(|\s*$)"
    r"|\S+: line \d+: "
)


def starts_anew(text: str) -> bool:
    """Return whether a line does not belong to an exception's message: a log line, a banner, the end that others report."""
    return _ANEW.match(text) is not None
