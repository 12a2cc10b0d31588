"""Where a screen's snapshots come from: the agent's stream (``LiveFeed``) or a recording (``ReplayFeed``).

A feed reads in a thread of its own, keeps what arrived and calls ``notify``; the screen drains it. Every snapshot is kept
until drained, because each carries points that no later one repeats. What a snapshot does not carry, a screen asks for
with ``ask``; answers arrive as snapshots do. Imports neither textual nor any source's library, and imports the records only
when it reads, so that the sampler starts sooner.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from gputop.process import ProcessAnswer, ProcessQuestion
    from gputop.snapshot import Snapshot

SPEEDS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0)
PENDING_MAX = 3600
ANSWERS_MAX = 16
"""Answers that nobody took are forgotten beyond this many: the screen that asked is gone."""
LONGEST_GAP_S = 10.0
"""A replay never waits longer than this for the next snapshot, whatever pause the recording has."""

FeedKind = Literal["live", "replay"]


class Feed(Protocol):
    """A stream of snapshots for one screen."""

    kind: FeedKind

    def start(self, notify: Callable[[], object]) -> None:
        """Begin to deliver; ``notify`` is called from another thread whenever something arrived or changed."""

    def drain(self) -> list[Snapshot]:
        """Return what arrived since the last call, oldest first."""

    def ask(self, question: ProcessQuestion) -> None:
        """Ask about one process; returns at once. A replay never answers, and a live feed answers the newest question."""

    def take_answers(self) -> list[ProcessAnswer]:
        """Return the answers that arrived since the last call, oldest first."""

    def problem(self) -> str | None:
        """Return why nothing more will come, or None."""

    def status(self) -> str | None:
        """Return the position and speed of a replay; None for a live stream."""

    def set_interval(self, interval_s: float) -> None:
        """Ask for another interval; a replay ignores it."""

    def close(self) -> None:
        """End at once; never waits for a driver."""


class LiveFeed:
    """The agent as a child process. Construct it early: the driver starts while the screen is still being imported."""

    kind: FeedKind = "live"

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        self._pending: deque[Snapshot] = deque(maxlen=PENDING_MAX)
        self._answers: deque[ProcessAnswer] = deque(maxlen=ANSWERS_MAX)
        self._problem: str | None = None
        self._closed = False
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gputop", "agent", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C in the terminal is for the screen alone; the agent ends when its standard input closes.
            start_new_session=True,
        )
        assert self._process.stdin is not None
        self._commands = self._process.stdin.fileno()
        # The thread of the screen writes there, and must not wait for a sampler that does not read.
        os.set_blocking(self._commands, False)

    def start(self, notify: Callable[[], object]) -> None:
        """Read the agent's lines in a daemon thread."""
        threading.Thread(target=self._read, args=(notify,), daemon=True, name="feed").start()

    def _read(self, notify: Callable[[], object]) -> None:
        from gputop.process import ProcessAnswer
        from gputop.snapshot import FormatError, Snapshot

        assert self._process.stdout is not None
        for line in self._process.stdout:
            if ProcessAnswer.is_in(line):
                with contextlib.suppress(FormatError):  # the screen asks again
                    self._answers.append(ProcessAnswer.from_json(line))
                notify()
                continue
            try:
                self._pending.append(Snapshot.from_json(line))
            except FormatError as error:
                self._problem = f"The sampler sent a line that cannot be read: {error}."
            notify()
        if not self._closed:
            self._problem = self._last_words()
            notify()

    def _last_words(self) -> str:
        assert self._process.stderr is not None
        words = self._process.stderr.read(4000).decode(errors="replace").strip().splitlines()
        said = f": {words[-1]}" if words else f" with exit code {self._process.wait()}"
        return f"The sampler ended{said}. Quit and start gputop again."

    def drain(self) -> list[Snapshot]:
        """Return what arrived since the last call."""
        found = []
        while self._pending:
            found.append(self._pending.popleft())
        return found

    def ask(self, question: ProcessQuestion) -> None:
        """Send the question to the agent."""
        self._send({"process": {"pid": question.pid, "environment": question.environment}})

    def take_answers(self) -> list[ProcessAnswer]:
        """Return the answers that arrived since the last call."""
        found = []
        while self._answers:
            found.append(self._answers.popleft())
        return found

    def problem(self) -> str | None:
        """Return the sampler's last words once it is gone."""
        return self._problem

    def status(self) -> str | None:
        """A live stream has no position."""
        return None

    def set_interval(self, interval_s: float) -> None:
        """Send the interval to the agent."""
        self._send({"interval_s": interval_s})

    def _send(self, command: dict[str, object]) -> None:
        # A pipe takes a line of this length whole or not at all. The agent is gone (_read says why), or does not read.
        with contextlib.suppress(OSError):
            os.write(self._commands, json.dumps(command).encode() + b"\n")

    def close(self) -> None:
        """Close the agent's input, which ends it, and kill it if it does not go: it only reads, nothing can be lost."""
        self._closed = True
        self._process.kill()
        try:
            self._process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            # Stuck in the driver (D state): init will reap it.
            return


