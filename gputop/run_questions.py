"""A screen's questions to the sampler about runs that are not in the stream, and the answers: separate lines in the stream.

The stream carries live runs and the newest ended ones. ``RunsQuestion`` without ids asks for a list of all runs on the disk;
with ids, for all that is known of these runs, with facts and points. ``GpusQuestion`` asks for the readings of their GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gputop.snapshot import Points, Run
from gputop.stream import packed, point_rows, points_of, unpacked
from gputop.wire import AnswerLine, FormatError, decode, encode


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

    def plain(self) -> Any:
        """Return the answer as values that ``json`` can write."""
        return encode(replace(self, points=()), self.COMPACT) | {"points": point_rows(self.points, encode)}

    @classmethod
    def of_plain(cls, data: Any) -> RunsAnswer:
        """Return the answer in decoded JSON.

        Raises:
            FormatError: it is not such an answer.
        """
        if not isinstance(data, Mapping):
            raise FormatError("not an object")
        points = points_of(data.get("points", ()))
        return replace(decode(RunsAnswer, {**data, "points": ()}), points=points)


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


_COLUMNS = (("times", "d"), ("utilization_percent", "d"), ("memory_used_bytes", "q"), ("power_w", "d"))


@dataclass(frozen=True, slots=True)
class GpusAnswer(AnswerLine):
    """The sampler's answer, without GPUs for which there are no readings."""

    KEY = "gpus_answer"
    COMPACT = True

    question: GpusQuestion
    gpus: tuple[GpuPast, ...] = ()

    def plain(self) -> Any:
        """Return the answer as values that ``json`` can write; whole columns are packed like those of points."""
        rows = []
        for past in self.gpus:
            row = {"run_id": past.run_id, "uuid": past.uuid, "index": past.index}
            rows.append(row | {name: packed(kind, getattr(past, name)) for name, kind in _COLUMNS})
        return encode(replace(self, gpus=()), self.COMPACT) | {"gpus": rows}

    @classmethod
    def of_plain(cls, data: Any) -> GpusAnswer:
        """Return the answer in decoded JSON.

        Raises:
            FormatError: it is not such an answer.
        """
        try:
            rows = [
                {**row, **{name: unpacked(kind, row[name]) for name, kind in _COLUMNS if isinstance(row.get(name), str)}}
                for row in data.get("gpus", ())
            ]
        except (TypeError, ValueError, AttributeError) as error:
            raise FormatError(f"not readings: {error}") from error
        return decode(GpusAnswer, {**data, "gpus": rows})
