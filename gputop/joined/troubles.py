"""What is wrong among the hosts of a run, in words, and which failed runs are still reported. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gputop import units
from gputop.joined.launches import JoinedLaunch, lost_nodes
from gputop.joined.runs import JoinedRun, Seen, join
from gputop.joined.untracked import JoinedProcessRun
from gputop.snapshot import FAILED_STATES

REPORTED_S = 600.0
"""A run that failed longer ago than this is no longer reported, as for a rank that died (G04)."""
NAMED_MOST = 3
"""Maximum number of hosts that a sentence names."""


def troubles(run: JoinedRun, unread: Sequence[str] = ()) -> tuple[str, ...]:
    """Return what is wrong among the hosts of a run, the worst first. ``unread``: the hosts without a reading."""
    return (
        *_unheard(run.silent, run.missing, run.run.world_size, unread),
        *(f"{_ranks(ranks)} failed on {host}" for host, ranks in run.failed),
    )


def untracked_troubles(run: JoinedProcessRun, unread: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the same for an untracked run, known only by its processes."""
    return _unheard(run.silent, run.missing, run.world_size, unread)


def launch_troubles(launch: JoinedLaunch, unread: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the same for a launch whose ranks have not met."""
    found = [lost_nodes(launch.ended, launch.there)] if launch.ended else []
    found += [f"{host} has not been heard from" for host in launch.silent]
    if launch.unheard:
        verb, of = "has" if launch.unheard == 1 else "have", len(launch.hosts) + launch.unheard
        whom = ", ".join(unread[:NAMED_MOST])
        found.append(f"{launch.unheard} of its {of} hosts {verb} not been heard from; no reading of {whom}")
    return tuple(found)


def _unheard(silent: Sequence[str], missing: Sequence[int], world_size: int | None, unread: Sequence[str]) -> tuple[str, ...]:
    found = [f"{host} has not been heard from" for host in silent]
    if missing:
        who = f"; no reading of {', '.join(unread[:NAMED_MOST])}" if unread else ""
        verb = "has" if len(missing) == 1 else "have"
        found.append(f"{_ranks(missing)} of {world_size} {verb} not been heard from{who}")
    return tuple(found)


def failed_apart(seen: Sequence[Seen], now: float) -> tuple[JoinedRun, ...]:
    """Return the runs with missing ranks that failed within ``REPORTED_S`` before ``now``, by this machine's clock.

    They matter only if a host was not read: many scripts report from one rank only.
    """
    return tuple(run for run in join(seen) if run.run.state in FAILED_STATES and not run.parts and _just_now(run, now))


def _just_now(run: JoinedRun, now: float) -> bool:
    ended = [rank.last_log_at for rank in run.run.ranks if rank.last_log_at is not None]
    at = run.run.ended_at or max(ended, default=None)
    return bool(run.missing) and at is not None and now - at <= REPORTED_S


def _ranks(numbers: Sequence[int]) -> str:
    return f"rank{'s' * (len(numbers) != 1)} {units.ranges(numbers)}"
