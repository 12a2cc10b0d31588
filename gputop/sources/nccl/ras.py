"""Queries NCCL about its communicators, through the RAS service that every process with NCCL 2.24 or newer runs.

The service speaks a text protocol on a local socket (localhost:28028, or NCCL_RAS_ADDR). The process that is asked collects
the answer from all processes of its job. Several jobs share the port (SO_REUSEPORT) and the kernel picks which one answers,
so the query repeats until the answers have covered every process known to use NCCL. All of this runs in a separate thread,
which starts when it first has a process to ask. The caller decides whom it may ask. No answer is not an error: NCCL may be
old, or the service disabled.

The protocol and its timeouts are those of NCCL's own client, ncclras; ``answer`` parses the answers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading
import time
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gputop.snapshot import Communicator, CommunicatorRank, Process
from gputop.sources.nccl.address import Address, nccl_threads, ras_address
from gputop.sources.nccl.listeners import only_these_listen

if TYPE_CHECKING:
    from gputop.sources.nccl.answer import Answer

EVERY_S = 5.0
"""Minimum time between queries."""
MAX_TIME_SHARE = 0.05
"""Maximum share of the time spent on queries: a job on many nodes takes seconds to answer."""
HANDSHAKE_S = 1.0
"""A stopped process still accepts a connection, but never replies."""
COLLECT_S = 2
"""How long NCCL waits for a process of the job that does not answer it."""
ANSWER_S = COLLECT_S + 6.0
"""NCCL adds 5 seconds to its own timeout; one more is for the transfer."""
ROUND_S = 20.0
MAX_QUERIES = 16
"""Limits of one round, in which the query repeats: its duration, and the number of queries to one address."""
MAX_WITHOUT_NEWS = 3
"""After this many consecutive answers without news, the remaining processes have no communicator."""
ANSWER_MAX_BYTES = 32 * 2**20
"""A longer answer is not NCCL's."""


class RasError(Exception):
    """No process answered, or the answer is not NCCL's."""


@dataclass(frozen=True, slots=True)
class Question:
    """Which addresses to query; the PIDs that the answers should cover, and those whose communicators to return."""

    addresses: tuple[Address, ...] = ()
    expected: frozenset[int] = frozenset()
    listed: frozenset[int] = frozenset()


class RasWatch:
    """Keeps the newest communicators of the processes passed to it."""

    def __init__(self, every_s: float = EVERY_S, reaches_only: Callable[[int, Set[int]], bool] = only_these_listen) -> None:
        """Start without a process. ``reaches_only`` returns whether a question to a port can reach these processes only."""
        self._every_s = every_s
        self._reaches_only = reaches_only
        self._question = Question()
        self._found: tuple[Communicator, ...] = ()
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def poll(self, processes: Iterable[Process]) -> tuple[Communicator, ...]:
        """Update the list of processes, and return the communicators that any of them belongs to. Never blocks."""
        self._question = question_about(processes)
        if not self._question.addresses:
            self._found = ()
            return ()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="nccl-ras", daemon=True)
            self._thread.start()
        self._wake.set()
        return self._found

    def close(self) -> None:
        """Ask the thread to end, without waiting."""
        self._stopped.set()
        self._wake.set()

    def _run(self) -> None:
        while self._wake.wait() and not self._stopped.is_set():
            self._wake.clear()
            question = self._question
            began = time.monotonic()
            found = ask_all(question, wanted=self._may_ask)
            self._found = found if self._question.addresses else ()
            self._stopped.wait(max(self._every_s, (time.monotonic() - began) / MAX_TIME_SHARE))

    def _may_ask(self, address: Address) -> bool:
        """Return whether the question is still wanted, and can reach only processes that may be asked."""
        question = self._question
        return address in question.addresses and self._reaches_only(address[1], question.listed)


def question_about(processes: Iterable[Process]) -> Question:
    """Return what to query: nothing unless a process has NCCL threads, or has torch's CUDA part (and thus NCCL) mapped."""
    addresses: dict[Address, None] = {}
    expected, listed = set(), set()
    for process in processes:
        listed.add(process.pid)
        address = ras_address(process)
        if address is None:
            continue
        addresses[address] = None
        if nccl_threads(process):
            expected.add(process.pid)
    return Question(tuple(addresses), frozenset(expected), frozenset(listed))


