"""Scan a log piece by piece for what is known: error texts, exceptions with their place, torchrun's summary.

Bytes in, observations out; memory stays bounded for logs of any length. Owns which bytes become lines of text: a line without
known text costs only a search for literals. What the lines say is ``reading``'s. Pure: the caller opens the file and passes its
bytes.
"""

from __future__ import annotations

from collections.abc import Collection

from gputop.doctor.logs.after import LAST_BYTES, Tail
from gputop.doctor.logs.json_lines import BEGINS_WITHIN, unfolded
from gputop.doctor.logs.last_words import Word
from gputop.doctor.logs.launcher import Root
from gputop.doctor.logs.lines import clean
from gputop.doctor.logs.observation import Observation
from gputop.doctor.logs.pieces import TEXT_TRIGGERS, Line, Pieces
from gputop.doctor.logs.reading import Reading
from gputop.doctor.logs.starts import Start

TEXT_CHARS = 4_000
"""Characters examined of one line, around the text found in it."""
ANNOUNCED_WITHIN = 400
"""The words that announce a chained or an ignored exception are among this many bytes before it."""


class LogScan:
    """Scan one log: call ``feed`` in order, then ``end``."""

    def __init__(self, name: str, rank: int | None = None, written_at: float | None = None) -> None:
        """Start a scan. ``rank``: owner of a single-rank log; ``written_at`` (wall clock) dates timestamps without a year."""
        self.name = name
        self.written_at = written_at
        self._pieces = Pieces()
        self._reading = Reading(name, rank, written_at, self._pieces)

    @property
    def ranks(self) -> set[int]:
        """Ranks with at least one known text, or the rank that owns this log."""
        return self._reading.ranks

    @property
    def progress(self) -> int:
        """Lines of progress after texts; others are not counted."""
        return self._reading.progress

    @property
    def tail(self) -> Tail:
        """What came after the last error."""
        return self._reading.tail

    @property
    def lines(self) -> int:
        """Lines so far."""
        return self._pieces.lines

    @property
    def ending(self) -> list[str]:
        """The last lines so far, without blank ones."""
        return self._pieces.ending()

    @property
    def size_bytes(self) -> int:
        """Bytes of its complete lines so far, without what was skipped."""
        return self._pieces.size_bytes

    @property
    def inner(self) -> dict[int, str]:
        """The last exception of each traceback, by its block."""
        return self._reading.blocks.inner

    @property
    def root(self) -> Root | None:
        """The first failure that torchrun observed."""
        return self._reading.summary.root

    @property
    def last_words(self) -> list[Word]:
        """The error lines at the end, about which nothing else is known."""
        return self._reading.last_words.words

    @property
    def start(self) -> Start:
        """How far the run came before its first collective operation."""
        return self._reading.start

    @property
    def observations(self) -> list[Observation]:
        """All observations so far, in the order of the log. An exception is noted late: once its traceback has ended."""
        return self._reading.kept.in_order()

    def feed(self, data: bytes) -> list[Observation]:
        """Process the next bytes and return the new observations in their complete lines."""
        self._scan_piece(self._pieces.complete(data))
        return self._reading.kept.take_new()

    def skip(self) -> None:
        """Mark a part of the log as skipped: open tracebacks end, and later lines have no numbers."""
        self._reading.begin_anew()
        self._pieces.skip()

    def continue_lines(self, before: LogScan) -> None:
        """Continue the line numbers of another scan of the same log."""
        self._pieces.continue_after(before._pieces)

    def outlive(self, places: Collection[int]) -> None:
        """Mark the texts at these places (``Observation.at``) as survived: their writers are known to have continued."""
        self._reading.kept.outlive(places)

    def end(self) -> list[Observation]:
        """Process the unterminated last line and close everything that is open."""
        self._scan_piece(self._pieces.last())
        self._reading.end()
        return self._reading.kept.take_new()

    def _scan_piece(self, data: bytes) -> None:
        if not data:
            return
        reading = self._reading
        reading.look_back(self._pieces.last_bytes)
        after = 0
        for line in self._pieces.read(data, reading.follows, reading.tail.piece):
            if line.jumped:
                if line.begin > after:
                    reading.look_back(data[max(after, line.begin - LAST_BYTES) : line.begin])
                reading.announce(data[max(0, line.begin - ANNOUNCED_WITHIN) : line.begin])
            for text in self._texts(data, line):
                reading.line(text[:TEXT_CHARS], line.number)
            after = line.finish + 1

    def _texts(self, data: bytes, line: Line) -> list[str]:
        """Return a line as text, cut to the surroundings of what was found in it, or the lines inside a JSON object."""
        left = max(line.begin, line.found - TEXT_CHARS // 4)
        return self._unfolded(data, line.begin, line.finish) or [clean(data[left : min(line.finish, left + TEXT_CHARS)])]

    def _unfolded(self, data: bytes, begin: int, finish: int) -> list[str]:
        """Return the lines inside a JSON object; none if the line is not such an object."""
        if data.find(b"{", begin, min(finish, begin + BEGINS_WITHIN)) < 0 or data[finish - 1 : finish] not in (b"}", b"\r"):
            return []
        line = clean(data[begin:finish])
        in_traceback = bool(self._reading.blocks.open)
        parts = unfolded(line, lambda text: any(trigger in text for trigger in TEXT_TRIGGERS), in_traceback)
        if parts == [line]:
            return []
        self._pieces.widen()  # JSON also escapes words
        return parts
