"""When a line of a log was written, by the time at its beginning, in the forms that loggers, launchers and people use. Pure.

Only differences count: a date without a year is one of a common year, and a clock without a date one of the first day.
"""

from __future__ import annotations

import re
from datetime import date

from gputop.doctor.logs.lines import rank_and_text

_WITHIN = 60
"""A time appears within this many characters of the line's beginning."""
_DAY_S = 86_400.0
_TIME = r"(?P<h>\d{2,3}):(?P<m>[0-5]\d):(?P<s>[0-5]\d)(?:[.,](?P<f>\d{1,9}))?"
_DATED = re.compile(rf"(?<!\d)(?P<year>\d{{4}})[-/.](?P<month>\d\d)[-/.](?P<day>\d\d)[ T_,-]{{1,3}}{_TIME}")
_YEAR_LAST = re.compile(rf"(?<!\d)(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{{4}}),? {_TIME}")
"""As Hugging Face's scripts write it."""
_WITHOUT_YEAR = re.compile(rf"(?<![\d/])(?P<month>\d\d)[-/](?P<day>\d\d) {_TIME}")
_NAMED = re.compile(rf"(?<![A-Za-z])(?P<name>[A-Z][a-z]{{2}}) {{1,2}}(?P<day>\d{{1,2}}) {_TIME}(?: (?P<year>20\d\d)\b)?")
_OF_GLOG = re.compile(rf"(?:^|\[)[IWEF](?P<month>\d\d)(?P<day>\d\d) {_TIME}")
_ALONE = re.compile(rf"^\W{{0,2}}{_TIME}(?=[\s\]|)>:,-])(?!<)")
"""A time of day, or the time since the start, at the very beginning of the line; not the time inside a progress bar."""
_SECONDS = re.compile(r"^\W{0,2}(?:t ?= ?|T?\+)?(?P<seconds>\d{1,9}(?:\.\d{1,9})?) ?(?:s\b|(?<=\.\d{3})\]|(?<=\.\d{6})\])")
"""The seconds since the start: "t=12.5s", "[ 12.503]"."""
_MONTHS = {
    name: number
    for number, name in enumerate(("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1)
}
_COMMON_YEAR = 2001
_DATED_FROM_S = 1e10
"""A time with a date is far above, and one without far below."""


def written_at(line: str) -> float | None:
    """Return when a line was written, in seconds since some day; None if it does not begin with a time."""
    head = line[:_WITHIN]
    if ":" not in head and not _SECONDS.match(head):
        return None
    for form in (_DATED, _YEAR_LAST, _WITHOUT_YEAR, _NAMED, _OF_GLOG):
        found = form.search(head)
        if found is not None:
            day = _day(found)
            return None if day is None else day * _DAY_S + _of_day(found)
    head = rank_and_text(head)[1]
    found = _ALONE.match(head)
    if found is not None:
        return _of_day(found)
    since = _SECONDS.match(head)
    return float(since["seconds"]) if since is not None else None


def _day(found: re.Match[str]) -> int | None:
    groups = found.groupdict()
    month = _MONTHS.get(groups.get("name") or "") or int(groups.get("month") or 0)
    try:
        return date(int(groups.get("year") or _COMMON_YEAR), month, int(groups["day"])).toordinal()
    except ValueError:
        return None


def _of_day(found: re.Match[str]) -> float:
    fraction = float(f"0.{found['f']}") if found["f"] else 0.0
    return int(found["h"]) * 3600.0 + int(found["m"]) * 60.0 + int(found["s"]) + fraction


class Clock:
    """The times of the lines of one log, which only rise: a time without a date starts over at midnight.

    A log may have both: nvidia-smi prints a date between the lines of a script that prints none. The first time decides which
    of them counts.
    """

    def __init__(self) -> None:
        self._last: float | None = None
        self._days_s = 0.0
        self._is_dated = False

    def at(self, line: str) -> float | None:
        """Return when this line was written, in seconds; None if it does not say, or is older than the one before it."""
        at = written_at(line)
        if at is None:
            return None
        is_dated = at >= _DATED_FROM_S
        if self._last is None:
            self._is_dated = is_dated
        elif is_dated and not self._is_dated:
            at %= _DAY_S
        if not is_dated and self._is_dated and self._last is not None:
            at += self._last // _DAY_S * _DAY_S
        else:
            at += self._days_s
        if self._last is not None and at < self._last:
            if self._last - at < _DAY_S / 2 or at + _DAY_S - self._last > _DAY_S / 2:
                return None
            self._days_s += 0.0 if self._is_dated else _DAY_S
            at += _DAY_S
        self._last = at
        return at
