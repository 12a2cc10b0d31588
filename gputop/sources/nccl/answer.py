"""Parses the answers of NCCL's RAS service: JSON (NCCL 2.28.7 and newer) and text (2.24 and newer). Pure functions.

JSON describes every rank. Text is written for people and lists only conspicuous ranks: it omits a communicator whose ranks
all agree, and reports only the number of ranks that agree with the majority.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gputop import wire
from gputop.snapshot import Communicator, CommunicatorRank

_SUCCESS, _IN_PROGRESS = 0, 7
_RESULTS = {
    1: "unhandled CUDA error",
    2: "system error",
    3: "internal error",
    4: "invalid argument",
    5: "invalid usage",
    6: "remote process error",
}
"""Names of ncclResult_t values."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one process reported about all communicators of its job."""

    communicators: tuple[Communicator, ...] = ()
    nccl_version: str | None = None


# -- JSON -----------------------------------------------------------------------------------------------------

_MISSING_COMMA = re.compile(r'("nvml_dev":\s*-?\d+)(\s+"status":)')
"""NCCL 2.28.7 to 2.29.7 omit this comma in their list of missing ranks: exactly when a rank is missing."""


def parse_json(text: str) -> Answer:
    """Parse an answer in JSON.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: the text is not such an answer.
    """
    data = wire.parse_json(_MISSING_COMMA.sub(r"\1,\2", text))
    version = str(data["nccl_version"])
    return Answer(tuple(_communicator(item, version) for item in data["communicators"]), version)


def _communicator(data: Mapping[str, Any], version: str) -> Communicator:
    ranks = [_rank(item) for item in data["ranks"]] + [_missing(item) for item in data.get("missing_ranks", ())]
    return Communicator(
        communicator_id=f"{int(data['hash'], 16):016x}",
        size=int(data["size"]),
        ranks=tuple(sorted(ranks, key=lambda rank: rank.rank)),
        nccl_version=version,
    )


def _rank(data: Mapping[str, Any]) -> CommunicatorRank:
    status = data["status"]
    error = _error(status.get("init_state")) or _error(status.get("async_error"))
    counts = {str(name): int(count) for name, count in data.get("collective_counts", {}).items()}
    return replace(_identity(data), state=_state(status), async_error=error, counts=counts)


def _missing(data: Mapping[str, Any]) -> CommunicatorRank:
    return replace(_identity(data), state="dead" if data["status"].get("considered_dead") else "missing")


def _identity(data: Mapping[str, Any]) -> CommunicatorRank:
    host = str(data["host"])
    return CommunicatorRank(
        rank=int(data["rank"]),
        pid=_natural(data["pid"], 1),
        hostname=None if host == "unknown" else host,
        nvml_index=_natural(data["nvml_dev"], 0),
    )


def _natural(value: Any, least: int) -> int | None:
    return int(value) if int(value) >= least else None


def _state(status: Mapping[str, Any]) -> str:
    if status.get("abort_flag"):
        return "abort"
    if status.get("finalize_called") or status.get("destroy_flag"):
        return "finalize"
    return "running" if status.get("init_state") == _SUCCESS else "init"


def _error(code: Any) -> str | None:
    return None if code in (None, _SUCCESS, _IN_PROGRESS) else _RESULTS.get(code, f"NCCL error {code}")


# -- text -----------------------------------------------------------------------------------------------------

_VERSION = re.compile(r"^NCCL version (\S+)", re.MULTILINE)
_GROUP = re.compile(r"^ *(\d+) +\d+ +\d+ +[\d-]+ +(\d+) +\d+ +[A-Z]+ +[A-Z]+", re.MULTILINE)
_HEADING = re.compile(r"^#(\d+)-\d+ \(([0-9a-f]+)\) ([A-Z]+)")
_TOPIC = re.compile(r"^ +Communicator ranks have different (?:(status)|(\S+) operation counts)")
_SEVERAL = re.compile(
    r"^ +(\d+) ranks (?:have launched up to operation (\d+)|(have not launched any)|have status ([A-Z]+)|reported (.+))"
)
_ONE = re.compile(
    r"^ +Rank (\d+)(?: has launched up to operation (\d+)| (has not launched any) operations| has status ([A-Z]+)"
    r"| reported (.+?))? --(?: GPU (\d+)(?: \(NVML (\d+)\))? managed by process (\d+) on node (\S+))?"
)
_MISSING = re.compile(r"^ +The missing ranks?: ([\d, ]+)")
_DEAD = re.compile(r"^ +Process (\d+) on node (\S+)")
_STATES = {"NOCOMM": "missing", "UNKNOWN": "missing"}


@dataclass(slots=True)
class _Report:
    """What a text has reported about one communicator so far."""

    size: int
    ranks: dict[int, CommunicatorRank] = field(default_factory=dict)
    groups: dict[str, list[tuple[int, int, set[int]]]] = field(default_factory=dict)
    """Collective -> (number of ranks, count, ranks listed by number)."""


