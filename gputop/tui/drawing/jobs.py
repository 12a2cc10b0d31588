"""The table of launched jobs: the state of each one, or how it ended, and how they compare. Pure.

A job's speed-up is its throughput relative to the single-GPU job with the same model; its efficiency is the speed-up divided by
the number of GPUs. A job's throughput is its run's mean after the warm-up, over all ranks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gputop import units
from gputop.history.history import History
from gputop.snapshot import FAILED_STATES, JobState, Run, Snapshot
from gputop.tui.drawing import run_numbers
from gputop.tui.drawing.line import Line, Span, clean
from gputop.tui.drawing.table import Cells, Column, fitting, heading_line, row_line


class Job(Protocol):
    """What the table needs to know about a job; ``jobs.store.Job`` satisfies it. Drawing must not import jobs."""

    @property
    def id(self) -> str: ...  # noqa: D102 - as in jobs.store.Job
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def state(self) -> JobState: ...  # noqa: D102
    @property
    def recipe_id(self) -> str | None: ...  # noqa: D102
    @property
    def device_uuids(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def values(self) -> Mapping[str, Any]: ...  # noqa: D102
    @property
    def started_at(self) -> float | None: ...  # noqa: D102
    @property
    def ended_at(self) -> float | None: ...  # noqa: D102
    @property
    def exit_code(self) -> int | None: ...  # noqa: D102
    @property
    def signal(self) -> str | None: ...  # noqa: D102
    @property
    def stop_asked(self) -> bool: ...  # noqa: D102
    @property
    def active(self) -> bool: ...  # noqa: D102
    @property
    def problem(self) -> str | None: ...  # noqa: D102
    @property
    def elsewhere(self) -> str: ...  # noqa: D102


STATE_STYLES: Mapping[JobState, str] = {
    "waiting": "dim",
    "starting": "dim",
    "running": "ok",
    "finished": "ok",
    "failed": "bad",
    "stopped": "text",
    "killed": "bad",
    "lost": "bad",
}
COLUMNS = (
    Column("state", "STATE", 10),
    Column("name", "JOB", 20, grows=True),
    Column("gpus", "GPUS", 8, "<", 2),
    Column("time", "TIME", 7, ">", 1),
    Column("exit", "EXIT", 8, ">", 5),
    Column("step", "STEP", 8, ">", 7),
    Column("speed", "SAMPLES/S", 9, ">", 3),
    Column("speed_up", "SPEED-UP", 8, ">", 4),
    Column("efficiency", "EFFICIENCY", 10, ">", 6),
    Column("loss", "LOSS", 8, ">", 0),
    Column("accuracy", "ACCURACY", 8, ">", 4),
    Column("start", "STARTED", 8, ">", 8),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of a job.

    ``speed`` is in samples per second over all ranks; ``speed_up`` is relative to one GPU, and ``efficiency`` is its share of
    the job's GPUs, 0 to 1.
    """

    speed: float | None = None
    speed_up: float | None = None
    efficiency: float | None = None
    loss: float | None = None
    accuracy: float | None = None
    step: int | None = None


def run_of(job: Job, snapshot: Snapshot) -> Run | None:
    """Return the job's run, or None until its script starts to log."""
    return next((run for run in snapshot.runs if job.id in (run.run_id, run.job_id)), None)


def compare(jobs: Sequence[Job], snapshot: Snapshot, history: History) -> dict[str, Comparison]:
    """Return job id -> its results, relative to the newest single-GPU job with the same model."""
    reached: dict[str, Comparison] = {}
    single: dict[str, float] = {}
    for job in sorted(jobs, key=lambda job: job.started_at or 0.0):
        run = run_of(job, snapshot)
        if run is None:
            reached[job.id] = Comparison()
            continue
        speed = run_numbers.mean_speed(run, history)
        reached[job.id] = Comparison(speed, None, None, run_numbers.loss(run), run_numbers.accuracy(run), run.step)
        if speed and len(job.device_uuids) == 1:
            single[_model(job)] = speed
    for job in jobs:
        found, measure = reached[job.id], single.get(_model(job))
        if found.speed and measure and job.device_uuids:
            up = found.speed / measure
            if not math.isfinite(up):
                continue
            reached[job.id] = Comparison(found.speed, up, up / len(job.device_uuids), found.loss, found.accuracy, found.step)
    return reached


