"""The stream of one host: connected, read, and reconnected if it breaks. One thread per host.

Hosts wait for one another only to connect: the sshd of a jump host would refuse many at a time (MaxStartups). ``checked``
checks what a host sends; ``state`` explains how a connection ended.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gputop.agent.lines import ChildLines, ended
from gputop.clocks import ClockAnswer, ClockWatch, Compared
from gputop.hosts import checked, traveling
from gputop.hosts.budget import Budget
from gputop.hosts.connection import CONNECTING_MOST, Connection
from gputop.hosts.retries import Retries, varied
from gputop.hosts.state import (
    ASKING_STATES,
    SHOWING_STATES,
    Failure,
    HostState,
    HostStatus,
    failure_of_gputop,
    failure_of_login,
    misunderstood,
    unread,
)
from gputop.hosts.transport import HELLO, Transport, is_said
from gputop.questions import Answer, Misunderstood, command_of
from gputop.snapshot import Snapshot
from gputop.wire import FormatError

TURN_S = 3.0
"""After this time, a host that is not reached through another one lets the next one connect. It loads only its own sshd, and
half of a list of hosts may be down: ssh gives up on each after 10 s."""
CONNECT_S = 30.0
"""How long a command may take to reach a shell there; ssh itself gives up after 10 s."""
START_S = 120.0
"""How long gputop may take there for its first line: a driver without persistence mode starts every GPU first."""
TRAVEL_S = 120.0
"""How long gputop itself, 0.8 MiB, may take to be sent to a host without one."""
_PIECE_BYTES = 1 << 16
LATE_S, MUTE_S = 1.0, 15.0
LATE_INTERVALS = 3.0
"""A line is late after this many intervals plus ``LATE_S``; after this many plus ``MUTE_S``, the connection is closed."""
NOISE_LINES_MAX = 1000
"""How many lines a login may print before gputop there says hello."""
BAD_LINES_MAX = 20
"""After this many unreadable lines in a row, the connection is given up."""
_DECODING = threading.Lock()
"""Held to decode a line. Decoding in many threads at once is no faster, because each needs the interpreter, but it leaves the
screen's thread only its share: 1/129 with 128 hosts on a busy machine, too little to answer a key."""
FLOODS = "It sends more than gputop reads from one host: its readings come late, and some are old."
FLOODS_HINT = "See what runs as gputop there."
CLOCK_READINGS = 60
"""The clocks are compared over this many snapshots: the quickest one is the most exact."""
HELD_UP_S = 1.0
"""If the screen takes longer than this to accept a snapshot, others wait in the pipe: their arrival says nothing about a
clock."""


@dataclass(frozen=True, slots=True)
class Heard:
    """News of a host: its state, and what it sent, if that is the news."""

    status: HostStatus
    snapshot: Snapshot | None = None
    answer: Answer | None = None
    size_bytes: int = 0
    """The length of the snapshot's line; 0 if it did not come in a line."""


