"""Where every rank of a run is: the records of an answer, and what follows from them. Pure.

``where`` fills them; the command and the screen show them. Ranks at the same place share a line, and the ranks that the others
wait for are named with what they do instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gputop import units
from gputop.wire import AnswerLine

PlaceState = Literal[
    "answers", "silent", "stopped", "traced", "disk", "ended", "elsewhere", "untracked", "before_torch", "forked"
]
"""State of a rank: it answered; does not answer; is stopped by a signal; is held by a tracer; waits for a disk; has ended;
runs on another machine; contains nothing that answers gputop's questions; has not imported torch, before which it says
nothing; or was forked, so that it says nothing before its first step. What was forked is listed, but no verdict counts it."""
STILL_S = 0.3
"""A rank is asked twice. If it is at the same place after this long, it stands still."""
SHOWN_FROM_S = 1.0
LONG_S = 10.0
"""If all ranks stay in one collective for this long without a step, it is not just slow. An estimate."""
_POINT_TO_POINT = ("send", "recv", "isend", "irecv", "batch_isend_irecv", "send_object_list", "recv_object_list")
_STATES: Mapping[str, tuple[str, str]] = {
    "silent": ("does not answer", "do not answer"),
    "stopped": ("is stopped by a signal (T)", "are stopped by a signal (T)"),
    "traced": ("is held by a debugger or tracer (t)", "are held by a debugger or tracer (t)"),
    "disk": ("waits for a disk (D)", "wait for a disk (D)"),
    "elsewhere": ("runs on another machine: ask there", "run on another machine: ask there"),
    "untracked": (
        "cannot be asked: gputop records no training in it",
        "cannot be asked: gputop records no training in them",
    ),
    "before_torch": ("has not imported torch", "have not imported torch"),
    "forked": (
        "says nothing before its first step: its parent forked it",
        "say nothing before their first step: their parent forked them",
    ),
}
"""What a rank in a state does, and what several do."""
_DOING = {"reads": "read", "writes": "write", "opens": "open", "sleeps": "sleep", "waits": "wait"}
"""The verbs with which ``RankPlace.doing`` begins, and what several ranks do."""
_GRADIENTS = "the exchange of gradients"
_HELD = ("stopped", "traced", "disk")
_MUTE = ("silent", "stopped", "traced", "disk", "before_torch")
"""The states of ranks for which others may wait."""
_FROM_OUTSIDE = ("untracked", "before_torch", "forked")
"""The states of processes of which only /proc tells something."""


@dataclass(frozen=True, slots=True)
class WhereQuestion:
    """A screen's question: where are the ranks of a run?

    ``run_id``: its id, or the key of a run without a journal, whose ranks are the processes ``pids``. The answer repeats it.
    """

    run_id: str
    pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RankPlace:
    """One rank, or one process where there are no ranks. Times are wall clock, seconds since the epoch."""

    rank: int | None
    pid: int | None = None
    hostname: str | None = None
    state: PlaceState = "untracked"
    source: str | None = None
    """Where ``line`` comes from: "rank", "signal" or "py-spy"; None without a line."""
    line: str | None = None
    """The line of the user's own code, such as "train.py:88"."""
    function: str | None = None
    phase: str | None = None
    operation: str | None = None
    """The collective that it is in, as torch calls it."""
    begun: int | None = None
    """Collectives that the group of all ranks has begun in this rank, by torch's count."""
    completed: int | None = None
    step: int | None = None
    since: float | None = None
    """When it arrived there."""
    at: float | None = None
    """When it reported this itself; None if it did not."""
    doing: str | None = None
    """What its main thread does, according to /proc: "reads /data/x"."""
    process_state: str | None = None
    """The state letter of /proc: R, S, D, T, t, Z."""
    kernel_function: str | None = None
    """The kernel function that the main thread waits in (wchan)."""
    cpu_percent: float | None = None
    """CPU use while it was asked; 100 is one core."""
    exit_code: int | None = None
    world_size: int | None = None
    """World size of its run."""
    stack: tuple[str, ...] = ()
    groups: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """For each smaller group, by a checksum of its ranks: its size, and how many of its collectives this rank has begun."""

    @property
    def is_there(self) -> bool:
        """Whether its process is on this machine and has not ended."""
        return self.state not in ("ended", "elsewhere")

    @property
    def waits(self) -> bool:
        """Whether it is in a collective, or in backward, where gradients are exchanged unless it is the only rank."""
        if self.state == "silent":  # its counts are outdated, its stack is not
            return self.source == "signal" and self.operation is not None
        pending = self.begun is not None and self.completed is not None and self.begun > self.completed
        exchanges = self.phase == "backward" and self.world_size != 1
        return self.state == "answers" and (self.operation is not None or exchanges or pending)

    @property
    def stands_s(self) -> float | None:
        """How many seconds it has been there, as of its report."""
        return None if self.since is None or self.at is None else max(0.0, self.at - self.since)


