"""Counts what ranks exchange with other addresses over TCP, from the kernel's account of their connections.

Only the ranks' own connections count: a download or a network file system on the same interface is not among them.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from gputop.network.records import WINDOW_S, NetworkPath
from gputop.sources.network import sockets

WRAP = 1 << 32
"""The kernel counts segments in 32 bits."""
PATHS_MOST = 16
"""The paths with the most traffic. Ranks exchange gradients with a few others, and keep a connection to every one."""


class Paths:
    """Counts what ranks exchange with other addresses, by the connections that they have open."""

    def __init__(self, read: Callable[[], Iterable[sockets.Connection]] = sockets.read_connections) -> None:
        self._read = read
        self._inodes: dict[int, int | None] = {}
        """Inode of a connection -> the rank that has it open; None for any other process's."""
        self._last: dict[int, sockets.Connection] = {}
        self._sums: dict[tuple[str, str], deque[tuple[float, _Sums]]] = {}
        self._pids: frozenset[int] = frozenset()

    def read(self, pids: Collection[int], now_s: float) -> tuple[NetworkPath, ...]:
        """Return the paths of these ranks; none if the kernel does not list connections."""
        try:
            own = sockets.read_addresses()
            connections = [found for found in self._read() if found.remote not in own and found.inode]
        except OSError:
            return ()
        self._find_owners({found.inode for found in connections}, frozenset(pids))
        kept = [found for found in connections if self._inodes.get(found.inode) is not None]
        pairs: dict[tuple[str, str], list[sockets.Connection]] = {}
        for found in kept:
            pairs.setdefault((found.local, found.remote), []).append(found)
        paths: dict[str, NetworkPath] = {}
        for pair, held in pairs.items():
            steps = [(self._last[one.inode], one) for one in held if one.inode in self._last]
            sums = self._sums.setdefault(pair, deque())
            sums.append((now_s, _Sums.of(steps) if sums else _Sums()))
            forget(sums, now_s - WINDOW_S)
            path = _path(pair, held, sums, own)
            known = paths.get(path.address)
            if known is None or (path.sent_bytes or 0) > (known.sent_bytes or 0):
                paths[path.address] = path
        self._sums = {pair: sums for pair, sums in self._sums.items() if pair in pairs}
        self._last = {one.inode: one for one in kept}
        most_first = sorted(paths.values(), key=lambda path: -(path.sent_bytes or 0) - (path.received_bytes or 0))
        return tuple(most_first[:PATHS_MOST])

    def _find_owners(self, inodes: Collection[int], pids: frozenset[int]) -> None:
        """Look up which of the connections the ranks have open; only if there are new ones, because that reads all files."""
        if pids != self._pids:
            self._inodes, self._pids = {}, pids
        self._inodes = {inode: owner for inode, owner in self._inodes.items() if inode in inodes}
        if unknown := set(inodes) - self._inodes.keys():
            owners = socket_owners(pids)
            self._inodes.update({inode: owners.get(inode) for inode in unknown})


@dataclass(frozen=True, slots=True)
class _Sums:
    """What happened between two readings on the connections of one path."""

    sent_bytes: int = 0
    received_bytes: int = 0
    sending_s: float | None = 0.0
    receiver_limited_s: float | None = 0.0
    sent_segments: int | None = 0
    repeated_segments: int | None = 0
    doubled_segments: int | None = 0

    @staticmethod
    def of(steps: Sequence[tuple[sockets.Connection, sockets.Connection]]) -> _Sums:
        # One more each, so that the time also counts on connections that get nothing through.
        weights = [(now.acked_bytes or 0) - (before.acked_bytes or 0) + 1 for before, now in steps]
        return _Sums(
            sum(weights) - len(weights),
            sum((now.received_bytes or 0) - (before.received_bytes or 0) for before, now in steps),
            _mean_s([(before.busy_us, now.busy_us) for before, now in steps], weights),
            _mean_s([(before.receiver_limited_us, now.receiver_limited_us) for before, now in steps], weights),
            _wrapped([(before.sent_segments, now.sent_segments) for before, now in steps]),
            _wrapped([(before.repeated_segments, now.repeated_segments) for before, now in steps]),
            _wrapped([(before.doubled_segments, now.doubled_segments) for before, now in steps]),
        )


def _mean_s(pairs: Sequence[tuple[int | None, int | None]], weights: Sequence[int]) -> float | None:
    known = [now - before for before, now in pairs if before is not None and now is not None]
    if len(known) < len(pairs):
        return None
    return sum(weight * grown for weight, grown in zip(weights, known, strict=True)) / sum(weights) / 1e6 if known else 0.0


def _wrapped(pairs: Iterable[tuple[int | None, int | None]]) -> int | None:
    """Return by how much counters of 32 bits grew together."""
    return total((now - before) % WRAP if before is not None and now is not None else None for before, now in pairs)


def _path(
    pair: tuple[str, str],
    held: list[sockets.Connection],
    sums: deque[tuple[float, _Sums]],
    own: Mapping[str, str],
) -> NetworkPath:
    local, remote = pair
    trips = [one.round_trip_us for one in held if one.round_trip_us is not None]
    path = NetworkPath(
        remote, local, interface=own.get(local), connections=len(held), round_trip_s=min(trips) / 1e6 if trips else None
    )
    if len(sums) < 2:
        return path
    steps = [step for _, step in list(sums)[1:]]
    repeated, doubled = total(step.repeated_segments for step in steps), total(step.doubled_segments for step in steps)
    return replace(
        path,
        window_s=sums[-1][0] - sums[0][0],
        sent_bytes=sum(step.sent_bytes for step in steps),
        received_bytes=sum(step.received_bytes for step in steps),
        sending_s=total(step.sending_s for step in steps),
        receiver_limited_s=total(step.receiver_limited_s for step in steps),
        sent_segments=total(step.sent_segments for step in steps),
        lost_segments=max(0, repeated - doubled) if repeated is not None and doubled is not None else None,
    )


Number = TypeVar("Number", int, float)


def total(values: Iterable[Number | None]) -> Number | None:
    """Return the sum; None if one of the values is unknown."""
    known: list[Number] = []
    for value in values:
        if value is None:
            return None
        known.append(value)
    return sum(known)


def socket_owners(pids: Iterable[int]) -> dict[int, int]:
    """Return the inodes of the sockets that these processes have open, and the PID of each."""
    found = {}
    for pid in pids:
        try:
            names = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for name in names:
            try:
                target = os.readlink(f"/proc/{pid}/fd/{name}")
            except OSError:
                continue
            if target.startswith("socket:["):
                found[int(target[8:-1])] = pid
    return found


def forget(readings: deque[Any], since_s: float) -> None:
    """Forget readings before ``since_s``, except for the last of them, so that the rest spans at least the whole window."""
    while len(readings) > 1 and readings[1][0] <= since_s:
        readings.popleft()
