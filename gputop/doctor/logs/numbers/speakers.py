"""Which rank or host a line is about, by its beginning or its JSON. Pure."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from gputop.doctor.logs.numbers.parts import LINES_MIN

_LOGGER = r"(?:[A-Z]{4,8}:[\w.]{1,40}:)?"
_TIME = r"(?:\[?[\d:.,TZ /-]{4,30}\]?(?:\s|(?=\[[a-z_])))?"
_LEVEL = r"(?:DEBUG|INFO|WARNING|SUCCESS)"
_AFTER_TIME = (
    rf"(?:{_LEVEL} (?=\[[\w.]{{1,40}}:\d{{1,6}}\] \()|\|? ?{_LEVEL} {{0,5}}\| [\w.:<>-]{{1,80}} [-|] |"
    rf"(?:- )?(?:[\w.]{{1,40}} - )?{_LEVEL} - (?:[\w.]{{1,40}} - )?|"
    rf"\[[\w.]{{1,40}}\]\[{_LEVEL}\] - |\[{_LEVEL}\] |{_LEVEL}:? {{1,5}})?"
)
"""The level and the place of a message, as loguru, logging, hydra and others print them."""
_BEFORE = rf"^{_LOGGER}(?:\[[^\]\s]{{1,60}}/[^\]\s]{{1,60}}\]\s)?{_TIME}{_AFTER_TIME}"
"""What comes before a message: a logger, a pod, a time and a level."""
_WORD_FOR_RANK = r"(?:rank|trainer|part|proc|rang|rango|s[ıi]ra|ранг|ランク|랭크|进程)"
_RANK = re.compile(
    _BEFORE + r"(?:\s{0,8}\W{0,2}(?:" + _WORD_FOR_RANK + r"[ _:#=-]{0,3}|gpu[ _:#=]?)(?P<rank>\d{1,4})(?:/\d{1,4})?"
    r"(?:\s?[\])>:|,]|(?=\s))"
    r"|\W{0,2}r(?P<short>\d{1,3})(?:[\])>:|]{1,2}|(?=\s))|\[(?P<number>\d{1,3})\]\s| {0,3}(?P<label>\d{1,3}): "
    r"|(?:\[[\w.]{1,40}:\d{1,6}\] )?\((?P<icefall>\d{1,3})/\d{1,3}\)(?=\s)"
    r"|\[\d{1,12},(?P<mpi>\d{1,6})\]<std(?:err|out|diag)>:? ?)",
    re.IGNORECASE,
)
_WITHIN = re.compile(
    rf"^{_LOGGER}{_TIME}{_AFTER_TIME}"
    r"(?:\s{0,12}[\w.-]{1,40}(?:: {1,2}|(?<=\d) {1,4}))?"
    r"(?:\W{0,3}(?:step|iter|iteration|[eé]po\w{2,3}|batch|update)\W{0,4}\d{1,9}(?:/\d{1,9})?\W{1,4})?"
    r"(?:rank|rang|rango)[ _:#=]{0,2}(?P<rank>\d{1,4})\b|[\"']rank[\"']: {0,2}(?P<key>\d{1,4})\b"
    r"|\[[A-Z]{4,8}\] \[rank(?P<logged>\d{1,4})\]",
    re.IGNORECASE,
)
"""After the step, or in a dictionary."""
_HOST = re.compile(
    _BEFORE + r"(?:\s{0,16}(?:host|node)[ =]|\W{0,3})"
    r"(?:(?P<host>[A-Za-z][A-Za-z0-9]{0,30}(?:[.-][A-Za-z0-9]{1,30}){0,6}[.-]\d[\w.-]{0,20}|"
    r"[A-Za-z][A-Za-z0-9]{0,30}(?:-[A-Za-z0-9]{1,30}){0,3}-[a-z]{1,6}\d{1,4}|"
    r"(?:node|host|compute|worker|server|srv|dgx|nid|cn|gn|hpc|n)\d[\w.-]{0,20}|"
    r"[A-Za-z][\w-]{1,30}\d\.[a-z][\w.-]{1,40}|gpu-\d[\w.-]{0,20}|[A-Za-z][\w.-]{1,38}(?=\[\d)))"
    r"(?:\[(?P<number>\d{1,4})\])?\s?[\])>:|]\s"
)
"""A host by a name of the usual forms (node07, lc-203, gn14.site), or by one before the number of a rank."""
_POD = re.compile(r"^\[pod/(?P<host>[\w.-]{1,60})/[\w.-]{1,60}\](?P<number>(?!))?\s")
_BEFORE_RANK = re.compile(_BEFORE + r"\s{0,12}(?P<host>[A-Za-z][\w.-]{0,37}(?:: {1,2}|(?<=\d) {1,4}))rank[ _:#=]{0,2}\d")
_HOST_KEY = re.compile(r"[\"'](?:host(?:name)?|node)[\"']: {0,2}[\"'](?P<host>[A-Za-z][\w.-]{0,60})[\"']")
_LONGEST = 64
"""Longer names of hosts are cut to this many characters."""


class Speaker(NamedTuple):
    """Whose line it is."""

    rank: int | None
    host: str | None
    is_named: bool
    """Whether the line names a rank; if not, the number may be that of an epoch or of anything else."""
    rest: str


def speaker_of(line: str) -> Speaker | None:
    """Return whose line it is; None if it does not say."""
    found = _RANK.match(line)
    if found is not None:
        number = next(int(group) for group in found.groups() if group is not None)
        return Speaker(number, None, found["rank"] is not None, line[found.end() :])
    within = _WITHIN.search(line)
    if within is not None:
        before = _BEFORE_RANK.match(line) or (_HOST_KEY.search(line) if within["key"] else None)
        host = before["host"].rstrip(": ") if before is not None else None
        return Speaker(int(within["rank"] or within["key"] or within["logged"]), host, True, line)
    host = _HOST.match(line) or _POD.match(line)
    if host is None:
        return None
    rank = int(host["number"]) if host["number"] else None
    return Speaker(rank, host["host"][:_LONGEST], False, line[host.end() :])


class Turns:
    """Whether bare numbers or names are those of ranks or hosts: those come in turn, while the numbers of epochs only grow."""

    def __init__(self) -> None:
        """Start before the first."""
        self._last: str | None = None
        self._seen: Counter[str] = Counter()
        self._again = 0

    def take(self, name: str) -> None:
        """Take the next one."""
        self._again += name != self._last and self._seen[name] > 0
        self._seen[name] += 1
        self._last = name

    @property
    def are_taken(self) -> bool:
        """Whether enough of them have come again after another one."""
        return self._again >= LINES_MIN - 1
