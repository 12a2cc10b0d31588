"""Tables of metrics with a heading (CSV, TSV): Lightning's and Keras' CSVLogger, Ultralytics' ``results.csv``, and the like.

A table is a curve only if one column counts steps or epochs and another is a measured quantity: a data set is not.
"""

from __future__ import annotations

import codecs
import csv
import re

from gputop.tracking.printed.names import is_listed
from gputop.untracked.files.values import Value, metric_name, step_number, wall_time

LINE_CHARACTERS = 256 << 10
"""A longer line is skipped."""
COLUMNS = 1000
"""A table with more columns is a data set."""
_STEPS = (
    *("step", "steps", "global_step", "iteration", "iter", "it", "update", "updates", "num_updates", "total_timesteps"),
    *("train_step", "train_iter", "num_steps", "training_iteration"),
)
_EPOCHS = ("epoch", "epochs")
_TIMES = ("time", "timestamp", "wall_time", "walltime", "datetime", "date")
_SEPARATORS = ",\t;"
_LINE_END = re.compile(r"\r\n|\r|\n")


class Table:
    """Reads a table line by line; a ``Parser`` (``values``)."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._partial = ""
        self._too_long = False
        self.refused = False
        self._columns: list[str | None] | None = None
        """The metric of each column; None for columns that are not metrics."""
        self._separator = ","
        self._step: int | None = None
        self._time: int | None = None

    def feed(self, data: bytes) -> list[Value]:
        """Return the values of the lines that are complete now."""
        text = self._decoder.decode(data)
        *lines, partial = _LINE_END.split(self._partial + text)
        if self._too_long and lines:
            del lines[0]
            self._too_long = False
        self._too_long = self._too_long or len(partial) > LINE_CHARACTERS
        self._partial = "" if self._too_long else partial
        return [value for line in lines for value in self._line(line)]

    def skip(self, number: int) -> None:
        """Skip bytes: the next data start a line."""
        self._partial, self._too_long = "", False
        self._decoder.reset()

    def end(self) -> list[Value]:
        """Return the values of a last line without a line break."""
        line, self._partial = self._partial, ""
        return self._line(line)

    def _line(self, line: str) -> list[Value]:
        if not line.strip() or len(line) > LINE_CHARACTERS or self.refused:
            return []
        if self._columns is None:
            self._read_heading(line)
            return []
        cells = self._cells(line)
        if len(cells) < len(self._columns):
            return []  # cut off, or another table
        step = step_number(_float(cells[self._step])) if self._step is not None else None
        if step is None:
            return []
        at = wall_time(_float(cells[self._time])) if self._time is not None else None
        found = []
        for name, cell in zip(self._columns, cells, strict=False):
            value = _float(cell) if name is not None else None
            if name is not None and value is not None:
                found.append(Value(name, step, at, value))
        return found

    def _read_heading(self, line: str) -> None:
        is_comment = line.startswith("#")
        line = line.lstrip("# ") if is_comment else line
        self._separator = max(_SEPARATORS, key=line.count)
        names = [metric_name(cell) for cell in self._cells(line)]
        words = [(name or "").lower().rpartition("/")[2] for name in names]
        counts = [words.index(word) for word in (*_STEPS, *_EPOCHS) if word in words]
        measured = any(name is not None and is_listed(name.replace(" ", "_")) for name in names)
        if not counts or len(names) > COLUMNS or not measured:
            self.refused = not is_comment
            return
        self._step = counts[0]
        self._time = next((words.index(word) for word in _TIMES if word in words), None)
        skipped = (*_STEPS, *_EPOCHS, *_TIMES)
        self._columns = [None if word in skipped else name for name, word in zip(names, words, strict=True)]

    def _cells(self, line: str) -> list[str]:
        try:
            return next(csv.reader([line], delimiter=self._separator), [])
        except csv.Error:
            return []


def _float(text: str) -> float | None:
    text = text.strip()
    if not text or "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None
