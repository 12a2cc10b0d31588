"""The losses of the ranks of a DDP run: one that rank 0's loss hides (C11)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gputop import units
from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.ddp import divides_models
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import SELDOM_S, Judgement, Rule, Suspicion

LOSS_STEPS = 20
LOSS_DEVIATION = 6.0
"""In standard deviations of the other ranks (docs/rules.md#c11)."""
NAN_STEPS_MIN = 3
"""A gradient scaler skips one or two steps after an overflow (our choice, as in J01)."""


def hidden_losses(evidence: Evidence, group: RankGroup) -> Judgement:
    """C11: another rank's loss is NaN or far off, and rank 0's loss does not show it."""
    ranks = tracked.ranks_of(group)
    if tracked.world(group) < 2 or len(ranks) < 2 or divides_models(ranks):
        return None
    name = tracked.loss_of(ranks)
    if name is None:
        return None
    series = {rank.rank: evidence.series(group.run_id, rank.rank, name) for rank in ranks}
    newest = {number: (points.steps[-60:], points.values[-60:]) for number, points in series.items()}
    if _are_alike(newest):
        return None
    losses = {number: dict(zip(steps, values, strict=True)) for number, (steps, values) in newest.items()}
    if not losses.get(0):
        return None
    for number, values in losses.items():
        if math.isfinite(sum(values.values())):
            continue
        steps = sorted(step for step in values.keys() & losses[0].keys())[-LOSS_STEPS:]
        lost = [step for step in steps[-NAN_STEPS_MIN:] if not math.isfinite(values[step]) and math.isfinite(losses[0][step])]
        if number and len(lost) >= NAN_STEPS_MIN:
            return Suspicion(_nan_finding(group, name, number, lost, losses[0][lost[-1]]))
    return _deviates(group, name, losses)


C11 = Rule(
    id="C11",
    order=1702,
    family="ddp",
    title="Rank 0's loss hides that of another rank",
    severities=("error", "info"),
    confidences=("certain", "possible"),
    needs=("journal: loss of each rank",),
    every_s=SELDOM_S,
    threshold=(
        f"not finite at {NAN_STEPS_MIN} steps where rank 0's loss is finite; or {LOSS_DEVIATION:.0f} standard deviations "
        f"off over {LOSS_STEPS} steps (possible)"
    ),
    hides=("J01",),
    hides_if=lambda finding: finding.severity == "error",
    hides_when="a loss is not finite",
    mechanism=("Scripts usually log the loss of one rank. NaN on another rank spoils the averaged gradients for all."),
    signature="A rank's loss is not finite, or far from the others, while rank 0's loss looks normal.",
    look_alike="Steps that a gradient scaler skips on all ranks; ranks with different kinds of data on purpose.",
    fix="Log the mean over the ranks (all_reduce), and check for finite losses on every rank.",
    judge=hidden_losses,
)


_REDUCE = """\
mean = loss.detach().clone()
dist.all_reduce(mean, op=dist.ReduceOp.AVG)  # print and plot this; with gloo: SUM, divided by the world size"""


def _nan_finding(group: RankGroup, name: str, number: int, steps: Sequence[int], shown: float) -> Finding:
    return tracked.about(
        group,
        "C11",
        "error",
        "certain",
        f"The loss of rank {number} is not finite, and rank 0 does not show it",
        [
            Fact(
                f"rank {number}: NaN or infinite at steps {units.ranges(steps, form=units.count)}",
                list(steps),
                f"journal: {name}",
            ),
            Fact(f"rank 0 at step {units.count(steps[-1])}: {shown:.4g}", shown, f"journal: {name}"),
        ],
        "The script logs the loss of one rank. The gradients of another rank spoil the average for all.",
        f"{_REDUCE}\nassert torch.isfinite(loss), batch  # on every rank, to find the sample",
        "All ranks skip the steps with NaN on purpose (a gradient scaler).",
        pids=[rank.pid for rank in tracked.ranks_of(group) if rank.rank == number and rank.pid is not None],
    )


def _deviates(group: RankGroup, name: str, losses: dict[int, dict[int, float]]) -> Judgement:
    common = set.intersection(*(set(values) for values in losses.values()))
    if not all(math.isfinite(sum(values.values())) for values in losses.values()):
        common = {step for step in common if all(math.isfinite(values[step]) for values in losses.values())}
    steps = sorted(common)[-LOSS_STEPS:]
    if len(steps) < LOSS_STEPS:
        return None
    far = _far({number: [values[step] for step in steps] for number, values in losses.items()})
    for number, values in losses.items():
        if number not in far:
            continue
        others = [other for rank, other in losses.items() if rank != number]
        if number == 0 or not others:
            continue
        gap = units.mean([values[step] - units.mean([other[step] for other in others]) for step in steps])
        usual = [other[step] for other in others for step in steps]
        spread = windows.spread(usual)
        if spread > 0 and abs(gap) > LOSS_DEVIATION * spread:
            finding = tracked.about(
                group,
                "C11",
                "info",
                "possible",
                f"The loss of rank {number} is far from the other ranks' losses",
                [
                    Fact(
                        f"rank {number} lies {gap:+.3g} from the mean of the others over {units.count(len(steps))} steps, "
                        f"{abs(gap) / spread:.1f} of their standard deviations",
                        gap,
                        f"journal: {name}",
                    )
                ],
                "Its data or its weights differ from those of the other ranks. Scripts usually log only rank 0.",
                _REDUCE,
                "The ranks get different kinds of data on purpose.",
                pids=[rank.pid for rank in tracked.ranks_of(group) if rank.rank == number and rank.pid is not None],
            )
            return Suspicion(finding)
    return None


def _are_alike(newest: Mapping[int, tuple[Sequence[int], Sequence[float]]]) -> bool:
    """Return whether the losses are finite, from the same steps, and none far from the others, as in most runs."""
    first, _ = next(iter(newest.values()))
    if len(first) < LOSS_STEPS or first[-1] - first[0] != len(first) - 1 or list(first) != sorted(set(first)):
        return False
    if any(steps != first or not math.isfinite(sum(values)) for steps, values in newest.values()):
        return False
    return not _far({number: values[-LOSS_STEPS:] for number, (_, values) in newest.items()})


def _far(columns: Mapping[int, Sequence[float]]) -> list[int]:
    """Return the ranks whose loss may be far from the others', by per-rank sums. In most runs the sums rule out all ranks."""
    size = len(next(iter(columns.values())))
    means = {rank: units.mean(values) for rank, values in columns.items()}
    squares = {rank: windows.squares(values, means[rank]) for rank, values in columns.items()}
    far = []
    for rank, mean in means.items():
        others = [other for other in means if other != rank]
        middle = units.mean([means[other] for other in others]) if others else 0.0
        between = windows.squares((means[other] for other in others), middle)
        variance = (sum(squares[other] for other in others) + size * between) / max(1, size * len(others))
        # These sums round in another order than the exact check, so half of the threshold is used to miss nothing.
        if abs(mean - middle) > LOSS_DEVIATION / 2 * math.sqrt(variance) or variance <= 0:
            far.append(rank)
    return far
