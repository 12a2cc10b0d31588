"""Other work of the main threads of an untracked run, by their stacks: a loop pauses for it, or the other ranks (F01, F05).

What a look at a stack means is decided in ``whereabouts.activities``; E07 and D01 by stacks are in ``by_stack``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gputop.doctor.evidence.doings import Seen
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.pace.beside import LONG_SPANS_S, SPAN_S, TIMES_LONG_MIN, name_of, seen_of_all
from gputop.doctor.rules.pace.between_phases import PREPARE_IN_WORKERS
from gputop.doctor.rules.pace.saves import SAVE_FIX
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.whereabouts.records import Activity, Doing

PAUSE_SURE_SHARE = 0.4
"""Share of the time that checkpoints take, from which they are likely too many. As by the times of ``torch.save``."""
LATE_SHARE, LITTLE_SHARE = 0.3, 0.15
"""The rank that the others wait for is seen at work that trains nothing this often, and they hardly ever (our choice)."""
WAITS_FACTOR = 0.6
"""Most of this time, the others must be seen where ranks wait for each other: in backward, or a collective (our choice)."""
GROWTH_LOOKS_MIN = 45
GROWTH_MIN, GROWN_SHARE = 0.35, 0.4
"""The share of a function that computes nothing grows by this much from the first third of the looks to the last, where it is
at least the second value. Of 15 looks each, chance makes two shares differ that much in 3% of all cases (our choice)."""
EVALUATE_LESS = (
    "if step % 1000 == 0: evaluate(...)  # less often, or on a part of the validation set\n"
    "with torch.inference_mode(): ...  # and with a larger batch: no gradients are kept"
)
WORKERS_FIX = "DataLoader(..., num_workers=4, pin_memory=True, persistent_workers=True)  # workers prepare batches meanwhile"


class _Work(NamedTuple):
    """Words for a kind of work for which training stops."""

    title: str
    did: str
    fix: str


_LESS_OFTEN = "if step % 1000 == 0: ...  # less often; or in another thread or process"
WORKS: Mapping[Activity, _Work] = {
    "checkpoint": _Work("Checkpoints take", "wrote checkpoints", SAVE_FIX),
    "evaluation": _Work("Evaluations take", "evaluated", EVALUATE_LESS),
    "generation": _Work(
        "Generating samples takes",
        "generated samples",
        "if step % 5000 == 0: ...  # less often, fewer, or shorter\n"
        "with torch.inference_mode(): ...  # several samples in one batch, with cached keys and values",
    ),
    "forward": _Work("Calls of the model take", "called the model", EVALUATE_LESS),
    "files": _Work("Writing files takes", "wrote files", _LESS_OFTEN),
    "memory": _Work(
        "Collecting memory takes",
        "collected memory",
        "# remove gc.collect() and torch.cuda.empty_cache() from the loop, or call them every 500 steps",
    ),
    "metrics": _Work(
        "Metrics take",
        "computed metrics",
        "metric.update(...)  # in each step, for the new batch only\nmetric.compute(); metric.reset()  # once per epoch",
    ),
    "report": _Work("Drawing and logging take", "drew or logged", _LESS_OFTEN),
    "wait": _Work("The training waits for another program or service", "waited for another program or service", _LESS_OFTEN),
    "other": _Work("Work that trains nothing takes", "was in code that computes nothing", _LESS_OFTEN),
    "data": _Work("Data takes", "prepared data", PREPARE_IN_WORKERS),
}


class Growth(NamedTuple):
    """A function that computes nothing and takes more and more of the time."""

    member: Member
    at: Doing
    shares: tuple[float, float, float]
    """Its share of the looks in each third."""


def growth_of(evidence: Evidence, group: RankGroup) -> Growth | None:
    """Return the function of the user's own code that computes nothing and takes more of the looks in each third of them."""
    for span_s in LONG_SPANS_S:
        for member, seen in seen_of_all(evidence, group, span_s):
            beside = seen.mostly_beside()
            if beside is None or len(seen.looks) < GROWTH_LOOKS_MIN or not seen.trains:
                continue
            third = len(seen.looks) // 3
            parts = seen.looks[:third], seen.looks[third:-third], seen.looks[-third:]
            first, middle, last = (sum(look.function == beside[0].function for look in part) / len(part) for part in parts)
            if last >= GROWN_SHARE and last - first >= GROWTH_MIN and first <= middle <= last:
                return Growth(member, beside[0], (first, middle, last))
    return None


class Late(NamedTuple):
    """A rank that does other work while the others wait for it."""

    member: Member
    seen: Seen
    at: Doing
    share: float
    """Share of all looks at which it does this work."""
    others: tuple[tuple[Member, Seen], ...]


