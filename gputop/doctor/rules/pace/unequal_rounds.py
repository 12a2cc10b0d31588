"""Unequal work between two joins (F03, F02): ranks train on their own for many steps, and one of them waits at each join."""

from __future__ import annotations

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.evidence.rounds import PAUSES_MIN, SHARE_MIN, Rounds, waits_between
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion

MORE_STEPS = 1.2
"""A rank that makes this many times as many steps has more work; with fewer, its steps take longer (our choice)."""
HOLD_S = 10.0
"""How long that must hold (our choice)."""
ROUNDS_TEXT = (
    f"a rank pauses at least {PAUSES_MIN} times, for {SHARE_MIN:.0%} of its time, while another rank that it exchanges "
    "values with makes steps"
)


def more_steps_in_a_round(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge F03: one rank makes more steps between two joins than another, which waits for it."""
    found = waits_between(evidence, group)
    if found is None or found.steps_of_other < MORE_STEPS * found.steps:
        return None
    return _waits(
        group,
        "F03",
        found,
        f"Rank {found.waiting} waits for rank {found.working}, which makes more steps between two exchanges: "
        f"{found.share:.0%} of the time",
        "Each rank trains on its own data for a while, and the exchange of weights waits for the rank with the most data.",
        "steps = torch.tensor(len(loader))\n"
        "dist.all_reduce(steps, op=dist.ReduceOp.MIN)  # then every rank makes as many steps before the next exchange",
        "The ranks' data differ in amount on purpose, as in federated learning.",
    )


def longer_round(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge F02: one rank takes longer than another for as many steps between two joins."""
    found = waits_between(evidence, group)
    if found is None or found.steps_of_other >= MORE_STEPS * found.steps:
        return None
    return _waits(
        group,
        "F02",
        found,
        f"Rank {found.waiting} waits for rank {found.working}, which takes longer for its steps between two exchanges: "
        f"{found.share:.0%} of the time",
        "With equally many steps, one rank takes longer: larger batches, slower data, code that only this rank runs, or others "
        "that use its cores or its GPU.",
        f"gputop where  # while the run is going: the line that rank {found.working} is at",
        f"Rank {found.working} does more on purpose.",
    )


def _waits(group: RankGroup, rule: str, found: Rounds, title: str, cause: str, fix: str, refuted_by: str) -> Suspicion:
    facts = [
        Fact(
            f"rank {found.waiting} paused {found.pauses} times between two steps, for {found.share:.0%} of its time, while "
            f"rank {found.working} made steps",
            round(found.share, 3),
            "journal: step_s of all ranks",
        ),
        Fact(
            f"rank {found.waiting} makes about {units.count(found.steps)} steps from one pause to the next, "
            f"rank {found.working} about {units.count(found.steps_of_other)}",
            round(found.steps_of_other),
            "journal: step_s of all ranks",
        ),
    ]
    finding = tracked.about(group, rule, "warning", "possible", title, facts, cause, fix, refuted_by)
    return Suspicion(finding, HOLD_S)
