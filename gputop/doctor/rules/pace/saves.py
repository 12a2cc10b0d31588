"""Checkpoints that are written so often that they take much of the time, in every step or at no interval (E07)."""

from __future__ import annotations

import math

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion

SAVES = 40
SAVES_MIN = 8
"""Of the newest checkpoints, these many count, and as many must be known (our choice)."""
SPAN_MIN_S = 6.0
SAVE_MIN_S = 0.02
SAVE_LONG_S = 0.1
"""Shorter saves are those of a toy; from the second on, the finding may be more than possible (our choice)."""
OFTEN_STEPS = 20.0
"""Checkpoints that are further apart are those of an epoch or an evaluation (our choice)."""
SHARE_MIN = 0.25
SURE_SHARE = 0.4
"""From this share of the time, the finding is more than possible, as for evaluations (our choice)."""
SAVE_FIX = """\
if step % 1000 == 0 and rank == 0: torch.save(...)  # or by the clock: every ten minutes
from torch.distributed.checkpoint import async_save  # writes while training continues"""


def saves_too_often(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge E07 by the times of checkpoints that come every few steps, and are no trifle."""
    for rank in tracked.ranks_of(group):
        saved = evidence.series(group.run_id, rank.rank, "checkpoint_s")[-SAVES:]
        if len(saved) < SAVES_MIN:
            continue
        span_s, steps = saved.times[-1] - saved.times[0], saved.steps[-1] - saved.steps[0]
        taken = [value for value in saved.values[1:] if math.isfinite(value)]
        if span_s < SPAN_MIN_S or not 0 < steps <= OFTEN_STEPS * (len(saved) - 1):
            continue
        mean_s = sum(taken) / max(1, len(taken))
        share, every = min(1.0, sum(taken) / span_s), steps / (len(saved) - 1)
        if share < SHARE_MIN or mean_s < SAVE_MIN_S:
            continue
        often = "every step" if every < 1.5 else f"every {units.count(every)} steps"
        finding = tracked.about(
            group,
            "E07",
            "warning",
            "likely" if share >= SURE_SHARE and mean_s >= SAVE_LONG_S else "possible",
            f"Checkpoints take {share:.0%} of the time: one {often}",
            [
                Fact(
                    f"{len(taken)} checkpoints took {units.duration(sum(taken))} of {units.duration(span_s)}",
                    round(share, 3),
                    "journal: checkpoint_s",
                ),
                Fact(
                    f"one {often}, from step {units.count(saved.steps[0])} to {units.count(saved.steps[-1])}",
                    steps,
                    "journal: checkpoint_s",
                ),
            ],
            "The loop waits while each checkpoint is written, and only the newest of them will be used.",
            SAVE_FIX,
            "The training is meant to save that often, or these are small files of something else.",
        )
        return Suspicion(finding, 3.0)
    return None
