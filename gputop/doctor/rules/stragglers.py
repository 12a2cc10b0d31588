"""Stragglers: one rank for which all others wait in every step (F01, F02, F05), or another one each time (F03, F04)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gputop.doctor import straggling as waits
from gputop.doctor import words
from gputop.doctor.evidence import Evidence
from gputop.doctor.finding import Fact
from gputop.doctor.jobs import Job, Member
from gputop.doctor.rules import tracked
from gputop.doctor.rules.rule import SELDOM_S, Judgement, Rule, Suspicion
from gputop.doctor.stated_ddp import batches
from gputop.doctor.stated_input import feeding
from gputop.doctor.straggling import COVERAGE_MIN, SCORE_MIN, WINDOW_STEPS, WINDOWS, Straggling

WORK_RATIO_MIN = 1.15
"""Most over mean of the ranks' tokens or samples in a step (catalogue F03)."""
SEVERE_SCORE = 0.2
_NAMES = {"phase/data": "waiting for data", "phase/forward": "forward", "phase/optimizer": "optimizer", "rest": "the rest"}


def _found(evidence: Evidence, job: Job) -> tuple[Straggling, tuple[int, ...]] | None:
    if not tracked.all_speak(job):
        return None
    ranks = tuple(rank.rank for rank in tracked.ranks_of(job))
    found = waits.straggling(evidence, job, ranks)
    return (found, ranks) if found is not None else None


def _member(job: Job, rank: int | None) -> Member | None:
    return next((member for member in job.members if member.journal is not None and member.journal.rank == rank), None)


def _facts(found: Straggling) -> list[Fact]:
    who = f"rank {found.culprit}" if found.culprit is not None else "the last one"
    longest = max(found.excess_s, key=lambda name: found.excess_s[name])
    return [
        Fact(
            f"the others wait {found.score:.0%} of each step for {who} (over {found.steps} steps)",
            round(found.score, 3),
            "journal: phase/backward of all ranks",
        ),
        Fact(
            f"{_NAMES[longest]} takes {who} {found.excess_s[longest] * 1e3:.1f} ms longer, their gap in backward is "
            f"{found.gap_s * 1e3:.1f} ms",
            round(found.excess_s[longest], 6),
            "journal: phases of the step",
        ),
        Fact(f"a step takes {found.step_s * 1e3:.1f} ms", round(found.step_s, 6), "journal: step_s"),
    ]


def _told(job: Job, rule: str, found: Straggling, title: str, cause: str, fix: str, refuted_by: str) -> Suspicion:
    member = _member(job, found.culprit)
    pids = [member.pid] if member is not None and member.pid is not None else None
    devices = [device for device in job.pool if member is not None and device.uuid == member.main] or None
    severity = "error" if found.score >= SEVERE_SCORE else "warning"
    return Suspicion(
        tracked.about(job, rule, severity, "likely", title, _facts(found), cause, fix, refuted_by, devices, pids), 3.0
    )


def slow_data(evidence: Evidence, job: Job) -> Judgement:
    """F01: one rank waits for its data, and all others for that rank."""
    known = _found(evidence, job)
    if known is None or known[0].culprit is None or known[0].explained_by("phase/data") < COVERAGE_MIN:
        return None
    found, _ = known
    member = _member(job, found.culprit)
    loader = feeding(member.journal) if member is not None else None
    more = max(4, 2 * (loader.workers or 0)) if loader is not None else 4
    workers = f"DataLoader(..., num_workers={more}, persistent_workers=True, pin_memory=True)"
    return _told(
        job,
        "F01",
        found,
        f"All ranks wait for rank {found.culprit}, which waits for its data",
        "Its part of the data comes slower: another disk, fewer cores, larger files. In DDP all are as fast as the slowest.",
        f"{workers}  # and look at rank {found.culprit}'s disk and cores\n"
        f"taskset -pc {member.pid if member is not None and member.pid is not None else 'PID'}  # the cores that it may use",
        f"Rank {found.culprit}'s time for data is that of the others.",
    )


def slow_compute(evidence: Evidence, job: Job) -> Judgement:
    """F02: one rank computes longer at equal work."""
    known = _found(evidence, job)
    if known is None or known[0].culprit is None or known[0].explained_by("phase/forward") < COVERAGE_MIN:
        return None
    found, ranks = known
    unequal = waits.work(evidence, job, ranks)
    if unequal is not None and unequal[0] >= WORK_RATIO_MIN:
        return None
    member = _member(job, found.culprit)
    device = next((d for d in job.pool if member is not None and d.uuid == member.main), None)
    where = words.gpu(device) if device is not None else "its GPU"
    return _told(
        job,
        "F02",
        found,
        f"All ranks wait for rank {found.culprit}, which computes longer",
        f"With equal work its forward takes longer: a lower clock or heat at {where}, another process on it, a smaller card, "
        "or code that this rank alone runs.",
        f"nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE -i {device.index if device is not None else 'N'}\n"
        f"py-spy dump --pid {member.pid if member is not None and member.pid is not None else 'PID'}",
        f"Rank {found.culprit} gets more rows or longer sequences than the others.",
    )


