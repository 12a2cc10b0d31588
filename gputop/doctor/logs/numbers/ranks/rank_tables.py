"""The parts of a step of every rank in one place: rows of a table with one for each rank, or several numbers in a line. Pure.

"│ 5 │ 1.291 │ 0.123 │" below "rank │ data │ forward", and "data 1.1 1.3 1.2 | fwd 142 140 217", or
"fwd per rank: r0=0.412 r1=0.424". Or a list for each part, as
Megatron prints them: "forward-compute:", and "rank  0: 441.05" and so on below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.parts import LINES_MIN, kind_of, within_others
from gputop.doctor.logs.numbers.ranks.each_rank import PrintedRank, more_work
from gputop.doctor.logs.numbers.ranks.one_is_late import one_is_late
from gputop.doctor.logs.numbers.ranks.uneven_work import uneven_work
from gputop.doctor.logs.numbers.rows import OF_A_GPU
from gputop.doctor.logs.numbers.setting import Setting

RANKS_MAX, KEPT, COLUMNS_MAX = 256, 4096, 64
MEANS_MIN = 2
"""This many tables are enough if a line calls their values means (our choice)."""
_COLUMNS = re.compile(r"(?i)\s{0,4}(?:[#;/]{1,2}\s{0,4})?(?:columns?|fields?)\s?[:=]\s{0,4}(\S.{5,300})$")
"""The names of columns in a comment: "# columns: step, rank, t_step, t_data"."""
_OF_RANKS = frozenset(("rank", "gpu", "global rank"))
_OF_HOSTS = frozenset(("node", "host", "hostname", "machine"))
_HOST = re.compile(r"[A-Za-z][A-Za-z.-]{0,40}\d[\w.-]{0,40}")
_WORDS = ("rank", *_OF_HOSTS)
_COUNT = re.compile(r"\d{1,3}(?:,\d{3}){1,4}|\d{1,12}")
_AMOUNT = re.compile(r"(?<![a-z])(?:tokens?|frames|nodes|edges|atoms|residues|points|pixels|boxes|length)(?![a-z])")
_UNIT = re.compile(r" ?[(\[]m?s(?:ec)?[)\]]$")
_NO_TIME = re.compile(rf"{OF_A_GPU}|gi?b|tokens")
_GAP = re.compile(r"\s{0,9}[|│┃┆]\s{0,9}|\t|\s{2,}")
_RANK = re.compile(r"(?i)^(?:(?:global |local )?rank|r|gpu)[ _:#]?(\d{1,4})$|^(\d{1,4})$")
_NUMBER = re.compile(r"^(\d{1,6}(?:\.\d{1,6})?) ?(m?s)?$")
_PART = re.compile(r"\s{1,8}([a-z][\w-]{2,60}):")
_OF_RANK = re.compile(r"\s{1,12}rank {1,4}(\d{1,5}): (\d{1,9}\.\d{1,4})")
_IN_TURN = re.compile(r"\br(?:ank)?[ _]?(\d{1,4})[=:] ?(\d{1,6}(?:\.\d{1,6})?)(?= |,|$)")
_NOT_OF_NAME = re.compile(r"(?i)\bper[- ]rank\b|\(m?s\)|[:=\[|]")
_MEANS = re.compile(r"(?i)\b(?:means?|avg|averages?|averaged) (?:over|of)\b|\bper[- ]rank (?:means?|averages?)\b")
_EACH = re.compile(
    r"(?<![\w.])([A-Za-z][\w+/-]{0,30}):?[ =\[]{1,3}(\d{1,6}(?:\.\d{1,4})?(?:[ ,]{1,2}\d{1,6}(?:\.\d{1,4})?){1,255})"
    r"(?=\s?[\]|;]|\s{2}|$)"
)


class RankTables:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first table."""
        self._columns: list[str] = []
        """The names of the columns of the table that is read."""
        self._lists = False
        """Whether there are lists of ranks below the parts."""
        self._part = ""
        """The part of a step whose list is read."""
        self._place = 0
        """That of the ranks."""
        self._ranks: dict[str, dict[str, list[float]]] = {}
        self._hosts: dict[str, dict[str, list[float]]] = {}
        self._amounts: dict[str, dict[str, list[float]]] = {}
        """How much there was of something in each step of a rank: tokens, frames."""
        self._are_means = False
        self._setting: Setting | None = None

    def read(self, line: Line) -> None:
        """Take the next line."""
        text = line.text
        self._setting = line.setting
        self._are_means = self._are_means or _MEANS.search(text) is not None
        if self._part and (listed := _OF_RANK.fullmatch(text.rstrip())) is not None:
            _keep(self._ranks, listed[1], self._part, float(listed[2]))
            self._are_means = self._lists = True  # over the steps since the last report
            return
        part = _PART.fullmatch(text.rstrip())
        self._part = part[1] if part is not None and kind_of(part[1]) is not None and not within_others(part[1]) else ""
        if any(word in line.lower for word in _WORDS) and (heading := _heading(text)) is not None:
            self._columns = heading
            self._place = next(place for place, name in enumerate(heading) if name in _OF_RANKS | _OF_HOSTS)
        elif self._columns and any(character.isdigit() for character in text):
            self._take(_cells(text))
        elif line.row:
            self._take_row(line)
        elif text.count("|") > 1:
            self._take_each(text)
        elif "r0" in text or "rank 0" in text or "rank0" in text:
            self._take_in_turn(text)

    def findings(self) -> tuple[Finding, ...]:
        """Return the finding on the rank that all others wait for, if there is one."""
        setting = self._setting
        if setting is None or setting.are_apart or (setting.is_one_model and not setting.shares_only_experts):
            return ()
        least = MEANS_MIN if self._are_means and (self._columns or self._lists) else LINES_MIN
        late = one_is_late(self._hosts, "host", "", least) if len(self._hosts) > 1 else None
        if late is not None or {int(rank) for rank in self._ranks} != set(range(len(self._ranks))):
            return () if late is None else (late,)
        ranks = {
            int(rank): PrintedRank(parts=parts, amounts=self._amounts.get(rank, {})) for rank, parts in self._ranks.items()
        }
        if len(ranks) > 1 and (more := more_work(ranks)) is not None:
            return (more,)
        found = one_is_late(self._ranks, "rank", "", least) or uneven_work(self._ranks)
        if found is not None and setting.is_one_model and found.id == "F02":
            found = _of_experts(found)
        return () if found is None else (found,)

    def _take(self, cells: Sequence[str]) -> None:
        if len(cells) == len(self._columns) and self._columns[self._place] in _OF_HOSTS and _HOST.fullmatch(cells[self._place]):
            self._take_parts(self._hosts, cells[self._place], cells)
            return
        rank = _RANK.match(cells[self._place]) if len(cells) == len(self._columns) else None
        if rank is None:
            self._columns = self._columns if len(cells) < 2 else []
            return
        self._take_parts(self._ranks, rank[1] or rank[2], cells)
        self._take_amounts(rank[1] or rank[2], zip(self._columns, cells, strict=True))

    def _take_row(self, line: Line) -> None:
        """Take a row whose heading follows the words of a logger."""
        row = line.row
        rank = next((cell for name, cell in row.items() if name in _OF_RANKS and cell.isdecimal()), None)
        host = next((cell for name, cell in row.items() if name in _OF_HOSTS and _HOST.fullmatch(cell)), None)
        for name, seconds in line.parts.items():
            if rank is not None:
                _keep(self._ranks, rank, name, seconds)
            elif host is not None:
                _keep(self._hosts, host, name, seconds)
        if rank is not None and line.parts:
            self._take_amounts(rank, row.items())

    def _take_amounts(self, rank: str, row: Iterable[tuple[str, str]]) -> None:
        for name, cell in row:
            if _AMOUNT.search(name) and (number := _COUNT.fullmatch(cell)) is not None:
                _keep(self._amounts, rank, name, float(number[0].replace(",", "")))

    def _take_parts(self, members: dict[str, dict[str, list[float]]], member: str, cells: Sequence[str]) -> None:
        for name, cell in zip(self._columns, cells, strict=True):
            value = _NUMBER.match(cell)
            if value is not None and kind_of(name) is not None and not _NO_TIME.search(name):
                _keep(members, member, name, float(value[1]))

    def _take_each(self, text: str) -> None:
        found = [(name.lower(), re.split(r"[ ,]+", values)) for name, values in _EACH.findall(text)]
        found = [(name, values) for name, values in found if kind_of(name) is not None]
        waits = any(kind_of(name) in ("waiting", "communication") for name, _ in found)
        if len(found) < 2 or not waits or len({len(values) for _, values in found}) != 1:
            return
        for name, values in found:
            for rank, value in enumerate(values):
                _keep(self._ranks, str(rank), name, float(value))

    def _take_in_turn(self, text: str) -> None:
        """Take a part with the number of each rank before its value: "fwd+bwd per rank (s): r0=0.412 r1=0.424"."""
        found = _IN_TURN.findall(text)
        if len(found) < 2 or [int(rank) for rank, _ in found] != list(range(len(found))):
            return
        first = _IN_TURN.search(text)
        name = _NOT_OF_NAME.sub(" ", text[: first.start()] if first is not None else "").strip().lower()
        if kind_of(name) is not None:
            for rank, value in found:
                _keep(self._ranks, rank, name, float(value))


