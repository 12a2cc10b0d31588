"""Ranks that wait for each other over TCP: the one that has sent nothing since the others did is the one that they wait for."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from gputop.sources.network import sockets
from gputop.sources.network.sockets import Exchange
from gputop.where import messages
from gputop.where.untracked import ask_processes
from gputop.whereabouts.verdict import summary
from tests.tracking.kit import eventually

PORT = b"\0\1"


def ends(first: int, second: int, sent: tuple[float, float], received: tuple[float, float]) -> list[Exchange]:
    """The two ends of a connection between the ranks 1 to 9: seconds since each sent and received; inode 12 is 1's to 2."""
    here, there = (b"host", bytes([first, second])), (b"host", bytes([second, first]))
    return [
        Exchange(10 * first + second, here, there, sent[0], received[0]),
        Exchange(10 * second + first, there, here, sent[1], received[1]),
    ]


def judge(*connections: list[Exchange], took_s: float = 0.0) -> dict[int, float]:
    found = [end for connection in connections for end in connection]
    return messages.judge(found, took_s, {one.inode: one.inode // 10 for one in found})


def test_the_rank_that_has_not_answered_is_found() -> None:
    late = ends(1, 2, (60.0, 60.5), (60.5, 60.0))
    assert judge(late) == {2: 60.5}
    # 3 came after 1 did, so that it has received something from it since it sent last: it is not late.
    three = ends(1, 3, (59.0, 60.0), (60.0, 59.0)), ends(2, 3, (60.5, 59.9), (59.9, 60.5))
    assert judge(ends(1, 2, (60.0, 60.5), (60.5, 60.0)), *three) == {2: 60.5}


@pytest.mark.parametrize(
    "connections",
    [
        [ends(1, 2, (60.0, 60.0), (60.0, 60.0))],
        [ends(1, 2, (60.0, 60.003), (60.003, 60.0))],
        [ends(1, 2, (0.1, 0.6), (0.6, 0.1))],
        [ends(1, 2, (60.0, 60.5), (60.5, 60.5))],
        [ends(1, 2, (60.0, 60.5), (60.5, 60.0))[:1]],
        [],
    ],
    ids=["all wait", "they have left a collective", "they work", "the late one has heard nothing", "one end", "no connection"],
)
def test_a_late_message_by_chance_blames_no_rank(connections: list[list[Exchange]]) -> None:
    assert judge(*connections) == {}


def test_times_count_only_as_far_as_the_reading_was_quick() -> None:
    late = ends(1, 2, (60.0, 60.5), (60.5, 60.0))
    assert judge(late, took_s=1.0) == {}


def test_a_rank_without_a_connection_leaves_it_open() -> None:
    found = ends(1, 2, (60.0, 60.5), (60.5, 60.0))
    assert messages.judge(found, 0.0, {**{one.inode: one.inode // 10 for one in found}, 99: 9}) == {}


@pytest.fixture
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The two ends of a connection of this process."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        first = socket.create_connection(server.getsockname())
        second, _ = server.accept()
    with first, second:
        try:
            sockets.read_exchanges(())
        except OSError as error:
            pytest.skip(f"the kernel does not tell about connections: {error}")
        yield first, second


def test_only_the_connections_of_the_ranks_are_kept(connected: tuple[socket.socket, socket.socket]) -> None:
    first, second = (os.fstat(end.fileno()).st_ino for end in connected)
    assert [one.inode for one in sockets.read_exchanges({first})] == [first]
    assert {one.inode for one in sockets.read_exchanges((first, second))} == {first, second}


def test_a_list_of_connections_that_does_not_end_in_time_tells_nothing(
    connected: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sampler waits for it; with 20,000 connections on a busy machine, it took ten seconds."""
    with pytest.raises(TimeoutError):
        sockets.read_exchanges((os.fstat(connected[0].fileno()).st_ino,), within_s=-1.0)
    given: list[float] = []

    def slow(inodes: object, within_s: float) -> list[Exchange]:
        given.append(within_s)
        if within_s < messages.READINGS_S / 2:
            raise TimeoutError
        time.sleep(messages.READINGS_S / 2)
        return []

    monkeypatch.setattr(sockets, "read_exchanges", slow)
    assert messages.silent([os.getpid()]) == {}
    assert len(given) == 2
    assert max(given) <= messages.READINGS_S


RANK = """
import socket, sys, threading, time
def lock():
    held = threading.Lock()
    held.acquire()
    held.acquire()
if sys.argv[1] == "0":
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        other, _ = server.accept()
    other.sendall(b"a collective")
    other.recv(100)
    time.sleep(0.5)
    other.sendall(b"the next one")
else:
    other = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
    other.recv(100)
    other.sendall(b"a collective")
print("waits", flush=True)
lock()
"""


@pytest.fixture
def ranks() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    port = ""
    for rank in ("0", "1"):
        process = subprocess.Popen([sys.executable, "-c", RANK, rank, port], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        port = port or process.stdout.readline().strip()
    yield started
    for process in started:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def test_of_two_real_processes_that_rest_the_silent_one_is_named(ranks: list[subprocess.Popen[str]]) -> None:
    try:
        sockets.read_exchanges(())
    except OSError as error:
        pytest.skip(f"the kernel does not tell about connections: {error}")
    for process in ranks:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
    first, second = (process.pid for process in ranks)
    time.sleep(messages.RESTS_S)
    eventually(lambda: set(messages.silent([first, second])) == {second}, "it is the one that has sent nothing")
    told = eventually(
        lambda: text if "may be" in (text := summary(ask_processes([first, second])) or "") else None, "a verdict"
    )
    assert told.startswith(f"which rank is behind is not known; it may be process {second}, which has sent nothing for ")
    assert told.endswith(", and the others have since")
