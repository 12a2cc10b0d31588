"""Where the newest start begins in output that existed before the run was followed: ``python train.py >> train.log``. Pure.

A file does not show which process wrote a line. A new start is recognized if the first lines of the file appear again, or if
progress returns to earlier steps after a traceback.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

_TRACEBACK = b"Traceback (most recent call last):"
_NEAR_BYTES = 4096
"""How far before a place to look for the last progress, and how much of the file to search for its first lines."""
_FIRST_LINES = 2
_LETTERS_MIN = 8
"""A shorter first line may recur for any reason."""
_PROGRESS_WITHIN_LINES = 200
"""How far from where a start begins to look for its first progress."""
_PLACES_MAX = 64
"""Maximum number of places to examine, newest first: a script may print a traceback, or its first lines, in every step."""
_LINE = re.compile(rb"[^\r\n]{1,%d}" % _NEAR_BYTES)
_LETTER = re.compile(rb"[A-Za-z]")
_DIGITS = re.compile(rb"\d+")


def newest_start(data: bytes, whole: bool) -> int:
    """Return where the newest start begins in output; 0 if only one shows. ``whole``: whether ``data`` begins the file."""
    again = list(_first_lines_again(data))[: -_PLACES_MAX - 1 : -1] if whole else []
    found = next((at for at in again if _begins_anew(data, at, resumed=True, unless=True)), 0)
    for at in islice(_tracebacks(data), _PLACES_MAX):
        if at <= found:
            break
        if _begins_anew(data, at, resumed=False, unless=False):
            return at
    return found


def _tracebacks(data: bytes) -> Iterator[int]:
    """Yield where tracebacks begin, the last one first."""
    at = data.rfind(_TRACEBACK)
    while at >= 0:
        yield at
        at = data.rfind(_TRACEBACK, 0, at)


def _first_lines_again(data: bytes) -> Iterator[int]:
    """Yield where the first lines of the file, with any numbers, appear again."""
    from gputop.doctor.logs.after import is_progress  # the modules that judge texts are imported only if needed
    from gputop.doctor.logs.lines import clean

    first = []
    for line in data[:_NEAR_BYTES].splitlines()[:_FIRST_LINES]:
        if len(_LETTER.findall(line)) < _LETTERS_MIN or is_progress(clean(line)):
            break
        first.append(_DIGITS.sub(rb"\\d+", re.escape(line)))
    if first:
        again = re.compile(rb"^" + rb"\r?\n".join(first) + rb"\r?$", re.MULTILINE)
        yield from (match.start() for match in again.finditer(data, 1))


def _begins_anew(data: bytes, at: int, *, resumed: bool, unless: bool) -> bool:
    """Return whether the progress after a place is earlier than that before it; ``unless``: the answer if there is none yet."""
    from gputop.doctor.logs.after import goes_back, is_progress, last_position, position_of, says_resumed
    from gputop.doctor.logs.lines import clean, rank_and_text

    before = last_position(data[max(0, at - _NEAR_BYTES) : at])
    if before is None:
        return False
    for line in islice(_LINE.finditer(data, at), _PROGRESS_WITHIN_LINES):
        text = rank_and_text(clean(line[0]))[1]
        resumed = resumed or says_resumed(text)
        if is_progress(text) and (after := position_of(text)) is not None:
            return goes_back(before, after, resumed)
    return unless
