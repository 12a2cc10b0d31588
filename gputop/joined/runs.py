"""Joins the runs of several machines' snapshots. Pure: snapshots in, runs out.

Runs with one id are one run, unless their world sizes differ, or two processes on different machines are the same rank: then
one id was given to several trainings. Names are not compared. Machines with a common file system list each other's ranks; if
several list a rank, the machine on which it runs counts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gputop import units
from gputop.snapshot import FAILED_STATES, LIVE_STATES, Rank, Run, Snapshot, own_or_automatic, worst

RANKS_MOST = 4096
"""Maximum number of ranks that are looked for: a world size comes from another machine, and may be any number."""
SLOWER_SHARE = 0.1
"""From this share of a step on, a host counts as slower: the doctor's limit for a rank that the others wait for."""
STEP, BACKWARD = "step_s", "phase/backward"


@dataclass(frozen=True, slots=True)
class Seen:
    """The newest snapshot of a machine, which the user calls ``host``."""

    host: str
    snapshot: Snapshot
    clock_offset_s: float = 0.0
    """Its clock minus this machine's, in seconds."""
    current: bool = True
    """Whether the link is up; otherwise, the snapshot is the last one."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a step takes on a host, in seconds: means over its ranks. ``backward_s`` is None if no rank reports it."""

    step_s: float
    backward_s: float | None = None


@dataclass(frozen=True, slots=True)
class Slowest:
    """The host that delays a run, and by which share of a step. ``waited_for``: the others wait for it in each step."""

    host: str
    share: float
    waited_for: bool


@dataclass(frozen=True, slots=True)
class Part:
    """The live ranks of a run on one host."""

    host: str
    ranks: tuple[int, ...]
    devices: Mapping[int, tuple[int, ...]]
    """Rank -> the indices of the devices that it computes on, if the driver reports them."""
    pace: Pace | None = None
    """None if its ranks do not say."""
    current: bool = True


def absent(world_size: int, seen: Collection[int]) -> tuple[int, ...]:
    """Return the ranks that are not among ``seen``; of a world size without bounds, the first ``RANKS_MOST``."""
    return tuple(rank for rank in range(min(world_size, RANKS_MOST)) if rank not in seen)


def silent_hosts(parts: Sequence[Part]) -> tuple[str, ...]:
    """Return the hosts of these parts whose link is lost."""
    return tuple(part.host for part in parts if not part.current)


@dataclass(frozen=True, slots=True)
class JoinedRun:
    """One run over machines. ``run`` has each rank once, with times by this machine's clock."""

    run: Run
    parts: tuple[Part, ...]
    """Where its live ranks are, in the order of the hosts."""
    known_by: tuple[str, ...]
    """The hosts that list the run."""
    source: str | None = None
    """The source of its curve, if gputop does not track it."""
    failed: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """The ranks that failed, by host; an unwatched machine has its own name."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts with live ranks of it, else those that list it."""
        return tuple(part.host for part in self.parts) or self.known_by

    @property
    def missing(self) -> tuple[int, ...]:
        """The ranks that should exist and that no host lists; none if the run's curve is read from one rank's file."""
        if self.source is not None:
            return ()
        seen = {rank.rank for rank in self.run.ranks}
        return absent(self.run.world_size or 0, seen)

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """The unwatched machines with live ranks, by their own names."""
        placed = {rank for part in self.parts for rank in part.ranks}
        others = (rank for rank in self.run.ranks if rank.state in LIVE_STATES and rank.rank not in placed)
        return tuple(dict.fromkeys(rank.hostname for rank in others if rank.hostname is not None))

    @property
    def places(self) -> tuple[str, ...]:
        """The machines with live ranks of it, watched or not, else the hosts that list it.

        Hosts that share a directory of runs list each other's runs.
        """
        return (*(part.host for part in self.parts), *self.elsewhere) or self.known_by

    @property
    def silent(self) -> tuple[str, ...]:
        """The hosts with ranks of the run whose link is lost."""
        return silent_hosts(self.parts)

    @property
    def slowest(self) -> Slowest | None:
        """The host that delays the run, by its newest steps, if there is one."""
        return slowest({part.host: part.pace for part in self.parts if part.pace is not None and part.current})


