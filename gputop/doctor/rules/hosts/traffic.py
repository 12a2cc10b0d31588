"""What the hosts of a run exchange, and which of their links or paths stand out. Pure.

A path is one direction between two hosts. Its speed is what it carried while data waited to be sent or acknowledged, so that
time in which the ranks compute does not count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.rules.hosts.places import runs_over_hosts
from gputop.joined.untracked import exchange_id
from gputop.network.records import Interface, NetworkPath
from gputop.network.words import mbit_per_s
from gputop.snapshot import Rank

WINDOW_MIN_S = 30.0
SENT_MIN_BYTES = 4 << 20
"""Less than this in a window is not the exchange of gradients."""
ALIKE_BYTES = 0.2
"""A path that carries a smaller share of what another one does has another purpose: its speed is not comparable."""
RDMA_USED_MBIT_PER_S = 80.0
"""From this traffic on, an RDMA port counts as used by the run: its counters do not show who uses it."""


@dataclass(frozen=True, slots=True)
class Path:
    """What ``sender`` sent to ``receiver`` in the window of its record."""

    sender: str
    receiver: str
    record: NetworkPath

    @property
    def speed_mbit_per_s(self) -> float | None:
        """What it carries while there is something to carry; None if it carried too little to tell."""
        sent, sending_s = self.record.sent_bytes, self.record.sending_s
        if sent is None or sending_s is None or sent < SENT_MIN_BYTES or not self.is_observed:
            return None
        return mbit_per_s(sent, sending_s)

    @property
    def is_observed(self) -> bool:
        """Whether the window is long enough."""
        return (self.record.window_s or 0.0) >= WINDOW_MIN_S

    @property
    def sending_share(self) -> float | None:
        """The share of the time in which data waited to be sent or acknowledged."""
        sending_s, window_s = self.record.sending_s, self.record.window_s
        return min(1.0, sending_s / window_s) if sending_s is not None and window_s else None

    @property
    def receiver_share(self) -> float:
        """The part of that time in which the program at the other end did not read."""
        sending_s, limited_s = self.record.sending_s, self.record.receiver_limited_s
        return limited_s / sending_s if limited_s and sending_s else 0.0

    @property
    def loss_share(self) -> float | None:
        """The share of the segments that got lost."""
        sent, lost = self.record.sent_segments, self.record.lost_segments
        return lost / sent if sent and lost is not None and self.is_observed else None

    @property
    def text(self) -> str:
        """The path in words."""
        return f"{self.sender} to {self.receiver}"


@dataclass(frozen=True, slots=True)
class Exchange:
    """Hosts that exchange something for a run. ``id`` is the run's, or ``exchange_id``, without ranks, if it is not tracked."""

    id: str
    hosts: Mapping[str, Sequence[Rank]]


def paths_between(evidence: Evidence, hosts: Collection[str]) -> list[Path]:
    """Return the paths among the hosts of a run. An address that two hosts have (as of docker's bridges) says nothing."""
    memo: dict[frozenset[str], list[Path]] = evidence.memo.setdefault("paths between hosts", {})
    key = frozenset(hosts)
    if key not in memo:
        memo[key] = _paths_between(evidence, key)
    return memo[key]


def _paths_between(evidence: Evidence, hosts: frozenset[str]) -> list[Path]:
    records = [each for host in sorted(hosts) for each in _of_host(evidence, host)[1]]
    owners: dict[str, set[str]] = {}
    for each in records:
        owners.setdefault(each.local_address, set()).add(each.hostname or "")
    found = []
    for each in records:
        there = owners.get(each.address, set())
        if len(there) == 1 and each.hostname is not None and (receiver := next(iter(there))) != each.hostname:
            found.append(Path(each.hostname, receiver, each))
    return found


