"""What ranks exchange with other addresses, from the kernel's account of connections: parsed, owned, and summed."""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
import threading
from dataclasses import replace

import pytest

from gputop.network.records import NetworkPath
from gputop.sources.network import sockets, watch
from gputop.sources.network.paths import Paths, socket_owners
from gputop.sources.network.sockets import Connection
from gputop.sources.network.watch import Network, NetworkReader, NetworkWatch
from tests.patience import DEADLINE_S

SECOND_US = 1_000_000


def message(local: str, remote: str, inode: int, info: bytes) -> bytes:
    source, destination = ipaddress.ip_address(local).packed, ipaddress.ip_address(remote).packed
    family = socket.AF_INET if len(source) == 4 else socket.AF_INET6
    ends = struct.pack("!HH", 29500, 40000) + source.ljust(16, b"\0") + destination.ljust(16, b"\0") + bytes(12)
    head = struct.pack("=4B", family, 1, 0, 0) + ends + struct.pack("=5I", 0, 0, 0, 1000, inode)
    return head + struct.pack("=HH", 4 + len(info), 2) + info


def tcp_info(length: int = 232, **values: int) -> bytes:
    info = bytearray(232)
    for name, (at, form) in {
        "total_retrans": (100, "=I"),
        "bytes_acked": (120, "=Q"),
        "bytes_received": (128, "=Q"),
        "min_rtt": (148, "=I"),
        "data_segs_out": (156, "=I"),
        "busy_time": (168, "=Q"),
        "rwnd_limited": (176, "=Q"),
        "dsack_dups": (216, "=I"),
    }.items():
        struct.pack_into(form, info, at, values.get(name, 0))
    return bytes(info[:length])


def test_a_connection_is_parsed_from_the_kernels_message() -> None:
    info = tcp_info(
        total_retrans=7,
        bytes_acked=2**40,
        bytes_received=5,
        min_rtt=90,
        data_segs_out=9,
        busy_time=3,
        rwnd_limited=2,
        dsack_dups=4,
    )
    found = sockets.parse_connection(message("::ffff:10.0.0.1", "::ffff:10.0.0.2", 77, info))
    assert found == Connection(77, "10.0.0.1", "10.0.0.2", 2**40, 5, 3, 2, 9, 7, 4, 90)
    assert sockets.parse_connection(message("127.0.0.1", "127.0.0.1", 77, info)) is None
    assert sockets.parse_connection(message("::ffff:127.0.0.1", "::ffff:127.0.0.1", 77, info)) is None


def test_an_old_kernel_leaves_out_what_it_does_not_count() -> None:
    found = sockets.parse_connection(message("10.0.0.1", "10.0.0.2", 77, tcp_info(104, total_retrans=7)))
    assert found is not None
    assert found.repeated_segments == 7
    assert (found.acked_bytes, found.busy_us, found.doubled_segments) == (None, None, None)


def test_this_kernel_reports_its_addresses_and_its_sockets() -> None:
    try:
        addresses, connections = sockets.read_addresses(), sockets.read_connections()
    except OSError as error:
        pytest.skip(f"the kernel does not tell about connections: {error}")
    assert addresses["127.0.0.1"] == "lo"
    assert not [found for found in connections if found.remote == "127.0.0.1"]
    with socket.socket() as one:
        inode = os.fstat(one.fileno()).st_ino
        assert socket_owners([os.getpid()])[inode] == os.getpid()


def test_addresses_of_other_families_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    index, name = socket.if_nameindex()[0]

    def address(family: int, value: bytes) -> bytes:
        return struct.pack("=4BI", family, 0, 0, 0, index) + struct.pack("=HH", 4 + len(value), 2) + value

    told = [address(45, b"\x08"), address(socket.AF_INET, bytes((10, 0, 0, 7)))]
    monkeypatch.setattr(sockets, "_dump", lambda *asked: iter(told))
    assert sockets.read_addresses() == {"10.0.0.7": name}


