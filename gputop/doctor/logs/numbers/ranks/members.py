"""Ranks that join a process group, by what Lightning and NeMo print: one that never does keeps all others waiting. Pure."""

from __future__ import annotations

import re

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.after import is_progress
from gputop.doctor.logs.numbers.line import Line

RANKS_MAX = 65_536
_JOINS = re.compile(r"Initializing distributed: GLOBAL_RANK: (\d{1,5}), MEMBER: \d{1,5}/(\d{1,5})")
"""lightning/fabric/utilities/distributed.py, _init_dist_connection, since 1.6."""
_ALL = "distributed processes registered"


class Members:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first rank."""
        self._joined: set[int] = set()
        self._world = 0
        self._goes_on = False

    def read(self, line: Line) -> None:
        """Take the next line."""
        joins = _JOINS.search(line.text) if "MEMBER" in line.text else None
        if joins is not None and len(self._joined) < RANKS_MAX:
            if int(joins[1]) in self._joined:
                self._joined.clear()  # another start
            self._joined.add(int(joins[1]))
            self._world, self._goes_on = int(joins[2]), False
        elif self._world and (_ALL in line.text or is_progress(line.rest)):
            self._goes_on = True

    def findings(self) -> tuple[Finding, ...]:
        """Return which ranks have not joined, if most have, and nothing follows."""
        missing = sorted(set(range(self._world)) - self._joined)
        if self._goes_on or not missing or len(missing) >= len(self._joined) or max(self._joined) >= self._world:
            return ()
        have = "has" if len(missing) == 1 else "have"
        return (
            Finding(
                id="G03",
                severity="error",
                confidence="likely",
                title=f"{words.ranks(missing).capitalize()} of {self._world} {have} not joined",
                evidence=(
                    Fact(
                        f"{words.count(len(self._joined), 'rank')} say that they are joining, and no step follows",
                        missing,
                        "log",
                    ),
                ),
                cause="The process group waits until all ranks have joined. The missing one was not started, has ended, or "
                "hangs before it joins: in an import, or in a read from a file system that does not answer.",
                fix="ps -eo pid,stat,wchan:32,args | grep python  # on its host; D: it waits for a disk or the network\n"
                "gputop where  # where each rank is now",
                refuted_by="The log ends before the last rank had time to join.",
            ),
        )
