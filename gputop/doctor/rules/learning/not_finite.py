"""A loss that is no longer a finite number (J01)."""

from __future__ import annotations

import math
import statistics
from typing import NamedTuple

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Confidence, Fact
from gputop.doctor.rules.learning.evaluating.evaluations import is_a_training_error, words_of
from gputop.doctor.rules.learning.nothing_counts import is_mean_of_nothing
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion
from gputop.history.points import PointSeries
from gputop.losses import LOSS_METRICS
from gputop.snapshot import Rank, is_training_loss, loss_metric, names_a_loss

VALUES_MIN = 3
"""A gradient scaler skips one or two steps after an overflow; after three in a row, the weights are lost (our choice)."""
ZEROS_MIN, SUDDEN = 5, 0.3
"""This many losses are exactly 0, and the one before them was at least this share of the first: a loss that is learned to 0
comes closer before it is rounded to that (our choice)."""
CLIPPED, CLIPPED_WITHIN = 87.33654, 1e-4
"""Caffe's softmax loss takes -log(max(p, FLT_MIN)) of each sample, so that NaN and infinite scores, whose p is 0, give this
number and no NaN. As a mean to all printed digits, it is that of every sample."""
CLIPPED_MIN = 2
"""In this many iterations: the first one may have weights that are far too large, and recover (our choice)."""
PARTS_MIN, PART_FROM_STEP = 2, 1000
"""One of several losses is infinite in the newest report, which is late: before the first update, some print infinity for a
loss that is not known yet (our choice)."""
_SKIPS_SAMPLES = frozenset(("ctc", "rnnt", "transducer"))
"""Losses that are infinite for a sample whose label is longer than its input; such a batch is skipped."""
HOLD_S = 10.0
"""A live run may print the next report meanwhile."""
_FIX = (
    "# stop the run, and continue from a checkpoint written before that step\n"
    "torch.autograd.set_detect_anomaly(True)  # in a short run: shows the operation\n"
    "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # before optimizer.step(); or a lower learning rate\n"
    "assert torch.isfinite(loss), batch  # to find the sample"
)
_FIX_CAFFE = (
    "# stop the run, and continue from a snapshot written before that iteration, with this in solver.prototxt:\n"
    "base_lr: 0.001  # ten times lower\n"
    "clip_gradients: 10\n"
    "# and smaller initial weights; labels from 0 to num_output - 1"
)
_USUAL_OF = 50
"""The median of this many values before the loss became NaN is the usual value."""


class _Lost(NamedTuple):
    """A rank whose newest losses are not finite: since which step, and its last finite loss (step, value), if known.

    ``replaced``: the losses themselves are printed as 0; the metric is the gradient norm, if there is one. ``clipped``: they
    are what Caffe makes of NaN. ``alone``: only this one of several losses is infinite.
    """

    rank: Rank
    metric: str
    since: int
    before: tuple[int, float] | None
    replaced: bool = False
    clipped: bool = False
    alone: bool = False


def loss_not_finite(evidence: Evidence, group: RankGroup) -> Judgement:
    """J01: the newest training losses of a rank are NaN or infinite."""
    ranks = logged.ranks_of(group)
    if not any(map(_may_be_lost, ranks)):
        return None  # at once: this rule judges every snapshot
    lost = [item for rank in ranks if (item := _lost(evidence, group, rank) or _lost_part(evidence, group, rank)) is not None]
    lost = [item for item in lost if not is_mean_of_nothing(evidence, group, item.rank)]
    if not lost:
        return None
    first = min(lost, key=lambda item: (item.since, item.rank.rank))
    numbers = [item.rank.rank for item in lost]
    whose = "" if len(lost) == len(ranks) else f" of {tracked.who(numbers, tracked.world(group))}"
    since = f"since {logged.place(evidence, group, first.rank, first.since)}{'' if first.before is not None else ' or earlier'}"
    by_gradients = first.replaced and _is_gradient_norm(first.metric)
    what = f"The loss{whose} is NaN or infinite"
    if first.replaced:
        known = f"The gradients{whose} are NaN, and the loss is shown as 0,"
        what = known if by_gradients else f"The loss{whose} is exactly 0, as the Trainer shows NaN,"
    if first.clipped:
        what = f"The loss{whose} is {units.metric(CLIPPED)}, which is what Caffe makes of NaN,"
    if first.alone:
        what = f"{first.metric}{whose} is infinite"
    finding = tracked.about(
        group,
        "J01",
        "error",
        _confidence(first),
        f"{what} {since}",
        _facts(evidence, group, first, len(ranks) > 1),
        "A step with a NaN or infinite gradient spoils the weights, and every later loss with them. The run no longer "
        "learns. Usual causes: a learning rate that is too high, float16 without a gradient scaler, log of 0 or division "
        "by 0, a damaged sample.",
        _FIX_CAFFE if first.clipped else _FIX,
        "It was infinite in a single batch, and is finite in the next report."
        if first.alone
        else "The metric is undefined here, like a mean over no samples, and the training loss is finite.",
        pids=[item.rank.pid for item in lost if item.rank.pid is not None] or None,
    )
    return Suspicion(finding, HOLD_S if first.alone else 0.0)


