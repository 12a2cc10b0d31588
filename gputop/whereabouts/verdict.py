"""What follows from where ranks are: who waits for whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from gputop import units
from gputop.whereabouts.records import RankPlace, Whereabouts
from gputop.whereabouts.words import DOING, GRADIENTS, POINT_TO_POINT, STATES, agree, operation_of, wait, who

STILL_S = 0.3
"""A rank is asked twice. If it is at the same place after this long, it stands still."""
LONG_S = 10.0
"""If all ranks stay in one collective for this long without a step, it is not just slow. An estimate."""
FIRST_S = 60.0
"""The same for the first collective, which sets up the connections: NCCL takes half a minute for thousands of ranks."""
_MEETING = "init_process_group"
_RECEIVES, _SENDS = {"recv", "irecv", "recv_object_list"}, {"send", "isend", "send_object_list"}
_HELD = ("stopped", "traced", "disk")
_AWAITED = ("silent", "stopped", "traced", "disk", "before_torch")
"""The states of ranks for which others may wait."""


class Perhaps(NamedTuple):
    """Ranks that may be behind, those that wait for them, and what the first ones do: "sleeps"."""

    late: Sequence[RankPlace]
    ahead: Sequence[RankPlace]
    does: str


def judged(run_id: str | None, name: str, taken_at: float, places: Sequence[RankPlace]) -> Whereabouts:
    """Return the answer with the ranks that are behind, or, if all wait for one another, with a verdict that names none."""
    ranks = _ranks_of(places)
    behind, why = _behind(ranks)
    numbers = tuple(sorted({place.rank for place in behind if place.rank is not None}))
    shown = tuple(_with_next(place, ranks) if place in behind else place for place in places)
    return Whereabouts(run_id, name, taken_at, shown, numbers, why or _all_wait(ranks))


def _with_next(place: RankPlace, ranks: Sequence[RankPlace]) -> RankPlace:
    """Return a rank that is behind with the collective that it has to begin next: torch counts them, and others are in it."""
    most = max((other.begun for other in ranks if other.begun is not None), default=0)
    if place.begun is None or place.begun >= most or place.state == "ended":
        return replace(place, next_number=None, next_operation=None)
    number = place.begun + 1
    names = {_exchange(other) for other in ranks if other.begun == number and other.waits}
    return replace(place, next_number=number, next_operation=names.pop() if len(names) == 1 else None)


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
        return "no rank waits for another"
    found = perhaps_behind(places)
    if found is None:
        return "whether a rank is behind is not known"
    one = "" if len(found.late) == 1 else "one of "
    return f"which rank is behind is not known; it may be {one}{who(found.late)}, which {found.does}"


def _all_wait(places: Sequence[RankPlace]) -> str | None:
    """Return that all ranks have waited in one collective for long, with equal counts; None if they have not.

    Backward alone does not count: it may just compute.
    """
    waiting = [place for place in places if place.waits and (place.operation is not None or place.is_pending)]
    if len(places) < 2 or len(waiting) < len(places):
        return None
    stood_s = min(place.stands_s or 0.0 for place in places)
    names = {place.operation for place in places}
    if stood_s < (FIRST_S if _MEETING in names or any(place.begun == 1 for place in places) else LONG_S):
        return None
    waited = f"have waited in {_operations(places)} for {units.duration(stood_s)}"
    if names == {_MEETING}:
        return f"all ranks here {waited}: they do not reach the address at which they meet, or other ranks are missing"
    if max((place.world_size or 0 for place in places), default=0) > len(places):
        return f"all ranks here {waited}: whether another machine's rank is behind, gputop where -H shows"
    if names <= _RECEIVES:
        return f"all ranks {waited}, and none sends"
    if names <= _SENDS:
        return f"all ranks {waited}, and none receives"
    if names & {*_RECEIVES, *_SENDS} or len({operation_of(place) for place in places}) > 1:
        return None
    return f"all ranks {waited}, and none has begun fewer: they may name different sources or sizes, or not reach each other"


def perhaps_behind(places: Sequence[RankPlace]) -> Perhaps | None:
    """Return which ranks may be behind, of ranks that cannot be asked: those that do not just wait, as the others do."""
    there = [place for place in places if place.is_there]
    if any(place.state not in ("untracked", *_HELD) for place in there):
        return None
    if all(place.source is not None for place in there) and any(map(_may_wait, there)):
        late = [place for place in there if not _may_wait(place)]
        ahead = [place for place in there if _may_wait(place)]
        them = f"{who(ahead)} {agree(ahead, 'is', 'are')} in {_operations(ahead)}"
        what = f"{agree(late, 'is', 'are')} in no collective while {them}"
    else:
        late = [place for place in there if place.doing is not None or place.state in _HELD]
        late = late or [place for place in there if place.still is False]
        ahead = [place for place in there if place not in late]
        if any(place.process_state != "S" or place.still is False for place in ahead):
            return None
        what = " or ".join(dict.fromkeys(_does(late, place) for place in late))
    if not late or not ahead:
        return None
    return Perhaps(late, ahead, what)


def _may_wait(place: RankPlace) -> bool:
    """Return whether the stack shows that a rank waits for others, or computes gradients: it exchanges them meanwhile."""
    return place.operation is not None or place.phase == "backward"


def _does(places: Sequence[RankPlace], place: RankPlace) -> str:
    if place.doing is None and place.state == "untracked":
        return f"{agree(places, 'runs', 'run')} while the others wait"
    if place.doing is None:
        return agree(places, *STATES[place.state])
    verb, space, rest = place.doing.partition(" ")
    return f"{agree(places, verb, DOING.get(verb, verb))}{space}{rest}"


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
        return gone, f"{who(waiting)} {wait(waiting)} for {who(gone)}, which {agree(gone, 'has', 'have')} ended"
    awaited = [place for place in places if place.state in _AWAITED and not place.waits]
    if awaited:
        return awaited, f"{who(waiting)} {wait(waiting)} for {who(awaited)}, which {_together(awaited)}"
    late = _late(places)
    if late:
        ahead = [place for place in waiting if place not in late]
        if ahead:
            return late, f"{who(ahead)} {wait(ahead)} in {_operations(ahead)} for {who(late)}, which {_comes(late, ahead)}"
    operations = {name for place in waiting if (name := _exchange(place)) is not None}
    if len(waiting) == len(places) and len(operations) > 1:
        few = min((_in(places, name) for name in operations), key=len)
        told = "; ".join(f"{who(_in(places, name))} in {name}" for name in sorted(operations))
        return few if 2 * len(few) < len(places) else places, f"The ranks wait for one another in different collectives: {told}"
    idle = [place for place in places if place.state == "answers" and not place.waits]
    still = [place for place in idle if (place.stands_s or 0.0) >= STILL_S]
    if still and all(place.operation in POINT_TO_POINT for place in waiting):  # which torch does not count
        return (
            still,
            f"{who(waiting)} {wait(waiting)} in {_operations(waiting)}, {who(still)} {agree(still, 'is', 'are')} elsewhere",
        )
    # Before a rank's first collective, torch has no count for it.
    if idle and len(idle) < len(places) and all(place.begun is None for place in idle):
        return (
            idle,
            f"{who(waiting)} {wait(waiting)} in {_operations(waiting)}, {who(idle)} {agree(idle, 'is', 'are')} elsewhere",
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
    return place.operation or (GRADIENTS if place.phase == "backward" and place.is_pending else None)


def _operations(places: Sequence[RankPlace]) -> str:
    names = sorted({operation_of(place) for place in places})
    return " and ".join(names)


def _comes(late: Sequence[RankPlace], ahead: Sequence[RankPlace]) -> str:
    least, most = (max((p.begun for p in group if p.begun is not None), default=None) for group in (late, ahead))
    if least is None or most is None or least >= most:
        return f"{agree(late, 'has', 'have')} not begun it"
    return f"{agree(late, 'has', 'have')} begun {least} collectives of {most}"


def _together(places: Sequence[RankPlace]) -> str:
    return " or ".join(dict.fromkeys(agree(places, *STATES[place.state]) for place in places))
