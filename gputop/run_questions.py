"""A screen's questions to the sampler about runs that are not in the stream, and the answers: separate lines in the stream.

The stream carries live runs and the newest ended ones. ``RunsQuestion`` without ids asks for a list of all runs on the disk;
with ids, for all that is known of these runs, with facts and points. ``GpusQuestion`` asks for the readings of their GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

from gputop.snapshot import Points, Run
from gputop.wire import AnswerLine


@dataclass(frozen=True, slots=True)
class RunsQuestion:
    """A screen's question about stored runs: a summary of all, or everything about those in ``run_ids``."""

    run_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunsAnswer(AnswerLine):
    """The sampler's answer. In a list, runs carry neither facts nor points, and only means of the ranks' values."""

    KEY = "runs_answer"
    COMPACT = True

    question: RunsQuestion
    runs: tuple[Run, ...] = ()
    points: tuple[Points, ...] = ()
    problem: str | None = None
    """Why nothing could be read, if the failure was unexpected."""


@dataclass(frozen=True, slots=True)
class GpusQuestion:
    """A screen's question about the readings of these runs' GPUs during the training."""

    run_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuPast:
    """What one GPU did during a run: columns of equal length, by time (wall clock, seconds). Unknown values are None."""

    run_id: str
    uuid: str
    index: int | None = None
    times: tuple[float, ...] = ()
    utilization_percent: tuple[float | None, ...] = ()
    memory_used_bytes: tuple[int | None, ...] = ()
    power_w: tuple[float | None, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether all columns have the same length."""
        return len(self.times) == len(self.utilization_percent) == len(self.memory_used_bytes) == len(self.power_w)


@dataclass(frozen=True, slots=True)
class GpusAnswer(AnswerLine):
    """The sampler's answer, without GPUs for which there are no readings."""

    KEY = "gpus_answer"
    COMPACT = True

    question: GpusQuestion
    gpus: tuple[GpuPast, ...] = ()
