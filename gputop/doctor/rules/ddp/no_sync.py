"""Gradient accumulation under DDP: DDP averages gradients at the wrong backward pass, or at every one (C04)."""

from __future__ import annotations

from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.calls import wrapped_by
from gputop.doctor.facts.ddp import exchanges, waiting_s
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.ddp.gradients import STEPS_MIN, differing_weights, is_bypassed, is_changed
from gputop.doctor.rules.ddp.variables import never_exchanges
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import SELDOM_S, Judgement, Rule, Suspicion
from gputop.facts.parallel import Gradients
from gputop.snapshot import Rank
from gputop.whereabouts.records import BACKWARD_MIN

UNSYNCED_SHARE_MIN = 0.5
"""The shorter last accumulation of an epoch may end unsynchronized."""
COMMUNICATION_SHARE_MIN = 0.1
"""Reducing every micro-batch is reported if it costs this share of a step (docs/rules.md#c04)."""
_ONE_OF_SEVERAL = ("loss/", "auto/loss/")
"""The backward passes of several losses, such as those of a GAN, are not micro-batches: each may be of another model."""
_NO_SYNC = """\
last = (i + 1) % {steps} == 0
with nullcontext() if last else model.no_sync():  # forward and backward, both inside
    loss = model(x) / {steps}
    loss.backward()
if last:
    optimizer.step(); optimizer.zero_grad()"""


def no_sync_misused(evidence: Evidence, group: RankGroup) -> Judgement:
    """C04: with gradient accumulation, DDP averages at the wrong backward pass, or at every one."""
    if tracked.world(group) < 2:
        return None
    if group.run is None:
        return never_exchanges(evidence, group, _NO_SYNC.format(steps="accumulation"))
    ranks = tracked.ranks_of(group)
    reports = [(rank, fact) for rank in ranks if wrapped_by(rank) == "ddp" and (fact := facts_of(rank).gradients) is not None]
    if not reports or any(is_bypassed(rank) or is_changed(rank) for rank, _ in reports):
        return None
    wrong = [
        (rank, fact)
        for rank, fact in reports
        if fact.steps >= STEPS_MIN and fact.unsynced_steps >= UNSYNCED_SHARE_MIN * fact.steps
    ]
    if wrong:
        return _wrong_backward(group, ranks, *wrong[0])
    return _every_backward(evidence, group, reports)


C04 = Rule(
    id="C04",
    order=1203,
    family="ddp",
    title="no_sync is misused",
    severities=("error", "warning"),
    confidences=("certain", "likely", "possible"),
    needs=("journal: gradients, parameters, ddp", "/proc: variables, stacks"),
    window_s=5.0,
    every_s=SELDOM_S,
    threshold=(
        f"{UNSYNCED_SHARE_MIN:.0%} of {STEPS_MIN} steps follow a backward pass that was not reduced (certain if the weights "
        f"differ); or every micro-batch is reduced, which takes {COMMUNICATION_SHARE_MIN:.0%} of the step on all ranks",
        f"untracked, {BACKWARD_MIN} looks at backward passes show DDP under no_sync each time (possible)",
    ),
    hides=("E06",),
    mechanism=(
        "Under no_sync, DDP does not average gradients, and it decides this in forward. An inverted condition averages at "
        "the wrong backward pass; no_sync around only the backward pass changes nothing."
    ),
    signature=(
        "Optimizer steps follow a backward pass that was not averaged, or every micro-batch of an accumulation is averaged."
    ),
    look_alike="Weights that the script averages by hand from time to time (local SGD).",
    fix="Put the forward and backward passes of all micro-batches except the last inside model.no_sync().",
    judge=no_sync_misused,
)


def _wrong_backward(group: RankGroup, ranks: tuple[Rank, ...], rank: Rank, fact: Gradients) -> Judgement:
    differ, weights = differing_weights(ranks)
    by_hand = facts_of(rank).process_group
    if differ is False or (differ is None and by_hand is not None and exchanges(by_hand) > 0):
        return None
    steps = max(2, round(fact.accumulation)) if fact.accumulation else 2
    facts = [
        Fact(
            f"{fact.unsynced_steps} of {fact.steps} optimizer steps followed a backward pass that DDP did not reduce",
            fact.unsynced_steps,
            "journal: gradients",
        ),
        Fact(
            f"{fact.synced_backwards} of {fact.backwards} backward passes were reduced",
            fact.synced_backwards,
            "journal: gradients",
        ),
        *weights,
    ]
    finding = tracked.about(
        group,
        "C04",
        "error",
        "certain" if differ else "likely",
        "no_sync is on at the wrong backward pass: the ranks drift apart",
        facts,
        "Under no_sync, DDP does not average gradients. The backward pass before optimizer.step() must be outside no_sync; "
        "here the condition is inverted, or the script never leaves no_sync.",
        _NO_SYNC.format(steps=steps),
        "The script averages the weights by hand from time to time (local SGD).",
    )
    return Suspicion(finding)


def _every_backward(evidence: Evidence, group: RankGroup, reports: list[tuple[Rank, Gradients]]) -> Judgement:
    rank, fact = reports[0]
    accumulation = fact.accumulation or 0.0
    if accumulation < 2 or fact.steps < STEPS_MIN or fact.synced_backwards < 0.95 * fact.backwards:
        return None
    if any(name.startswith(_ONE_OF_SEVERAL) for name in rank.metrics):
        return None
    shares = []
    for rank, _ in reports:
        wrapper, step = facts_of(rank).ddp, windows.step_s(evidence, group, rank.rank)
        waiting = waiting_s(wrapper) if wrapper is not None else None
        if waiting is None or not step:
            return None
        shares.append(waiting * accumulation / step)
    share = min(shares)
    if share < COMMUNICATION_SHARE_MIN:
        return None
    steps = max(2, round(accumulation))
    facts = [
        Fact(
            f"{accumulation:.0f} backward passes per step, and DDP reduced {fact.synced_backwards} of {fact.backwards}",
            fact.synced_backwards,
            "journal: gradients",
        ),
        Fact(f"exposed communication takes {share:.0%} of a step on every rank", share, "DDP's counters (journal)"),
    ]
    finding = tracked.about(
        group,
        "C04",
        "warning",
        "likely",
        f"Gradients are averaged {steps} times per step: once is enough",
        facts,
        "Without no_sync around forward and backward, DDP averages the gradients of every micro-batch. no_sync around only "
        "the backward pass changes nothing, because DDP decides in forward.",
        _NO_SYNC.format(steps=steps),
        "The model is so large that its gradients are sharded while they accumulate.",
    )
    return Suspicion(finding, 5.0)
