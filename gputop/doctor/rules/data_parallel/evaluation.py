"""Evaluation on one GPU of several, under nn.DataParallel or DDP (B13)."""

from __future__ import annotations

from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.facts.calls import wrapped_by
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import SELDOM_S, Judgement, Rule, Suspicion
from gputop.facts.measured import Evaluation
from gputop.snapshot import Device

EVALUATION_SHARE_MIN = 0.15
EVALUATION_SPAN_MIN_S = 30.0
EVALUATIONS_MIN = 3
EVALUATIONS_SPAN_MIN_S = 5.0
"""With ``EVALUATIONS_MIN`` evaluations, as many stalls as E07 needs, even a share over 5 s is representative (our choice)."""
EVALUATION_OTHERS_MAX = 0.2
"""The other ranks evaluate too if one of them takes this share of the time (our choice)."""


def evaluates_on_one(evidence: Evidence, group: RankGroup) -> Judgement:
    """B13: evaluation takes much of the time and runs on one GPU while the others wait."""
    evaluations = [
        (member, fact)
        for member in group.members
        if (fact := facts_of(member.journal).evaluation) is not None and fact.calls > 0
    ]
    if not evaluations or len(group.used) < 2 or not evidence.is_warm(group):
        return None
    member, fact = max(evaluations, key=lambda item: item[1].seconds)
    if member.journal is None:
        return None
    kind = wrapped_by(member.journal)
    alone = _alone(group, member) if len(group.members) > 1 else kind == "data_parallel" and fact.wrapped is False
    if not alone:
        return None
    number = len(evidence.series(group.run_id, member.journal.rank, "phase/evaluation"))
    least_s = EVALUATIONS_SPAN_MIN_S if number >= EVALUATIONS_MIN else EVALUATION_SPAN_MIN_S
    share = windows.wall_share(evidence, group, member.journal.rank, "phase/evaluation", least_s)
    if share is None or share < EVALUATION_SHARE_MIN:
        return None
    devices = tracked.used_devices(group)
    one = _evaluates(group, member, fact)
    name = words.gpu(one) if one is not None else "one GPU"
    facts = [
        Fact(f"evaluation takes {share:.0%} of the time", share, "journal"),
        Fact(f"{fact.calls} calls of the model without gradients, {fact.seconds:.0f} s", fact.seconds, "journal"),
    ]
    if len(group.members) > 1:
        facts.append(Fact(f"only rank {member.rank} evaluates; the other ranks wait for it", member.rank, "journal"))
    else:
        facts.append(Fact("these calls bypassed the wrapper", False, "journal"))
    finding = tracked.about(
        group,
        "B13",
        "warning",
        "likely",
        f"Evaluation runs only on {name}, {share:.0%} of the time",
        facts,
        "While one GPU evaluates, the others have nothing to do."
        + ("" if len(group.members) > 1 else " nn.DataParallel divides the work only when the wrapper itself is called."),
        _evaluation_fix(group),
        "The other GPUs work during evaluation.",
        devices,
    )
    return Suspicion(finding)


B13 = Rule(
    id="B13",
    order=2603,
    family="data parallel",
    title="Evaluation runs on one GPU",
    severities=("warning",),
    confidences=("likely",),
    needs=("journal: evaluation, phase/evaluation",),
    window_s=EVALUATIONS_SPAN_MIN_S,
    every_s=SELDOM_S,
    threshold=(
        f"evaluation on one GPU takes {EVALUATION_SHARE_MIN:.0%} of the wall clock over "
        f"{EVALUATION_SPAN_MIN_S:.0f} s, or over {EVALUATIONS_SPAN_MIN_S:.0f} s with {EVALUATIONS_MIN} evaluations in "
        "them"
    ),
    hides=("B08", "E02", "E07"),
    mechanism=(
        "While one GPU evaluates, the others have nothing to do. nn.DataParallel divides the work only when the "
        "wrapper itself is called."
    ),
    signature="Evaluation takes 15% of the time or more, and only one GPU works during it.",
    look_alike="G01 (nothing advances at all).",
    fix="Evaluate through the wrapper, or give each rank a part of the validation set and sum the counts.",
    judge=evaluates_on_one,
)


def _evaluates(group: RankGroup, member: Member, fact: Evaluation) -> Device | None:
    """Return the device on which the model is evaluated; None if unknown."""
    if len(group.members) > 1:
        return next((device for device in group.pool if device.uuid == member.main), None)
    # The main device of a process that drives several GPUs is the one with the most memory, not necessarily the one that
    # evaluates.
    kind, _, index = (fact.parameter_device or "").partition(":")
    known = group.visible if kind == "cuda" and index.isdigit() else None
    return known[int(index)] if known is not None and int(index) < len(known) else None


def _alone(group: RankGroup, member: Member) -> bool:
    others = [facts_of(other.journal).evaluation for other in group.members if other is not member]
    own = facts_of(member.journal).evaluation
    if own is None or any(other.journal is None or other.journal.step is None for other in group.members):
        return False
    return all(other is None or other.seconds < EVALUATION_OTHERS_MAX * own.seconds for other in others)


def _evaluation_fix(group: RankGroup) -> str:
    if len(group.members) > 1:
        return (
            "sampler = DistributedSampler(val_set, shuffle=False)\n"
            "loader = DataLoader(val_set, batch_size=..., sampler=sampler)  # each rank evaluates its part\n"
            "dist.all_reduce(correct); dist.all_reduce(total)  # counts, summed over the ranks"
        )
    return (
        "model.eval()\nwith torch.no_grad():\n    outputs = model(x)  # the wrapper, not model.module\n"
        f"loader = DataLoader(val_set, batch_size={32 * len(group.used)})  # {len(group.used)} GPUs"
    )
