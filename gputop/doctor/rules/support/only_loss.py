"""The loss that shows how a run learns, if one does."""

from __future__ import annotations

import re

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.rules.support import logged
from gputop.doctor.rules.support.policies import learns_policy
from gputop.losses import LOSS_METRICS, short_losses
from gputop.snapshot import AUTOMATIC_PREFIX, Rank, is_training_loss, loss_metric, names_a_loss

STRETCHES_MIN = 8
"""A course with fewer averages is too short to judge (our choice)."""
SUMMED_UP = 4
"""A loss with this many times fewer values than another one is its mean over each epoch, if it has a plain name (our
choice)."""
_TOTAL = re.compile(r"(?i)(?:train(?:ing)?[/_])?(?:loss|total_?loss|loss[/_]total)")
"""The sum of a task's losses, as detectors and speech models log it next to its parts."""
_OPPOSED = re.compile(
    r"(?i)(?:^|[/_.\d-])(?:d|g|dis|disc|discriminator|gen|generator|adv\w*|fake|real|domain|critic|actor|policy|value|vf|pg|q\d?|alpha)(?:[/_.\d-]|$)"
)
"""Parts of losses whose target moves with the model."""
_PENALTY = re.compile(r"(?i)(?:^|[/_.-])kld?(?:[/_.-]|$)")
"""A distance from another model or a prior: it is 0 at the start, and grows as the model learns."""


def opposes(metric: str) -> bool:
    """Return whether a loss is that of one of two models that are trained against each other, whose best value is not 0."""
    return _OPPOSED.search(metric) is not None


def is_a_penalty(metric: str) -> bool:
    """Return whether a loss is a distance from a prior or another model, which grows as the model learns."""
    return _PENALTY.search(metric) is not None


def only_loss(evidence: Evidence, group: RankGroup) -> tuple[Rank, str] | None:
    """Return the lowest live rank and its training loss.

    None if it logs or prints rewards, or several losses that have no sum.
    """
    ranks = logged.ranks_of(group)
    if not ranks:
        return None
    rank = min(ranks, key=lambda item: item.rank)
    name = loss_metric(rank.metrics)
    # In a run that the script opened, the automatic loss appears next to the script's own; it counts only if there is no other.
    losses = {metric for metric in rank.metrics if names_a_loss(metric)}
    own = {metric for metric in losses if not metric.startswith(AUTOMATIC_PREFIX)} or losses
    own = own or short_losses(rank.metrics)
    if len(own) > 1 and not any(map(opposes, own)):
        own = _without_means(evidence, group, rank, own)
        name = name if name in own or len(own) > 1 else next(iter(own))
    # If the target moves with the policy, a loss that grows or stays the same says nothing.
    if learns_policy([rank]) or name is None:
        return None
    if len(own) > 1:
        total = next((metric for metric in sorted(own) if _TOTAL.fullmatch(metric)), None)
        opposed = any(map(opposes, own))
        return (rank, total) if total is not None and not opposed else None
    return (rank, name) if is_training_loss(name) and not is_a_penalty(name) else None


def _without_means(evidence: Evidence, group: RankGroup, rank: Rank, losses: set[str]) -> set[str]:
    """Return the losses without those that are the means of another one, which scripts log next to it after each epoch."""
    values = {name: len(evidence.series(logged.run_id(group), rank.rank, name)) for name in losses}
    most = max(values.values())
    plain = {name for name in losses if name in LOSS_METRICS or name.endswith("_epoch")}
    left = {name for name in losses if name not in plain or SUMMED_UP * values[name] > most}
    # Lightning's bar shows the last step's loss next to its mean over the epoch: printed once per epoch, both are one loss.
    return {name for name in left if not (name.endswith("_step") and f"{name.removesuffix('_step')}_epoch" in left)}
