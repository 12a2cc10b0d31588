"""Unequal work (F03): the ranks' batches differ in size, so that some rank always waits for another."""

from __future__ import annotations

from dataclasses import replace

from gputop import units
from gputop.doctor.evidence import straggling as waits
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.evidence.straggling import COVERAGE_MIN, FOLLOWS_MIN, SCORE_MIN
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.pace.main_threads import IN_MODEL_SHARE, LONGER_SHARE, computes_longer
from gputop.doctor.rules.pace.unequal_rounds import ROUNDS_TEXT, more_steps_in_a_round
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.culprit import SCORE_TEXT, SOURCES, find_culprit, waiting
from gputop.doctor.rules.support.rule import SELDOM_S, Judgement, Rule, Suspicion


def unequal_work(evidence: Evidence, group: RankGroup) -> Judgement:
    """F03: the ranks' batches differ in size, so some rank always waits."""
    if group.run is None:
        return computes_longer(evidence, group) or more_steps_in_a_round(evidence, group)
    known = find_culprit(evidence, group)
    if known is None or known.found.meets == "forward":
        return _measured(evidence, group) or more_steps_in_a_round(evidence, group)
    found, work = known.found, known.work
    computes = found.explained_by("phase/forward") + found.explained_by("phase/data") >= COVERAGE_MIN / 2
    by_turns = found.culprit is None and found.explained_by("phase/forward") > max(
        found.explained_by("phase/data"), found.explained_by("rest"), found.explained_by("phase/optimizer")
    )
    if not ((known.unequal and (computes or known.has_most_work)) or (by_turns and not _equal_work(group, work))):
        return None
    judged = waiting(group, "F03", known, *_UNEQUAL)
    if work is None or not work.unequal:
        return replace(judged, finding=_not_measured(judged.finding)) if group.virtual else judged
    return Suspicion(replace(judged.finding, evidence=(_ratio(work), *judged.finding.evidence)), judged.hold_s)


F03 = Rule(
    id="F03",
    order=2500,
    family="stragglers",
    title="Ranks have unequal work",
    severities=("error", "warning"),
    confidences=("likely", "possible"),
    needs=SOURCES,
    window_s=3.0,
    every_s=SELDOM_S,
    threshold=(
        f"{SCORE_TEXT} explained by unequal work (on virtual GPUs possible if the size of the batches is unknown)",
        f"or {ROUNDS_TEXT}, and more of them between two pauses (possible)",
        f"from outside, on CPUs: as F05, while all ranks are seen in the model in {IN_MODEL_SHARE:.0%} of the looks, and that "
        f"one in forward more often, by {LONGER_SHARE:.0%} of all looks (possible)",
    ),
    hides=("F01", "F02", "F04", "F05", "E06"),
    mechanism=(
        "A step ends when the rank with the most work is done. With randomly drawn batches (sentences, boxes, sequences), "
        "this is a different rank each time."
    ),
    signature="The size of the batches differs between ranks, and the time of the forward pass follows that size.",
    look_alike=(
        "F02 (one rank is slow with equal work); F04 (no phase explains the wait); federated learning with unequal data."
    ),
    fix="Balance the batches: group by length, fill by tokens, or pack sequences.",
    judge=unequal_work,
)


_UNEQUAL = (
    "The ranks' batches differ in size: in every step, some ranks wait for the largest",
    "A step ends when the rank with the most work is done. With randomly drawn batches (sentences, boxes, sequences), this "
    "is a different rank each time.",
    "TrainingArguments(group_by_length=True)  # or a sampler that fills batches by tokens; or packing\n"
    "# so that all ranks get equal work in the same step",
    "All ranks have the same number of tokens or samples in each step.",
)


def _not_measured(finding: Finding) -> Finding:
    """Return the finding as only possible: on cores, the times of a forward pass do not show how large its batch was."""
    title = "The ranks' batches may differ in size: in every step, some ranks wait for another one"
    return replace(finding, confidence="possible", title=title)


def _ratio(work: waits.Work) -> Fact:
    text = f"maximum over mean of the ranks' {work.unit} per step: {work.ratio:.2f} (over {units.count(work.steps)} steps)"
    return Fact(text, round(work.ratio, 3), work.source)


def _measured(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge F03 by the measured work if the backward pass does not show the wait, provided that the forward pass follows it."""
    if not tracked.all_speak(group):
        return None
    ranks = tuple(rank.rank for rank in tracked.ranks_of(group))
    work = waits.work(evidence, group, ranks) if len(ranks) > 1 else None
    if work is None or not (work.measured and work.unequal):
        return None
    loss = waits.cost_of(work, evidence, group, ranks)
    if loss is None or loss[0] < SCORE_MIN or loss[1] < FOLLOWS_MIN:
        return None
    lost, follows, steps = loss
    facts = [
        _ratio(work),
        Fact(
            f"the time of a rank's forward pass follows its {work.unit} "
            f"(rank correlation {follows:.2f} over {units.count(steps)} steps)",
            round(follows, 3),
            "journal: phase/forward, batches",
        ),
        Fact(
            f"so the average rank waits for about {lost:.0%} of each step",
            round(lost, 3),
            "journal: phase/forward, phase/backward, step_s",
        ),
    ]
    title, cause, fix, refuted_by = _UNEQUAL
    return Suspicion(tracked.about(group, "F03", "warning", "likely", title, facts, cause, fix, refuted_by), 3.0)


def _equal_work(group: RankGroup, work: waits.Work | None) -> bool:
    """Return whether the ranks' work is equal: on shared CPU cores, their forward times differ even so."""
    if work is not None and work.measured:
        return not work.unequal
    said = [facts_of(rank).batches for rank in tracked.ranks_of(group)]
    sizes = {(fact.rows, fact.elements) if fact is not None else None for fact in said}
    return group.virtual and len(sizes) == 1 and not sizes & {None, (None, None)}
