"""torchrun's summary of a failed run: which rank failed first, and how. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

ROOT = "Root Cause (first observed failure)"
_FIELD = re.compile(r"^\s+(?P<name>time|host|rank|exitcode|error_file|traceback)\s*: (?P<value>.*)$")
_PID = re.compile(r"\(pid: (\d+)\)")
_LOCAL_RANK = re.compile(r"\(local_rank: (\d+)\)")


@dataclass(slots=True)
class Root:
    """torchrun's root cause: the first failure that the launcher observed."""

    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    exit_code: int | None = None
    pid: int | None = None
    time: str | None = None
    error_file: str | None = None
    others: int = 0


class Summary:
    """Follows the lines of the summary. ``open``: whether the next lines belong to it."""

    def __init__(self) -> None:
        """Start before any summary."""
        self.root: Root | None = None
        self.open = False

    def begin(self) -> None:
        """Begin at the heading of the root cause."""
        self.root, self.open = Root(others=self.root.others if self.root else 0), True

    def line(self, text: str) -> None:
        """Process a line of the summary."""
        found = _FIELD.match(text)
        if found is None or self.root is None:
            if text.startswith("====="):
                self.open = False
            return
        name, value = found["name"], found["value"].strip()
        if name == "rank":
            self.root.rank = number(value.split(" ")[0])
            local = _LOCAL_RANK.search(value)
            self.root.local_rank = int(local[1]) if local else None
        elif name == "exitcode":
            self.root.exit_code = number(value.split(" ")[0])
            pid = _PID.search(value)
            self.root.pid = int(pid[1]) if pid else None
        elif name == "host":
            self.root.host = value
        elif name == "time":
            self.root.time = value
        elif name == "error_file" and value != "<N/A>":
            self.root.error_file = value


def number(value: str | None) -> int | None:
    """Return a number in digits; None for anything else."""
    try:
        return int(value) if value is not None else None
    except ValueError:
        return None