def heading(width: int, ascii_only: bool) -> Line:
    """Return the line of column names."""
    return heading_line(fitting(COLUMNS, width), width, ascii_only)


def row(job: Job, found: Comparison, snapshot: Snapshot, width: int, ascii_only: bool) -> Line:
    """Return one job's line."""
    return row_line(fitting(COLUMNS, width), _cells(job, found, snapshot), width, ascii_only)


def state_text(job: Job) -> str:
    """Return the job's state; "stopping" from the stop request until it ends."""
    return "stopping" if job.active and job.stop_asked else job.state


def exit_text(job: Job) -> str:
    """Return how the job ended: "0", "1", "SIGKILL"; a dash while it runs."""
    if job.signal:
        return job.signal
    if job.exit_code is not None:
        return str(job.exit_code)
    return "-"


def device_text(job: Job, snapshot: Snapshot) -> str:
    """Return the indices of the job's devices, and the number of those that the snapshot does not know."""
    indices = {device.uuid: device.index for device in snapshot.devices}
    known = [str(indices[uuid]) for uuid in job.device_uuids if uuid in indices]
    unknown = len(job.device_uuids) - len(known)
    return ",".join(known) + (f"+{unknown}" if unknown and known else f"{unknown}?" if unknown else "")


def log_subtitle(job: Job) -> Line:
    """Return the job's state, or how it ended, for the frame of its log."""
    state = state_text(job)
    style = STATE_STYLES.get(job.state, "text")
    if job.problem:
        return (Span(clean(f"{state}: {job.problem}"), "bad"),)
    if job.active:
        where = f": {clean(job.elsewhere)}" if job.elsewhere else ""
        return (Span(f"{state}{where}", style),)
    how = "stopped on request" if job.state == "stopped" else state  # torchrun reports it with a traceback and exit code 1
    return (Span(f"{how}, exit {exit_text(job)}", style),)


def _model(job: Job) -> str:
    return str(job.values.get("model", ""))


def _cells(job: Job, found: Comparison, snapshot: Snapshot) -> Cells:
    end = job.ended_at if job.ended_at is not None else snapshot.time if job.active else None
    seconds = max(0.0, end - job.started_at) if end is not None and job.started_at is not None else None
    cells: Mapping[str, Span] = {
        "state": Span(state_text(job), STATE_STYLES.get(job.state, "text")),
        "name": Span(clean(_name(job))),
        "gpus": Span(device_text(job, snapshot)),
        "time": Span(units.duration(seconds)),
        "exit": Span(clean(exit_text(job)), "bad" if job.state in FAILED_STATES else "text"),
        "step": known_cell(units.count(found.step), found.step),
        "speed": known_cell(units.rounded(found.speed), found.speed),
        "speed_up": known_cell(f"{found.speed_up or 0.0:.2f}x", found.speed_up),
        "efficiency": known_cell(units.percent(100 * (found.efficiency or 0.0)), found.efficiency),
        "loss": known_cell(units.metric(found.loss, 3), found.loss),
        "accuracy": known_cell(units.metric(found.accuracy, 3), found.accuracy),
        "start": Span(_clock(job.started_at), "dim"),
    }
    return cells


def _name(job: Job) -> str:
    """Return the job's name, followed by its recipe if the name does not show it."""
    recipe = (job.recipe_id or "").removeprefix("faults/")
    return job.name if recipe in job.name else f"{job.name}  {job.recipe_id}"


def known_cell(text: str, value: object) -> Span:
    """Return a table cell with this text, or with "-" if its value is unknown."""
    return Span(text if value is not None else "-", "text" if value is not None else "dim")


def _clock(at: float | None) -> str:
    return units.clock(at)