def parse_text(text: str) -> Answer:
    """Parse an answer in text, which lists only communicators in trouble."""
    found = _VERSION.search(text)
    version = found.group(1) if found else None
    reader = _TextReader({group: int(size) for group, size in _GROUP.findall(text)})
    for line in text.splitlines():
        reader.take(line)
    return Answer(
        tuple(_to_communicator(name, report, version, reader.dead) for name, report in reader.reports.items()), version
    )


class _TextReader:
    """Processes the lines, and tracks the heading, topic and group of the current line."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.reports: dict[str, _Report] = {}
        self.dead: set[tuple[int, str]] = set()
        self._sizes = sizes
        self._communicator: _Report | None = None
        self._section = ""
        self._topic = ""
        self._count: int | None = None
        self._state: str | None = None
        self._error: str | None = None

    def take(self, line: str) -> None:
        """Process the next line."""
        heading = _HEADING.match(line)
        if heading:
            group, name, self._section = heading.groups()
            self._communicator = self.reports.setdefault(f"{int(name, 16):016x}", _Report(self._sizes.get(group, 0)))
            self._begin("")
        elif line and not line.startswith(" "):
            self._communicator, self._section = None, line.strip()
        elif self._communicator is None:
            dead = _DEAD.match(line) if self._section == "DEAD" else None
            if dead:
                self.dead.add((int(dead.group(1)), dead.group(2)))
        else:
            self._take_detail(self._communicator, line)

    def _begin(self, topic: str) -> None:
        self._topic, self._count, self._error = topic, None, None
        self._state = "missing" if self._section == "INCOMPLETE" else None

    def _take_detail(self, report: _Report, line: str) -> None:
        if topic := _TOPIC.match(line):
            self._begin(topic.group(2) or "")
        elif several := _SEVERAL.match(line):
            self._read_group(several.group(2), several.group(3), several.group(4), several.group(5))
            if self._count is not None:
                report.groups.setdefault(self._topic, []).append((int(several.group(1)), self._count, set()))
        elif one := _ONE.match(line):
            if any(one.group(2, 3, 4, 5)):
                self._read_group(*one.group(2, 3, 4, 5))
                if self._count is not None:
                    report.groups.setdefault(self._topic, []).append((1, self._count, set()))
            self._record_rank(report, int(one.group(1)), *one.group(6, 7, 8, 9))
        elif missing := _MISSING.match(line):
            for rank in re.findall(r"\d+", missing.group(1)):
                self._record_rank(report, int(rank), None, None, None, None)

    def _read_group(self, count: str | None, none: str | None, state: str | None, error: str | None) -> None:
        """Read from a line the values that apply to the ranks listed in it or below it."""
        self._count = int(count) if count else 0 if none else None
        if state:
            self._state = _STATES.get(state, state.lower())
        self._error = error.lower() if error else None

    def _record_rank(
        self, report: _Report, number: int, gpu: str | None, nvml: str | None, pid: str | None, host: str | None
    ) -> None:
        rank = report.ranks.get(number) or CommunicatorRank(number)
        if pid and host:
            rank = replace(rank, pid=int(pid), hostname=host, nvml_index=int(nvml or gpu or 0))
        rank = replace(rank, state=self._state or rank.state, async_error=self._error or rank.async_error)
        if self._count is not None and self._topic:
            rank = replace(rank, counts={**rank.counts, self._topic: self._count})
            report.groups[self._topic][-1][2].add(number)
        report.ranks[number] = rank


def _to_communicator(name: str, report: _Report, version: str | None, dead: set[tuple[int, str]]) -> Communicator:
    for collective, groups in report.groups.items():
        _fill_majority(report, collective, groups)
    ranks = [
        replace(rank, state="dead") if rank.pid and (rank.pid, rank.hostname) in dead else rank
        for rank in report.ranks.values()
    ]
    return Communicator(name, report.size, tuple(sorted(ranks, key=lambda rank: rank.rank)), version)


def _fill_majority(report: _Report, collective: str, groups: list[tuple[int, int, set[int]]]) -> None:
    """Assign the unlisted ranks their count if it is certain: exactly one group is unlisted, and its size fits the rest."""
    named = {rank for _, _, members in groups for rank in members}
    missing = {number for number, rank in report.ranks.items() if rank.state == "missing"}
    unnamed = [(size, count) for size, count, members in groups if not members]
    rest = set(range(report.size)) - named - missing
    if len(unnamed) != 1 or unnamed[0][0] != len(rest):
        return
    for number in rest:
        rank = report.ranks.get(number) or CommunicatorRank(number)
        report.ranks[number] = replace(rank, counts={**rank.counts, collective: unnamed[0][1]})
