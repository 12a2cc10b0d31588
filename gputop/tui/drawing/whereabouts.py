"""Where every rank is, in lines: which ranks wait for which, then one paragraph per place. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gputop import units
from gputop.tui.drawing.line import Line, Span
from gputop.tui.drawing.prose import BLANK, wrapped
from gputop.whereabouts.records import RankPlace, Whereabouts
from gputop.whereabouts.verdict import summary
from gputop.whereabouts.words import folded, sentence, way_to_lines, who

STACKS = 3
"""Ranks at one line may have reached it in different ways: at most this many are shown."""


def whereabouts_lines(
    answer: Whereabouts, width: int, now: float, *, remote: bool = False, ascii_only: bool = False
) -> tuple[Line, ...]:
    """Return the answer in lines of at most ``width`` columns. ``now``: wall clock, seconds since the epoch.

    ``remote``: the ranks run on another machine, where py-spy cannot be asked for their lines from here.
    """
    lines: list[Line] = []
    known = summary(answer)
    if known is not None:
        style = "bad" if answer.verdict is not None else "warn" if answer.problem is not None else "value"
        lines += [*wrapped(f"{known[:1].upper()}{known[1:]}.", width, style), BLANK]
    for places in folded(answer.ranks):
        lines += _place(answer, places, width, now, ascii_only)
    command = None if remote else way_to_lines(answer.ranks)
    if command is not None:
        lines += wrapped(f"{command} reads the lines with ptrace, if py-spy is installed.", width, "dim")
    return tuple(lines)


def _place(answer: Whereabouts, places: Sequence[RankPlace], width: int, now: float, ascii_only: bool) -> list[Line]:
    behind = any(place.rank in answer.behind for place in places)
    mark = (">" if ascii_only else "▸") if behind else " "
    name = who(places)
    lines: list[Line] = [(Span(f"{mark} ", "bad"), Span(f"{name[:1].upper()}{name[1:]}", "bad" if behind else "title"))]
    lines += wrapped(sentence(places, now), width, "value" if behind else "text", first="    ", rest="    ")
    for label, text in _details(places):
        lines += wrapped(f"{label}: {text}", width, "dim", first="    ", rest="      ")
    return [*lines, BLANK]


def _details(places: Sequence[RankPlace]) -> list[tuple[str, str]]:
    stacks = {place.stack: place for place in reversed(places) if place.stack}
    waits_in = dict.fromkeys(place.kernel_function for place in places if place.kernel_function is not None)
    pids = [place.pid for place in places if place.pid is not None]
    counts = sorted({place.begun for place in places if place.begun is not None})
    steps = sorted({place.step for place in places if place.step is not None})
    rows = [
        ("process" if len(pids) == 1 else "processes", ", ".join(map(str, pids))),
        ("step" if len(steps) == 1 else "steps", units.ranges(steps)),
        ("collectives begun", units.ranges(counts)),
        ("kernel", ", ".join(waits_in)),
        *((f"stack of {who([place])}" if len(stacks) > 1 else "stack", " < ".join(stack)) for stack, place in _by_rank(stacks)),
    ]
    return [(label, text) for label, text in rows if text]


def _by_rank(stacks: Mapping[tuple[str, ...], RankPlace]) -> list[tuple[tuple[str, ...], RankPlace]]:
    """Return the stacks, each with the first rank that has it, by these ranks; at most three."""
    return sorted(stacks.items(), key=lambda item: item[1].rank or 0)[:STACKS]
