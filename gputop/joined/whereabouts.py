"""Where the ranks of a run over several machines are: the answers of the machines as one, with times by our clock. Pure.

Each machine asks its own ranks, so the answer of the machine on which a rank runs counts. Only all of them together show who is
behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gputop import units
from gputop.joined.runs import JoinedRun, shifted
from gputop.snapshot import LIVE_STATES
from gputop.whereabouts.records import RankPlace, Whereabouts
from gputop.whereabouts.verdict import judged


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """What the machine that the user calls ``host`` answered. ``clock_offset_s``: its clock minus this machine's."""

    host: str
    answer: Whereabouts
    clock_offset_s: float = 0.0


def over_hosts(run: JoinedRun, answers: Sequence[HostAnswer], taken_at: float) -> Whereabouts:
    """Return where the ranks of ``run`` are, by all answers; ``hostname`` of a rank is the name that the user gave its host.

    Ranks that are in no answer are left out, and named in the verdict or the problem.
    """
    homes = {rank: part.host for part in run.parts for rank in part.ranks}
    places: dict[int, RankPlace] = {}
    for one in answers:
        for place in one.answer.ranks:
            if place.rank is None or homes.get(place.rank, one.host) != one.host:
                continue
            known = places.get(place.rank)
            if known is None or known.state == "elsewhere":
                places[place.rank] = _by_our_clock(place, one)
    answer = judged(run.run.run_id, run.run.name, taken_at, [places[rank] for rank in sorted(places)])
    live = (rank.rank for rank in run.run.ranks if rank.state in LIVE_STATES)
    return _whole(answer, sorted({*run.missing, *live} - places.keys()))


def confirmed(first: Whereabouts, second: Whereabouts) -> Whereabouts:
    """Return the second of two answers; who is behind counts only if both say so.

    The link delays the question to each machine differently: a step may begin between two of them.
    """
    if second.verdict is None or (first.behind == second.behind and first.verdict is not None):
        return second
    return replace(second, behind=(), verdict=None, problem="the ranks continue: another one was behind a moment later")


def _by_our_clock(place: RankPlace, one: HostAnswer) -> RankPlace:
    hostname = place.hostname if place.state == "elsewhere" else one.host
    offset_s = one.clock_offset_s
    return replace(place, hostname=hostname, since=shifted(place.since, offset_s), at=shifted(place.at, offset_s))


def _whole(answer: Whereabouts, unheard: Sequence[int]) -> Whereabouts:
    """Return the answer with the places of the ranks that are behind, and the ranks that are in no answer."""
    nothing = f"nothing is heard from rank{'s' if len(unheard) > 1 else ''} {units.ranges(unheard)}" if unheard else None
    if answer.behind or (answer.verdict is not None and not unheard):
        late: dict[str, list[int]] = {}
        for place in answer.ranks:
            if place.rank in answer.behind and place.hostname is not None:
                late.setdefault(place.hostname, []).append(place.rank)
        there = [f"rank{'s' if len(ranks) > 1 else ''} {units.ranges(ranks)} on {host}" for host, ranks in late.items()]
        told = [*([answer.verdict] if answer.verdict is not None else []), *there, *([nothing] if nothing is not None else [])]
        return replace(answer, verdict="; ".join(told))
    answer = replace(answer, verdict=None)
    if not any(place.is_there for place in answer.ranks):
        return replace(answer, problem="no rank is alive on these hosts" if nothing is None else nothing)
    return replace(answer, problem=None if nothing is None else f"which rank is behind is not known: {nothing}")
