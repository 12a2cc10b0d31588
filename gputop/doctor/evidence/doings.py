"""What the main threads of trainings were seen to do in the last minutes, by their stacks. Pure: no clock."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gputop.process import Process, ProcessKey
from gputop.snapshot import Snapshot
from gputop.whereabouts.records import Activity, Doing

WINDOW_S = 240.0
KEPT = 600
"""Maximum number of looks at a process; the stack is read about once a second."""
COMPUTES: frozenset[Activity] = frozenset(("forward", "backward", "optimizer", "collective"))
BESIDE: frozenset[Activity] = frozenset(("metrics", "files", "report", "wait", "memory"))
"""Work for which the training stops, and that prepares no data."""
PAUSES: frozenset[Activity] = BESIDE | {"checkpoint", "evaluation", "generation"}
_BESIDE: frozenset[Activity] = BESIDE | {"data", "other"}
_LEARNS: frozenset[Activity] = frozenset(("backward", "optimizer"))

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

    def lengths(self, activity: Activity) -> list[int]:
        """Return the lengths, in looks, of the times at which it did this: looks one after the other are one time."""
        return _lengths(look.activity == activity for look in self.looks)

    def lengths_in(self, function: str | None) -> list[int]:
        """Return the same of the times at which it was in this function of the user's own code."""
        return _lengths(look.function == function for look in self.looks)

    def times(self, activity: Activity) -> int:
        """Return how often it began to do this, as far as was seen."""
        return len(self.lengths(activity))

    def mostly_at(self, *activities: Activity) -> tuple[Doing, int] | None:
        """Return where in the user's own code it mostly did one of these, and in how many looks; None without own code."""
        found = Counter(look for look in self.looks if look.activity in activities and look.line is not None)
        return found.most_common(1)[0] if found else None

    def called_alone(self) -> tuple[Doing, list[int]] | None:
        """Return from where in the user's own code the model is called for long without training it, and for how many looks.

        In some of the times between two such stays, it trains, does something else, and trains again: these are several steps,
        and the stays are in none. Where each step is as long as a stay, it trains once after each.
        """
        lines = Counter(look.line for look in self.looks if look.activity == "forward" and look.line is not None)
        if not lines:
            return None
        line = lines.most_common(1)[0][0]
        at = next(look for look in self.looks if look.activity == "forward" and look.line == line)
        stays: list[int] = []
        between: list[int] = []
        steps, waits, learns = 0, 0, False
        for look in self.looks:
            if look.activity == "forward" and look.line == line:
                if not stays or steps:
                    between += [steps] if stays else []
                    stays.append(1)
                else:
                    stays[-1] += waits + 1
                steps, waits, learns = 0, 0, False
            elif look.activity in _LEARNS:
                steps, learns = steps + (not learns), True
            else:
                waits, learns = waits + 1, False
        several = sum(number >= SEVERAL_STEPS for number in between)
        if several < max(SEVERAL_TIMES, len(between) / 4):
            return None
        # A stay continues across looks at anything else, so scattered looks may seem to be one long stay: leave those out.
        decisive = [look.line == line for look in self.looks if look.activity in _LEARNS or look.line == line]
        return (at, stays) if lasting(_lengths(decisive), len(decisive)) else None

    @property
    def pauses(self) -> Pauses:
        """Return the looks at which it did neither train nor prepare data."""
        computing = self._computing
        return Pauses(
            tuple(
                look if look.activity in PAUSES or (look.activity == "other" and _is_beside(look, computing)) else None
                for look in self.looks
            )
        )

    @property
    def _computing(self) -> set[str | None]:
        return {look.function for look in self.looks if look.activity in COMPUTES}

    def mostly_beside(self) -> tuple[Doing, float] | None:
        """Return the function of the user's own code that it is mostly in while it computes nothing, and its share.

        Of the function's lines, the most frequent one. A function that also calls the model, or whose name says that it
        computes, does not count: torch's operators leave no call on a stack.
        """
        computing = self._computing
        beside = [look for look in self.looks if look.activity in _BESIDE and _is_beside(look, computing)]
        if not beside:
            return None
        (function, count), *_ = Counter(look.function for look in beside).most_common(1)
        at = Counter(look for look in beside if look.function == function).most_common(1)[0][0]
        return at, count / len(self.looks)

    @property
    def trains(self) -> bool:
        """Whether it computes again and again, and has not stopped.

        Operators of torch leave no call on a stack, so other code of a function that calls the model counts, too, but not for
        whether it has stopped.
        """
        places = [place for place, look in enumerate(self.looks) if look.activity in COMPUTES]
        longest = max((after - before - 1 for before, after in itertools.pairwise(places)), default=0)
        if not places or places[-1] < len(self.looks) - 1 - max(NEWEST, longest):
            return False
        computing = self._computing - {None}
        operators = sum(look.activity == "other" and look.function in computing for look in self.looks)
        return len(places) + operators >= TRAINS_MIN


