"""Where text leaves for a terminal: every command prints through here, so nothing that it prints can steer the terminal.

Names, commands, logs, files and arguments come from anywhere, and on a shared machine from other users. A file or a pipe gets
the text as it is. ``gputop.terminal_text`` says what is removed.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from gputop.terminal_text import keep_colors, strip_controls


class CleanStream(io.TextIOBase):
    """A terminal's stream that writes only text, line breaks and tabs; all else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.stream = stream

    def write(self, text: str) -> int:
        """Write ``text`` without what a terminal would obey; return its length."""
        self.stream.write(strip_controls(text))
        return len(text)

    def flush(self) -> None:
        """Write out what is buffered."""
        self.stream.flush()

    def isatty(self) -> bool:
        """Return whether this is a terminal."""
        return self.stream.isatty()

    def fileno(self) -> int:
        """Return the descriptor."""
        return self.stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream."""
        return self.stream.encoding


@contextmanager
def clean_output() -> Iterator[None]:
    """Clean what is printed on a terminal, and print characters that the output cannot encode as escapes."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_cleaned, before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _cleaned(stream: Any) -> Any:
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return CleanStream(stream) if stream is not None and stream.isatty() else stream


def print_colored(text: str) -> None:
    """Print text that gputop has colored; of all escapes, only colors reach a terminal."""
    if isinstance(sys.stdout, CleanStream):
        print(keep_colors(text), file=sys.stdout.stream)
    else:
        print(text)
