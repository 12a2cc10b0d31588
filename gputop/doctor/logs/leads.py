"""Words that something writes before each line of a traceback: a logger, Ray, vLLM, docker compose, a cluster's log. Pure.

They are learned from the first frame of a traceback: the words before ``  File "..."`` there, if the traceback's first line
begins in the same way. Timestamps differ from line to line; everything else must be the same.
"""

from __future__ import annotations

import re

KEPT = 16
"""Maximum number of leads kept per log."""
_FRAME = re.compile(r'^(?P<lead>\S.{0,199}?)(?P<rest>  File "[^"]+", line \d.*)$')
_TIME = re.compile(r"(?<!\d)\d+(?:[-:.,T/]\d+)+Z?")
_A_TIME = r"\d{1,20}(?:[-:.,T/]\d{1,20}){0,12}(?:Z|(?!\d))"
"""Represents a timestamp in learned words. It can end in one place only, so a line with many timestamps is searched only once.
"""
_RANK = re.compile(r"(?i)\brank(?:(?!-)[\W_]){0,2}(\d{1,6})\b|(?<=[\]Z] )(\d{1,4}): $")
"""A rank by that word, or srun's label after a timestamp. -1 is the rank of a process without a process group."""


_LOGGED = re.compile(r"^[\W\d]{0,40}(?:ERROR|CRITICAL|EXCEPTION|error)\b")
"""What a logger writes before each line of a traceback: the script caught the exception and reported it."""
_WARNED = re.compile(r"^\[?W\d{4} |^[\W\d]{0,40}(?:[\w.]{1,60}\W{1,4})?WARN(?:ING)?\b")
"""What it writes before a traceback that is only a warning."""


class Leads:
    """The leads of one log, as expressions."""

    def __init__(self) -> None:
        self._known: dict[str, re.Pattern[str]] = {}
        self._ranks: dict[str, int] = {}
        self._logged: set[str] = set()
        self._warned: set[str] = set()

    def strip(self, text: str) -> tuple[str, str] | None:
        """Return the lead of a line and the rest of the line; None if it has no known lead."""
        for lead, pattern in self._known.items():
            found = pattern.match(text)
            if found is not None:
                return lead, text[found.end() :]
        return None

    def learn(self, begin: str, text: str) -> tuple[str, str] | None:
        """Learn the lead of a frame. Return it and the frame; None if there is no lead.

        ``begin`` is the traceback's first line.
        """
        found = _FRAME.match(text)
        if found is None:
            return None
        pattern = re.compile(_A_TIME.join(map(re.escape, _TIME.split(found["lead"]))))
        if pattern.match(begin) is None or len(self._known) >= KEPT:
            return None
        self._known[pattern.pattern] = pattern
        if _LOGGED.match(found["lead"]) is not None:
            self._logged.add(pattern.pattern)
        if _WARNED.match(found["lead"]) is not None:
            self._warned.add(pattern.pattern)
        rank = _RANK.search(found["lead"])
        if rank is not None:
            self._ranks[pattern.pattern] = int(rank[1] or rank[2])
        return pattern.pattern, found["rest"]

    def is_logged(self, lead: str) -> bool:
        """Return whether a lead is a logger's, has the level of an error, and names no process."""
        return lead in self._logged

    def is_warned(self, lead: str) -> bool:
        """Return whether a lead is a logger's, and has the level of a warning."""
        return lead in self._warned

    def rank_of(self, lead: str) -> int | None:
        """Return the rank that a lead names, or None."""
        return self._ranks.get(lead)
