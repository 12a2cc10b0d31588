"""The values in text that a training has printed, as a file of output to import: read by the same patterns as a live one's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from gputop.jobs.output.follower import Backlog
from gputop.tracking.printed.transcript import Transcript
from gputop.untracked.files.values import Parser, Value
from gputop.untracked.kinds import OUTPUT, Kind
from gputop.untracked.starts import newest_start


class PrintedValues:
    """Follows one file. If several starts were appended to it, the newest one that its first piece shows begins the curve."""

    refused = False

    def __init__(self) -> None:
        self._transcript = Transcript(with_pace=True, with_bars=True)
        self._is_first = True

    def feed(self, data: bytes) -> list[Value]:
        """Return the values that are complete with these bytes; none has a time."""
        if self._is_first and data:
            self._is_first = False
            data = data[newest_start(data, True) :]
        return _values(self._transcript.feed(data))

    def skip(self, number: int) -> None:
        """Begin anew after bytes that were not read."""
        self._transcript.skip()
        self._is_first = False

    def end(self) -> list[Value]:
        """Return the values of a last line without a newline."""
        return _values(self._transcript.end())


def _values(steps: Iterable[tuple[int, Mapping[str, float]]]) -> list[Value]:
    return [Value(name, step, None, value) for step, metrics in steps for name, value in metrics.items()]


def _parser(path: Path) -> Parser:
    return PrintedValues()


PRINTED = Kind(
    OUTPUT,
    "any text file that is named",
    "anything that prints its loss",
    re.compile(r"(?!)"),
    _parser,
    Backlog(1 << 20, 32 << 20),
)
"""The kind of a file of output that the user names. No search finds one: any text may look like it."""