@dataclass(frozen=True, slots=True)
class Whereabouts(AnswerLine):
    """The answer to one question. ``behind`` are the ranks that the others wait for; ``verdict`` says so in words."""

    KEY = "whereabouts"

    run_id: str | None
    name: str
    taken_at: float
    ranks: tuple[RankPlace, ...] = ()
    behind: tuple[int, ...] = ()
    verdict: str | None = None
    problem: str | None = None
    """Why nothing could be found out; None if something was."""


def judged(run_id: str | None, name: str, taken_at: float, places: Sequence[RankPlace]) -> Whereabouts:
    """Return the answer with the ranks that are behind."""
    behind, why = _behind(_ranks_of(places))
    ranks = tuple(sorted({place.rank for place in behind if place.rank is not None}))
    return Whereabouts(run_id, name, taken_at, tuple(places), ranks, why)


def summary(answer: Whereabouts) -> str | None:
    """Return in words who waits for whom, or why nobody does; None for a single process."""
    if answer.verdict is not None or answer.problem is not None:
        return answer.verdict or answer.problem
    places = _ranks_of(answer.ranks)
    if not any(place.is_there for place in places):
        return "no rank is alive on this machine"
    if len(places) < 2:
        return None
    if all(place.state in ("answers", "ended") for place in places):
        return _all_wait(places) or "no rank waits for another"
    perhaps = _perhaps(places)
    return f"which rank is behind is not known{f'; it may be {perhaps}' if perhaps is not None else ''}"


def _all_wait(places: Sequence[RankPlace]) -> str | None:
    """Return that all ranks have waited in one collective for long; None if they have not."""
    operations = {operation_of(place) for place in places if place.waits and place.operation is not None}
    since_s = min((place.stands_s or 0.0 for place in places), default=0.0)
    if len(operations) != 1 or since_s < LONG_S or not all(place.waits and place.operation is not None for place in places):
        return None
    return (
        f"all ranks have waited in {operations.pop()} for {units.duration(since_s)}, and none has begun fewer: they may name "
        "different sources or sizes, or not reach each other"
    )


def _perhaps(places: Sequence[RankPlace]) -> str | None:
    """Return which ranks may be behind, of ranks that cannot be asked: those that do not just wait, as the others do."""
    there = [place for place in places if place.is_there]
    if any(place.state not in ("untracked", *_HELD) for place in there):
        return None
    if all(place.source is not None for place in there):
        late = [place for place in there if place.operation is None]
        ahead = [place for place in there if place.operation is not None]
        them = f"{who(ahead)} {_verb(ahead, 'is', 'are')} in {_operations(ahead)}"
        what = f"{_verb(late, 'is', 'are')} in no collective while {them}"
    else:
        late = [place for place in there if place.doing is not None or place.state in _HELD]
        ahead = [place for place in there if place not in late]
        if any(place.process_state != "S" for place in ahead):
            return None
        what = " or ".join(dict.fromkeys(_does(late, place) for place in late))
    if not late or not ahead:
        return None
    return f"{'' if len(late) == 1 else 'one of '}{who(late)}, which {what}"


