"""Follows what a child process writes, line by line, and says why it no longer can. One thread reads both pipes, so that
neither fills up.

``LiveFeed`` follows this machine's sampler with it, and ``gputop.hosts`` the connection to another machine.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterator

from gputop.terminal_text import printable, strip_controls
from gputop.wire import LINE_MAX_BYTES

POLL_S = 1.0
"""How often to check a silent child."""
FLOOD_LINES = 300
FLOOD_S = 5.0
"""More lines than this in this time are a flood: six times what the shortest interval produces."""
STDERR_KEPT_BYTES = 4000
"""How much of the end of the child's standard error is kept, for the message about its end."""
ERRORS_AT_ONCE_BYTES = 1 << 20
"""After this much standard error, it is read only once every ``ERRORS_EVERY_S``: a child that floods it has to wait."""
ERRORS_EVERY_S = 0.2
_ERRORS_PIECE_BYTES = 1 << 16
SAID_MAX = 200
"""How many characters of the child's last line a sentence quotes."""
KILL_PATIENCE_S = 2.0
"""How long to wait for a process to end before it is given up, or killed."""


class ChildLines:
    """Follows one child process. ``what`` begins the sentences about it, and ``line_max_bytes`` limits its lines.

    ``may_flood``: it may send as many lines as it likes, such as those of a log.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], what: str, line_max_bytes: int | None = None, *, may_flood: bool = False
    ) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self.heard_at = time.monotonic()
        """When the last bytes arrived, complete line or not."""
        self.failure = ""
        """Why ``lines`` ended, in one sentence. ``judge_silence`` sets it to end ``lines``."""
        self.at_end = False
        """Whether ``lines`` ended because nothing more can come."""
        self._what = what
        self._line_max_bytes = line_max_bytes or LINE_MAX_BYTES
        self._may_flood = may_flood
        self._out, self._err = process.stdout.fileno(), process.stderr.fileno()
        self._open = [self._out, self._err]
        self._words = b""
        self._errors_bytes = 0
        self._errors_due_at = 0.0

    @property
    def last_words(self) -> list[str]:
        """The last lines that the child wrote to standard error."""
        return self._words.decode(errors="replace").strip().splitlines()

    def judge_silence(self) -> None:
        """Judge a child that has written no complete line for a while."""

    def lines(self) -> Iterator[bytes]:
        """Yield complete lines until the child ends, or is judged unusable."""
        part = bytearray()
        times: deque[float] = deque(maxlen=FLOOD_LINES)
        while self._out in self._open and not self.failure:
            held_s = self._errors_due_at - time.monotonic()
            pipes = [self._out] if held_s > 0 else self._open
            ready = select.select(pipes, (), (), min(POLL_S, held_s) if held_s > 0 else POLL_S)[0]
            if self._err in ready:
                self._drain_errors()
            if self._out not in ready:
                self.judge_silence()
                continue
            data = os.read(self._out, 1 << 20)
            if not data:
                break
            self.heard_at = time.monotonic()
            part += data
            if b"\n" in data:
                *whole, rest = part.split(b"\n")
                part = bytearray(rest)
                for line in whole:
                    yield bytes(line)
                    times.append(time.monotonic())
            else:
                self.judge_silence()
            if len(part) > self._line_max_bytes:
                self.failure = f"{self._what} sent a line without an end."
            elif not self._may_flood and len(times) == FLOOD_LINES and times[-1] - times[0] < FLOOD_S:
                self.failure = f"{self._what} sent far more than requested."
        self.at_end = not self.failure
        self.failure = self.failure or self._how_it_ended()

    def has_something_to_read(self) -> bool:
        """Return whether input is waiting: this process itself may have been stopped for a while."""
        return bool(select.select((self._out,), (), (), 0)[0])

    def _drain_errors(self) -> None:
        data = os.read(self._err, _ERRORS_PIECE_BYTES)
        if not data:
            self._open.remove(self._err)
        self._words = (self._words + data)[-STDERR_KEPT_BYTES:]
        self._errors_bytes += len(data)
        if self._errors_bytes > ERRORS_AT_ONCE_BYTES:
            self._errors_due_at = time.monotonic() + ERRORS_EVERY_S

    def _drain_waiting_errors(self) -> None:
        for _ in range(ERRORS_AT_ONCE_BYTES // _ERRORS_PIECE_BYTES):  # another process may write there without end
            if self._err in self._open and select.select((self._err,), (), (), 0)[0]:
                self._drain_errors()

    def _how_it_ended(self) -> str:
        self._drain_waiting_errors()
        has_ended = bool(self.last_words) or ended(self.process)
        self._drain_waiting_errors()  # it may have closed its output before it said why
        if self.last_words:
            said = printable(strip_controls(self.last_words[-1])).strip().rstrip(".")[:SAID_MAX]
            return f"{self._what} ended: {said}."
        if not has_ended:
            return f"{self._what} closed its output."
        code = self.process.returncode
        return f"{self._what} was ended by signal {-code}." if code < 0 else f"{self._what} ended with exit code {code}."


def ended(process: subprocess.Popen[bytes], patience_s: float = KILL_PATIENCE_S) -> bool:
    """Wait for the end of a process; return False if it is still there after ``patience_s``."""
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def end_group(process: subprocess.Popen[bytes], patience_s: float = KILL_PATIENCE_S) -> None:
    """End a child that leads a process group, with all of the group: SIGTERM, and SIGKILL after ``patience_s``."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            ended(process, patience_s)
