"""A line of a log with what its followers need: when it was written, whose it is, and which times it prints. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.numbers.clock import Clock
from gputop.doctor.logs.numbers.parts import Legend
from gputop.doctor.logs.numbers.rows import Rows, parts_in
from gputop.doctor.logs.numbers.setting import Setting
from gputop.doctor.logs.numbers.speakers import Speaker, speaker_of
from gputop.tracking.printed.languages import in_english

_OF_EVALUATION = re.compile(r"(?i)^\W{0,4}(?:\w{1,20}: )?(?:test|val|valid|validation|eval|evaluation)\b")
_FILE = re.compile(r"(?i)^==> .{0,200}?(?:rank|worker|r|gpu)[_.-]?(\d{1,4})(?:\.\w{1,10})? <==$")
"""The heading that tail prints before the end of each of several files."""
_UNIT = re.compile(r"(?i)\d ?(?:m?s|sec)\b|\((?:m?s|sec)\)|_(?:m?s|sec)\b")
CHARACTERS = 1000
"""How many characters of a line are read."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line without escape sequences."""

    text: str
    """With the words for a loss, a step and the like in English."""
    printed: str
    """As it was printed, to be quoted."""
    lower: str
    """The text in lower case, to look for words before an expression does."""
    at: float | None
    """When it was written, in seconds since some day; None if it does not say."""
    speaker: Speaker | None
    parts: Mapping[str, float]
    """The seconds of each part of a step that it prints, by name; as printed if it names no unit."""
    row: Mapping[str, str]
    """If it is a row of a table: its cells by the names of their columns, in lower case."""
    setting: Setting
    """What the lines up to this one say of how their processes work together."""

    @property
    def rest(self) -> str:
        """What follows the number of its rank or the name of its host."""
        return self.text if self.speaker is None else self.speaker.rest

    @property
    def is_of_evaluation(self) -> bool:
        """Whether it begins with the name of an evaluation: "Test: [10/50] Time 0.3 Data 0.2"."""
        return _OF_EVALUATION.match(self.rest) is not None


class Follower(Protocol):
    """Follows the lines of one log."""

    def read(self, line: Line) -> None:
        """Take the next line."""

    def findings(self) -> tuple[Finding, ...]:
        """Return what its lines say together."""


class Lines:
    """Reads the lines of one log, which share a clock and the names of the times in their rows."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._clock, self._legend = Clock(), Legend()
        self._setting = Setting()
        self._rows = Rows()
        self._file_of: int | None = None
        """The rank whose file the next lines are from, if the log is made of the ends of several files."""

    def of(self, texts: Iterable[str]) -> Iterator[Line]:
        """Yield the next lines."""
        for whole in texts:
            printed = whole[:CHARACTERS]
            text = in_english(printed)
            if printed.startswith("==> "):
                name = _FILE.match(printed)
                self._file_of = int(name[1]) if name is not None else None
                self._clock = Clock()
            speaker = speaker_of(text)
            if speaker is None and self._file_of is not None:
                speaker = Speaker(self._file_of, None, True, text)
            parts = self._legend.parts_of(text if speaker is None else speaker.rest)
            if parts and text != printed and _UNIT.search(text) is None:
                parts = {}  # in other languages than English, the same words name other things, too
            row = self._rows.of(text)
            parts = parts or (parts_in(row) if row else {})
            lower = text.lower()
            self._setting.read(lower)
            yield Line(text, printed, lower, self._clock.at(printed), speaker, parts, row, self._setting)