J01 = Rule(
    id="J01",
    order=1704,
    family="learning",
    title="The loss is NaN or infinite",
    from_printed=True,
    texts=("nan_loss",),
    severities=("error",),
    confidences=("certain", "likely", "possible"),
    needs=("journal: loss of each rank, else its files or output",),
    every_s=EVERY_SNAPSHOT,
    threshold=(
        f"the newest {VALUES_MIN} training losses of a rank are NaN or infinite; or they are 0, and the gradient norm is NaN "
        f"(likely); or, where Transformers' Trainer reports no such norm, {ZEROS_MIN} are 0, and the one before was at least "
        f"{SUDDEN:.0%} of the first (possible)",
        f"or those of {CLIPPED_MIN} iterations are {CLIPPED:.4f}, -log(FLT_MIN): what Caffe's softmax loss makes of NaN and of "
        "infinity (likely)",
        f"or one of {PARTS_MIN} or more printed losses is infinite in the newest report, after a finite one or from step "
        f"{PART_FROM_STEP:,} on; not one that skips samples, such as CTC (possible)",
    ),
    hides=("J02", "J03"),
    mechanism=(
        "A NaN or infinite gradient turns the weights into NaN in one step; every later loss is NaN, while the GPUs keep "
        "working at full load."
    ),
    signature="The loss is finite up to a step and never after it; the gradient norm often rises before that.",
    look_alike="Single steps that a gradient scaler skips; an undefined metric next to a finite loss.",
    fix="Continue from a checkpoint before that step, with a lower learning rate, clipped gradients, or bfloat16.",
    judge=loss_not_finite,
)


def _may_be_lost(rank: Rank) -> bool:
    loss = rank.metrics.get("loss")
    return loss == 0 or _is_clipped(loss) or not all(map(math.isfinite, rank.metrics.values()))


def _is_clipped(loss: float | None) -> bool:
    return loss is not None and abs(loss - CLIPPED) <= CLIPPED_WITHIN


def _confidence(lost: _Lost) -> Confidence:
    if lost.alone:
        return "possible"
    if lost.clipped:
        return "likely"
    return "certain" if not lost.replaced else "likely" if _is_gradient_norm(lost.metric) else "possible"


def _lost_part(evidence: Evidence, group: RankGroup, rank: Rank) -> _Lost | None:
    """Return which of several losses in the newest report is infinite, of a run whose output is all that is known."""
    names = sorted(name for name in rank.metrics if names_a_loss(name) and is_a_training_error(name))
    if len(names) < PARTS_MIN or not logged.is_printed(group):
        return None
    for name in names:
        series = evidence.series(logged.run_id(group), rank.rank, name)
        since, before = evidence.not_finite_since(logged.run_id(group), rank.rank, name)
        if rank.metrics[name] != math.inf or since is None or not _SKIPS_SAMPLES.isdisjoint(words_of(name)):
            continue
        others = [other for other in names if other != name and math.isfinite(rank.metrics[other])]
        if others and (before is not None or series.steps[-1] >= PART_FROM_STEP):
            return _Lost(rank, name, since, before, alone=True)
    return None


def _lost(evidence: Evidence, group: RankGroup, rank: Rank) -> _Lost | None:
    name = loss_metric(rank.metrics)
    if name is None or not is_training_loss(name):
        return None
    names = [name]
    if not math.isfinite(rank.metrics[name]):  # besides the loss of some batches, a script may print that of each epoch
        names += [other for other in LOSS_METRICS if other in rank.metrics and other != name]
    found = [item for item in (_lost_by(evidence, group, rank, item) for item in names) if item is not None]
    return min(found, key=lambda item: item.since, default=None)


def _lost_by(evidence: Evidence, group: RankGroup, rank: Rank, name: str) -> _Lost | None:
    series = evidence.series(logged.run_id(group), rank.rank, name)
    since, before = evidence.not_finite_since(logged.run_id(group), rank.rank, name)
    if since is not None and _is_lost(series):
        return _Lost(rank, name, since, before)
    if series and all(map(_is_clipped, series.values[-CLIPPED_MIN:])):
        return _clipped(rank, name, series)
    if len(series) < VALUES_MIN or any(series.values[-VALUES_MIN:]):
        return None
    return _lost_behind_zeros(evidence, group, rank) or _falls_to_zero(rank, name, series)