def ask_all(
    question: Question,
    ask: Callable[[Address], Answer] | None = None,
    wanted: Callable[[Address], bool] = lambda _: True,
) -> tuple[Communicator, ...]:
    """Query until every expected PID is covered; return the communicators with a rank among the listed PIDs.

    ``wanted`` is asked before each query whether the address may still be queried.
    """
    ask = ask or ask_once
    deadline = time.monotonic() + ROUND_S
    found: dict[str, Communicator] = {}
    seen: set[int] = set()
    for address in question.addresses:
        if not is_local(address[0]):
            continue  # NCCL can listen only on this machine's addresses, so this one is a mistake
        without_news = 0
        for _ in range(MAX_QUERIES):
            if (
                time.monotonic() > deadline
                or not wanted(address)
                or without_news >= MAX_WITHOUT_NEWS
                or (question.expected and question.expected <= seen)
            ):
                break
            try:
                answer = ask(address)
            except ConnectionRefusedError:
                break  # no listener: an old NCCL, or none in use
            except (RasError, OSError):
                without_news += 1
                continue
            ids = {item.communicator_id for item in answer.communicators}
            without_news = 0 if ids - found.keys() else without_news + 1
            for item in map(_localized, answer.communicators):
                found[item.communicator_id] = item
                seen |= {rank.pid for rank in item.ranks if rank.pid is not None}
    return tuple(item for item in found.values() if any(rank.pid in question.listed for rank in item.ranks))


def _localized(communicator: Communicator) -> Communicator:
    """Remove the PIDs of ranks on other machines: here they belong to other processes, or to none."""
    ranks = tuple(_localized_rank(rank) for rank in communicator.ranks)
    return dataclasses.replace(communicator, ranks=ranks)


def _localized_rank(rank: CommunicatorRank) -> CommunicatorRank:
    return rank if rank.hostname is None or is_local(rank.hostname) else dataclasses.replace(rank, pid=None, nvml_index=None)


_local: dict[str, bool] = {}


def is_local(host: str) -> bool:
    """Return whether an address belongs to this machine: a socket can be bound to it."""
    known = _local.get(host)
    if known is None:
        known = _local[host] = host in ("localhost", "unknown") or _can_bind(host)
    return known


def _can_bind(host: str) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return True
    return False


def ask_once(address: Address) -> Answer:
    """Query the process that answers at ``address`` for all communicators of its job.

    Raises:
        RasError: it is not NCCL, or it closed the connection early.
        OSError: nothing listens there, or no answer arrives in time.
    """
    with socket.create_connection(address, HANDSHAKE_S) as connection:
        line = Lines(connection)
        if not line.exchange("CLIENT PROTOCOL 2").upper().startswith("SERVER PROTOCOL"):
            raise RasError(f"what listens at {address[0]}:{address[1]} is not NCCL")
        line.exchange(f"TIMEOUT {COLLECT_S}")
        speaks_json = line.exchange("SET FORMAT json").strip().upper() == "OK"  # NCCL 2.28.7 and newer
        connection.sendall(b"VERBOSE STATUS\n")
        connection.settimeout(ANSWER_S)
        text = line.rest()
    try:
        from gputop.sources.nccl.answer import parse_json, parse_text

        return parse_json(text) if speaks_json else parse_text(text)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RasError(f"an answer that is not NCCL's: {error}") from error


class Lines:
    """Reads from a connection: first line by line, then the remainder."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._read = b""

    def exchange(self, command: str) -> str:
        """Send a command and return the line that answers it.

        Raises:
            RasError: the other side closed the connection.
            OSError: no answer arrives in time.
        """
        self._connection.sendall(f"{command}\n".encode())
        while b"\n" not in self._read:
            self._receive()
        line, _, self._read = self._read.partition(b"\n")
        return line.decode(errors="replace")

    def rest(self) -> str:
        """Return everything up to the end of the connection, which NCCL closes after its answer.

        Raises:
            RasError: the answer is longer than ANSWER_MAX_BYTES, or takes longer than ANSWER_S.
            OSError: no data arrives in time.
        """
        parts: list[bytes] = [self._read]
        size, deadline = len(self._read), time.monotonic() + ANSWER_S
        while data := self._connection.recv(2**16):
            parts.append(data)
            size += len(data)
            if size > ANSWER_MAX_BYTES or time.monotonic() > deadline:
                raise RasError("an answer without an end")
        return b"".join(parts).decode(errors="replace")

    def _receive(self) -> None:
        data = self._connection.recv(2**16)
        if not data or len(self._read) > 2**16:
            raise RasError("the connection ended before the answer")
        self._read += data
