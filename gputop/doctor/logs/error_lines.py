"""Which lines of a log report an error, and of what kind, judging by one line alone. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

_OF_REFUSAL = (
    *("ermission denied", "verification failed", "bad interpreter", "syntax error", "unbound variable", "Lmod has detected"),
    *(
        "rror response from",
        "Failed to pull image",
        "FailedScheduling",
        "Evicted",
        "No space left on device",
        "curl: (",
        "tar: ",
    ),
    *("Unable to locate credentials", "MPI_ABORT was", "not enough slots", "Assertion `"),
)
_OF_END = (
    *("xit code", "xit Code", "xited with code", "exit with status code", "non-zero status", "terminated by signal"),
    *("Aborted", "Hangup", "make: *** ", "make[1]: *** "),
)
_OF_LEVEL = ("ERROR", "FATAL", "CRITICAL", "level=error", '"level":"error"', '"level": "error"', "NCCL WARN")
TRIGGERS = (
    *("Error: ", ": error: ", "atal: ", "xception: ", "NotFound: ", "panicked at", "Check failed: ", ".cc:", ".cpp:"),
    *(*_OF_REFUSAL, *_OF_END, *_OF_LEVEL),
)
"""A line of last words contains one of these literals."""
NARROWER = {
    ".cc:": r"(?:\b[EF]\d{3,4} \d\d:|\bF [\w./-]{1,200}\.cc:)",
    ".cpp:": r"\b[EF]\d{3,4} \d\d:",
    "xit code": r"xit code:? {1,8}-?[1-9]",
    "xit Code": r"xit Code:? {1,8}-?[1-9]",
    "xited with code": r"xited with code {1,8}-?[1-9]",
}
"""Expressions that replace literals that ordinary lines also contain."""
Kind = Literal["exception", "cut", "error", "refusal", "end", "trouble"]
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]{0,120}): (?=\S)")
_EXCEPTION_ENDS = ("Error", "Exception", "NotFound")
_METRIC_ENDS = ("SquaredError", "AbsoluteError", "PercentageError", "LogarithmicError", "LogError")
"""Losses and metrics that are named "error"."""
_REFUSAL = re.compile(
    r"\b[Pp]ermission denied(?: \([\w,-]+\))?\.?$|\bHost key verification failed\.?$|: bad interpreter: |\bsyntax error near "
    r"|: unbound variable$|^Lmod has detected the following error|\b[Ee]rror response from daemon: "
    r"|\bNo space left on device$|^curl: \(\d+\) |^tar: .{0,200}\b(?:Error|EOF)\b|\bUnable to locate credentials\b"
    r"|\bMPI_ABORT was invoked on rank \d|\bnot enough slots available\b|: Assertion `.{1,200}' failed"
    r"|\bFailed to pull image |\bFailedScheduling\b|\bReason: +Evicted\b"
)
_END = re.compile(
    r"\b(?:[Ee]xit [Cc]ode:?|exited with code|finished with exit code) +(?P<code>-?[1-9]\d{0,11})\b|\bnon-zero status\b"
    r"|\bexit with status code [1-9]|^(?:Aborted(?: \(core dumped\))?|Hangup)$"
    r"|: line \d{1,6}: +\d{1,9} (?:Aborted|Hangup)\b"
    r"|\bterminated by signal \w+|^make(?:\[\d+\])?: \*\*\* .{1,200}\bError [1-9]"
)
_LEVEL = re.compile(
    r"(?:^|[\s\[|(:\"-])(?:ERROR|CRITICAL|FATAL)(?=[\]\s:|)\"-])|\blevel=error\b|\"level\": ?\"error\"|\bNCCL WARN\b"
)
_SAID = re.compile(
    r"^(?:[^\s:]{1,80}: |\([^()]{1,60}\) )?(?:[Ff]atal|[Ff]atal error|[Ee]rror): |^\[?[EF]\d{3,4} \d\d:\d\d[^\]]{1,100}\] "
    r"|^F [^\]]{1,100}:\d+\] "
)
_NO_ERROR = re.compile(
    r"(?i)\b(?:0|no|zero) errors?\b|\berrors?\b(?: count)?\W{0,3}(?:is |was |were )?(?:none|zero|0)\b"
    r"|\berrors?\b(?: count)?\W{0,3}(?:is |was |were )?no\b(?=\W{0,3}(?:$|[,;|)]))"
    r"|\berror (?:count|rate|bars?)\b"
    # These clients of trackers and repositories report what they leave out.
    r"|^wandb: |^fatal: not a git repository"
)
_IGNORED = re.compile(r"(?i)\bignor(?:ed|ing)\b")
_WORD = re.compile(r"[A-Za-z]{3}")
_WORDS_MIN = 2
"""A metric named "error" has a number; an error has words."""
_DIGITS = str.maketrans("23456789", "11111111")
LEVEL_WITHIN = 100
"""A level is within this many characters of the line's beginning."""


def kind_of(text: str) -> Kind | None:
    """Return the kind of a line as the last word of a log; None if it says nothing."""
    # A log with thousands of errors has few forms of them. The expressions here distinguish no digits except 0.
    return _kind_of_form(text.translate(_DIGITS))


@lru_cache(256)
def _kind_of_form(text: str) -> Kind | None:
    if "gnor" in text and _IGNORED.search(text) is not None:
        return None
    if _holds(text, _OF_REFUSAL) and _REFUSAL.search(text) is not None:
        return "refusal"
    exception = _EXCEPTION.match(text)
    if exception is not None and names_an_error(exception[1]) and exception[1].rpartition(".")[2][:1].isupper():
        return "exception" if exception[1] not in ("Error", "Exception") else "error" if _says(text, exception.end()) else None
    if _holds(text, _OF_END) and _END.search(text) is not None:
        return "end"
    found = _SAID.match(text)
    if found is None and _holds(text, _OF_LEVEL):
        found = _LEVEL.search(text[:LEVEL_WITHIN])
    return "error" if found is not None and _says(text, found.end()) and _NO_ERROR.search(text) is None else None


def _holds(text: str, literals: tuple[str, ...]) -> bool:
    """Return whether a text contains one of these literals. For most texts, this is far faster than an expression."""
    return any(literal in text for literal in literals)


def names_an_error(name: str) -> bool:
    """Return whether the name of a class is that of an exception, not of a loss or a metric."""
    return name.endswith(_EXCEPTION_ENDS) and not name.endswith(_METRIC_ENDS)


def says_no_error(text: str) -> bool:
    """Return whether a line counts no errors, or says that one is ignored."""
    return _IGNORED.search(text) is not None or _NO_ERROR.search(text) is not None


def has_words(text: str, begin: int = 0) -> bool:
    """Return whether a line has words from this position on."""
    return len(_WORD.findall(text, begin)) >= _WORDS_MIN


def exit_code_in(text: str) -> int | None:
    """Return the exit code that a line of kind "end" reports."""
    found = _END.search(text)
    return int(found["code"]) if found is not None and found["code"] else None


def _says(text: str, begin: int) -> bool:
    return not text[begin : begin + 1].isdigit() and has_words(text, begin)
