"""Launches over several hosts that wait for a host: their ranks have not met, so no run shows it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gputop.joined.runs import Seen, shifted
from gputop.snapshot import JOB_ACTIVE, JOB_ENDED_BADLY, LaunchPart

HOLD_S = 5.0
"""The jobs of a launch end one after another: one that ended less long ago holds up nothing yet."""


@dataclass(frozen=True, slots=True)
class JoinedLaunch:
    """A launch that has not ended and has made no step, and of which a host is missing."""

    id: str
    name: str
    there: tuple[str, ...]
    """The hosts on which it has not ended."""
    ended: tuple[tuple[str, str], ...] = ()
    """The hosts on which it ended badly, each with the state of its job there."""
    silent: tuple[str, ...] = ()
    """The hosts on which it had not ended when their links were lost."""
    unheard: int = 0
    """How many of its hosts list no job of it, if some hosts have no reading."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts that list a job of it."""
        return tuple(dict.fromkeys((*self.there, *self.silent, *(host for host, _ in self.ended))))

    def as_data(self) -> dict[str, Any]:
        """Return the launch for JSON."""
        return {
            "launch_id": self.id,
            "name": self.name,
            "hosts": list(self.there),
            "ended_hosts": dict(self.ended),
            "lost_hosts": list(self.silent),
            "unheard_hosts": self.unheard,
        }


def waiting_launches(seen: Sequence[Seen], now: float, unread: Sequence[str] = ()) -> tuple[JoinedLaunch, ...]:
    """Return the launches that wait for a host, in the order of the hosts.

    ``now`` is our clock, in seconds since the epoch; ``unread`` are the hosts without a reading.
    """
    tracked = {run.run_id for one in seen for run in one.snapshot.runs}
    groups: dict[str, dict[str, tuple[Seen, LaunchPart]]] = {}
    for one in seen:
        for part in one.snapshot.launches:
            if part.launch_id not in tracked:
                groups.setdefault(part.launch_id, {}).setdefault(part.job_id, (one, part))
    found = (_joined(launch_id, list(parts.values()), now, bool(unread)) for launch_id, parts in groups.items())
    return tuple(launch for launch in found if launch is not None)


def lost_nodes(ended: Iterable[tuple[str, str]], there: Sequence[str]) -> str:
    """Return what happened to a launch that continues on some hosts, and has ended badly on others, each with its state."""
    what = ", ".join(f"{state} on {host}" for host, state in ended)
    return f"{what}: what runs on {', '.join(there)} may wait for it until a timeout"


def _joined(launch_id: str, parts: Sequence[tuple[Seen, LaunchPart]], now: float, some_unread: bool) -> JoinedLaunch | None:
    there = tuple(one.host for one, part in parts if part.state in JOB_ACTIVE and one.current)
    silent = tuple(one.host for one, part in parts if part.state in JOB_ACTIVE and not one.current)
    ended = tuple(
        (one.host, str(part.state)) for one, part in parts if part.state in JOB_ENDED_BADLY and _ended_before(one, part, now)
    )
    nodes = max((part.nodes or 0 for _, part in parts), default=0)
    unheard = max(0, nodes - len(parts)) if some_unread else 0
    if not there or not (ended or silent or unheard):
        return None
    return JoinedLaunch(launch_id, parts[0][1].name, there, ended, silent, unheard)


def _ended_before(one: Seen, part: LaunchPart, now: float) -> bool:
    at = shifted(part.ended_at, one.clock_offset_s)
    return at is None or now - at >= HOLD_S