def unequal_work(evidence: Evidence, job: Job) -> Judgement:
    """F03: the ranks' batches are of different size, so that somebody is always waited for."""
    known = _found(evidence, job)
    if known is None:
        return None
    found, ranks = known
    unequal = waits.work(evidence, job, ranks)
    measured = unequal is not None and unequal[0] >= WORK_RATIO_MIN
    computes = found.explained_by("phase/forward") + found.explained_by("phase/data") >= COVERAGE_MIN / 2
    by_turns = found.culprit is None and found.explained_by("phase/forward") > max(
        found.explained_by("phase/data"), found.explained_by("rest"), found.explained_by("phase/optimizer")
    )
    if not ((measured and computes) or (by_turns and not (job.virtual and _alike(job)))):
        return None
    judged = _told(
        job,
        "F03",
        found,
        "The ranks' batches are of different size: in every step some wait for the largest",
        "A step ends when the rank with most work is done; with batches drawn by chance (sentences, boxes, sequences) that is "
        "another one each time.",
        "TrainingArguments(group_by_length=True)  # or a sampler that fills batches by tokens; or packing\n"
        "# every rank gets equal work in the same step",
        "All ranks have the same number of tokens or samples in each step.",
    )
    if not measured or unequal is None:
        return judged
    fact = Fact(f"most over mean of the ranks' {unequal[1]} in a step: {unequal[0]:.2f}", round(unequal[0], 3), "journal")
    return Suspicion(replace(judged.finding, evidence=(fact, *judged.finding.evidence)), judged.hold_s)


def _alike(job: Job) -> bool:
    """Return whether all ranks' last batches are of one size: on cores that others use, their forward differs all the same."""
    sizes = {(fact.rows, fact.elements) if (fact := batches(rank)) is not None else None for rank in tracked.ranks_of(job)}
    return len(sizes) == 1 and None not in sizes


def jitter(evidence: Evidence, job: Job) -> Judgement:
    """F04: another rank is slow at each step, and not for its data or its forward: the machine disturbs them."""
    known = _found(evidence, job)
    if known is None or known[0].culprit is not None:
        return None
    found, ranks = known
    unequal = waits.work(evidence, job, ranks)
    disturbed = found.explained_by("rest") + found.explained_by("phase/optimizer")
    if (unequal is not None and unequal[0] >= WORK_RATIO_MIN) or disturbed < COVERAGE_MIN / 2:
        return None
    return _told(
        job,
        "F04",
        found,
        "The ranks are held up by turns",
        "Garbage collection, swapping or other programs stop one rank after the other, and all others wait each time.",
        "import gc; gc.disable()  # and gc.collect() every 500 steps, on all ranks in the same step\n"
        "vmstat 1  # si, so: swapping; r above the number of cores: too much runs",
        "The ranks have different work in each step.",
    )


def rank_0_does_more(evidence: Evidence, job: Job) -> Judgement:
    """F05: rank 0 has more to do between steps than the others."""
    known = _found(evidence, job)
    if known is None or known[0].culprit != 0:
        return None
    found, _ = known
    if found.explained_by("rest") + found.explained_by("phase/optimizer") < COVERAGE_MIN:
        return None
    return _told(
        job,
        "F05",
        found,
        "All ranks wait for rank 0, which does more between the steps",
        "Logging, progress bars, pictures or metrics on rank 0 take time in every step; the others wait for its gradients.",
        "if rank == 0 and step % 50 == 0:  # not in every step\n    writer.add_scalar(...)",
        "Rank 0's time outside of data, forward, backward and optimizer is that of the others.",
    )


_SOURCES = ("journal: phase/*, step_s of all ranks",)
_SCORE = f"a wait of {SCORE_MIN:.0%} of the step in each of {WINDOWS} windows of {WINDOW_STEPS} steps, {COVERAGE_MIN:.0%} of it"


def _rule(rule: str, explained: str, judge: Callable[[Evidence, Job], Judgement]) -> Rule:
    return Rule(rule, "stragglers", _SOURCES, 3.0, f"{_SCORE} explained by {explained} (catalogue {rule})", judge, SELDOM_S)


RULES = (
    _rule("F03", "unequal work", unequal_work),
    _rule("F01", "one rank's data", slow_data),
    _rule("F02", "one rank's forward", slow_compute),
    _rule("F05", "what rank 0 does between steps", rank_0_does_more),
    _rule("F04", "no phase, another rank each time", jitter),
)

HIDES = {
    "F03": ("F01", "F02", "F04", "F05", "E06"),
    "F01": ("D01", "E06", "F04"),
    "F02": ("E06", "F04"),
    "F05": ("E06", "F04"),
    "F04": ("E06",),
}