def late_by_stack(evidence: Evidence, group: RankGroup) -> Late | None:
    """Return the rank that prepares data or does other work, if the others do neither and wait for it meanwhile."""
    for span_s in (SPAN_S, *LONG_SPANS_S):
        found = seen_of_all(evidence, group, span_s)
        if len(found) < 2:
            continue
        for aside in (_at_data, _at_work, _at_model):
            shares = [(aside(seen), member, seen) for member, seen in found]
            (share, times, at), member, seen = max(shares, key=lambda item: item[0][0])
            rest = [item for item in shares if item[1] is not member]
            little = max(item[0][0] for item in rest)
            if at is None or share < LATE_SHARE or not all(looks.trains for _, _, looks in rest):
                continue
            if little > (share - LATE_SHARE if aside is _at_model else LITTLE_SHARE):
                continue
            meets = _meets(at)
            waits = min(item[2].share(*meets) for item in rest) - seen.share(*meets)
            if waits >= WAITS_FACTOR * (share - little) and times >= TIMES_LONG_MIN:
                return Late(member, seen, at, share, tuple((other, looks) for _, other, looks in rest))
    return None


def _meets(at: Doing) -> tuple[Activity, ...]:
    """Return where the others wait. If a rank only calls the model for longer, only a collective shows that they wait."""
    return ("collective",) if at.activity == "forward" else ("backward", "collective")


def _at_data(seen: Seen) -> tuple[float, int, Doing | None]:
    """Return the share and the number of times of this work, and what is mostly done then, and where."""
    found = seen.mostly_at("data")
    return seen.share("data"), seen.times("data"), found[0] if found is not None else Doing("data")


def _at_work(seen: Seen) -> tuple[float, int, Doing | None]:
    return seen.pauses.share, len(seen.pauses.lengths), seen.pauses.mostly


def _at_model(seen: Seen) -> tuple[float, int, Doing | None]:
    found = seen.mostly_at("forward")
    return seen.share("forward"), seen.times("forward"), found[0] if found is not None else None


def one_prepares(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge F01 for an untracked run: one main thread prepares or awaits data, and all others wait for that rank."""
    late = late_by_stack(evidence, group)
    if late is None or late.at.activity != "data":
        return None
    who = name_of(late.member)
    return Suspicion(
        tracked.about(
            group,
            "F01",
            "warning",
            "possible",
            f"All ranks wait for {who}, which prepares or awaits its data",
            _late_facts(late),
            "Its share of the data takes longer: another disk, fewer cores, larger files, or only this rank prepares data. In "
            "DDP, the slowest rank sets the pace.",
            f"{WORKERS_FIX}\ntaskset -pc {late.member.pid}  # the cores that it may use",
            f"{tracked.capital(who)} does different work from the others on purpose, as in a pipeline.",
        ),
        3.0,
    )


def one_does_more(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge F05 for an untracked run: one main thread is at other work again and again, and all others wait for that rank."""
    late = late_by_stack(evidence, group)
    if late is None or late.at.activity in ("data", "checkpoint", "evaluation"):
        return None
    who, work = name_of(late.member), WORKS[late.at.activity]
    return Suspicion(
        tracked.about(
            group,
            "F05",
            "warning",
            "possible",
            f"All ranks wait for {who}: {_lower(work.title)} {late.share:.0%} of its time",
            _late_facts(late),
            "Only this rank does this work. Meanwhile, the others wait for its gradients, or in a collective operation.",
            f"{work.fix}\ngputop run -- {fixes.own_command(group)}  # shows how long each rank waits",
            f"{tracked.capital(who)} does different work from the others on purpose.",
        ),
        3.0,
    )


def _late_facts(late: Late) -> list[Fact]:
    assert late.member.process is not None
    text = (
        f"the main thread of {name_of(late.member)} {WORKS[late.at.activity].did} in {late.share:.0%} of "
        f"{words.count(len(late.seen.looks), 'look')} at its stack{f', mostly at {late.at.place}' if late.at.line else ''}"
    )
    return [Fact(text, round(late.share, 2), f"/proc/{late.member.process.pid}/mem"), *waits_of_others(late)]


def waits_of_others(late: Late) -> list[Fact]:
    """Return how often the other ranks were seen where ranks wait for each other."""
    facts = []
    for member, seen in late.others[:3]:
        assert member.process is not None
        meets = _meets(late.at)
        share, its = seen.share(*meets), late.seen.share(*meets)
        place = "backward or a collective" if len(meets) > 1 else "a collective"
        text = f"the main thread of {name_of(member)} was in {place} in {share:.0%}, and that of "
        text += f"{name_of(late.member)} in {its:.0%}"
        facts.append(Fact(text, round(share, 2), f"/proc/{member.process.pid}/mem"))
    return facts


def _lower(title: str) -> str:
    return title[0].lower() + title[1:]


def share_of_computing(member: Member, seen: Seen) -> Fact:
    """Return in which share of the looks a main thread computed."""
    share = seen.share("forward", "backward", "optimizer")
    assert member.process is not None
    return Fact(f"it computed in {share:.0%} of them", round(share, 2), f"/proc/{member.process.pid}/mem")