def _clipped(rank: Rank, name: str, series: PointSeries) -> _Lost | None:
    """Return since when a loss is what Caffe makes of NaN, if it is so in several iterations."""
    last = next((at for at in range(len(series) - 1, -1, -1) if not _is_clipped(series.values[at])), None)
    first = 0 if last is None else last + 1
    if len(set(series.steps[first:])) < CLIPPED_MIN:
        return None
    before = None if last is None else (series.steps[last], series.values[last])
    return _Lost(rank, name, series.steps[first], before, clipped=True)


def _lost_behind_zeros(evidence: Evidence, group: RankGroup, rank: Rank) -> _Lost | None:
    """Return where the gradients of a rank whose losses are 0 became NaN.

    Transformers' Trainer leaves NaN out of the mean of losses that it logs (logging_nan_inf_filter): only zeros are left.
    """
    for metric in filter(_is_gradient_norm, sorted(rank.metrics)):
        series = evidence.series(logged.run_id(group), rank.rank, metric)
        since, before = evidence.not_finite_since(logged.run_id(group), rank.rank, metric)
        if since is not None and _is_lost(series) and all(map(math.isnan, series.values[-VALUES_MIN:])):
            return _Lost(rank, metric, since, before, replaced=True)
    return None


def _falls_to_zero(rank: Rank, name: str, series: PointSeries) -> _Lost | None:
    """Return where the loss that an older Trainer of Transformers reports, which has no gradient norm, fell to exactly 0."""
    if "learning_rate" not in rank.metrics or any(map(_is_gradient_norm, rank.metrics)):
        return None
    last = next((at for at in range(len(series) - 1, -1, -1) if series.values[at]), None)
    if last is None or len(series) - last <= ZEROS_MIN or not series.values[last] >= SUDDEN * series.values[0] > 0:
        return None
    return _Lost(rank, name, series.steps[last + 1], (series.steps[last], series.values[last]), replaced=True)


def _is_lost(series: PointSeries) -> bool:
    """Return whether the newest values are not finite, and enough of them."""
    return len(series) >= VALUES_MIN and not any(map(math.isfinite, series.values[-VALUES_MIN:]))


def _facts(evidence: Evidence, group: RankGroup, first: _Lost, several: bool) -> list[Fact]:
    whose = f" of rank {first.rank.rank}" if several else ""
    was = ""
    if first.before is not None:
        was = f", {units.metric(first.before[1])} at {logged.place(evidence, group, first.rank, first.before[0])}"
    where = logged.source(group)
    state = "been exactly 0" if first.replaced and not _is_gradient_norm(first.metric) else "not been finite"
    if first.clipped:
        state = f"been {CLIPPED:.4f}, -log(FLT_MIN),"
    facts = [
        Fact(
            f"{first.metric}{whose} has {state} since {logged.place(evidence, group, first.rank, first.since)}{was}",
            first.since,
            f"{where}: {first.metric}",
        )
    ]
    for metric in sorted(first.rank.metrics):
        if metric == first.metric:
            continue
        series = evidence.series(logged.run_id(group), first.rank.rank, metric)
        if _is_gradient_norm(metric):
            facts += _rise(series, metric, first.since, where) or _long_ago(evidence, group, first, metric)
            at, _ = evidence.not_finite_since(logged.run_id(group), first.rank.rank, metric)
            if at is not None and at < first.since and _is_lost(series):
                # The gradient norm usually goes first: it shows the cause.
                facts.append(Fact(f"{metric} has not been finite since step {units.count(at)}", at, f"{where}: {metric}"))
        elif metric == "lr" or metric.endswith(("/lr", "learning_rate")):
            known = [point for point in series if point.step <= first.since and math.isfinite(point.value)]
            if known:
                text = f"{metric} was {units.metric(known[-1].value)} at step {units.count(known[-1].step)}"
                facts.append(Fact(text, known[-1].value, f"{where}: {metric}"))
            else:
                facts += _long_ago(evidence, group, first, metric)
    return facts


def _long_ago(evidence: Evidence, group: RankGroup, first: _Lost, metric: str) -> list[Fact]:
    """Return about what a metric was before the loss was lost, once the newest values do not reach back that far."""
    found = evidence.about_before(logged.run_id(group), first.rank.rank, metric, first.since)
    if found is None:
        return []
    step, value = found
    text = f"{metric} was about {units.metric(value)} until step {units.count(step)}"
    return [Fact(text, value, f"{logged.source(group)}: {metric}")]


def _is_gradient_norm(metric: str) -> bool:
    return "grad" in metric.lower() and "norm" in metric.lower()


def _rise(series: PointSeries, metric: str, since: int, where: str) -> list[Fact]:
    before = [point for point in series if point.step < since and math.isfinite(point.value)]
    if len(before) < VALUES_MIN:
        return []
    usual = statistics.median(point.value for point in before[-_USUAL_OF:-1])
    last = before[-1]
    text = f"{metric} was {units.metric(last.value)} at step {units.count(last.step)}, usually {units.metric(usual)}"
    return [Fact(text, last.value, f"{where}: {metric}")]