def slowest(paces: Mapping[str, Pace]) -> Slowest | None:
    """Return the host that delays the others; None if they are even, or fewer than two are known.

    If ranks wait for one another, every step takes equally long, and the rank waited for has the shortest backward: the
    others' waiting is part of theirs. Otherwise, the longest step decides.
    """
    if len(paces) < 2:
        return None
    step_s = units.mean([pace.step_s for pace in paces.values()])
    backward = sorted((pace.backward_s, host) for host, pace in paces.items() if pace.backward_s is not None)
    if len(backward) == len(paces):
        least, host = backward[0]
        share = (units.mean([value for value, _ in backward[1:]]) - least) / step_s if step_s > 0 else 0.0
        if share >= SLOWER_SHARE:
            return Slowest(host, share, waited_for=True)
    steps = sorted((pace.step_s, host) for host, pace in paces.items())
    usual = units.mean([value for value, _ in steps[:-1]])
    most, host = steps[-1]
    share = most / usual - 1 if usual > 0 else 0.0
    return Slowest(host, share, waited_for=False) if share >= SLOWER_SHARE else None


_Listed = list[tuple[Seen, Run, str | None]]


def join(seen: Sequence[Seen]) -> tuple[JoinedRun, ...]:
    """Return every run that the snapshots list, each once, in the order of the hosts."""
    return tuple(one_by_one(seen))


def one_by_one(seen: Sequence[Seen]) -> Iterator[JoinedRun]:
    """Yield what ``join`` returns: of a hundred hosts, joining all runs takes longer than a key should wait."""
    groups: dict[str, _Listed] = {}
    for one in seen:
        sources = {curve.run_id: curve.source for run in one.snapshot.process_runs for curve in run.curves}
        for run in one.snapshot.runs:
            source = sources.get(run.run_id)
            # The curve of an untracked run has an id that another machine may give too.
            key = run.run_id if source is None else f"{one.host} {run.run_id}"
            groups.setdefault(key, []).append((one, run, source))
    homes = _homes(seen)
    for listed in groups.values():
        by_one_clock = [(one, by_our_clock(run, one.clock_offset_s), source) for one, run, source in listed]
        for training in _one_training_each(by_one_clock):
            yield _joined(training, homes)


def shared_runs(seen: Sequence[Seen]) -> tuple[JoinedRun, ...]:
    """Return the runs of which ``is_shared`` holds, in the order of the hosts."""
    return tuple(filter(is_shared, one_by_one(seen)))


def is_shared(run: JoinedRun) -> bool:
    """Return whether a run has live ranks on several hosts, or missing ranks.

    This includes a run whose ranks failed on one host while those on another still wait for them.
    """
    if not run.parts or not (run.run.state in LIVE_STATES or run.failed):
        return False
    return len({part.host for part in run.parts}.union(dict(run.failed))) > 1 or bool(run.missing)


def by_our_clock(run: Run, offset_s: float) -> Run:
    """Return a run of a machine whose clock is ``offset_s`` ahead, with its times by this machine's clock."""
    if not offset_s:
        return run
    ranks = tuple(
        replace(
            rank,
            last_log_at=shifted(rank.last_log_at, offset_s),
            last_step_at=shifted(rank.last_step_at, offset_s),
            facts=_standing_shifted(rank.facts, offset_s),
        )
        for rank in run.ranks
    )
    return replace(run, ranks=ranks, created_at=shifted(run.created_at, offset_s), ended_at=shifted(run.ended_at, offset_s))


def shifted(at: float | None, offset_s: float) -> float | None:
    """Return a time of a machine whose clock is ``offset_s`` ahead, in seconds by this machine's clock."""
    return None if at is None else at - offset_s


def _standing_shifted(facts: Mapping[str, Any], offset_s: float) -> Mapping[str, Any]:
    """Return a rank's facts with the times of its place by this machine's clock, so that the waits on all hosts can be
    compared."""
    standing = facts.get("standing")
    if not isinstance(standing, Mapping):
        return facts
    times = {name: standing[name] - offset_s for name in ("at", "since", "stepped") if _is_time(standing.get(name))}
    return {**facts, "standing": {**standing, **times}}


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _one_training_each(listed: _Listed) -> list[_Listed]:
    """Return the runs with one id that belong together."""
    groups: list[_Listed] = []
    for item in listed:
        fitting = next((group for group in groups if all(_fits(run, item[1]) for _, run, _ in group)), None)
        if fitting is None:
            groups.append([item])
        else:
            fitting.append(item)
    return groups


