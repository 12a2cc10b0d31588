"""A run in which no label counts: its loss is the mean of nothing, and its gradients are 0 (part of J03)."""

from __future__ import annotations

import math

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.history.points import PointSeries
from gputop.snapshot import Rank, loss_metric

NORMS_MIN = 8
"""At least this many gradient norms were logged, and all of them are exactly 0 (our choice)."""


def counts_nothing(evidence: Evidence, group: RankGroup) -> Judgement:
    """J03: every norm of the gradients has been 0, and every loss 0 or NaN."""
    for rank in logged.ranks_of(group):
        norms, loss = _norms(evidence, group, rank), loss_metric(rank.metrics)
        if norms is None or loss is None:
            continue
        name, series = norms
        where = f"{logged.source(group)}: {name}, {loss}"
        finding = tracked.about(
            group,
            "J03",
            "error",
            "likely",
            f"No label counts: the gradients have been 0 in each of {units.count(len(series))} reports",
            [
                Fact(f"{name} has been exactly 0 since step {units.count(series.steps[0])}", 0.0, where),
                Fact(f"{loss} is {units.metric(rank.metrics[loss])}: the mean of no values", rank.metrics[loss], where),
            ],
            "Every label is ignored (-100). The text that marks where the answers begin is not in the samples, or its tokens "
            "are others in context; samples are cut off before their answers; or all labels are padding.",
            "batch = next(iter(trainer.get_train_dataloader()))\n"
            'print((batch["labels"] != -100).sum(1))  # 0: nothing of this sample is learned\n'
            'print(tokenizer.decode(batch["input_ids"][0]))  # does it hold the response template, as it is given?',
            "The model is frozen on purpose, as for a measurement.",
        )
        return Suspicion(finding, 5.0)
    return None


def is_mean_of_nothing(evidence: Evidence, group: RankGroup, rank: Rank) -> bool:
    """Return whether a loss that is NaN may be the mean of no values, rather than spoiled: the gradients are 0, not NaN."""
    return _norms(evidence, group, rank) is not None


def _norms(evidence: Evidence, group: RankGroup, rank: Rank) -> tuple[str, PointSeries] | None:
    run, loss = logged.run_id(group), loss_metric(rank.metrics)
    name = next((item for item in sorted(rank.metrics) if "grad" in item.lower() and "norm" in item.lower()), None)
    if name is None or loss is None:
        return None
    norms, losses = evidence.series(run, rank.rank, name), evidence.series(run, rank.rank, loss)
    nothing = all(value == 0 or math.isnan(value) for value in losses.values)
    return (name, norms) if len(norms) >= NORMS_MIN and not any(norms.values) and nothing else None
