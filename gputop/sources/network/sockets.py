"""Asks the kernel about TCP connections and addresses, over netlink (sock_diag and rtnetlink), as ``ss`` and ``ip`` do.

Owns the formats of these answers. Needs no privilege, and sees only the network namespace that gputop runs in. Imports only the
standard library. Numbers are in the machine's byte order, and in the network's for addresses and ports.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Container, Iterator
from itertools import islice
from typing import NamedTuple

_NETLINK_ROUTE, _NETLINK_SOCK_DIAG = 0, 4
_SOCK_DIAG_BY_FAMILY, _RTM_GETADDR = 20, 22
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_REQUEST_DUMP = 0x301
"""NLM_F_REQUEST and NLM_F_DUMP."""
_ESTABLISHED = 1 << 1
"""The bit of TCP_ESTABLISHED in a mask of states."""
_INET_DIAG_INFO = 2
"""The attribute that holds ``tcp_info``."""
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_HEADER = struct.Struct("=IHHII")
_DIAG_MESSAGE = struct.Struct("=4B2s2s16s16sI8sIIIII")
_INODE, _INODE_AT = struct.Struct("=I"), 68
"""The inode in a ``_DIAG_MESSAGE``."""
_ADDRESS_MESSAGE = struct.Struct("=4BI")
_ATTRIBUTE = struct.Struct("=HH")
_LAST_DATA, _LAST_DATA_AT = struct.Struct("=III"), 44
"""How many milliseconds ago data was sent, a segment acknowledged, and data received; and where this is in ``tcp_info``."""
ANSWER_S = 1.0
"""The kernel answers within milliseconds, if it answers at all."""
MOST = 50_000
"""Connections read at once: beyond this, they are not a training's."""


class Connection(NamedTuple):
    """An established TCP connection. Counts are since it began; None where the kernel is too old to keep them."""

    inode: int
    local: str
    remote: str
    acked_bytes: int | None = None
    received_bytes: int | None = None
    busy_us: int | None = None
    """How long data waited to be sent or acknowledged, in microseconds (Linux 4.10)."""
    receiver_limited_us: int | None = None
    sent_segments: int | None = None
    """With data; wraps at 32 bits, like the next two."""
    repeated_segments: int | None = None
    doubled_segments: int | None = None
    """Of the repeated ones, those that the receiver had already (Linux 4.19)."""
    round_trip_us: int | None = None


class Exchange(NamedTuple):
    """One end of an established TCP connection: its ends as address and port, and how long ago data went each way."""

    inode: int
    local: tuple[bytes, bytes]
    remote: tuple[bytes, bytes]
    sent_ago_s: float
    received_ago_s: float


def read_exchanges(inodes: Container[int], within_s: float = ANSWER_S) -> list[Exchange]:
    """Return the last messages of these TCP connections of this network namespace, also over loopback.

    The kernel lists all connections of the namespace, of which there may be a hundred thousand.

    Raises:
        OSError: the kernel does not answer, or its list has not ended after ``within_s`` seconds.
    """
    end_s, found = time.monotonic() + within_s, []
    for payload in _established():
        if time.monotonic() > end_s:
            raise TimeoutError("too many connections")
        if _INODE.unpack_from(payload, _INODE_AT)[0] in inodes and (read := parse_exchange(payload)) is not None:
            found.append(read)
    return found


def parse_exchange(payload: bytes) -> Exchange | None:
    """Parse one message of a dump; None if the kernel does not say when data was sent."""
    fields = _DIAG_MESSAGE.unpack_from(payload)
    info = next((value for kind, value in _attributes(payload, _DIAG_MESSAGE.size) if kind == _INET_DIAG_INFO), b"")
    if len(info) < _LAST_DATA.size + _LAST_DATA_AT:
        return None
    sent_ms, _, received_ms = _LAST_DATA.unpack_from(info, _LAST_DATA_AT)
    return Exchange(fields[14], (fields[6], fields[4]), (fields[7], fields[5]), sent_ms / 1e3, received_ms / 1e3)


