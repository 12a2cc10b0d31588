"""The open tracebacks of one log, by writer: several ranks at once, loggers, chains of exceptions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gputop.doctor.logs.after import says_handled
from gputop.doctor.logs.kept import KEPT_FIRST, KEPT_LAST
from gputop.doctor.logs.leads import Leads
from gputop.doctor.logs.lines import rank_and_text
from gputop.doctor.logs.tracebacks import Traceback

OPEN_MAX = 64
"""Ranks whose tracebacks, or first lines of errors, are followed at the same time."""
INNER_MAX = KEPT_FIRST + KEPT_LAST
_CAUSED = "The above exception was the direct cause"
_CHAINED = ("During handling of the above exception", _CAUSED)
_WEAK = ("Exception ignored in", "--- Logging error ---")
Key = int | str | None
"""The writer of a traceback: a rank, or a program recognized by the words that begin each of its lines (``leads``)."""


class Blocks:
    """Tracebacks that have begun but not ended."""

    def __init__(self, ended: Callable[[Key, Traceback], None]) -> None:
        """Start without any. ``ended`` is called with each traceback that ends."""
        self.open: dict[Key, Traceback] = {}
        self.inner: dict[int, str] = {}
        """The last exception of each traceback, by its block."""
        self._ended = ended
        self._begun = 0
        self._leads = Leads()
        self._warned: set[Key] = set()
        self._speakers: dict[Key, Key] = {}
        """The writer that continues after a traceback that a logger wrote, by the words before its lines."""
        self._chained: dict[Key, bool] = {}
        """The writers that have announced another traceback of the same chain, and whether it is the direct effect."""
        self._weak_next = False

    def announce(self, lines: Sequence[str]) -> None:
        """Take the last lines before one that was searched for: they may say what kind of traceback follows."""
        self._weak_next = any(marker in line for line in lines[-1:] for marker in _WEAK)
        for line in lines:
            if any(marker in line for marker in _CHAINED):
                self._chain_on(rank_and_text(line)[0], line)

    def whose(self, prefixed: int | None, text: str) -> tuple[Key, str]:
        """Return who wrote a line, by its rank or by the words that begin its lines, and the rest of the line."""
        block = self.open.get(prefixed)
        split = self._leads.strip(text)
        if split is None and block is not None and block.begin:
            split = self._leads.learn(block.begin, text)
        if split is None:
            return prefixed, text
        lead, rest = split
        key = lead if prefixed is None else f"{prefixed} {lead}"
        if self._leads.is_warned(lead):
            self._warned.add(key)
        if self._leads.is_logged(lead):
            self._speakers[key] = prefixed
        if block is not None and key not in self.open and self._leads.strip(block.begin) is not None:
            # Its first line arrived before these words were known.
            rank = self._leads.rank_of(lead)
            block.rank = prefixed if rank is None else rank
            self.open[key] = self.open.pop(prefixed)
        return key, rest

    def speaker(self, key: Key) -> Key:
        """Return who continues after a traceback: the writer that the logger wrote for."""
        return self._speakers.get(key, key)

    def is_logged(self, key: Key) -> bool:
        """Return whether a logger writes these lines."""
        return key in self._speakers

    def is_warned(self, key: Key) -> bool:
        """Return whether a logger writes these lines as warnings."""
        return key in self._warned

    def quoted_by(self, key: Key, block: Traceback) -> str:
        """Return what a logger, or the script itself, writes before a traceback or each of its lines; nothing without that."""
        return str(key) if key in self._speakers else block.quote or block.announced_by

    def speaks(self, key: Key) -> None:
        """End the tracebacks that loggers wrote for a writer that now writes a line without the logger's words."""
        for lead, speaker in self._speakers.items():
            if speaker == key and lead in self.open and self.open[lead].in_message:
                self.close(lead)

    def begin(self, key: Key, inner: bool, previous: str) -> bool:
        """Begin a traceback, or continue with the next one of a chain; return whether a new one begins.

        ``inner``: it is a worker's, quoted in another one; ``previous``: the line before it.
        """
        before = self.open.get(key)
        if before is not None and (inner or key in self._chained):
            before.chain(inner, self._chained.pop(key, False))
            return False
        self.close(key)
        self._chained.pop(key, None)
        self._begun += 1
        if len(self.open) >= OPEN_MAX:
            # A rank that has died never writes the line that ends its traceback.
            whole = (other for other, block in self.open.items() if block.exception is not None)
            self.close(next(whole, next(iter(self.open))))
        self.open[key] = Traceback(self._begun, weak=self._weak_next, own_words=says_handled(previous))
        self._weak_next = False
        return True

    def extend(self, key: Key, text: str, at: int) -> None:
        """Add a line, number ``at`` of the log, to a writer's traceback, or end the traceback."""
        block = self.open[key]
        block.lines += 1
        if any(marker in text for marker in _CHAINED):
            self._chain_on(key, text)
            return
        if any(marker in text for marker in _WEAK):
            self._weak_next = True
        if not block.extend(text, at, key in self._chained):
            self.close(key)
        elif block.exception is not None:
            self.inner[block.number] = block.exception
            if len(self.inner) > INNER_MAX:
                self.inner.pop(next(iter(self.inner)))

    def close(self, key: Key) -> None:
        """End a writer's traceback, if there is one."""
        block = self.open.pop(key, None)
        if block is not None:
            self._ended(key, block)

    def close_all(self) -> None:
        """End all."""
        for key in list(self.open):
            self.close(key)

    def _chain_on(self, key: Key, words: str) -> None:
        """Remember that a writer has announced another traceback of the same chain, with these words."""
        self._chained[key] = _CAUSED in words
        if len(self._chained) > OPEN_MAX:
            self._chained.pop(next(iter(self._chained)))