def _does(places: Sequence[RankPlace], place: RankPlace) -> str:
    if place.doing is None:
        return _verb(places, *_STATES[place.state])
    verb, space, rest = place.doing.partition(" ")
    return f"{_verb(places, verb, _DOING.get(verb, verb))}{space}{rest}"


def _ranks_of(places: Sequence[RankPlace]) -> Sequence[RankPlace]:
    """Return the places without what a rank forked: most of these are helpers, such as a pool's, and no ranks."""
    return [place for place in places if place.state != "forked"]


def _behind(places: Sequence[RankPlace]) -> tuple[Sequence[RankPlace], str | None]:
    """Return the ranks that the others wait for, and a sentence that says so."""
    waiting = [place for place in places if place.waits and (place.stands_s or 0.0) >= STILL_S]
    if len(places) < 2 or not waiting:
        return (), None
    gone = [place for place in places if place.state == "ended"]
    if gone:
        return gone, f"{who(waiting)} {_wait(waiting)} for {who(gone)}, which {_verb(gone, 'has', 'have')} ended"
    mute = [place for place in places if place.state in _MUTE and not place.waits]
    if mute:
        return mute, f"{who(waiting)} {_wait(waiting)} for {who(mute)}, which {_together(mute)}"
    late = _late(places)
    if late:
        ahead = [place for place in waiting if place not in late]
        if ahead:
            return late, f"{who(ahead)} {_wait(ahead)} in {_operations(ahead)} for {who(late)}, which {_comes(late, ahead)}"
    operations = {name for place in waiting if (name := _exchange(place)) is not None}
    if len(waiting) == len(places) and len(operations) > 1:
        few = min((_in(places, name) for name in operations), key=len)
        told = "; ".join(f"{who(_in(places, name))} in {name}" for name in sorted(operations))
        return few if 2 * len(few) < len(places) else places, f"The ranks wait for one another in different collectives: {told}"
    idle = [place for place in places if place.state == "answers" and not place.waits]
    still = [place for place in idle if (place.stands_s or 0.0) >= STILL_S]
    if still and all(place.operation in _POINT_TO_POINT for place in waiting):  # which torch does not count
        return (
            still,
            f"{who(waiting)} {_wait(waiting)} in {_operations(waiting)}, {who(still)} {_verb(still, 'is', 'are')} elsewhere",
        )
    # Before a rank's first collective, torch has no count for it.
    if idle and len(idle) < len(places) and all(place.begun is None for place in idle):
        return (
            idle,
            f"{who(waiting)} {_wait(waiting)} in {_operations(waiting)}, {who(idle)} {_verb(idle, 'is', 'are')} elsewhere",
        )
    return (), None


def _late(places: Sequence[RankPlace]) -> list[RankPlace]:
    """Return the ranks that have begun fewer collectives than others of the same group; the group of all ranks first."""
    counts = [{"": place.begun} | {name: begun for name, (_, begun) in place.groups.items()} for place in places]
    for group in dict.fromkeys(name for known in counts for name in known):
        known = [(place, begun) for place, count in zip(places, counts, strict=True) if (begun := count.get(group)) is not None]
        most = max((begun for _, begun in known), default=0)
        late = [place for place, begun in known if begun < most]
        if late:
            return late
    return []


def _in(places: Sequence[RankPlace], operation: str) -> list[RankPlace]:
    return [place for place in places if _exchange(place) == operation]


def _exchange(place: RankPlace) -> str | None:
    """Return the collective that a rank waits in; that of the gradients only if torch says that one has not ended."""
    pending = place.begun is not None and place.completed is not None and place.begun > place.completed
    return place.operation or (_GRADIENTS if place.phase == "backward" and pending else None)


def _operations(places: Sequence[RankPlace]) -> str:
    names = sorted({operation_of(place) for place in places})
    return " and ".join(names)


def operation_of(place: RankPlace) -> str:
    """Return the operation that a rank waits in, with its number in the group of all ranks if known."""
    name = place.operation or (_GRADIENTS if place.phase == "backward" else "a collective")
    return f"{name} #{place.begun}" if place.begun is not None and name not in _POINT_TO_POINT else name