def _fits(first: Run, second: Run) -> bool:
    if first.world_size is not None and second.world_size is not None and first.world_size != second.world_size:
        return False
    live = {rank.rank: (rank.hostname, rank.pid) for rank in first.ranks if rank.state in LIVE_STATES}
    for rank in second.ranks:
        known, place = live.get(rank.rank, (None, None)), (rank.hostname, rank.pid)
        if rank.state in LIVE_STATES and None not in known and None not in place and known != place:
            return False
    return True


def _homes(seen: Iterable[Seen]) -> dict[str, list[Seen]]:
    homes: dict[str, list[Seen]] = {}
    for one in seen:
        homes.setdefault(one.snapshot.host.hostname, []).append(one)
    return homes


def _joined(listed: _Listed, homes: Mapping[str, list[Seen]]) -> JoinedRun:
    best: dict[int, tuple[tuple[bool, bool, float, bool], Rank, Seen]] = {}
    for one, run, _ in listed:
        for rank in run.ranks:
            at_home = rank.hostname in (None, one.snapshot.host.hostname)
            alive = rank.state in LIVE_STATES
            # A rank restarted elsewhere may not have logged yet; an end is known later than the last record.
            worth = at_home and alive, at_home, rank.last_log_at or 0.0, not alive
            known = best.get(rank.rank)
            if known is None or worth > known[0]:
                best[rank.rank] = worth, rank, one
    first, source = listed[0][1], listed[0][2]
    ranks = tuple(best[number][1] for number in sorted(best))
    created = [run.created_at for _, run, _ in listed if run.created_at is not None]
    sizes = [run.world_size for _, run, _ in listed if run.world_size is not None]
    whole = replace(
        first,
        ranks=ranks,
        state=worst(rank.state for rank in ranks) if ranks else first.state,
        created_at=min(created, default=None),
        world_size=max(sizes, default=None),
    )
    there: dict[str, tuple[Seen, list[Rank]]] = {}
    failed: dict[str, list[int]] = {}
    for _, rank, one in best.values():
        home = _home(rank, one, homes)
        if home is not None and rank.state in LIVE_STATES:
            there.setdefault(home.host, (home, []))[1].append(rank)
        elif rank.state in FAILED_STATES:
            failed.setdefault(home.host if home is not None else rank.hostname or "", []).append(rank.rank)
    hosts = [one.host for one, _, _ in listed]
    parts = tuple(_part(home, held) for home, held in there.values())
    order = {host: place for place, host in enumerate(dict.fromkeys((*hosts, *there)))}
    return JoinedRun(
        whole,
        tuple(sorted(parts, key=lambda part: order[part.host])),
        tuple(dict.fromkeys(hosts)),
        source,
        tuple((host, tuple(sorted(numbers))) for host, numbers in failed.items()),
    )


def _home(rank: Rank, listed_by: Seen, homes: Mapping[str, list[Seen]]) -> Seen | None:
    """Return the watched machine on which a rank runs; None if it is none of them."""
    if rank.hostname is None or rank.hostname == listed_by.snapshot.host.hostname:
        return listed_by
    return next(iter(homes.get(rank.hostname, ())), None)


def _part(home: Seen, ranks: Sequence[Rank]) -> Part:
    snapshot = home.snapshot
    index = {device.uuid: device.index for device in snapshot.devices}
    uses = {process.pid: process.devices for process in snapshot.processes}
    devices = {
        rank.rank: tuple(sorted({index[use.device_uuid] for use in uses.get(rank.pid, ()) if use.device_uuid in index}))
        for rank in ranks
        if rank.pid is not None
    }
    numbers = tuple(sorted(rank.rank for rank in ranks))
    return Part(home.host, numbers, devices, pace_of(rank.metrics for rank in ranks), home.current)


def pace_of(metrics: Iterable[Mapping[str, float]]) -> Pace | None:
    """Return the pace of ranks by their newest values; None if none of them reports a step time."""
    listed = list(metrics)
    steps = [value for held in listed if (value := _seconds(held, STEP)) is not None]
    backward = [value for held in listed if (value := _seconds(held, BACKWARD)) is not None]
    return Pace(units.mean(steps), units.mean(backward) if backward else None) if steps else None


def _seconds(metrics: Mapping[str, float], name: str) -> float | None:
    value = metrics.get(own_or_automatic(name, metrics))
    return value if value is not None and math.isfinite(value) and value >= 0 else None