class HostStream:
    """Follows ``host`` until it is closed. ``deliver`` is called in the stream's own thread, and may make it wait."""

    def __init__(
        self,
        host: str,
        transport: Transport,
        arguments: Sequence[str],
        deliver: Callable[[Heard], object],
        turn: threading.Semaphore | None = None,
        *,
        tries: int | None = None,
    ) -> None:
        """Nothing happens before ``start``.

        Args:
            host: the host, as the user named it.
            transport: how to reach it.
            arguments: the arguments of gputop there.
            deliver: is called with all news, in the stream's own thread.
            turn: limits how many hosts connect at a time; shared by all of them.
            tries: give up after this many failed connections; None: never.
        """
        self.status = HostStatus(host)
        self._retries = Retries()
        self._transport = transport
        self._connection = Connection(host, transport, turn or threading.Semaphore(CONNECTING_MOST))
        self._closed = self._connection.closed
        self._arguments = tuple(arguments)
        self._deliver = deliver
        self._tries = tries
        self._wanted: dict[str, Mapping[str, Any]] = {}
        self._clock = ClockWatch(lambda question: self.send(command_of(question)))
        self._offsets: deque[float] = deque(maxlen=CLOCK_READINGS)
        self._held_up = False
        """Whether snapshots may have waited in the pipe for this machine."""
        self._delivered_at = -math.inf
        """When the last snapshot was taken by the screen; monotonic."""
        self._budget = Budget()
        self._spent_s = 0.0
        """CPU time for decoding the last line."""
        self._said_hello = False
        self._version_there: str | None = None

    @property
    def failures(self) -> int:
        """Consecutive connections that ended, without readings or soon after the first."""
        return self._retries.failures

    def start(self) -> None:
        """Follow the host in a daemon thread."""
        threading.Thread(target=self.run, daemon=True, name=f"host-{self.status.host}").start()

    def run(self) -> None:
        """Follow the host until it is closed, or after the last try."""
        tried = 0
        while not self._closed.is_set():
            try:
                failure = self._follow()
            except Exception as error:  # noqa: BLE001 - what a host sends must not end the thread that would read it again
                failure = unread(error)
            if self._closed.is_set():
                return
            if failure.state in ASKING_STATES:
                answer = self._transport.asking.refused(self.status.host, failure, self._closed)
                if answer is None:
                    continue
                failure = answer
            tried += 1
            self._retries.note_end()
            self._say(failure.state, failure.message, failure.hint)
            self._transport.asking.settled(self.status.host)
            if self._tries is not None and (tried >= self._tries or failure.state != "busy"):
                return
            behind = self._transport.is_behind_another(self.status.host)
            self._closed.wait(varied(self._retries.wait_s(failure.state, is_behind_another=behind)))

    def keep_wanting(self, command: Mapping[str, Any]) -> None:
        """Send a setting, also to a gputop that is started there again."""
        self._wanted.update({key: {key: value} for key, value in command.items()})
        self.send(command)

    def send(self, command: Mapping[str, Any]) -> None:
        """Send a command if the host is there to read it; never wait."""
        if self._said_hello:
            # A pipe accepts a line of this length entirely or not at all.
            self._connection.write(json.dumps(command).encode() + b"\n")

    def close(self) -> None:
        """End the connection: gputop there ends when its input closes."""
        self._connection.close()

    def _follow(self) -> Failure:
        """Connect and read until the end; return why it ended."""

        def begin() -> None:
            self._say("connecting", self.status.message, self.status.hint)

        try:
            return self._connection.use(self._read, begin) or Failure("ended", "")
        finally:
            self._said_hello = False

    def _read(
        self, process: subprocess.Popen[bytes], connected: Callable[[], object], give_turn: Callable[[], object]
    ) -> Failure:
        assert process.stdin is not None
        # The screen's thread writes here too and must not wait for a host that does not read.
        os.set_blocking(process.stdin.fileno(), False)
        self._connection.write(self._transport.line(self._arguments, travels=True))
        lines = _HostLines(process, lambda: self._say("slow", "Its readings are late.", ""), give_turn)
        noise, bad, came, traveled = 0, 0, False, False
        login = self._transport.shown_login(self.status.host)
        for line in lines.lines():
            if not self._said_hello:
                if is_said(line, traveling.WANTED) and not traveled:
                    traveled = True
                    self._transport.asking.settled(self.status.host)
                    self._send_whole(process.stdin.fileno(), traveling.message())
                    lines.expect(CONNECT_S)
                elif is_said(line, HELLO):
                    self._said_hello = True
                    self._retries.note_start()
                    self._transport.asking.settled(self.status.host)
                    lines.expect(START_S)
                    connected()
                    for command in self._wanted.values():
                        self.send(command)
                noise += 1
                if noise > NOISE_LINES_MAX:
                    return Failure("unreadable", "Its login prints without end.", f"Try it: {login}")
                continue
            try:
                interval_s = self._take(line)
            except checked.NewerStreamError as error:
                return Failure("newer_gputop", f"The gputop there is newer: {error}.", "Update gputop here.")
            except FormatError:
                self._pace()
                bad += 1
                if bad > BAD_LINES_MAX:
                    return Failure(
                        "unreadable", "What it sent is not a gputop stream.", "Check that the same gputop is installed there."
                    )
                continue
            bad = 0
            if interval_s is not None:
                came = True
                self._retries.note_reading(time.monotonic())
            self._pace()
            if interval_s is not None:
                lines.expect_every(interval_s)
        if lines.gave_up:
            if came:
                return Failure("mute", lines.failure)
            return Failure("timed_out", lines.failure, f"Try it: {login}")
        if lines.at_end and came:
            return Failure("ended", "The connection ended.")
        if not lines.at_end or not ended(process):
            return Failure("unreadable" if self._said_hello else "failed", lines.failure, f"Try it: {login}")
        if not self._said_hello:
            return failure_of_login(process.returncode, lines.last_words, login)
        return failure_of_gputop(process.returncode, lines.last_words, login)

    def _send_whole(self, pipe: int, data: bytes) -> None:
        """Send what a pipe does not accept at once. If it cannot be sent, the reading side reports how the connection ended."""
        left, until = memoryview(data), time.monotonic() + TRAVEL_S
        poll = select.poll()
        poll.register(pipe, select.POLLOUT)
        with contextlib.suppress(OSError):
            while left and not self._closed.is_set() and time.monotonic() < until:
                if poll.poll(500):
                    with contextlib.suppress(BlockingIOError):
                        left = left[os.write(pipe, left[:_PIECE_BYTES]) :]

    def _pace(self) -> None:
        """Wait before the next line of a host that sends too much: what it has sent stays in the pipe, and the host waits."""
        pause_s = self._budget.spend(self._spent_s)
        if pause_s > 0:
            self._say("flooding", FLOODS, FLOODS_HINT)
            self._closed.wait(pause_s)

    def _take(self, line: bytes) -> float | None:
        """Pass on what a line holds; return the interval in seconds if it is a snapshot.

        Raises:
            FormatError: it cannot be read.
        """
        arrived_at, waited_s = time.time(), time.monotonic() - self._delivered_at
        with _DECODING:
            began_s = time.thread_time()
            try:
                answer = checked.answer_of(line)
                snapshot = checked.snapshot_in(line) if answer is None else None
            finally:
                self._spent_s = time.thread_time() - began_s
        if isinstance(answer, ClockAnswer):
            self._clock.take(answer, arrived_at)
            return None
        if isinstance(answer, Misunderstood):
            answer = replace(answer, why=misunderstood(self.status.host, self._version_there))
        if snapshot is None:
            self._deliver(Heard(self.status, answer=answer))
            return None
        self._version_there = snapshot.host.gputop_version
        # A line that this machine waited for came straight from the host.
        self._held_up = self._held_up and waited_s < snapshot.interval_s / 2
        if not self._held_up:
            self._offsets.append(snapshot.time - arrived_at)
        floods = self._budget.is_over
        state: HostState = "flooding" if floods else "live"
        since = self.status.since if self.status.state == state else arrived_at
        self._clock.ask_if_due(arrived_at)
        clock = self._clock.best or Compared(max(self._offsets), math.inf)
        is_compared = clock.error_s < math.inf
        self.status = HostStatus(
            self.status.host,
            state,
            since,
            FLOODS if floods else None,
            FLOODS_HINT if floods else None,
            last_heard_at=min(arrived_at, snapshot.time - clock.offset_s) if is_compared else arrived_at,
            clock_offset_s=clock.offset_s,
            clock_error_s=clock.error_s if is_compared else None,
        )
        delivering_at = time.monotonic()
        self._deliver(Heard(self.status, snapshot, size_bytes=len(line)))
        self._delivered_at = time.monotonic()
        self._held_up = self._held_up or self._delivered_at - delivering_at > HELD_UP_S
        return snapshot.interval_s

    def _say(self, state: HostState, message: str | None, hint: str | None) -> None:
        if state == "connecting" and self.status.state not in ("connecting", *SHOWING_STATES):
            return  # what went wrong last stays until readings come
        since = self.status.since if state == self.status.state else time.time()
        self.status = replace(self.status, state=state, since=since, message=message or None, hint=hint or None)
        self._deliver(Heard(self.status))


