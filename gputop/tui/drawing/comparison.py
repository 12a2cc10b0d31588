"""Jobs of one kind on different numbers of GPUs, in one table and one chart. Pure.

All figures come from the runs themselves. Samples per second: mean after the warm-up, over all ranks. Speed-up: relative to one
GPU, at the per-GPU speed of the job on the fewest GPUs. Efficiency: speed-up per GPU. Seconds per epoch: from the first step of
the second epoch to that of the last one, because the first epoch includes the warm-up; with two epochs, the first one is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gputop import units
from gputop.history.history import History
from gputop.history.metrics import MetricSeries
from gputop.snapshot import Snapshot, own_or_automatic
from gputop.tui.drawing import run_numbers
from gputop.tui.drawing.bars import segments
from gputop.tui.drawing.jobs import STATE_STYLES, Job, device_text, known_cell, run_of, state_text
from gputop.tui.drawing.line import Line, Span, clean, clip
from gputop.tui.drawing.table import Cells, Column, fitting, heading_line, row_line

COLUMNS = (
    Column("gpus", "GPUS", 4, ">", 0),
    Column("batch", "BATCH", 7, ">", 3),
    Column("lr", "LR", 8, ">", 6),
    Column("speed", "SAMPLES/S", 9, ">", 0),
    Column("speed_up", "SPEED-UP", 8, ">", 1),
    Column("efficiency", "EFFICIENCY", 10, ">", 2),
    Column("epoch_s", "S/EPOCH", 8, ">", 4),
    Column("loss", "LOSS", 8, ">", 0),
    Column("accuracy", "ACCURACY", 8, ">", 3),
    Column("on", "ON", 8, "<", 7),
    Column("state", "STATE", 9, "<", 5),
    Column("name", "JOB", 10, "<", 8, grows=True),
)
_LABEL, _FIGURES = 8, 28
_IGNORED = ("name", "steps", "epochs")
"""Values that may differ between compared jobs."""


@dataclass(frozen=True, slots=True)
class Reached:
    """The results of one job.

    ``speed`` is in samples per second over all ranks; ``speed_up`` is relative to one GPU, and ``efficiency`` is its share of
    ``gpus``, 0 to 1. ``batch`` is the number of samples in a step of all ranks.
    """

    job: Job
    gpus: int
    speed: float | None = None
    speed_up: float | None = None
    efficiency: float | None = None
    epoch_s: float | None = None
    loss: float | None = None
    accuracy: float | None = None
    batch: float | None = None
    lr: float | None = None


def kind_of(job: Job) -> tuple[Any, ...]:
    """Return what comparable jobs have in common: the recipe and its values, except name and length."""
    return (job.recipe_id, tuple(sorted((name, str(value)) for name, value in job.values.items() if name not in _IGNORED)))


def reached_by(jobs: Sequence[Job], like: Job, snapshot: Snapshot, history: History) -> tuple[Reached, ...]:
    """Return the results of the jobs of one kind, the newest job for each number of GPUs, fewest GPUs first."""
    newest: dict[int, Job] = {}
    for job in sorted(jobs, key=lambda job: job.started_at or 0.0):
        if kind_of(job) == kind_of(like) and job.device_uuids:
            newest[len(job.device_uuids)] = job
    found = [_reached(job, count, snapshot, history) for count, job in sorted(newest.items())]
    measured = [item for item in found if item.speed]
    if len(measured) < 2 and all(item.gpus > 1 for item in measured):
        return tuple(found)  # there is nothing that its speed-up could be relative to
    of_one = (measured[0].speed or 0.0) / measured[0].gpus
    return tuple(_relative_to(item, of_one) if of_one else item for item in found)


def _relative_to(item: Reached, speed_of_one: float) -> Reached:
    if not item.speed:
        return item
    up = item.speed / speed_of_one
    if not math.isfinite(up):
        return item
    return Reached(
        item.job,
        item.gpus,
        item.speed,
        up,
        up / item.gpus,
        item.epoch_s,
        item.loss,
        item.accuracy,
        item.batch,
        item.lr,
    )


def _reached(job: Job, count: int, snapshot: Snapshot, history: History) -> Reached:
    run = run_of(job, snapshot)
    if run is None:
        return Reached(job, count)
    return Reached(
        job,
        count,
        run_numbers.mean_speed(run, history),
        None,
        None,
        epoch_seconds(history.metric(run.run_id, own_or_automatic("epoch", history.metrics(run.run_id)))),
        run_numbers.loss(run),
        run_numbers.accuracy(run),
        _batch(run.config, count),
        run_numbers.latest(run, "lr"),
    )


def _batch(config: Mapping[str, Any], gpus: int) -> float | None:
    """Return the samples in one optimizer step over all ranks; None if the configuration does not say."""
    value, scaled = config.get("batch_size"), config.get("scale_batch")
    if not isinstance(value, int) or isinstance(value, bool) or (gpus > 1 and scaled not in ("per-gpu", "global")):
        return None
    accumulated = config.get("accumulate", 1)
    rows = value * (gpus if scaled == "per-gpu" else 1) * (accumulated if isinstance(accumulated, int) else 1)
    return float(rows) if abs(rows) < 2**63 else None  # a configuration may contain any number


def epoch_seconds(ranks: Mapping[int, MetricSeries]) -> float | None:
    """Return the mean seconds per epoch, timed from each epoch's first logged step; None before the second epoch."""
    for series in ranks.values():
        begins: dict[int, float] = {}
        # Above 2**53 a float no longer counts epochs.
        for bucket in (item for item in series.by_time.buckets if item.count and abs(item.high) < 2**53):
            # A bucket with the end of one epoch and the start of the next has no exact time: its end is close enough.
            begins.setdefault(int(bucket.high), bucket.x_first if bucket.low == bucket.high else bucket.x_last)
        known = sorted(begins)
        if len(known) >= 3:
            known = known[1:]
        if len(known) >= 2:
            return (begins[known[-1]] - begins[known[0]]) / (known[-1] - known[0])
    return None