class ReplayFeed:
    """A recording played at its own pace, paused, stepped or sped up."""

    kind: FeedKind = "replay"

    def __init__(self, path: Path, speed: float = 1.0) -> None:
        from gputop.sources.recording import read_recording

        self._snapshots: Iterator[Snapshot] = read_recording(path)
        self._pending: deque[Snapshot] = deque()
        self._wake = threading.Condition()
        self._speed = speed
        self._paused = False
        self._steps = 0
        self._ended = False
        self._closed = False
        self._problem: str | None = None
        self._first_time: float | None = None
        self._position_s = 0.0
        self._path = path

    def start(self, notify: Callable[[], object]) -> None:
        """Play in a daemon thread."""
        threading.Thread(target=self._play, args=(notify,), daemon=True, name="replay").start()

    def _play(self, notify: Callable[[], object]) -> None:
        before: float | None = None
        try:
            for snapshot in self._snapshots:
                if not self._wait(snapshot.time - before if before is not None else 0.0):
                    return
                before = snapshot.time
                self._first_time = self._first_time if self._first_time is not None else snapshot.time
                self._position_s = snapshot.time - self._first_time
                self._pending.append(snapshot)
                notify()
        except Exception as error:  # noqa: BLE001 - told on screen; a thread's traceback would tear the screen
            self._problem = str(error)
        self._ended = True
        notify()

    def _wait(self, gap_s: float) -> bool:
        """Wait for the gap at the present speed; False when closed. A step ends the wait at once."""
        left = min(LONGEST_GAP_S, max(0.0, gap_s))
        with self._wake:
            while not self._closed:
                if self._steps:
                    self._steps -= 1
                    return True
                if not self._paused and left <= 0:
                    return True
                began = time.monotonic()
                speed = self._speed
                self._wake.wait(None if self._paused else left / speed)
                if not self._paused:
                    left -= (time.monotonic() - began) * speed
        return False

    def toggle_pause(self) -> None:
        """Pause or go on."""
        with self._wake:
            self._paused = not self._paused
            self._wake.notify()

    def step(self) -> None:
        """Pause and show the next snapshot."""
        with self._wake:
            self._paused = True
            self._steps += 1
            self._wake.notify()

    def faster(self) -> None:
        """Take the next higher speed of ``SPEEDS``."""
        self._set_speed(next((speed for speed in SPEEDS if speed > self._speed), SPEEDS[-1]))

    def slower(self) -> None:
        """Take the next lower speed of ``SPEEDS``."""
        self._set_speed(next((speed for speed in reversed(SPEEDS) if speed < self._speed), SPEEDS[0]))

    def _set_speed(self, speed: float) -> None:
        with self._wake:
            self._speed = speed
            self._wake.notify()

    def drain(self) -> list[Snapshot]:
        """Return what was played since the last call."""
        found = []
        while self._pending:
            found.append(self._pending.popleft())
        return found

    def ask(self, question: ProcessQuestion) -> None:
        """A recording holds only what its snapshots carry."""

    def take_answers(self) -> list[ProcessAnswer]:
        """A recording answers nothing."""
        return []

    def problem(self) -> str | None:
        """Return why the file could not be read on."""
        return self._problem

    def status(self) -> str | None:
        """Return e.g. "12s ×2 paused"."""
        from gputop.units import duration

        state = " end" if self._ended else (" paused" if self._paused else "")
        return f"{duration(self._position_s)} ×{self._speed:g}{state}"

    def set_interval(self, interval_s: float) -> None:
        """A recording keeps its own intervals."""

    def close(self) -> None:
        """End the thread."""
        with self._wake:
            self._closed = True
            self._wake.notify()