class _HostLines(ChildLines):
    """The lines of one connection, each with a deadline."""

    def __init__(self, process: subprocess.Popen[bytes], say_late: Callable[[], None], give_turn: Callable[[], object]) -> None:
        super().__init__(process, "It", checked.LINE_MAX_BYTES, may_flood=True)
        self.gave_up = False
        self._say_late = say_late
        self._give_turn = give_turn
        self._late_at: float | None = None
        self.expect(CONNECT_S)

    def expect(self, seconds: float) -> None:
        """Wait this long for the next line."""
        self._line_at = time.monotonic()
        self._deadline_s = seconds

    def expect_every(self, interval_s: float) -> None:
        """Wait for the next line as a stream of this interval deserves."""
        self.expect(LATE_INTERVALS * interval_s + MUTE_S)
        self._late_at = self._line_at + LATE_INTERVALS * interval_s + LATE_S

    def judge_silence(self) -> None:
        """Judge a host that has sent no complete line for a while."""
        now = time.monotonic()
        if self._late_at is not None and now > self._late_at:
            self._late_at = None
            self._say_late()
        if now - self._line_at > TURN_S:
            self._give_turn()
        if now - self._line_at > self._deadline_s and not self.has_something_to_read():
            self.gave_up = True
            self.failure = f"It has sent nothing for {now - self._line_at:.0f} s."