def _comes(late: Sequence[RankPlace], ahead: Sequence[RankPlace]) -> str:
    least, most = (max((p.begun for p in group if p.begun is not None), default=None) for group in (late, ahead))
    if least is None or most is None or least >= most:
        return f"{_verb(late, 'has', 'have')} not begun it"
    return f"{_verb(late, 'has', 'have')} begun {least} collectives of {most}"


def _together(places: Sequence[RankPlace]) -> str:
    return " or ".join(dict.fromkeys(_verb(places, *_STATES[place.state]) for place in places))


def folded(places: Iterable[RankPlace]) -> list[list[RankPlace]]:
    """Group the ranks by place, in the order of the first rank at each place."""
    groups: dict[object, list[RankPlace]] = {}
    for place in places:
        begun = place.begun if place.waits else None
        shown = _seen([place]) if place.state in _FROM_OUTSIDE else [_silence([place])] if place.state in _STATES else []
        key = (place.state, place.line, place.function, place.operation, begun, place.doing, place.exit_code, *shown)
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def sentence(places: Sequence[RankPlace], now: float) -> str:
    """Return what ranks at the same place do, in one line without their numbers."""
    place = places[0]
    parts = [f"{place.line} in {place.function}"] if place.line is not None else []
    if place.state == "ended":
        gone = _verb(places, "its process is gone", "their processes are gone")
        parts = [f"ended with exit code {place.exit_code}" if place.exit_code is not None else gone]
    elif place.state in _FROM_OUTSIDE:
        parts += [] if parts else [_verb(places, *_STATES[place.state]), *_seen(places)]
    elif place.state != "answers":
        parts = [_silence(places), *(f"last seen at {part}" if place.source == "rank" else f"at {part}" for part in parts)]
    elif place.waits:
        parts.append(f"{_wait(places)} in {operation_of(place)}")
    elif place.phase not in (None, "other"):
        parts.append(f"in {place.phase}")
    elif not parts:
        parts.append(f"none of the script's lines is on {_verb(places, 'its stack', 'their stacks')}")
    if place.doing is not None and not place.waits:
        verb, space, rest = place.doing.partition(" ")
        parts.append(f"{_verb(places, verb, _DOING.get(verb, verb))}{space}{rest}")
    since = [item.since for item in places if item.since is not None]
    stands_s = max(0.0, now - max(since)) if since and place.is_there else 0.0
    return ", ".join(parts) + (f", for {units.duration(stands_s)}" if stands_s >= SHOWN_FROM_S else "")


def _seen(places: Sequence[RankPlace]) -> list[str]:
    """Return the state that /proc shows for processes that cannot be asked; nothing if ``doing`` says more."""
    place = places[0]
    if place.doing is not None or place.process_state is None:
        return []
    if place.process_state == "R":
        return [_verb(places, "it runs", "they run")]
    if place.kernel_function is None:
        return [f"state {place.process_state}"]
    return [f"{_verb(places, 'it waits', 'they wait')} in {place.kernel_function}"]


def _silence(places: Sequence[RankPlace]) -> str:
    text = _verb(places, *_STATES[places[0].state])
    if places[0].state == "silent" and places[0].process_state == "R":
        text += ": C code runs and keeps Python's lock"
    return text


def who(places: Sequence[RankPlace]) -> str:
    """Return "rank 3" or "ranks 0-2, 4-7"; the process if it has no rank."""
    numbers = sorted(place.rank for place in places if place.rank is not None)
    if len(numbers) < len(places):
        return f"{_verb(places, 'process', 'processes')} {', '.join(str(place.pid) for place in places)}"
    return f"rank{'s' if len(numbers) > 1 else ''} {units.ranges(numbers)}"


def _verb(places: Sequence[RankPlace], one: str, several: str) -> str:
    return one if len(places) == 1 else several


def _wait(places: Sequence[RankPlace]) -> str:
    return _verb(places, "waits", "wait")
