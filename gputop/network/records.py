"""The records of a machine's network while a run has ranks on other machines: interfaces, and the TCP traffic of its ranks.

All counts cover the last ``window_s`` seconds, at most ``WINDOW_S``, and are None until two readings exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

InterfaceKind = Literal["ethernet", "bond", "vlan", "infiniband", "rdma", "virtual"]
"""Kind of an interface.

"ethernet": it has a device of its own, also a virtual machine's; "infiniband": IP over InfiniBand; "rdma": a port of an RDMA
adapter, for InfiniBand or RoCE; "virtual": it has no device (veth of a container, macvlan), so its speed means nothing.
"""
WINDOW_S = 60.0
"""Counts cover at most this time."""
LINK_WINDOW_S = 600.0
"""Changes of a link are rarer than other events, so they are counted for longer."""


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface that leaves the machine, or a port of an RDMA adapter ("mlx5_0/1"), which has its own counters.

    Loopback, bridges and the like are not listed, and virtual interfaces only if ranks use them.
    """

    name: str
    kind: InterfaceKind = "ethernet"
    hostname: str | None = None
    """The machine, if several are joined; None in a machine's own snapshot."""
    state: str | None = None
    """The kernel's "operstate": "up", "down", "dormant" …; "gone" if it was there earlier."""
    speed_mbit_per_s: int | None = None
    """The negotiated speed; None where the driver does not know it, as in virtual machines."""
    duplex: str | None = None
    mtu: int | None = None
    master: str | None = None
    """The bond that it is a member of."""
    link_changes: int | None = None
    """How often the link came or went in the last ``LINK_WINDOW_S`` seconds, as far as they were observed."""
    window_s: float | None = None
    received_bytes: int | None = None
    sent_bytes: int | None = None
    errors: int | None = None
    """Packets received or sent with an error; of an RDMA port, symbol and receive errors and recoveries of the link."""
    sent_packets: int | None = None
    """Packets sent by an RDMA port; None for other interfaces, whose losses TCP counts (``NetworkPath``)."""
    lost_packets: int | None = None
    """How often an RDMA port repeated packets because acknowledgements were missing or out of sequence."""


@dataclass(frozen=True, slots=True)
class NetworkPath:
    """What the ranks of this machine exchange over TCP with one other address, over all their connections to it."""

    address: str
    local_address: str
    hostname: str | None = None
    """The sending machine, if several are joined; None in a machine's own snapshot."""
    interface: str | None = None
    """The name of the interface that has ``local_address``."""
    connections: int | None = None
    window_s: float | None = None
    sent_bytes: int | None = None
    """Bytes that the other side has acknowledged."""
    received_bytes: int | None = None
    sending_s: float | None = None
    """How long data waited to be sent or acknowledged: the mean over the connections, weighted by what they sent."""
    receiver_limited_s: float | None = None
    """The part of ``sending_s`` in which the receiver's window was full: the program there did not read."""
    sent_segments: int | None = None
    lost_segments: int | None = None
    """Segments sent again, without those that the receiver reported as received twice."""
    round_trip_s: float | None = None
    """The shortest round trip of any of the connections since it began."""
