"""When each rank last made a step, when it ended, and the calls of its DataParallel.

``Evidence`` keeps one ``RankPast`` and feeds it each snapshot. Pure: no clock.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from gputop.doctor.facts import stated
from gputop.snapshot import LIVE_STATES, Rank, Snapshot

CALLS_KEPT_S = 120.0
"""How far back the calls of DataParallel are kept (docs/rules.md#b01)."""
CALLS_KEPT = 1200
"""Maximum number of readings of these calls for one rank."""
_Key = tuple[str, int]


@dataclass(slots=True)
class _Track:
    step: int | None = None
    moved_at: float | None = None
    seen_at: float = 0.0
    moves: int = 0
    longest_s: float = 0.0
    calls: deque[tuple[float, int, int, int]] = field(default_factory=lambda: deque(maxlen=CALLS_KEPT))


class RankPast:
    """The ranks of the runs that did not finish, by run id and rank."""

    def __init__(self) -> None:
        self._now = -math.inf
        self._tracks: dict[_Key, _Track] = {}
        self._ended: dict[_Key, float] = {}

    def observe(self, snapshot: Snapshot, lost: Callable[[str, Exception], None]) -> None:
        """Process the next snapshot of the stream. ``lost`` receives each rank that could not be processed, and why."""
        self._now = snapshot.monotonic_s
        seen: dict[_Key, _Track] = {}
        ended: dict[_Key, float] = {}
        for run in snapshot.runs:
            for rank in run.ranks if run.state != "finished" else ():
                key = (run.run_id, rank.rank)
                try:
                    if rank.state in LIVE_STATES:
                        self._follow(key, rank, seen)
                    else:  # no rule looks at the recent past of an ended run
                        ended[key] = self._ended.get(key, self._now)
                except Exception as error:  # noqa: BLE001 - one rank takes none of the others with it
                    lost("a rank", error)
        self._tracks, self._ended = seen, ended

    def _follow(self, key: _Key, rank: Rank, seen: dict[_Key, _Track]) -> None:
        known = self._tracks.get(key)
        track = seen[key] = known or _Track(rank.steps_taken, seen_at=self._now)
        if known is not None and rank.steps_taken is not None and rank.steps_taken != track.step:
            track.longest_s = max(track.longest_s, self._now - (track.moved_at or track.seen_at))
            track.step, track.moved_at = rank.steps_taken, self._now
            track.moves += 1
        fact = stated.data_parallel(rank)
        if fact is None:
            return
        counted = (fact.calls, fact.underused_calls, fact.uneven_calls)
        if not track.calls or track.calls[-1][1:] != counted:
            track.calls.append((self._now, *counted))
        while len(track.calls) > 1 and track.calls[1][0] < self._now - CALLS_KEPT_S:
            track.calls.popleft()

    def moved(self, run_id: str, rank: int, within_s: float) -> bool:
        """Return whether a live rank made a step within the last ``within_s`` seconds of the stream."""
        track = self._tracks.get((run_id, rank))
        return track is not None and track.moved_at is not None and self._now - track.moved_at <= within_s

    def any_moved(self, run_id: str, within_s: float) -> bool:
        """Return whether any live rank of a run made a step within the last ``within_s`` seconds of the stream."""
        return any(self.moved(*key, within_s) for key in self._tracks if key[0] == run_id)

    def stood_s(self, run_id: str, rank: int) -> float:
        """Return for how many observed seconds a live rank has completed no step; 0 for an unknown rank."""
        track = self._tracks.get((run_id, rank))
        if track is None:
            return 0.0
        return self._now - (track.moved_at if track.moved_at is not None else track.seen_at)

    def pauses(self, run_id: str, rank: int) -> tuple[int, float]:
        """Return how often a live rank was seen to make a step, and the longest time in seconds that one took."""
        track = self._tracks.get((run_id, rank))
        return (track.moves, track.longest_s) if track is not None else (0, 0.0)

    def ended_s(self, run_id: str, rank: int) -> float:
        """Return for how many seconds a rank is known to have ended; 0 if it has not."""
        return self._now - self._ended.get((run_id, rank), self._now)

    def recent_calls(self, run_id: str, rank: int, least: int) -> tuple[int, int, int]:
        """Return (calls, underused, uneven) of DataParallel over the last two minutes; since the start if those are fewer
        than ``least``."""
        track = self._tracks.get((run_id, rank))
        if track is None or not track.calls:
            return 0, 0, 0
        first, last = track.calls[0][1:], track.calls[-1][1:]
        recent = tuple(new - old for new, old in zip(last, first, strict=True))
        return (recent[0], recent[1], recent[2]) if recent[0] >= least and min(recent) >= 0 else last
