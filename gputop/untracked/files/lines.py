"""Lines of text with values in them: one JSON object each, or as scripts print them. ``tracking.printed`` reads them."""

from __future__ import annotations

from gputop.tracking.printed.transcript import Transcript
from gputop.untracked.files.values import Value, metric_name

PATIENCE_BYTES = 1 << 20
"""A file without a value in its first bytes is a different kind of file, such as a data set or a model's answers."""


class Lines:
    """Reads the values in lines; a ``Parser`` (``values``)."""

    def __init__(self) -> None:
        self._transcript = Transcript()
        self._unread = PATIENCE_BYTES
        """Bytes that may still come before the first value."""
        self._found = False
        self.refused = False

    @property
    def counts_lines(self) -> bool:
        """Whether the steps are counted lines, because none of them shows a step."""
        return self._transcript.counts_lines

    @property
    def total_steps(self) -> int | None:
        """The number of steps of the training, if the lines show it."""
        return self._transcript.total_steps

    def feed(self, data: bytes) -> list[Value]:
        """Return the values of the lines that are complete now."""
        if self.refused:
            return []
        found = [value for step, metrics in self._transcript.feed(data) for value in _values(step, metrics)]
        self._found = self._found or bool(found)
        self._unread -= len(data)
        self.refused = self._unread < 0 and not self._found
        return found

    def skip(self, number: int) -> None:
        """Skip bytes: the next data start a line."""
        self._transcript.skip()

    def end(self) -> list[Value]:
        """Return the values of a last line without a line break."""
        return [value for step, metrics in self._transcript.end() for value in _values(step, metrics)]


def _values(step: int, metrics: dict[str, float]) -> list[Value]:
    named = ((metric_name(name), value) for name, value in metrics.items())
    return [Value(name, step, None, value) for name, value in named if name is not None]
