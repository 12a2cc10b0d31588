"""Asks all ranks of a run where they are, in two seconds at most.

It asks the ranks themselves, twice, to see which ones make no progress. For those that did not answer, it reads /proc, and
sends the signal of ``last_words`` if Python does not run there. Nothing is stopped, and no process is traced.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gputop.facts.standing import Standing
from gputop.snapshot import LIVE_STATES, Rank, Run
from gputop.sources.host.procfs import TICKS_PER_S
from gputop.tracking.journal import identity
from gputop.tracking.standing.page import Page
from gputop.tracking.standing.stack import where
from gputop.where import last_words, outside
from gputop.where.outside import Outside
from gputop.where.rings import Ring, rings_of
from gputop.whereabouts.activities import is_library
from gputop.whereabouts.records import PlaceState, RankPlace, Whereabouts
from gputop.whereabouts.verdict import STILL_S, judged

ANSWER_S = 0.9
"""How long to wait for the ranks each time: they check for a question twice a second."""
_POLL_S = 0.02
"""How often to check for answers."""


def ask_run(run: Run, runs_dir: Path | None = None) -> Whereabouts:
    """Return where the ranks of a run are now. Takes two seconds at most, and longer only if /proc hangs."""
    rings = rings_of(run, runs_dir)
    try:
        return ask(run.run_id, run.name, run.ranks, rings)
    finally:
        for ring in rings.values():
            ring.close()


def ask(run_id: str, name: str, ranks: Sequence[Rank], rings: Mapping[int, Ring]) -> Whereabouts:
    """Return where these ranks are now; ``rings``: their rings, by rank."""
    before = {rank: outside.observe(ring.identity.pid) for rank, ring in rings.items()}
    started = time.monotonic()
    answers = _answers(rings, ANSWER_S)
    if answers:
        time.sleep(max(0.0, STILL_S - (time.monotonic() - started)))
        answers |= _answers({rank: rings[rank] for rank in answers}, ANSWER_S)
    places = []
    for rank in ranks:
        ring = rings.get(rank.rank)
        if ring is None:
            places.append(_without_ring(rank))
            continue
        places.append(_place(rank, ring, answers.get(rank.rank), before[rank.rank], time.monotonic() - started))
    return judged(run_id, name, time.time(), places)


def _answers(rings: Mapping[int, Ring], within_s: float) -> dict[int, Page]:
    """Ask ranks and return their answers; late ones are left out."""
    asked = {}
    for rank, ring in rings.items():
        try:
            ring.ask()
            asked[rank] = ring
        except OSError:  # it ended just now
            continue
    found: dict[int, Page] = {}
    deadline = time.monotonic() + within_s
    while asked and time.monotonic() < deadline:
        for rank, ring in list(asked.items()):
            page = ring.answer()
            if page is not None:
                found[rank] = page
                del asked[rank]
        time.sleep(_POLL_S)
    return found


def _without_ring(rank: Rank) -> RankPlace:
    known = RankPlace(rank.rank, rank.pid, rank.hostname)
    if rank.state not in LIVE_STATES:
        return replace(known, state="ended", exit_code=rank.exit_code)
    if rank.elsewhere or rank.hostname not in (None, identity.hostname()) or rank.pid is None:
        return replace(known, state="elsewhere")
    now = outside.observe(rank.pid)
    if now is None:
        return replace(known, state="ended", exit_code=rank.exit_code)
    state = outside.HELD_STATES.get(now.state, "untracked")
    return replace(known, state=state, doing=now.doing, process_state=now.state, kernel_function=now.kernel_function)


def _place(rank: Rank, ring: Ring, answer: Page | None, before: Outside | None, passed_s: float) -> RankPlace:
    pid = ring.identity.pid
    now = outside.observe(pid)
    if now is None or now.start_ticks != ring.identity.start_ticks:
        return RankPlace(rank.rank, pid, rank.hostname, "ended", exit_code=rank.exit_code)
    used = None if before is None or passed_s <= 0 else 100 * (now.ticks - before.ticks) / TICKS_PER_S / passed_s
    state: PlaceState = "answers" if answer is not None else outside.HELD_STATES.get(now.state, "silent")
    page = answer or ring.read()
    place = RankPlace(
        rank.rank,
        pid,
        rank.hostname,
        state,
        doing=now.doing,
        process_state=now.state,
        kernel_function=now.kernel_function,
        cpu_percent=used,
        world_size=rank.world_size,
    )
    if page is not None:
        place = with_report(place, page)
        if state == "silent":
            place = _by_signal(place, ring, page)
    return place


def with_report(place: RankPlace, page: Page) -> RankPlace:
    """Return a place with what the rank itself reported."""
    found = Standing.of(page.said)
    if found is None:
        return place
    return replace(
        place,
        source="rank" if found.line is not None else None,
        line=found.line,
        function=found.function,
        phase=found.phase,
        operation=found.operation,
        begun=found.begun,
        completed=found.completed,
        step=found.step,
        since=found.since,
        at=found.at,
        stack=tuple(found.stack),
        groups={str(checksum): counts for checksum, counts in found.groups.items()},
    )


def _by_signal(place: RankPlace, ring: Ring, page: Page) -> RankPlace:
    frames = last_words.ask(ring.identity.pid, ring.identity.start_ticks, page)
    if not frames:
        return place
    found = where(frames, is_library)
    same = (found.line, found.function) == (place.line, place.function)
    return replace(
        place,
        source="signal",
        line=found.line,
        function=found.function,
        operation=found.operation,
        phase=None,
        since=place.since if same else place.at,
        at=time.time(),
        stack=found.stack,
    )
