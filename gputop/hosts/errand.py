"""One command of gputop on several hosts: what each prints, line by line, and how it ends there.

A host is reached as for a stream, and what it sends is not trusted: lines are passed on as bytes, for ``checked`` or with
control characters removed, and none of them can make this machine run anything.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from subprocess import Popen

from gputop.agent.lines import ChildLines, ended
from gputop.errors import EXIT_OK
from gputop.hosts.connection import CONNECTING_MOST, Connection, close_all
from gputop.hosts.state import ASKING_STATES, Failure, HostState, HostStatus, failure_of_gputop, failure_of_login
from gputop.hosts.stream import CONNECT_S, TURN_S
from gputop.hosts.transport import HELLO, Transport, is_said
from gputop.terminal_text import strip_controls

LINE_MAX_BYTES = 16 << 20
"""A host that sends a longer line is cut off."""
SAID_MAX = 4096
"""Maximum number of lines waiting to be taken; then hosts wait too."""
LEAVING_LOOKS_S = 0.02
"""How often to check whether the commands have ended by themselves."""
BUSY_TRIES = 3
BUSY_WAIT_S = 1.0
"""How often to connect to a host whose sshd turns the connection away, and the pause between two tries."""
_GPUTOP_CODES = (0, 1, 2, 3, 130)
"""gputop's exit codes; any other comes from the link, or from a crash."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a host may send; None: no limit. A host that sends more is cut off."""

    within_s: float | None = None
    """Time limit for the command, from the start of the connection, not counting the time that its lines wait here."""
    lines_most: int | None = None
    bytes_most: int | None = None
    enough: Callable[[bytes], bool] | None = None
    """Whether a line is the whole answer: then the command is ended and counts as successful."""


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class End:
    """How a command ended on a host. ``failure``: why it never ran or was lost; ``words``: its standard error."""

    code: int | None
    words: tuple[str, ...] = ()
    failure: Failure | None = None

    def sentence(self, host: str) -> str:
        """Return what went wrong, with the host's name."""
        if self.failure is not None:
            return HostStatus(host, self.failure.state, message=self.failure.message, hint=self.failure.hint).sentence
        said = " ".join(word.removeprefix("gputop: ") for word in self.words)
        return f"{host}: {said or f'gputop ended there with exit code {self.code}.'}"


@dataclass(frozen=True, slots=True)
class Said:
    """News of a host: a line, or the end of the command there."""

    host: str
    line: bytes = b""
    end: End | None = None


class Errands:
    """Runs a command of gputop on each host until all have ended, or it is closed."""

    def __init__(
        self,
        transport: Transport,
        hosts: Sequence[str],
        arguments: Sequence[str],
        first: Mapping[str, bytes] | None = None,
        limits: Limits = NO_LIMITS,
    ) -> None:
        """Nothing runs before ``start``.

        Args:
            transport: how to reach the hosts.
            hosts: on which hosts to run the command.
            arguments: the arguments of gputop on each host.
            first: host -> the line that the command there gets on its standard input.
            limits: what each host may send.
        """
        wanted = first or {}
        self._transport = transport
        self._said: queue.Queue[Said] = queue.Queue(SAID_MAX)
        self._closed = threading.Event()
        turn = threading.Semaphore(CONNECTING_MOST)
        self._errands = {
            host: _Errand(host, transport, arguments, self._put, turn, wanted.get(host, b""), limits) for host in hosts
        }
        self.ends: dict[str, End] = {}

    def start(self) -> None:
        """Start the command on every host, and ask the user where a login needs an answer."""
        for errand in self._errands.values():
            threading.Thread(target=errand.run, daemon=True, name=f"host-{errand.host}").start()
        self._transport.asking.ask(tuple(self._errands))

    def take(self, timeout_s: float) -> Said | None:
        """Return the next news; None if none arrives in time, or all have ended."""
        if len(self.ends) == len(self._errands):
            return None
        try:
            said = self._said.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if said.end is not None:
            self.ends[said.host] = said.end
        return said

    @property
    def running(self) -> bool:
        """Whether a command has not ended yet."""
        return len(self.ends) < len(self._errands)

    def send(self, host: str, line: bytes) -> None:
        """Write a line to the command on a host, if it is still there."""
        self._errands[host].connection.write(line)

    def close(self) -> None:
        """End all connections; gputop there ends when its input closes."""
        self._closed.set()
        close_all([errand.connection for errand in self._errands.values()])

    def leave(self, within_s: float) -> None:
        """Close the input of every command, let them end by themselves within this time, and close the rest."""
        for errand in self._errands.values():
            errand.connection.end_input()
        until = time.monotonic() + within_s
        while time.monotonic() < until and any(errand.connection.is_open for errand in self._errands.values()):
            time.sleep(LEAVING_LOOKS_S)
        self.close()

    def _put(self, said: Said) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(queue.Full):
                self._said.put(said, timeout=0.5)
                return


