"""What the main threads of untracked runs were seen to do in the last minute, by their stacks. Pure: no clock."""

from __future__ import annotations

import math
import re
from collections import Counter, deque
from dataclasses import dataclass

from gputop.process import Process, ProcessKey
from gputop.snapshot import Snapshot
from gputop.whereabouts.records import Activity, Doing

WINDOW_S = 60.0
KEPT = 600
"""Maximum number of looks at a process: a minute at ten per second."""
COMPUTES: frozenset[Activity] = frozenset(("forward", "backward", "optimizer", "collective"))
_BESIDE: frozenset[Activity] = frozenset(("data", "metrics", "other"))

_COMPUTES_BY_NAME = re.compile(
    r"loss|criteri|forward|model|net$|attention|conv|norm|kernel|penalt|regular|step|^<|^main$|train"
)


@dataclass(frozen=True, slots=True)
class Seen:
    """The looks at one main thread within some time, oldest first."""

    looks: tuple[Doing, ...]

    def share(self, *activities: Activity) -> float:
        """Return in which share of all looks it did one of these; 0 without looks."""
        return sum(look.activity in activities for look in self.looks) / max(1, len(self.looks))

    def times(self, activity: Activity) -> int:
        """Return how often it began this anew, as far as was seen: looks one after the other are one time."""
        before = (None, *(look.activity for look in self.looks))
        return sum(look.activity == activity != last for look, last in zip(self.looks, before, strict=False))

    def mostly_at(self, activity: Activity) -> tuple[Doing, int] | None:
        """Return where in the user's own code it mostly did this, and in how many looks; None if no own code was seen."""
        found = Counter(look for look in self.looks if look.activity == activity and look.line is not None)
        return found.most_common(1)[0] if found else None

    def mostly_beside(self) -> tuple[Doing, float] | None:
        """Return the function of the user's own code that it is mostly in while it computes nothing, and its share.

        Of the function's lines, the most frequent one. A function that also calls the model, or whose name says that it
        computes, is none: torch's operators leave no call on a stack.
        """
        calls_model = {look.function for look in self.looks if look.activity in COMPUTES}
        beside = [
            look
            for look in self.looks
            if look.activity in _BESIDE
            and look.function is not None
            and look.function not in calls_model
            and not _COMPUTES_BY_NAME.search(look.function)
        ]
        if not beside:
            return None
        (function, count), *_ = Counter(look.function for look in beside).most_common(1)
        at = Counter(look for look in beside if look.function == function).most_common(1)[0][0]
        return at, count / len(self.looks)

    @property
    def trains(self) -> bool:
        """Whether it computes again and again, and has not stopped."""
        places = [place for place, look in enumerate(self.looks) if look.activity in COMPUTES]
        return len(places) >= TRAINS_MIN and places[-1] >= len(self.looks) - 1 - NEWEST


TRAINS_MIN = 3
NEWEST = 10
"""A look at the computation must be among the newest eleven (our choice): data may take most of the time."""


class Doings:
    """The looks at each main thread. ``Evidence`` feeds it each snapshot."""

    def __init__(self) -> None:
        self._now = self._before = -math.inf
        self._looks: dict[ProcessKey, deque[tuple[float, Doing]]] = {}

    def observe(self, snapshot: Snapshot) -> None:
        """Process the next snapshot of the stream."""
        self._before, self._now = self._now, snapshot.monotonic_s
        kept: dict[ProcessKey, deque[tuple[float, Doing]]] = {}
        for process in snapshot.processes:
            looks = self._looks.get(process.key)
            # The stack is read when the wait is: a record that repeats an older reading is no new look.
            if process.doing is not None and (process.waits_read_s is None or process.waits_read_s > self._before):
                looks = looks if looks is not None else deque(maxlen=KEPT)
                looks.append((self._now, process.doing))
            if looks:
                while looks and looks[0][0] <= self._now - WINDOW_S:
                    looks.popleft()
                kept[process.key] = looks
        self._looks = kept

    def seen(self, process: Process, within_s: float = WINDOW_S) -> Seen:
        """Return the looks at a process's main thread; none of a process whose stack cannot be read."""
        looks = self._looks.get(process.key, ())
        return Seen(tuple(look for at, look in looks if at > self._now - within_s))