def read_connections() -> list[Connection]:
    """Return the TCP connections of this network namespace to other addresses than loopback ones.

    Raises:
        OSError: the kernel does not answer, for example in a sandbox.
    """
    return list(islice((read for payload in _established() if (read := parse_connection(payload)) is not None), MOST))


def _established() -> Iterator[bytes]:
    """Yield the kernel's messages about established TCP connections."""
    for family in (socket.AF_INET, socket.AF_INET6):
        body = struct.pack("=BBBBI48x", family, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), 0, _ESTABLISHED)
        yield from _dump(_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, body)


def read_addresses() -> dict[str, str]:
    """Return the machine's own addresses, and the name of the interface of each.

    Raises:
        OSError: the kernel does not answer.
    """
    names = dict(socket.if_nameindex())
    found = {}
    for payload in _dump(_NETLINK_ROUTE, _RTM_GETADDR, struct.pack("=4BI", 0, 0, 0, 0, 0)):
        family, _, _, _, index = _ADDRESS_MESSAGE.unpack_from(payload)
        if family not in (socket.AF_INET, socket.AF_INET6):  # a management controller's (MCTP) has one byte
            continue
        values = dict(_attributes(payload, _ADDRESS_MESSAGE.size))
        # On a point-to-point interface, IFA_ADDRESS is the other end.
        address = values.get(_IFA_LOCAL, values.get(_IFA_ADDRESS))
        if address is not None and index in names:
            found[_text(address)] = names[index]
    return found


def parse_connection(payload: bytes) -> Connection | None:
    """Parse one message of a dump; None for a connection to a loopback address."""
    import ipaddress  # few machines need it

    fields = _DIAG_MESSAGE.unpack_from(payload)
    family, source, destination, inode = fields[0], fields[6], fields[7], fields[14]
    size = 4 if family == socket.AF_INET else 16
    remote = _text(destination[:size])
    if ipaddress.ip_address(remote).is_loopback:
        return None
    info = next((value for kind, value in _attributes(payload, _DIAG_MESSAGE.size) if kind == _INET_DIAG_INFO), b"")

    def number(at: int, form: str) -> int | None:
        return int(struct.unpack_from(form, info, at)[0]) if len(info) >= at + struct.calcsize(form) else None

    round_trip_us = number(148, "=I")
    return Connection(
        inode,
        _text(source[:size]),
        remote,
        acked_bytes=number(120, "=Q"),
        received_bytes=number(128, "=Q"),
        busy_us=number(168, "=Q"),
        receiver_limited_us=number(176, "=Q"),
        sent_segments=number(156, "=I"),
        repeated_segments=number(100, "=I"),
        doubled_segments=number(216, "=I"),
        # Without a measurement, the kernel reports the largest value.
        round_trip_us=round_trip_us if round_trip_us != 0xFFFFFFFF else None,
    )


def _text(address: bytes) -> str:
    import ipaddress

    parsed = ipaddress.ip_address(address)
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def _attributes(payload: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at + _ATTRIBUTE.size <= len(payload):
        length, kind = _ATTRIBUTE.unpack_from(payload, at)
        if length < _ATTRIBUTE.size:
            return
        yield kind, payload[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3


def _dump(protocol: int, kind: int, body: bytes) -> Iterator[bytes]:
    """Yield the payload of each message with which the kernel answers a dump.

    Raises:
        OSError: it refuses, or does not answer in time.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol) as netlink:
        netlink.settimeout(ANSWER_S)
        netlink.send(_HEADER.pack(_HEADER.size + len(body), kind, _REQUEST_DUMP, 1, 0) + body)
        while True:
            data = netlink.recv(65536)
            at = 0
            while at + _HEADER.size <= len(data):
                length, answer, _, _, _ = _HEADER.unpack_from(data, at)
                if answer == _NLMSG_DONE or length < _HEADER.size:
                    return
                payload = data[at + _HEADER.size : at + length]
                if answer == _NLMSG_ERROR:
                    raise OSError(-struct.unpack_from("=i", payload)[0], "netlink")
                yield payload
                at += (length + 3) & ~3
            if not data:
                return