def exchanges(evidence: Evidence) -> list[Exchange]:
    """Return each run over hosts, and the hosts among which other ranks exchange something: those of untracked runs."""
    tracked = runs_over_hosts(evidence)
    found = [Exchange(run.run_id, hosts) for run, hosts in tracked]
    reporting = {path.hostname for path in (evidence.snapshot.paths if evidence.snapshot is not None else ())} - {None}
    groups: list[set[str]] = []
    for path in paths_between(evidence, [host for host in reporting if host is not None]):
        ends = {path.sender, path.receiver}
        if any(ends <= hosts.keys() for _, hosts in tracked):
            continue
        touched = [group for group in groups if group & ends]
        groups = [group for group in groups if not group & ends] + [ends.union(*touched)]
    return found + [Exchange(exchange_id(group), dict.fromkeys(sorted(group), ())) for group in groups]


def interfaces_of(evidence: Evidence, host: str) -> list[Interface]:
    """Return all interfaces of a host."""
    return _of_host(evidence, host)[0]


def interfaces_in_use(evidence: Evidence, host: str | None) -> list[Interface]:
    """Return the interfaces that carry the ranks' traffic on a host: those of its paths, most traffic first, and RDMA ports."""
    interfaces, paths = _of_host(evidence, host)
    known = {each.name: each for each in interfaces}
    carried: dict[str, int] = {}
    for path in paths:
        if path.interface in known:
            carried[path.interface] = carried.get(path.interface, 0) + (path.sent_bytes or 0) + (path.received_bytes or 0)
    used = [known[name] for name in sorted(carried, key=lambda name: -carried[name]) if carried[name] >= SENT_MIN_BYTES]
    return used + [each for each in known.values() if each.kind == "rdma" and _exchanges(each)]


def _of_host(evidence: Evidence, host: str | None) -> tuple[list[Interface], list[NetworkPath]]:
    """Return the readings of one host: a hundred hosts have thousands, which several rules ask for."""
    memo: dict[str | None, tuple[list[Interface], list[NetworkPath]]] | None = evidence.memo.get("network of hosts")
    if memo is None:
        memo = evidence.memo["network of hosts"] = {}
        for interface in evidence.snapshot.interfaces if evidence.snapshot is not None else ():
            memo.setdefault(interface.hostname, ([], []))[0].append(interface)
        for path in evidence.snapshot.paths if evidence.snapshot is not None else ():
            memo.setdefault(path.hostname, ([], []))[1].append(path)
    return memo.get(host, ([], []))


def _exchanges(port: Interface) -> bool:
    rates = [mbit_per_s(count, port.window_s) or 0.0 for count in (port.received_bytes, port.sent_bytes)]
    return min(rates) >= RDMA_USED_MBIT_PER_S


def slowest_paths(paths: Sequence[Path], times: float) -> tuple[list[Path], float] | None:
    """Return the paths that are ``times`` slower than all others, and the speed of the slowest of those.

    None if there are none. Only paths that carry about as much are compared.
    """
    speeds = {id(path): speed for path in paths if (speed := path.speed_mbit_per_s) is not None}
    most = max((path.record.sent_bytes or 0 for path in paths if id(path) in speeds), default=0)
    alike = [path for path in paths if id(path) in speeds and (path.record.sent_bytes or 0) >= ALIKE_BYTES * most]
    alike.sort(key=lambda path: speeds[id(path)])
    for at in range(1, len(alike)):
        slow, fast = speeds[id(alike[at - 1])], speeds[id(alike[at])]
        if fast >= times * slow:
            return alike[:at], fast
    return None


def common_place(paths: Iterable[Path]) -> tuple[str, str] | None:
    """Return the host that all these paths touch, and their direction there: "to and from", "from" or "to".

    Both directions between two hosts are "a and b", "between". A single path names its sender, although the fault may be at
    either end. None if the paths touch no common host.
    """
    listed = list(paths)
    hosts = set.intersection(*({path.sender, path.receiver} for path in listed)) if listed else set()
    if not hosts:
        return None
    if len(hosts) == 2:
        both = len({path.sender for path in listed}) > 1
        return (" and ".join(sorted(hosts)), "between") if both else (listed[0].sender, "from")
    (host,) = hosts
    directions = {"from" if path.sender == host else "to" for path in listed}
    return host, "to and from" if len(directions) > 1 else next(iter(directions))
