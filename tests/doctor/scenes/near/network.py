"""Runs over hosts whose network is slow, lossy, unequal or full, and what is near to that.

``PAIRS`` holds each with the fault that it differs from in one thing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gputop.network.records import Interface, NetworkPath
from gputop.snapshot import Rank, Snapshot
from tests.doctor.scenes.base import Scene
from tests.doctor.scenes.near.hosts import over_hosts
from tests.doctor.scenes.near.pairs import Pair, look_alikes

MB = 10**6
ADDRESSES = {"node1": "10.0.0.1", "node2": "10.0.0.2", "node3": "10.0.0.3", "node4": "10.0.0.4"}


def path(sender: str, receiver: str, sending_s: float = 6.0, sent_mb: float = 600.0, **values: Any) -> NetworkPath:
    """What a host sent to another one in a minute: 600 MB, at 800 Mb/s while data waited."""
    plain = NetworkPath(
        ADDRESSES[receiver],
        ADDRESSES[sender],
        sender,
        "eth0",
        4,
        60.0,
        int(sent_mb * MB),
        int(sent_mb * MB),
        sending_s,
        0.0,
        int(sent_mb * 700),
        0,
        0.0001,
    )
    return replace(plain, **values)


def card(host: str | None, name: str = "eth0", mb: float = 600.0, **values: Any) -> Interface:
    """An interface of 1 Gb/s that sent and received so much in a minute."""
    plain = Interface(
        name,
        hostname=host,
        state="up",
        speed_mbit_per_s=1000,
        duplex="full",
        mtu=1500,
        link_changes=0,
        window_s=60.0,
        received_bytes=int(mb * MB),
        sent_bytes=int(mb * MB),
        errors=0,
    )
    return replace(plain, **values)


def with_network(paths: tuple[NetworkPath, ...], *interfaces: Interface, hosts: int = 2, exposed: float | None = None) -> Scene:
    """A run over two or three hosts with this network; each rank waits this share of a step for gradients."""

    def scene(second: int) -> Snapshot:
        base = over_hosts(second)
        (run,) = base.runs
        ranks = tuple(_rank(rank, hosts, exposed) for rank in run.ranks)
        return replace(base, runs=(replace(run, ranks=ranks),), paths=paths, interfaces=interfaces)

    return scene


def _rank(rank: Rank, hosts: int, exposed: float | None) -> Rank:
    names = tuple(ADDRESSES)[:hosts]
    facts = dict(rank.facts)
    if exposed is not None:
        times = {"communication_s": 0.3 * exposed + 0.01, "overlap_s": 0.01, "iteration": 500}
        facts["ddp"] = {**facts.get("ddp", {}), **times}
    return replace(rank, hostname=names[rank.rank * hosts // 8], facts=facts)


def here(*interfaces: Interface, paths: tuple[NetworkPath, ...] | None = None) -> Scene:
    """One machine of a run over two, as it sees itself."""
    used = paths if paths is not None else (replace(path("node1", "node2"), hostname=None),)

    def scene(second: int) -> Snapshot:
        base = over_hosts(second)
        (run,) = base.runs
        own = replace(run, ranks=run.ranks[:4])
        points = tuple(part for part in base.points if part.rank < 4)
        return replace(base, runs=(own,), points=points, paths=used, interfaces=interfaces)

    return scene


BOTH = (path("node1", "node2"), path("node2", "node1"))
SLOW_BACK = (path("node1", "node2"), path("node2", "node1", 40.0))
RING = (path("node1", "node2"), path("node2", "node3"), path("node3", "node1"))
slow_path = with_network(SLOW_BACK)
slow_host = with_network((RING[0], path("node2", "node3", 30.0), path("node3", "node1", 40.0)), hosts=3)
LOSSY = path("node2", "node1", lost_segments=10_000)
lossy_path = with_network((BOTH[0], LOSSY))
FAST = card("node1", speed_mbit_per_s=10_000, mb=6000)
SLOW = card("node2", mb=6000)
slower_card = with_network(BOTH, FAST, SLOW)
FULL = (path("node1", "node2", 58.0, 6900), path("node2", "node1", 58.0, 6900))
FULL_CARDS = (card("node1", mb=7000), card("node2", mb=7000))
full = with_network(FULL, *FULL_CARDS, exposed=0.4)
half = here(card(None, duplex="half", speed_mbit_per_s=100))
BOND = Interface("bond0", "bond", state="up", speed_mbit_per_s=25_000)
MEMBERS = (card(None, "eth0", master="bond0"), card(None, "eth1", master="bond0", state="down"))
over_bond = (replace(path("node1", "node2"), hostname=None, interface="bond0"),)
broken_bond = here(BOND, *MEMBERS, paths=over_bond)

PAIRS = (
    Pair("K05", "paths that differ by a third", with_network((BOTH[0], path("node2", "node1", 8.0))), slow_path, 60),
    Pair(
        "K05",
        "a receiver that does not read",
        with_network((BOTH[0], replace(SLOW_BACK[1], receiver_limited_s=35.0))),
        slow_path,
        60,
    ),
    Pair(
        "K05",
        "a slow path that is seldom used",
        with_network((path("node1", "node2", 1.0), path("node2", "node1", 10.0))),
        slow_path,
        60,
    ),
    Pair("K05", "a path with hardly any traffic", with_network((BOTH[0], path("node2", "node1", 40.0, 50))), slow_path, 60),
    Pair("K05", "a kernel that does not count", with_network((BOTH[0], path("node2", "node1", sending_s=None))), slow_path, 60),
    Pair("K05", "too short a window", with_network(tuple(replace(each, window_s=20.0) for each in SLOW_BACK)), slow_path, 60),
    Pair(
        "K05",
        "an address that both hosts have",
        with_network(tuple(replace(each, local_address="172.17.0.1", address="172.17.0.1") for each in SLOW_BACK)),
        slow_path,
        60,
    ),
    Pair("K05", "a download on the same interface", with_network(BOTH, card("node2", mb=7000)), slow_path, 60),
    Pair("K05", "hosts that are even", with_network(RING, hosts=3), slow_host, 60),
    Pair(
        "K05",
        "two pairs of hosts that are far apart",
        with_network(
            (path("node1", "node2"), path("node2", "node3", 40.0), path("node3", "node4"), path("node4", "node1", 40.0)),
            hosts=4,
        ),
        slow_host,
        60,
    ),
    Pair("K06", "few segments lost", with_network((BOTH[0], replace(LOSSY, lost_segments=2000))), lossy_path, 60),
    Pair(
        "K06",
        "a kernel that does not tell which had arrived",
        with_network((BOTH[0], replace(LOSSY, lost_segments=None))),
        lossy_path,
        60,
    ),
    Pair(
        "K06",
        "hardly any traffic",
        with_network((BOTH[0], replace(LOSSY, sent_segments=500, lost_segments=40))),
        lossy_path,
        60,
    ),
    Pair("K07", "links of the same speed", with_network(BOTH, FAST, replace(FAST, hostname="node2")), slower_card, 60),
    Pair(
        "K07",
        "a virtual machine without a speed",
        with_network(BOTH, FAST, replace(SLOW, speed_mbit_per_s=None)),
        slower_card,
        60,
    ),
    Pair(
        "K07",
        "another interface is slower",
        with_network(BOTH, FAST, replace(FAST, hostname="node2"), card("node2", "eth1")),
        slower_card,
        60,
    ),
    Pair(
        "K07",
        "a slower link with little to do",
        with_network(BOTH, replace(FAST, received_bytes=600 * MB, sent_bytes=600 * MB), card("node2")),
        slower_card,
        60,
        at_most="info",
    ),
    Pair(
        "K07",
        "members of a bond",
        with_network(
            tuple(replace(each, interface="bond0") for each in BOTH),
            card("node1", "bond0", 6000, kind="bond", speed_mbit_per_s=20_000),
            card("node1", "eth0", 3000, master="bond0", speed_mbit_per_s=10_000),
            replace(FAST, hostname="node2", name="bond0", speed_mbit_per_s=20_000),
        ),
        slower_card,
        60,
    ),
    Pair("K08", "computing hides it", with_network(FULL, *FULL_CARDS, exposed=0.02), full, 60),
    Pair("K08", "nobody says how long ranks wait", with_network(FULL, *FULL_CARDS), full, 60, at_most="possible"),
    Pair("K08", "a download fills the interfaces", with_network(BOTH, *FULL_CARDS, exposed=0.4), full, 60),
    Pair(
        "K08",
        "one host is full and the other is not",
        with_network((FULL[0], BOTH[1]), FULL_CARDS[0], card("node2"), exposed=0.4),
        full,
        60,
    ),
    Pair("I12", "full duplex", here(card(None)), half, 40),
    Pair("I12", "a link that changed once", here(card(None, link_changes=1)), here(card(None, link_changes=4)), 40),
    Pair("I12", "few errors", here(card(None, errors=3)), here(card(None, errors=3000)), 40),
    Pair("I12", "an interface that carries nothing of the run", here(card(None), card(None, "eth5", duplex="half")), half, 40),
    Pair(
        "I12",
        "an interface that carries nothing, next to connections of an unknown interface",
        here(card(None), card(None, "eth5", duplex="half"), paths=(replace(over_bond[0], interface=None),)),
        half,
        40,
    ),
    Pair("I12", "a port that nobody plugged in", here(card(None), card(None, "eth5", state="down")), broken_bond, 40),
    Pair(
        "I12",
        "a bond that is complete",
        here(BOND, MEMBERS[0], replace(MEMBERS[1], state="up"), paths=over_bond),
        broken_bond,
        40,
    ),
)
LOOK_ALIKES = look_alikes(PAIRS)