def table(found: Sequence[Reached], snapshot: Snapshot, width: int, ascii_only: bool) -> tuple[Line, ...]:
    """Return the heading and one line per number of GPUs."""
    columns = fitting(COLUMNS, width)
    lines = [heading_line(columns, width, ascii_only)]
    lines += [row_line(columns, _cells(item, snapshot), width, ascii_only) for item in found]
    return tuple(lines)


def _cells(item: Reached, snapshot: Snapshot) -> Cells:
    return {
        "gpus": Span(str(item.gpus), "value"),
        "batch": known_cell(units.count(item.batch), item.batch),
        "lr": known_cell(units.metric(item.lr), item.lr),
        "speed": known_cell(units.rounded(item.speed), item.speed),
        "speed_up": known_cell(f"{item.speed_up or 0.0:.2f}x", item.speed_up),
        "efficiency": known_cell(units.percent(100 * (item.efficiency or 0.0)), item.efficiency),
        "epoch_s": known_cell(f"{item.epoch_s or 0.0:.1f}", item.epoch_s),
        "loss": known_cell(units.metric(item.loss, 3), item.loss),
        "accuracy": known_cell(units.metric(item.accuracy, 3), item.accuracy),
        "on": Span(device_text(item.job, snapshot), "dim"),
        "state": Span(state_text(item.job), STATE_STYLES.get(item.job.state, "text")),
        "name": Span(clean(item.job.name), "dim"),
    }


def chart(found: Sequence[Reached], width: int, ascii_only: bool) -> tuple[Line, ...]:
    """Return one bar per number of GPUs: its speed-up, with a mark at the ideal speed-up, where nothing is lost."""
    known = [item for item in found if item.speed_up is not None]
    if not known:
        measured = any(item.speed for item in found)
        why = "A speed-up needs a second number of GPUs." if measured else "No job has reported its samples per second yet."
        return ((Span(why, "dim"),),)
    most = max(max(item.gpus, item.speed_up or 0.0) for item in known)
    cells = max(10, width - _LABEL - _FIGURES)
    lines: list[Line] = []
    for item in known:
        up = item.speed_up or 0.0
        gpus = f"{item.gpus} GPU{'s' if item.gpus != 1 else ''}".ljust(_LABEL)
        ideal = min(cells - 1, round(item.gpus / most * cells))
        drawn = segments(((up / most, "bar"),), cells, ascii_only)
        text = "".join(span.text for span in drawn)
        fill = len(drawn[0].text) if drawn and drawn[0].style == "bar" else 0
        mark = "|" if ascii_only else "┃"
        marked: Line
        if ideal >= fill:
            marked = (
                Span(text[:fill], "bar"),
                Span(text[fill:ideal], "track"),
                Span(mark, "accent"),
                Span(text[ideal + 1 :], "track"),
            )
        else:
            marked = drawn
        style = "ok" if (item.efficiency or 0.0) >= 0.8 else "warn" if (item.efficiency or 0.0) >= 0.5 else "bad"
        lines.append(
            clip(
                (
                    Span(gpus, "value"),
                    *marked,
                    Span(f"  {up:5.2f}x", "value"),
                    Span(f"  {units.percent(100 * (item.efficiency or 0.0)):>5}", style),
                    Span(f"  {units.rounded(item.speed)}/s", "dim"),
                ),
                width,
            )
        )
    ideal_text = "ideal, if no GPU waited: the speed of one GPU times their number"
    lines += [(), clip((Span("| " if ascii_only else "┃ ", "accent"), Span(ideal_text, "dim")), width)]
    return tuple(lines)
