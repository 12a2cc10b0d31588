"""Reads network interfaces and the ports of RDMA adapters from /proc/net/dev and /sys/class.

Owns the formats of these files; ``network`` decides when they are read. Asking a driver for its speed takes the kernel's lock
on all interfaces, and the counters of an RDMA port are requests to its firmware: both are read rarely, from a thread of their
own. Imports only the standard library and its neighbors; ``root`` replaces "/" in tests.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from gputop.network.records import InterfaceKind
from gputop.sources.host import procfs

_ETHERNET, _INFINIBAND = "1", "32"
_KINDS: dict[str, InterfaceKind] = {"bond": "bond", "team": "bond", "vlan": "vlan"}
"""DEVTYPE in ``uevent`` -> kind of an interface that has no device of its own."""
_IB_ERRORS = ("symbol_error", "port_rcv_errors", "local_link_integrity_errors", "link_error_recovery")
_IB_REPEATS = ("packet_seq_err", "local_ack_timeout_err")
"""The other side reported a gap (NAK), or did not acknowledge in time: what was sent is sent again."""
_SATURATED = frozenset((0xFF, 0xFFFF, 0xFFFF_FFFF))
"""Counters of an InfiniBand port stay at their largest value instead of wrapping: then nothing is known."""
_RDMA_STATES = {"ACTIVE": "up"}
_IB_WORD_BYTES = 4
"""port_rcv_data and port_xmit_data count words of 4 bytes."""


@dataclass(frozen=True, slots=True)
class Link:
    """The properties of an interface that rarely change."""

    kind: InterfaceKind
    speed_mbit_per_s: int | None = None
    duplex: str | None = None
    mtu: int | None = None
    master: str | None = None


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of an interface since its driver was loaded; ``Interface`` explains them."""

    received_bytes: int | None = None
    sent_bytes: int | None = None
    errors: int | None = None
    link_changes: int | None = None
    sent_packets: int | None = None
    lost_packets: int | None = None


class InterfaceFiles:
    """Reads the files of interfaces and RDMA ports. An interface that goes away meanwhile is left out."""

    def __init__(self, root: str = "/") -> None:
        self._net = os.path.join(root, "sys/class/net")
        self._rdma = os.path.join(root, "sys/class/infiniband")
        self._counters = os.path.join(root, "proc/net/dev")

    def read_counters(self) -> dict[str, Counters]:
        """Return the traffic of each interface in this network namespace, also of loopback and bridges."""
        return parse_counters(_read(self._counters) or "")

    def describes(self, names: Iterable[str]) -> bool:
        """Return whether /sys is that of this network namespace: one that is entered without a mount shows another's."""
        try:
            return set(names) == {name for name in os.listdir(self._net) if os.path.islink(os.path.join(self._net, name))}
        except OSError:
            return False

    def read_link(self, name: str) -> Link | None:
        """Return what an interface is; None if it never leaves the machine (loopback, bridge, tunnel) or is gone."""
        kind_of_hardware = self._value(name, "type")
        if kind_of_hardware not in (_ETHERNET, _INFINIBAND):
            return None
        described = re.search(r"^DEVTYPE=(\w+)$", _read(os.path.join(self._net, name, "uevent")) or "", re.MULTILINE)
        what = described.group(1) if described else ""
        if what == "bridge" or os.path.isdir(os.path.join(self._net, name, "bridge")):
            return None
        kind: InterfaceKind = "virtual"
        if os.path.exists(os.path.join(self._net, name, "device")):
            kind = "infiniband" if kind_of_hardware == _INFINIBAND else "ethernet"
        elif os.path.isdir(os.path.join(self._net, name, "bonding")):
            kind = "bond"
        else:
            kind = _KINDS.get(what, "virtual")
        # The driver of a virtual interface invents a speed (veth: 10000).
        speed = _number(self._value(name, "speed")) if kind != "virtual" else None
        duplex = self._value(name, "duplex") if kind != "virtual" else None
        try:
            master = os.path.basename(os.readlink(os.path.join(self._net, name, "master")))
        except OSError:
            master = None
        is_bonded = master is not None and os.path.isdir(os.path.join(self._net, master, "bonding"))
        return Link(
            kind,
            speed if speed is not None and 0 < speed < 2**31 else None,  # unknown is -1, or that as an unsigned number
            duplex if duplex in ("full", "half") else None,
            _number(self._value(name, "mtu")),
            master if is_bonded else None,
        )

    def read_state(self, name: str) -> str | None:
        """Return the state of an interface; None if it is unknown."""
        state = self._value(name, "operstate")
        return state if state != "unknown" else None

    def read_link_changes(self, name: str) -> int | None:
        """Return how often the link has come or gone: ``carrier_changes``, in which the kernel counts both."""
        return _number(self._value(name, "carrier_changes"))

    def rdma_ports(self) -> list[tuple[str, str]]:
        """Return adapter and port of each RDMA port."""
        found = []
        try:
            for adapter in sorted(os.listdir(self._rdma)):
                found += [(adapter, port) for port in sorted(os.listdir(os.path.join(self._rdma, adapter, "ports")))]
        except OSError:
            pass
        return found

    def read_rdma_link(self, adapter: str, port: str) -> tuple[Link, str | None]:
        """Return the link of an RDMA port and its state."""
        state = (self._rdma_value(adapter, port, "state") or "").partition(": ")[2]
        rate = re.match(r"([\d.]+) Gb/sec", self._rdma_value(adapter, port, "rate") or "")
        return Link("rdma", round(float(rate.group(1)) * 1000) if rate else None), _RDMA_STATES.get(
            state, state.lower()
        ) or None

    def read_rdma_counters(self, adapter: str, port: str) -> Counters:
        """Return the counters of an RDMA port: those of the port, and those that only some drivers have."""

        def counter(name: str) -> int | None:
            value = _number(self._rdma_value(adapter, port, f"counters/{name}"))
            return None if value in _SATURATED else value

        received, sent = counter("port_rcv_data"), counter("port_xmit_data")
        repeats = [_number(self._rdma_value(adapter, port, f"hw_counters/{name}")) for name in _IB_REPEATS]
        return Counters(
            None if received is None else received * _IB_WORD_BYTES,
            None if sent is None else sent * _IB_WORD_BYTES,
            _sum([counter(name) for name in _IB_ERRORS]),
            counter("link_downed"),
            counter("port_xmit_packets"),
            _sum(repeats),
        )

    def _value(self, name: str, file: str) -> str | None:
        return _read(os.path.join(self._net, name, file))

    def _rdma_value(self, adapter: str, port: str, file: str) -> str | None:
        return _read(os.path.join(self._rdma, adapter, "ports", port, file))


def parse_counters(text: str) -> dict[str, Counters]:
    """Parse /proc/net/dev: eight columns of what was received, eight of what was sent."""
    found = {}
    for row in text.splitlines():
        name, colon, rest = row.partition(":")
        values = rest.split()
        if colon and len(values) >= 16 and all(map(str.isdigit, values)):
            numbers = [int(value) for value in values]
            found[name.strip()] = Counters(numbers[0], numbers[8], numbers[2] + numbers[10])
    return found


def _read(path: str) -> str | None:
    try:
        return procfs.read_bytes(path).decode(errors="replace").strip()
    except OSError:  # the speed of an interface that is down is an error, too
        return None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