@dataclass(frozen=True, slots=True)
class Pauses:
    """The looks at one main thread, oldest first; None where it trained, or prepared data."""

    looks: tuple[Doing | None, ...]

    def at(self, *activities: Activity) -> Pauses:
        """Return only the pauses for these."""
        return Pauses(tuple(look if look is not None and look.activity in activities else None for look in self.looks))

    @property
    def share(self) -> float:
        """In which share of all looks it paused; 0 without looks."""
        return sum(look is not None for look in self.looks) / max(1, len(self.looks))

    @property
    def lengths(self) -> list[int]:
        """The lengths of the pauses, in looks: looks one after the other are one pause."""
        return _lengths(look is not None for look in self.looks)

    @property
    def last(self) -> bool:
        """Whether they last longer than one look, as ``lasting`` says."""
        return lasting(self.lengths, len(self.looks))

    @property
    def mostly(self) -> Doing | None:
        """Where it paused mostly, of what it mostly did then; None without pauses."""
        paused = [look for look in self.looks if look is not None]
        if not paused:
            return None
        activity = Counter(look.activity for look in paused).most_common(1)[0][0]
        return Counter(look for look in paused if look.activity == activity).most_common(1)[0][0]


def lasting(lengths: Sequence[int], looks: int) -> bool:
    """Return whether fewer pauses began than if their looks were scattered among all looks by chance."""
    share = sum(lengths) / max(1, looks)
    return len(lengths) <= LASTING * looks * share * (1 - share)


def _lengths(does: Iterable[bool]) -> list[int]:
    return [sum(1 for _ in run) for is_so, run in itertools.groupby(does) if is_so]


def _is_beside(look: Doing, computing: Collection[str | None]) -> bool:
    """Return whether a look is at a function of the user's own code that computes nothing, neither as seen nor by its name."""
    return look.function is not None and look.function not in computing and not _COMPUTES_BY_NAME.search(look.function)


@dataclass(frozen=True, slots=True)
class AtOneLine:
    """A main thread that was seen at one line of the user's own code in every look, lately."""

    at: Doing
    looks: int
    seconds: float
    """For how long, as far as was seen."""
    longest_break_s: float
    """The longest time between two looks at the computation before that."""
    trained: bool | None = True
    """Whether it was seen to train before that; False if it computed and never learned, None if it was hardly seen."""


@dataclass(slots=True)
class _Course:
    """What is kept of all looks at a main thread, also of those that are too old for ``Seen``. Times are monotonic."""

    computed: int = 0
    learns: bool = False
    """Whether it was seen in backward or an optimizer: what answers requests never is."""
    computed_at: float = 0.0
    longest_break_s: float = 0.0
    at: Doing | None = None
    looks: int = 0
    since: float = 0.0
    looked_at: float = 0.0

    def look(self, doing: Doing, now: float) -> None:
        if doing.activity in COMPUTES:
            self.longest_break_s = max(self.longest_break_s, now - self.computed_at if self.computed else 0.0)
            self.computed, self.computed_at = self.computed + 1, now
            self.learns = self.learns or doing.activity in _LEARNS
        if self.at is None or (self.at.line, self.at.function) != (doing.line, doing.function):
            self.looks, self.since = 0, now
        self.at, self.looks, self.looked_at = doing, self.looks + 1, now