def _keep(members: dict[str, dict[str, list[float]]], member: str, name: str, value: float) -> None:
    if member in members or len(members) < RANKS_MAX:
        values = members.setdefault(member, {}).setdefault(name, [])
        if len(values) < KEPT:
            values.append(value)


def _of_experts(found: Finding) -> Finding:
    """Return the finding on a rank that computes longer as one on its experts, which get more tokens than those of others."""
    return replace(
        found,
        id="F03",
        title=f"{found.title.partition(',')[0]}: its experts get more tokens than those of the others, which wait for it",
        cause="The router sends most tokens to a few experts, and sends ever more to those that have learned the most.",
        fix="aux_loss_coef = 0.01  # a loss that balances the router, or a bias for each expert without one\n"
        "capacity_factor = 1.25  # no expert takes more than its share by this",
    )


def _cells(text: str) -> list[str]:
    return [cell for cell in (cell.strip() for cell in _GAP.split(text.strip(" |│┃┆"))) if cell]


def _heading(text: str) -> list[str] | None:
    """Return the names of the columns; None unless one of the first two names ranks or hosts, and two name parts of a step."""
    listed = _COLUMNS.match(text)
    cells = [cell.strip().lower() for cell in listed[1].split(",")] if listed is not None else []
    cells = [_UNIT.sub("", cell) for cell in cells or [cell.lower() for cell in _cells(text)]]
    if not 3 <= len(cells) <= COLUMNS_MAX or (_OF_RANKS | _OF_HOSTS).isdisjoint(cells[:2]):
        return None
    return cells if sum(kind_of(cell) is not None for cell in cells) > 1 else None
