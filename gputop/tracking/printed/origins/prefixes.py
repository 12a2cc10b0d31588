"""What loggers print before the text of a line: the time, the level, and where the line is in the program. Pure."""

from __future__ import annotations

import re

_DATE = r"(?:\d{4}[-/]\d\d[-/]\d\d|\d\d[-/]\d\d(?:[-/]\d{2,4})?)"
_TIME = r"\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_LEVEL = r"(?:DEBUG|INFO|WARNING|WARN|ERROR|NOTICE)"
_PLACE = r"[A-Za-z_][\w./$]{0,80}(?::[A-Za-z_]\w{0,60})?:\d{1,6}"
_PREFIX = re.compile(
    r"\s{0,9}(?:"
    # glog and absl: "I0314 09:26:53.123456 4321 solver.cpp:40] "
    r"[IWEF]\d{4} \d\d:\d\d:\d\d(?:\.\d{1,9})?\s{1,9}\d{1,20} [\w./]{1,80}:\d{1,6}\]\s"
    # Python's default: "INFO:root:"
    rf"|{_LEVEL}:[\w.]{{1,80}}:\s{{0,3}}"
    rf"|\[?\s{{0,3}}(?:{_DATE}[-T, ]{{1,2}})?{_TIME}\s{{0,3}}\]?(?=[\s\[(|:,-])"
    rf"|\[\s{{0,9}}{_LEVEL}\s{{0,9}}\]|{_LEVEL}\b(?=\s{{0,9}}[\s:|\]-])"
    # The name of the logger or the line of the program, behind one of the others.
    rf"|(?<=[\])|:\s-])(?:[\[(]{_PLACE}[\])]|{_PLACE}(?=\s{{1,3}}[-|]))"
    rf"|(?<=[\])|:\s-])[\w.]{{1,60}}\s-(?=\s\[?\s{{0,9}}{_LEVEL}\b)"
    r")[:\s]{0,9}(?:[|>]\s{1,9}|-(?:\s|(?=\[)))?"
)
_PARTS_MAX = 6
"""A prefix has at most this many parts."""


def prefix_end(line: str) -> int:
    """Return where the text of a line begins behind its logger's prefix; 0 if there is none."""
    end = 0
    for _ in range(_PARTS_MAX):
        found = _PREFIX.match(line, end)
        if found is None:
            return end
        end = found.end()
    return end
