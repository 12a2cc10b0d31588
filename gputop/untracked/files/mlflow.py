"""MLflow's file store: a file per metric, ``mlruns/EXPERIMENT/RUN/metrics/NAME``, with lines of time, value and step."""

from __future__ import annotations

from gputop.untracked.files.values import Value, step_number, wall_time

LINE_BYTES = 1000
"""A longer line is not a metric's, and is skipped."""


class MetricFile:
    """Reads the file of one metric."""

    def __init__(self, name: str) -> None:
        self.refused = False
        self._name = name
        self._partial = b""
        self._too_long = False

    def feed(self, data: bytes) -> list[Value]:
        """Return the values of the lines that are complete now."""
        *lines, partial = (self._partial + data).split(b"\n")
        if self._too_long and lines:
            del lines[0]
            self._too_long = False
        self._too_long = self._too_long or len(partial) > LINE_BYTES
        self._partial = b"" if self._too_long else partial
        return [value for line in lines if (value := self._line(line)) is not None]

    def skip(self, number: int) -> None:
        """Skip bytes: the next data start a line."""
        self._partial, self._too_long = b"", False

    def end(self) -> list[Value]:
        """Return the value of a last line without a line break."""
        line, self._partial = self._partial, b""
        value = self._line(line)
        return [] if value is None else [value]

    def _line(self, line: bytes) -> Value | None:
        words = line.split()
        if len(words) not in (2, 3) or len(line) > LINE_BYTES:
            return None
        try:
            at, value, step = float(words[0]) / 1000, float(words[1]), float(words[2]) if len(words) == 3 else 0.0
        except ValueError:
            return None
        number = step_number(step)
        return None if number is None else Value(self._name, number, wall_time(at), value)
