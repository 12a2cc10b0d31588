"""The output of every command: printed text cannot control a terminal, and a failure to print ends in no traceback.

Names, commands, logs, files and arguments come from anywhere, and on a shared machine from other users. A file or a pipe gets
the text unchanged; ``gputop.terminal_text`` says what is removed on a terminal. A closed output or a full disk is an error
like any other.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from gputop.errors import EXIT_OK, GputopError
from gputop.terminal_text import keep_colors, printable, strip_controls


class OutputError(GputopError):
    """Standard output cannot be written."""


class Output(io.TextIOBase):
    """Standard output, without control characters on a terminal; raises ``OutputError`` if it cannot be written."""

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__()
        self._stream = stream
        self._on_terminal = stream is not None and stream.isatty()

    def write(self, text: str) -> int:
        """Write ``text``, on a terminal without control characters; return its length.

        Raises:
            OutputError: standard output is closed or full.
            BrokenPipeError: the reader of a pipe has left.
        """
        self._write(strip_controls(text) if self._on_terminal else text)
        return len(text)

    def write_colored(self, text: str) -> None:
        """Write text that gputop has colored; of all escapes, only colors reach a terminal.

        Raises:
            OutputError, BrokenPipeError: as for ``write``.
        """
        self._write(keep_colors(text) if self._on_terminal else text)

    def _write(self, text: str) -> None:
        with output_errors():
            self._open().write(text)

    def flush(self) -> None:
        """Write out what is buffered.

        Raises:
            OutputError, BrokenPipeError: as for ``write``.
        """
        if self._stream is not None:
            with output_errors():
                self._stream.flush()

    def isatty(self) -> bool:
        """Return whether this is a terminal."""
        return self._on_terminal

    def fileno(self) -> int:
        """Return the descriptor.

        Raises:
            OutputError: standard output is closed.
        """
        return self._open().fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream."""
        return self._stream.encoding if self._stream is not None else "utf-8"

    def _open(self) -> TextIO:
        if self._stream is None:
            raise OutputError("Standard output is closed.", "Leave it open, or send it to /dev/null.")
        return self._stream


class ErrorOutput(Output):
    """Standard error. Failures to write are ignored: there is nowhere left to report them."""

    def _write(self, text: str) -> None:
        with contextlib.suppress(GputopError, OSError):
            super()._write(text)

    def flush(self) -> None:
        """Write out what is buffered, as far as that is possible."""
        with contextlib.suppress(GputopError, OSError):
            super().flush()


@contextmanager
def output_errors() -> Iterator[None]:
    """Turn a write error into an ``OutputError``, except BrokenPipeError: a reader that leaves is not an error."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(
            f"The output cannot be written: {error.strerror}.", "Free some space, or send it elsewhere."
        ) from error


@contextmanager
def safe_output() -> Iterator[None]:
    """Send everything that is printed through ``Output``; print characters that the output cannot encode as escapes."""
    before = sys.stdout, sys.stderr
    for stream in before:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    output, errors = Output(before[0]), ErrorOutput(before[1])
    sys.stdout, sys.stderr = output, errors
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def exit_code_of(run: Callable[[], int]) -> int:
    """Return what ``run`` returns; for an error that is meant for the user, print it and return its exit code."""
    try:
        return run()
    except OutputError as error:
        print(f"gputop: {error}", file=sys.stderr)
        discard_output()
        return error.exit_code
    except GputopError as error:
        print(f"gputop: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of a pipe is gone (gputop --stream | head): this is not an error, and nothing more can be printed.
        discard_output()
        return EXIT_OK


def discard_output() -> None:
    """Discard what is still buffered for standard output: Python would fail to write it at exit."""
    with contextlib.suppress(OSError, AttributeError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.__stdout__.fileno())  # type: ignore[union-attr]
        os.close(nowhere)


def reserve_descriptors() -> None:
    """Open /dev/null in place of closed standard streams, so that no file of gputop gets their descriptors."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def print_colored(text: str) -> None:
    """Print text that gputop has colored."""
    output: Any = sys.stdout
    if isinstance(output, Output):
        output.write_colored(f"{text}\n")
    else:
        print(text)
