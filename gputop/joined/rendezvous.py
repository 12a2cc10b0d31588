"""Launchers that wait for other nodes, over several machines: which nodes are there, and how many are missing. Pure.

Nothing of such a run is tracked, and none of its ranks exists. A torchrun does not say who the other nodes are, so only their
number is known.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from gputop import units
from gputop.joined.runs import Seen, shifted
from gputop.joined.untracked import is_loopback
from gputop.process import NODES_START_S, WaitingLauncher

NAMED_MOST = 3
"""Maximum number of hosts that a sentence names."""


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """The torchruns of one run that wait for its other nodes."""

    name: str
    nodes: int
    meets_at: str
    """The address, or the Slurm job if torchrun chooses the address."""
    hosts: tuple[str, ...]
    """The hosts on which torchrun waits, one for each node."""
    without: tuple[str, ...]
    """The other hosts with a reading."""
    waited_s: float
    """Since the last of them started."""
    launcher: str = "torchrun"
    """In words, with its user if that is another one."""
    user: str | None = None
    """Whose they are, if they are another user's."""
    pids: tuple[int, ...] = ()
    """The process of each of ``hosts``."""

    @property
    def missing(self) -> int:
        """How many nodes are not seen."""
        return max(0, self.nodes - len(self.hosts))

    def as_data(self) -> dict[str, Any]:
        """Return the rendezvous for JSON."""
        return {
            "name": self.name,
            "nodes": self.nodes,
            "meets_at": self.meets_at,
            "hosts": list(self.hosts),
            "missing_nodes": self.missing,
            "waited_s": round(self.waited_s, 1),
            "user": self.user,
        }

    def tells_of(self, host: str, pids: Collection[int]) -> bool:
        """Return whether these processes of a host are among them."""
        return bool(pids) and {(host, pid) for pid in pids} <= set(zip(self.hosts, self.pids, strict=True))


def waiting_rendezvous(seen: Sequence[Seen], now: float) -> tuple[Rendezvous, ...]:
    """Return those that have waited for ``NODES_START_S``, in the order of the hosts; ``now`` is this machine's clock.

    What gputop launched over hosts is left out (``launches``). ``seen`` has each machine once.
    """
    groups: dict[object, list[tuple[Seen, WaitingLauncher]]] = {}
    known = set()
    for one in seen:
        ours = {part.job_id for part in one.snapshot.launches}
        for launcher in one.snapshot.waiting_launchers:
            process = (one.snapshot.host.hostname, one.snapshot.host.boot_id, launcher.pid)
            if one.current and launcher.gputop_job_id not in ours and process not in known:
                known.add(process)
                groups.setdefault(_meeting(one.host, launcher), []).append((one, launcher))
    found = (_joined(group, seen, now) for group in groups.values())
    return tuple(one for one in found if one.waited_s >= NODES_START_S)


def rendezvous_text(one: Rendezvous, unread: Sequence[str] = ()) -> str:
    """Return what is wrong, in words. ``unread``: the hosts without a reading."""
    where = f"{', '.join(one.hosts[:NAMED_MOST])}{' …' if len(one.hosts) > NAMED_MOST else ''}"
    waits = f"{one.launcher} on {where} has waited {units.duration(one.waited_s)}"
    if not one.missing:
        return f"{waits} at {one.meets_at}: its {one.nodes} nodes are there and have not met"
    text = f"{waits} for {one.missing} of its {one.nodes} nodes at {one.meets_at}"
    if unread:
        return f"{text}; no reading of {', '.join(unread[:NAMED_MOST])}"
    if one.without:
        none = ", ".join(one.without[:NAMED_MOST])
        more = " …" if len(one.without) > NAMED_MOST else ""
        return f"{text}; {none}{more} run{'s' if len(one.without) == 1 else ''} none of it"
    return text


def _meeting(host: str, launcher: WaitingLauncher) -> object:
    """Return what only the nodes of one run have in common: a loopback address alone joins nothing."""
    same = launcher.words, launcher.name, launcher.nodes, launcher.rendezvous_id
    if launcher.slurm_job_id is not None:
        return "slurm", launcher.slurm_job_id, launcher.meets_at, same
    address = (launcher.meets_at or "").rpartition(":")[0] or launcher.meets_at
    return launcher.meets_at if address and not is_loopback(address) else (host, launcher.meets_at), same


def _joined(group: Sequence[tuple[Seen, WaitingLauncher]], seen: Sequence[Seen], now: float) -> Rendezvous:
    first = group[0][1]
    hosts, pids = tuple(one.host for one, _ in group), tuple(launcher.pid for _, launcher in group)
    place = first.meets_at or (f"Slurm job {first.slurm_job_id}" if first.slurm_job_id else "an address that it chose")
    started = [at for one, launcher in group if (at := shifted(launcher.started_at, one.clock_offset_s)) is not None]
    without = tuple(one.host for one in seen if one.current and one.host not in hosts)
    waited_s = now - max(started, default=now)
    return Rendezvous(first.name, first.nodes, place, hosts, without, waited_s, first.words, first.user, pids)
