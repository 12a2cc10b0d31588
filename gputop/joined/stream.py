"""The runs over several hosts as a stream of snapshots of their own, for the doctor. Pure: the caller gives the time.

Such a snapshot has no device and no process: what one machine shows is judged on that machine. Each value of a metric is passed
on once, from the host on which its rank runs, with its time by this machine's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gputop.joined.runs import BACKWARD, STEP, JoinedRun, Seen
from gputop.snapshot import AUTOMATIC_PREFIX, Host, Points, Rank, Snapshot

POINTS_MOST = 20_000
"""Values kept for the next snapshot; the doctor uses the newest minutes."""
HOSTNAME = "hosts"
METRICS = frozenset(name for metric in (STEP, BACKWARD) for name in (metric, AUTOMATIC_PREFIX + metric))
"""The metrics that the rules on hosts judge by. A hundred hosts log so much that more metrics would slow down the screen."""


class JoinedStream:
    """Collects what the hosts send, and makes snapshots of the runs that they share."""

    def __init__(self) -> None:
        self._points: list[tuple[str, Points]] = []
        self._held = 0
        self._sequence = 0

    def take(self, host: str, snapshots: Iterable[Snapshot], clock_offset_s: float = 0.0) -> None:
        """Keep the new values of a host's snapshots until the next ``snapshot``."""
        for snapshot in snapshots:
            for points in snapshot.points:
                if points.metric not in METRICS:
                    continue
                times = tuple(time - clock_offset_s for time in points.times) if clock_offset_s else points.times
                self._points.append((host, replace(points, times=times)))
                self._held += len(times)
        while self._held > POINTS_MOST and self._points:
            self._held -= len(self._points.pop(0)[1].times)

    def snapshot(self, runs: Sequence[JoinedRun], seen: Sequence[Seen], time: float, monotonic_s: float) -> Snapshot:
        """Return the runs as one snapshot, with the values since the last one. Times are by this machine's clock, in
        seconds."""
        homes = {(run.run.run_id, rank): part.host for run in runs for part in run.parts for rank in part.ranks}
        points = tuple(part for host, part in self._points if homes.get((part.run_id, part.rank)) == host)
        self._points, self._held = [], 0
        self._sequence += 1
        # Findings use the names that the user gave the hosts, not the names that the hosts give themselves.
        named = tuple(replace(run.run, ranks=_named(run)) for run in runs)
        interval_s = max((one.snapshot.interval_s for one in seen), default=1.0)
        current = [one for one in seen if one.current]
        return Snapshot(
            self._sequence,
            time,
            monotonic_s,
            interval_s,
            Host(HOSTNAME),
            runs=named,
            points=points,
            interfaces=tuple(replace(item, hostname=one.host) for one in current for item in one.snapshot.interfaces),
            paths=tuple(replace(item, hostname=one.host) for one in current for item in one.snapshot.paths),
        )


def _named(run: JoinedRun) -> tuple[Rank, ...]:
    """Return the ranks with the names of their hosts, without those of lost hosts: what these do now is not known."""
    homes = {rank: part for part in run.parts for rank in part.ranks}
    ranks = []
    for rank in run.run.ranks:
        home = homes.get(rank.rank)
        if home is None or home.current:
            ranks.append(replace(rank, hostname=home.host if home is not None else rank.hostname))
    return tuple(ranks)