class Kernel:
    """Connections that a test changes. The socket of this process is the rank's; another inode is somebody else's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._socket = socket.socket()
        self.inode = os.fstat(self._socket.fileno()).st_ino
        self.connections: list[Connection] = []
        monkeypatch.setattr(sockets, "read_addresses", lambda: {"10.0.0.1": "eth0", "127.0.0.1": "lo"})

    def path(self, **values: int) -> Connection:
        zero = Connection(self.inode, "10.0.0.1", "10.0.0.2", 0, 0, 0, 0, 0, 0, 0, 90)
        return zero._replace(**values)

    def paths(self) -> Paths:
        return Paths(lambda: list(self.connections))

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch):
    made = Kernel(monkeypatch)
    yield made
    made.close()


def test_a_path_counts_what_the_ranks_exchanged_in_the_last_minute(kernel: Kernel) -> None:
    paths = kernel.paths()
    for second in range(0, 101, 5):
        kernel.connections = [
            kernel.path(
                acked_bytes=second * 1000,
                received_bytes=second * 900,
                busy_us=second * SECOND_US // 2,
                receiver_limited_us=second * SECOND_US // 10,
                sent_segments=(2**32 - 30 + second) % 2**32,
                repeated_segments=second,
                doubled_segments=second * 4 // 5,
            ),
            kernel.path(inode=4_000_000_000, remote="10.0.0.9", acked_bytes=second * 10**9),  # a download by another process
            kernel.path(remote="10.0.0.1", acked_bytes=second * 10**9),  # between ranks of this machine
        ]
        found = paths.read([os.getpid()], float(second))
    assert found == (NetworkPath("10.0.0.2", "10.0.0.1", None, "eth0", 1, 60.0, 60_000, 54_000, 30.0, 6.0, 60, 12, 90e-6),)


def test_time_counts_on_a_connection_that_gets_nothing_through(kernel: Kernel) -> None:
    paths = kernel.paths()
    for second in (0, 5, 10):
        kernel.connections = [kernel.path(busy_us=second * SECOND_US)]
        (found,) = paths.read([os.getpid()], float(second))
    assert (found.sent_bytes, found.sending_s) == (0, 10.0)


def test_a_new_connection_counts_from_its_second_reading(kernel: Kernel) -> None:
    paths = kernel.paths()
    kernel.connections = [kernel.path(acked_bytes=10**9)]
    (found,) = paths.read([os.getpid()], 0.0)
    assert (found.window_s, found.sent_bytes, found.connections) == (None, None, 1)
    kernel.connections = [kernel.path(acked_bytes=10**9 + 7)]
    (found,) = paths.read([os.getpid()], 5.0)
    assert (found.window_s, found.sent_bytes) == (5.0, 7)
    kernel.connections = []
    assert paths.read([os.getpid()], 10.0) == ()


def test_of_many_paths_those_with_the_most_traffic_are_passed_on(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, inode = kernel.paths(), kernel.inode
    monkeypatch.setattr("gputop.sources.network.paths.socket_owners", lambda pids: dict.fromkeys(range(inode, inode + 40), 1))
    for second in (0, 5):
        kernel.connections = [
            kernel.path(inode=inode + number, remote=f"10.0.1.{number}", acked_bytes=second * number) for number in range(40)
        ]
        found = paths.read([1], float(second))
    assert [path.address for path in found] == [f"10.0.1.{number}" for number in range(39, 23, -1)]


def test_unknown_times_stay_unknown(kernel: Kernel) -> None:
    paths = kernel.paths()
    for second in (0, 5):
        old = kernel.path(acked_bytes=second)._replace(busy_us=None, receiver_limited_us=None, doubled_segments=None)
        kernel.connections = [old]
        (found,) = paths.read([os.getpid()], float(second))
    assert (found.sent_bytes, found.sending_s, found.receiver_limited_s, found.lost_segments) == (5, None, None, None)


def test_there_are_no_paths_if_the_kernel_reports_none(kernel: Kernel) -> None:
    def refuses() -> list[Connection]:
        raise OSError(93, "Protocol not supported")

    assert Paths(refuses).read([os.getpid()], 0.0) == ()


class SlowReader(NetworkReader):
    """A reader that a driver holds up until a test lets it go."""

    def __init__(self, go: threading.Event, read: threading.Event) -> None:
        self.go, self.has_read = go, read

    def read(self, pids: object, now_s: float) -> Network:
        self.go.wait(60)
        self.has_read.set()
        return Network(paths=(NetworkPath("10.0.0.2", "10.0.0.1"),))


def test_the_watch_never_waits_and_reads_nothing_without_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "READ_S", 0.01)
    go, has_read = threading.Event(), threading.Event()
    made: list[int] = []

    def reader() -> NetworkReader:
        made.append(1)
        return SlowReader(go, has_read)

    watching = NetworkWatch(reader)
    assert watching.wait(DEADLINE_S) == watching.poll([]) == Network(), "it waits for nothing that will not be read"
    assert not made, "no thread and no reader without a run over machines"
    assert watching.poll([1]) == Network()
    assert watching.wait(0.01) == Network(), "a driver that does not answer"
    go.set()
    assert watching.wait(DEADLINE_S).paths
    assert has_read.is_set()
    tries = threading.Event()
    for _ in range(3000):
        if watching.poll([1]).paths:
            break
        tries.wait(0.01)
    assert watching.poll([1]).paths
    assert watching.poll([]) == Network()


def test_a_failing_reader_is_reported_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "READ_S", 0.01)
    whole = Network(paths=(NetworkPath("10.0.0.2", "10.0.0.1"),))

    class Failing(NetworkReader):
        def __init__(self) -> None:
            self.times = 0

        def read(self, pids: object, now_s: float) -> Network:
            self.times += 1
            if self.times == 1:
                raise ValueError("a bug")
            return replace(whole)

    watching = NetworkWatch(Failing)
    errors, pause = [], threading.Event()
    for _ in range(3000):
        try:
            found = watching.poll([1])
        except ValueError as error:
            errors.append(str(error))
            continue
        if found.paths:
            break
        pause.wait(0.01)
    assert (errors, found) == (["a bug"], whole)