class _Errand:
    """One command on one host."""

    def __init__(
        self,
        host: str,
        transport: Transport,
        arguments: Sequence[str],
        deliver: Callable[[Said], object],
        turn: threading.Semaphore,
        first: bytes,
        limits: Limits,
    ) -> None:
        self.host = host
        self._transport = transport
        self._arguments = arguments
        self._deliver = deliver
        self._first = first
        self._limits = limits
        self.connection = Connection(host, transport, turn)

    def run(self) -> None:
        """Run the command to its end; again after the user has logged in, if the login needs an answer."""
        end, asking = self._tried(), self._transport.asking
        while end.failure is not None and end.failure.state in ASKING_STATES:
            failure = asking.refused(self.host, end.failure, self.connection.closed)
            if failure is not None:
                end = replace(end, failure=failure)
                break
            end = self._tried()
        asking.settled(self.host)
        self._deliver(Said(self.host, end=end))

    def _tried(self) -> End:
        """Run the command; retry if an sshd turns the connection away."""
        for tried in range(BUSY_TRIES):
            end = self._once()
            if end.failure is None or end.failure.state != "busy" or tried == BUSY_TRIES - 1:
                break
            self.connection.closed.wait(BUSY_WAIT_S)
        return end

    def _once(self) -> End:
        found = self.connection.use(self._read)
        return End(None, failure=found) if isinstance(found, Failure) else found or End(None)

    def _read(self, process: Popen[bytes], connected: Callable[[], object], give_turn: Callable[[], object]) -> End:
        self.connection.write(self._transport.line(self._arguments))
        lines = _Lines(process, self._limits, give_turn)
        for line in lines.lines():
            if lines.connected:
                lines.count(line)
                if lines.failure:
                    break
                began = time.monotonic()
                self._deliver(Said(self.host, line))
                lines.waited_s += time.monotonic() - began
                if self._limits.enough is not None and self._limits.enough(line):
                    return End(EXIT_OK)
            elif is_said(line, HELLO):
                lines.connected = True
                self._transport.asking.settled(self.host)
                self.connection.write(self._first)
                connected()
            lines.judge_silence()
            if lines.failure:
                break
        login = self._transport.shown_login(self.host)
        if not lines.at_end or not ended(process):
            state: HostState = "unreadable" if lines.connected and not lines.is_late else "timed_out"
            return End(None, failure=Failure(state, lines.failure, f"Try it: {login}"))
        words = tuple(strip_controls(word) for word in lines.last_words if word.strip())
        code = process.returncode
        if not lines.connected:
            return End(code, words, failure_of_login(code, words, login))
        failure = failure_of_gputop(code, words, login)
        if failure.state != "failed":
            return End(code, words, failure)
        if code not in _GPUTOP_CODES:
            return End(code, words, Failure("ended", "The connection ended.", f"Try it: {login}"))
        return End(code, words)


class _Lines(ChildLines):
    """The lines of one connection. Once it is up, it may be silent up to its limit: ssh itself detects a lost link."""

    def __init__(self, process: Popen[bytes], limits: Limits, give_turn: Callable[[], object]) -> None:
        super().__init__(process, "It", LINE_MAX_BYTES, may_flood=True)
        self.connected = False
        self.is_late = False
        self.waited_s = 0.0
        """How long lines waited to be taken: the host did not cause that delay."""
        self._told_lines = self._told_bytes = 0
        self._limits = limits
        self._give_turn = give_turn
        self._began = time.monotonic()

    def count(self, line: bytes) -> None:
        """Give up on a host that sends more than it may."""
        self._told_lines += 1
        self._told_bytes += len(line)
        most_lines, most_bytes = self._limits.lines_most, self._limits.bytes_most
        if (most_lines is not None and self._told_lines > most_lines) or (
            most_bytes is not None and self._told_bytes > most_bytes
        ):
            self.failure = "It sent far more than requested."

    def judge_silence(self) -> None:
        """Give up on a host that never says hello, or takes longer than it may."""
        took_s = time.monotonic() - self._began - self.waited_s
        if took_s > TURN_S:
            self._give_turn()
        if not self.connected and took_s > CONNECT_S and not self.has_something_to_read():
            self.failure = f"It has sent nothing for {CONNECT_S:.0f} s."
        elif self._limits.within_s is not None and took_s > self._limits.within_s and not self.failure:
            self.is_late = True
            self.failure = f"It has not answered for {self._limits.within_s:.0f} s."
