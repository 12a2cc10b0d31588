"""Where ranks are, in words. Ranks at the same place share a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gputop import units
from gputop.whereabouts.records import RankPlace

SHOWN_FROM_S = 1.0
POINT_TO_POINT = ("send", "recv", "isend", "irecv", "batch_isend_irecv", "send_object_list", "recv_object_list")
STATES: Mapping[str, tuple[str, str]] = {
    "silent": ("does not answer", "do not answer"),
    "stopped": ("is stopped by a signal (T)", "are stopped by a signal (T)"),
    "traced": ("is held by a debugger or tracer (t)", "are held by a debugger or tracer (t)"),
    "disk": ("waits for a disk (D)", "wait for a disk (D)"),
    "elsewhere": ("runs on another machine: ask there", "run on another machine: ask there"),
    "untracked": (
        "its line is not known: gputop does not run in it",
        "their lines are not known: gputop does not run in them",
    ),
    "before_torch": ("has not imported torch", "have not imported torch"),
    "forked": (
        "says nothing before its first step: its parent forked it",
        "say nothing before their first step: their parent forked them",
    ),
}
"""What a rank in a state does, and what several do."""
DOING = {"reads": "read", "writes": "write", "opens": "open", "sleeps": "sleep", "waits": "wait", "has": "have"}
"""The verbs with which ``RankPlace.doing`` begins, and what several ranks do."""
GRADIENTS = "the exchange of gradients"
_FROM_OUTSIDE = ("untracked", "before_torch", "forked")
"""The states of processes of which only /proc tells something."""


def folded(places: Iterable[RankPlace]) -> list[list[RankPlace]]:
    """Group the ranks by place, in the order of the first rank at each place."""
    groups: dict[object, list[RankPlace]] = {}
    for place in places:
        begun = place.begun if place.waits else None
        shown = _seen([place]) if place.state in _FROM_OUTSIDE else [_silence([place])] if place.state in STATES else []
        key = (place.state, place.line, place.function, place.operation, begun, place.doing, place.exit_code, *shown)
        key = (*key, place.next_number, place.next_operation)
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def sentence(places: Sequence[RankPlace], now: float) -> str:
    """Return what ranks at the same place do, in one line without their numbers."""
    place = places[0]
    parts = [f"{place.line} in {place.function}"] if place.line is not None else []
    unseen: list[str] = []
    if place.state == "ended":
        gone = agree(places, "its process is gone", "their processes are gone")
        parts = [f"ended with exit code {place.exit_code}" if place.exit_code is not None else gone]
    elif place.state in _FROM_OUTSIDE:
        unseen = [] if parts else [agree(places, *STATES[place.state])]
        parts += _seen(places) if unseen else []
    elif place.state != "answers":
        parts = [_silence(places), *(f"last seen at {part}" if place.source == "rank" else f"at {part}" for part in parts)]
    elif place.waits:
        parts.append(f"{wait(places)} in {operation_of(place)}")
    elif place.phase not in (None, "other"):
        parts.append(f"in {place.phase}")
    elif not parts:
        parts.append(f"none of the script's lines is on {agree(places, 'its stack', 'their stacks')}")
    if place.doing is not None and not place.waits:
        verb, space, rest = place.doing.partition(" ")
        parts.append(f"{agree(places, verb, DOING.get(verb, verb))}{space}{rest}")
    parts += _used(places)
    since = [item.since for item in places if item.since is not None]
    stands_s = max(0.0, now - max(since)) if since and place.is_there else 0.0
    lasts = [f"for {units.duration(stands_s)}"] if stands_s >= SHOWN_FROM_S else []
    does = ", ".join([*parts, *lasts])
    return "; ".join([*([does] if does else []), *unseen, *_next(places)])


def way_to_lines(places: Sequence[RankPlace]) -> str | None:
    """Return the command that reads the lines of ranks that gputop does not run in; None if all lines are known.

    ``places`` are on this machine: py-spy reads no other.
    """
    unseen = [place.pid for place in places if place.state == "untracked" and place.source is None and place.is_there]
    return f"gputop where {unseen[0]} --py-spy" if unseen and unseen[0] is not None else None


def _next(places: Sequence[RankPlace]) -> list[str]:
    """Return which collective ranks that are behind have to call next; nothing for others."""
    place = places[0]
    if place.next_number is None:
        return []
    whose = agree(places, "its", "their")
    if place.next_operation is not None:
        return [f"{whose} next collective is {place.next_operation} #{place.next_number}"]
    return [f"{whose} next collective is #{place.next_number}, of a kind that is not known: no rank waits in it"]


def _seen(places: Sequence[RankPlace]) -> list[str]:
    """Return the state that /proc shows for processes that cannot be asked; nothing if ``doing`` says more."""
    place = places[0]
    if place.doing is not None or place.process_state is None:
        return []
    if place.process_state == "R":
        return [agree(places, "runs", "run")]
    if place.kernel_function is None:
        return [f"state {place.process_state}"]
    return [f"{wait(places)} in {place.kernel_function}"]


def _used(places: Sequence[RankPlace]) -> list[str]:
    """Return the CPU use of ranks without a line; nothing if there is a line, or if it is unknown."""
    shares = [place.cpu_percent for place in places if place.cpu_percent is not None]
    if not shares or not places[0].is_there or places[0].line is not None:
        return []
    return [f"{'up to ' if len(places) > 1 else ''}{units.percent(max(shares))} of a core"]


def _silence(places: Sequence[RankPlace]) -> str:
    text = agree(places, *STATES[places[0].state])
    if places[0].state == "silent" and places[0].process_state == "R":
        text += ": C code runs and keeps Python's lock"
    return text


def operation_of(place: RankPlace) -> str:
    """Return the operation that a rank waits in, with its number in the group of all ranks if known."""
    name = place.operation or (GRADIENTS if place.phase == "backward" else "a collective")
    return f"{name} #{place.begun}" if place.begun is not None and name not in POINT_TO_POINT else name


def who(places: Sequence[RankPlace]) -> str:
    """Return "rank 3" or "ranks 0-2, 4-7"; the process if it has no rank."""
    numbers = sorted(place.rank for place in places if place.rank is not None)
    if len(numbers) < len(places):
        return f"{agree(places, 'process', 'processes')} {', '.join(str(place.pid) for place in places)}"
    return f"rank{'s' if len(numbers) > 1 else ''} {units.ranges(numbers)}"


def agree(places: Sequence[RankPlace], one: str, several: str) -> str:
    """Return the form of a verb that agrees with one rank, or with several."""
    return one if len(places) == 1 else several


def wait(places: Sequence[RankPlace]) -> str:
    """Return "waits" or "wait"."""
    return agree(places, "waits", "wait")