LASTING = 0.6
"""Of pauses that last as long as the time between two looks, about two thirds as many begin as look scattered (our choice)."""
SEVERAL_STEPS, SEVERAL_TIMES = 2, 2
"""This many steps, this often, are seen between two stays at a line outside any step (our choice)."""
TRAINS_MIN = 3
LOOKED_S = 10.0
"""After this long without a look, the last one says nothing about now. With many processes, looks are rarer (our choice)."""
NEWEST = 10
"""A look at the computation must be among the newest eleven, or as many as in the longest break before (our choice): data may
take most of the time."""


class Doings:
    """The looks at each main thread. ``Evidence`` feeds it each snapshot."""

    def __init__(self) -> None:
        self._now = self._before = -math.inf
        self._looks: dict[ProcessKey, deque[tuple[float, Doing]]] = {}
        self._courses: dict[ProcessKey, _Course] = {}

    def observe(self, snapshot: Snapshot) -> None:
        """Process the next snapshot of the stream."""
        self._before, self._now = self._now, snapshot.monotonic_s
        kept: dict[ProcessKey, deque[tuple[float, Doing]]] = {}
        courses: dict[ProcessKey, _Course] = {}
        for process in snapshot.processes:
            looks, course = self._looks.get(process.key), self._courses.get(process.key)
            # The stack is read when the wait is: a record that repeats an older reading is no new look.
            if process.doing is not None and (process.waits_read_s is None or process.waits_read_s > self._before):
                looks = looks if looks is not None else deque(maxlen=KEPT)
                looks.append((self._now, process.doing))
                course = course if course is not None else _Course()
                course.look(process.doing, self._now)
            if course is not None:
                courses[process.key] = course
            if looks:
                while looks and looks[0][0] <= self._now - WINDOW_S:
                    looks.popleft()
                kept[process.key] = looks
        self._looks, self._courses = kept, courses

    def at_one_line(self, process: Process) -> AtOneLine | None:
        """Return the line at which a main thread stays; None while it computes, or is not seen."""
        course = self._courses.get(process.key)
        if course is None or course.at is None or self._now - course.looked_at > LOOKED_S:
            return None
        if course.at.line is None or course.at.activity in COMPUTES:
            return None
        trained = course.learns if course.computed >= TRAINS_MIN else None
        return AtOneLine(course.at, course.looks, course.looked_at - course.since, course.longest_break_s, trained)

    def seen(self, process: Process, within_s: float = WINDOW_S) -> Seen:
        """Return the looks at a process's main thread since it was first seen to compute: what prepares a run is not its loop.

        None of a process whose stack cannot be read.
        """
        kept = self._looks.get(process.key, ())
        training = itertools.dropwhile(lambda item: item[1].activity not in COMPUTES, kept)
        return Seen(tuple(look for at, look in training if at > self._now - within_s))

    def seen_at_all(self, process: Process, within_s: float) -> Seen:
        """Return all looks at a process's main thread, also those before it was first seen to compute."""
        return Seen(tuple(look for at, look in self._looks.get(process.key, ()) if at > self._now - within_s))

    def together(self, processes: Sequence[Process], within_s: float) -> list[tuple[Doing, ...]]:
        """Return the looks at all of these main threads in one and the same reading, oldest first."""
        known = [dict(self._newest(process, within_s)) for process in processes]
        common = set(known[0]).intersection(*known[1:]) if known else set()
        return [tuple(looks[at] for looks in known) for at in sorted(common)]

    def _newest(self, process: Process, within_s: float) -> Iterator[tuple[float, Doing]]:
        """Yield the looks at a main thread within some time, newest first."""
        since = self._now - within_s
        return itertools.takewhile(lambda item: item[0] > since, reversed(self._looks.get(process.key, ())))

    def mostly_at(self, process: Process, within_s: float) -> tuple[Doing, float] | None:
        """Return where in the user's own code a main thread mostly was, whatever it did, and its share of all looks."""
        looks = [look for at, look in self._looks.get(process.key, ()) if at > self._now - within_s]
        found = Counter(look for look in looks if look.line)
        if not found:
            return None
        (at, count), *_ = found.most_common(1)
        return at, count / len(looks)
