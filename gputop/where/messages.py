"""Which ranks have sent nothing since the others did, by the connections between them: gloo's, and the like.

A rank that enters a collective sends something to another one. When ranks rest, those that still have to enter are the ones
that sent nothing since the collective before, while the others did. The kernel knows when data last went over a connection
(sock_diag); nothing is read of the data, and nobody is asked. Ranks that talk through a GPU's own links leave no such traces.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from gputop.sources.network import paths, sockets

APART_S = 0.005
"""Ranks leave a collective within this time of one another. A guess: on a loaded machine it takes a millisecond or two."""
RESTS_S = 1.0
"""Ranks rest if none of them has sent or received anything for this time."""
_READINGS = 3
"""The quickest of this many readings counts, because time passes while the kernel lists connections."""
READINGS_S = 0.1
"""All of them must end within this time, because the sampler waits for them. Without one that has, nothing is known."""


def silent(pids: Collection[int]) -> dict[int, float]:
    """Return the ranks that the others may wait for, and for how many seconds each of them has sent nothing."""
    owners = paths.socket_owners(pids)
    quickest: tuple[float, list[sockets.Exchange]] | None = None
    end_s = time.monotonic() + READINGS_S
    with suppress(OSError):
        for _ in range(_READINGS):
            began = time.monotonic()
            found = sockets.read_exchanges(owners, end_s - began)
            took_s = time.monotonic() - began
            if quickest is None or took_s < quickest[0]:
                quickest = took_s, found
    return judge(*quickest[::-1], owners) if quickest is not None else {}


def judge(exchanges: Iterable[sockets.Exchange], took_s: float, owners: Mapping[int, int]) -> dict[int, float]:
    """Return what ``silent`` does. ``took_s``: how long the reading took; ``owners``: inode of a socket -> the rank's PID."""
    ends = {(one.local, one.remote): (owners[one.inode], one) for one in exchanges if one.inode in owners}
    sent: dict[int, float] = {}
    received: dict[int, float] = {}
    for (local, remote), (pid, one) in ends.items():
        other = ends.get((remote, local))
        if other is not None and other[0] != pid:
            sent[pid] = min(sent.get(pid, one.sent_ago_s), one.sent_ago_s)
            received[pid] = min(received.get(pid, one.received_ago_s), one.received_ago_s)
    if len(sent) < max(2, len(set(owners.values()))) or min(*sent.values(), *received.values()) < RESTS_S:
        return {}
    oldest, apart_s = max(sent.values()), APART_S + took_s
    late = {pid: ago_s for pid, ago_s in sent.items() if oldest - ago_s <= apart_s}
    heard = all(sent[pid] - received[pid] > APART_S for pid in late)  # of one connection, in one moment
    return late if heard and len(late) < len(sent) else {}
