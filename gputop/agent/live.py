"""The live feed: the sampler as a child process, followed, and replaced if it ends, stops, falls silent or floods.

One thread reads what the sampler writes, including its errors, so that neither pipe fills up. A sampler that fails before its
first snapshot is not restarted: it would fail again for the same reason, such as a GPU that does not exist. Imports neither
textual nor any source's library, and imports the records only when it reads, so that the sampler starts sooner.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gputop.agent import lines
from gputop.agent.feed import FeedKind, Inbox
from gputop.agent.first_look import OPTION, first_look_in
from gputop.agent.lines import ChildLines, ended
from gputop.agent.process import WHOLE, start_sampler
from gputop.errors import GputopError

if TYPE_CHECKING:
    from gputop.device import FirstLook
    from gputop.questions import Question
    from gputop.snapshot import Snapshot
    from gputop.stream import SnapshotReader

MUTE_S = 15.0
MUTE_INTERVALS = 5.0
"""A sampler that is silent for the longer of the two is replaced: a reading takes milliseconds."""
START_S = 120.0
"""How long a sampler may take for its first snapshot: without persistence mode, the driver starts every GPU first, and on an
overloaded machine its imports wait for a core. The first look, which comes before, says nothing about either."""
STOPPED_S = 3.0
"""How long a sampler may stay stopped by a signal before it is replaced."""
BACKOFF_S = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 60.0)
"""How long to wait after each failure in a row before the next sampler starts."""
HEALTHY_S = 60.0
"""After this long, the next failure counts as the first."""
_STOPPED_STATES = ("T", "t")
"""The states of a process that a signal has stopped, or a debugger (/proc/PID/stat)."""


class LiveFeed(Inbox):
    """The sampler as a child process. Construct it early: the driver then initializes while the screen is still importing.

    With ``first_look``, the sampler first reports what can be read at once, for ``newest``. ``process`` is the sampler, if it
    has already been started with these arguments.

    Raises:
        GputopError: the sampler cannot be started.
    """

    kind: FeedKind = "live"

    def __init__(
        self, arguments: Sequence[str] = (), *, first_look: bool = False, process: subprocess.Popen[bytes] | None = None
    ) -> None:
        self._arguments = tuple(arguments)
        super().__init__()
        self.looks_first = first_look
        self._first_look: FirstLook | None = None
        self._reader: SnapshotReader | None = None
        self._notify: Callable[[], object] = lambda: None
        self._thread: threading.Thread | None = None
        self._problem: str | None = None
        self._interval_s = 1.0
        self._wanted_interval_s: float | None = None
        self._pcie_wanted = False
        self._lock = threading.Lock()
        """Held while the process is replaced or killed, so that ``close`` leaves none behind."""
        try:
            self._process = process or start_sampler((*self._arguments, *((OPTION,) if first_look else ())))
        except OSError as error:
            raise GputopError(f"The sampler cannot be started: {error.strerror}.", "Try gputop --once.") from error

    def start(self, notify: Callable[[], object]) -> None:
        """Read the agent's lines in a daemon thread. If that thread runs already, only replace ``notify`` and call it."""
        self._notify = notify
        if self._thread is not None:
            notify()
            return
        self._thread = threading.Thread(target=self._supervise, args=(lambda: self._notify(),), daemon=True, name="feed")
        self._thread.start()

    def newest(self) -> Snapshot | FirstLook | None:
        """Return the newest snapshot that nobody has taken; before the first one, the first look at the GPUs, or None."""
        try:
            return self._pending[-1]
        except IndexError:
            return self._first_look

    def _supervise(self, notify: Callable[[], object]) -> None:
        failures = 0
        while not self._closed.is_set():
            began = time.monotonic()
            sampler = _Sampler(self._process, lambda: self._interval_s)
            came = False
            for line in sampler.lines():
                self._wait_for_room()
                came |= self._take(line)
                sampler.has_begun = came
                notify()
            if self._closed.is_set():
                return
            if not came and not failures:
                self._problem = f"{sampler.failure} Quit and start gputop again."
                notify()
                return
            failures = 1 if time.monotonic() - began > HEALTHY_S else failures + 1
            wait_s = BACKOFF_S[min(failures, len(BACKOFF_S)) - 1]
            self._problem = f"{sampler.failure} It restarts in {wait_s:.0f} s."
            notify()
            if not self._replace(wait_s, notify):
                return

    def _replace(self, wait_s: float, notify: Callable[[], object]) -> bool:
        """End the sampler, wait, and start another one; return False if the feed was closed."""
        with self._lock:
            if self._closed.is_set():
                return False
            self._process.kill()
        while not ended(self._process):
            # A second one would hang in the same driver.
            self._problem = "The sampler hangs in the kernel. It restarts once it has ended."
            notify()
            if self._closed.wait(lines.POLL_S):
                return False
        if self._closed.wait(wait_s):
            return False
        with self._lock:
            if self._closed.is_set():
                return False
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            try:
                self._process = start_sampler(self._arguments)
            except OSError as error:
                self._problem = f"The sampler cannot be restarted: {error.strerror}. Quit and start gputop again."
                notify()
                return False
        if self._wanted_interval_s is not None:
            self.set_interval(self._wanted_interval_s)
        if self._pcie_wanted:
            self.want_pcie(True)
        return True

    def _take(self, line: bytes) -> bool:
        """Store what a line contains; return whether it is a snapshot. A line that cannot be read is skipped."""
        from gputop.wire import FormatError

        try:
            look = first_look_in(line)
            if look is not None:
                self._first_look = look if self.looks_first else None
                return False
            from gputop.questions import answer_in
            from gputop.stream import SnapshotReader

            answer = answer_in(line)
        except FormatError:
            return False  # the screen asks again
        if answer is not None:
            self._answers.append(answer)
            return False
        try:
            self._reader = self._reader or SnapshotReader()
            snapshot = self._reader.read(line)
        except FormatError as error:
            self._problem = f"The sampler sent a line that cannot be read: {error}."
            self._send(WHOLE)
            return False
        self._problem = None
        self._interval_s = snapshot.interval_s
        self._waiting_bytes += len(line)
        self._pending.append(snapshot)
        return True

    def ask(self, question: Question) -> None:
        """Send the question to the agent."""
        from gputop.questions import command_of

        self._send(command_of(question))

    def problem(self) -> str | None:
        """Return what is wrong with the sampler, and what happens next."""
        return self._problem

    def status(self) -> str | None:
        """Return None: a live stream has no position."""
        return None

    def set_interval(self, interval_s: float) -> None:
        """Send the interval to the agent."""
        self._wanted_interval_s = interval_s
        # A sampler that sleeps for the old interval does not count as silent.
        self._interval_s = max(self._interval_s, interval_s)
        self._send({"interval_s": interval_s})

    def want_pcie(self, wanted: bool) -> None:
        """Send the request to the agent, and again to any that replaces it."""
        self._pcie_wanted = wanted
        self._send({"pcie": wanted})

    def _send(self, command: dict[str, object]) -> None:
        # A pipe accepts a line of this length entirely or not at all. On error, the agent is gone or busy.
        stdin = self._process.stdin
        with contextlib.suppress(OSError, ValueError):
            if stdin is not None:
                os.write(stdin.fileno(), json.dumps(command).encode() + b"\n")

    def close(self) -> None:
        """Kill the agent: it only reads, so nothing is lost."""
        self._closed.set()
        with self._lock:
            self._process.kill()
        # If it is stuck in the driver (D state), init will reap it.
        ended(self._process, 0.2)


class _Sampler(ChildLines):
    """What one sampler process writes, and why it can no longer be followed."""

    def __init__(self, process: subprocess.Popen[bytes], interval_s: Callable[[], float]) -> None:
        super().__init__(process, "The sampler")
        self.has_begun = False
        """Whether a snapshot has come."""
        self._interval_s = interval_s
        self._stopped_at: float | None = None

    def judge_silence(self) -> None:
        """Judge a silent sampler."""
        now = time.monotonic()
        if _state(self.process.pid) not in _STOPPED_STATES:
            self._stopped_at = None
        elif self._stopped_at is None or self._stopped_at < self.heard_at:
            self._stopped_at = now
        elif now - self._stopped_at >= STOPPED_S:
            self.failure = "The sampler was stopped by a signal."
        silent_s = now - self.heard_at
        limit_s = max(MUTE_S, MUTE_INTERVALS * self._interval_s()) if self.has_begun else START_S
        if silent_s > limit_s and not self.has_something_to_read():
            self.failure = f"The sampler has said nothing for {silent_s:.0f} s."


def _state(pid: int) -> str | None:
    """Return the state letter of a process, or None if it cannot be read."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return None
