"""G01 before the first step, judged by where the ranks report they are: they have no journal and no steps yet."""

from __future__ import annotations

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.first_steps import starting_run, whereabouts
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.standstill.stalls import STALL_HOLD_S, is_idle
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.whereabouts.records import Whereabouts
from gputop.whereabouts.words import folded, sentence, who

POSSIBLE_S = 8.0
"""Programs wait for a file or a server for a few seconds before they train (our choice)."""
LIKELY_S = 20.0
"""From here on, the finding is firm (our choice)."""


def held_up(evidence: Evidence, group: RankGroup) -> Whereabouts | None:
    """Return where the ranks of a run before its first step are, if some wait for others; None otherwise."""
    snapshot = evidence.snapshot
    run = starting_run(snapshot, group) if snapshot is not None else None
    found = whereabouts(snapshot, run) if snapshot is not None and run is not None else None
    return found if found is not None and found.behind else None


def judge_start(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge a run before its first step: ranks wait for one that rests, or for one another in different collectives.

    A rank that uses a processor, a GPU or a disk prepares something, and the others may well wait for that.
    """
    found = held_up(evidence, group)
    since = [place.since for place in found.ranks if place.since is not None] if found is not None else []
    if found is None or not since:
        return None
    stood_s = found.taken_at - max(since)
    crossed = all(place.waits for place in found.ranks) and len(found.ranks) == tracked.world(group)
    late = [place for place in found.ranks if place.rank in found.behind]
    pids = [place.pid for place in late if place.pid is not None]
    behind = [member for member in group.members if member.pid in pids]
    if stood_s < POSSIBLE_S or (not crossed and not (behind and all(is_idle(evidence, member) for member in behind))):
        return None
    facts = [
        Fact(f"{who(places)}: {sentence(places, found.taken_at)}", list(places[0].stack), "the rank's own report")
        for places in folded(found.ranks)
    ]
    firm = stood_s >= LIKELY_S
    finding = tracked.about(
        group,
        "G01",
        "error" if firm else "warning",
        ("certain" if crossed else "likely") if firm else "possible",
        f"No first step comes: {found.verdict}",
        [Fact("no rank has made a step", 0, "journal"), *facts],
        "A collective operation ends once every rank has called it. Here the ranks have called different ones."
        if crossed
        else f"A collective operation ends once every rank has called it: {who(late)} "
        f"{'stands elsewhere, and computes' if len(late) == 1 else 'stand elsewhere, and compute'} nothing.",
        f"py-spy dump --pid {pids[0] if pids else 'PID'} --native  # where it is now\n"
        "# every rank must reach the same collective operations",
        "A step comes; or it waits for something that will come, such as a download.",
        pids=pids or None,
    )
    return Suspicion(finding, STALL_HOLD_S)
