"""Parse one line of a log: its plain text, its rank, and its timestamp. Pure."""

from __future__ import annotations

import re
import time

from gputop.terminal_text import strip_controls

_PREFIX = re.compile(
    # torch's own "[rank0]:", torchrun's --tee "[default0]:", gputop's "[rank 0] ", and srun --label's "0: " or " 0: ".
    r"\[(?:rank|default)(?P<rank>\d{1,6})\]:? ?|\[rank (?P<ours>\d{1,6})\] |\[launcher\] | {0,3}(?P<srun>\d{1,4}): "
    # Open MPI's and Horovod's "[1,0]<stderr>:", also with the job's or SageMaker's names.
    r"|\[(?:[\w.@:-]{1,100}@)?\d{1,12},(?:mpirank:)?(?P<mpi>\d{1,6})(?:,[\w.-]{1,100})?\]<std(?:err|out|diag)>:? ?"
    # What Kubernetes and container runtimes write before a line.
    r"|\[pod/[^\]\s]{1,200}\] |\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}Z (?:std(?:err|out) [FP] )?"
)
_PREFIXES_MAX = 4
"""How many prefixes a line may have: a runtime's, a launcher's, and torch's own."""
_PREFIX_BEGINS = frozenset("[ 0123456789")
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
    """Return the rank in the line's prefixes (None without one), and the rest of the line. The innermost rank counts."""
    rank, at = None, 0
    for _ in range(_PREFIXES_MAX):
        found = _PREFIX.match(line, at) if line[at : at + 1] in _PREFIX_BEGINS else None
        if found is None or (at and found["srun"] is not None):
            break
        number = found["rank"] or found["ours"] or found["srun"] or found["mpi"]
        rank = int(number) if number is not None else rank
        at = found.end()
    return rank, line[at:]


def unboxed(text: str) -> str:
    """Return a line as Python writes it, without rich's box or the margin of an exception group."""
    if text[:1] == " ":
        return _GROUP_MARGIN.sub("", text)
    if not text or text[0] not in "╭│╰":
        return text
    if TRACEBACK in text:
        return f"{TRACEBACK}:"
    frame = _RICH_FRAME.match(text)
    return f'  File "{frame["file"]}", line {frame["line"]}, in {frame["function"]}' if frame is not None else "    …"


def quote_of(text: str) -> str:
    """Return the margin or the spaces before a line, or ""."""
    found = _GROUP_MARGIN.match(text) if text[:1] == " " else None
    return found[0] if found is not None else text[: len(text) - len(text.lstrip(" "))]


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
        # A log from December that was last written in January.
        return at if at <= written_at + 86_400 else time.mktime((year - 1, month, day, hour, minute, second, 0, 0, -1))
    except (OverflowError, ValueError):
        return None


def _fraction(digits: str | None) -> float:
    return float(f"0.{digits}") if digits else 0.0


_ANEW = re.compile(
    r"\[|[IWEF]\d{4} |=====|-----|\*\*\*\*\*|\d{4}-\d\d-\d\d|(?:INFO|WARNING|ERROR|DEBUG)\b|\{"
    # Reports about the process's end by what started it: a shell, a batch system, make, a tracker.
    r"|srun: |slurmstepd: |make(?:\[\d+\])?: |wandb: |(?:Killed|Aborted|Terminated|Segmentation fault|Bus error)(?:\s*\(|\s*$)"
    r"|\S+: line \d+: "
)


def starts_anew(text: str) -> bool:
    """Return whether a line does not belong to an exception's message: a log line, a banner, or another program's report."""
    return _ANEW.match(text) is not None


_WARNING = re.compile(r"^\[?[WI]\d{4} |Warning: |\bWARNING?\b(?! Err)")
_WARNING_BEGINS = frozenset("[WI")
_WARNED_AND_FATAL = ("NCCL WARN", "IPv4 network addresses", "death signal, shutting down")
"""NCCL's failures, the timeouts of torch's store, and what ends torchrun are printed as warnings."""


def is_warning(text: str) -> bool:
    """Return whether a line marks itself as a warning, and means no failure."""
    if text[:1] not in _WARNING_BEGINS and "WARN" not in text and "arning: " not in text:
        return False
    return _WARNING.search(text) is not None and not any(mark in text for mark in _WARNED_AND_FATAL)


_LEVEL = re.compile(r"^.{0,100}?\b(?:WARN(?:ING)?|ERROR|EXCEPTION|CRITICAL)\b[\]:|-]?")
_DIGITS = re.compile(r"\d+")


def level_of(text: str) -> str:
    """Return what a logger writes before its messages, up to the level and without numbers; "" if there is no level."""
    found = _LEVEL.match(text)
    return _DIGITS.sub("0", found[0]) if found is not None else ""
