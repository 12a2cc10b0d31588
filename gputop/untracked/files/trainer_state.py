"""Transformers' ``trainer_state.json``, written with each checkpoint: ``log_history`` holds all that the Trainer has logged."""

from __future__ import annotations

from gputop.untracked.files.values import Value, metric_name, number, step_number
from gputop.wire import FormatError, parse_json

FILE_BYTES = 32 << 20
"""A larger file is not read: some 200,000 entries."""
_NO_METRICS = ("step", "epoch")


class TrainerState:
    """Reads the file as a whole, once it is complete."""

    def __init__(self) -> None:
        self.refused = False
        self._data = bytearray()

    def feed(self, data: bytes) -> list[Value]:
        """Keep the data, up to the size of a file that is read; return the values once they are complete JSON."""
        if len(self._data) <= FILE_BYTES:
            self._data += data
        if len(self._data) > FILE_BYTES or not self._data.rstrip().endswith(b"}"):
            return []
        try:
            state = parse_json(bytes(self._data))
        except (FormatError, UnicodeDecodeError):
            return []
        self._data.clear()
        history = state.get("log_history") if isinstance(state, dict) else None
        return [value for entry in history for value in _values(entry)] if isinstance(history, list) else []

    def skip(self, number: int) -> None:
        """Forget the file: it can only be read as a whole."""
        self._data.clear()

    def end(self) -> list[Value]:
        """Return nothing: incomplete JSON holds no values."""
        return []


def _values(entry: object) -> list[Value]:
    step = step_number(entry.get("step")) if isinstance(entry, dict) else None
    if step is None or not isinstance(entry, dict):
        return []
    found = []
    for key, content in entry.items():
        value = number(content)
        name = metric_name(key) if value is not None and key not in _NO_METRICS else None
        if name is not None and value is not None:
            found.append(Value(name, step, None, value))
    return found
