"""The numbers of one run in two lines, and a note for a screen that has nothing to draw. Pure."""

from __future__ import annotations

from gputop import units
from gputop.snapshot import ENDED_STATES, Run
from gputop.tui.drawing import run_numbers
from gputop.tui.drawing.line import Line, Span, clean
from gputop.tui.drawing.line import width as line_width
from gputop.tui.drawing.prose import wrapped
from gputop.tui.state.view import View


def summary_lines(run: Run, view: View, width: int) -> list[Line]:
    """Return two lines: progress, time, pace, and the newest values; for a silent run, how long it has been silent."""
    step, total = run.step, run_numbers.total_steps(run)
    loss = run_numbers.loss_name(run) or "loss"
    since = run_numbers.not_finite_since(run, view.history)
    parts = [("step", _steps(step, total))]
    if step is not None and total:
        parts.append(("done", units.percent(100 * step / total)))
    silent = run_numbers.silent_s(run, view.history, view.snapshot.time)
    left = run_numbers.seconds_left(run, view.history)
    if left is not None and silent is None:
        parts.append(("left", units.duration(left)))
    if run.created_at is not None and run.state != "unheard":  # it may have ended
        parts.append(
            (
                "took" if run.state in ENDED_STATES else "so far",
                units.duration(max(0.0, (run.ended_at or view.snapshot.time) - run.created_at)),
            )
        )
    pace = run_numbers.pace(run, view.history)
    if silent is not None:
        parts.append(("nothing logged for", units.duration(silent)))
    elif stopped := run_numbers.silent_ranks(run, view.history):
        parts.append((f"nothing from rank {units.ranges(stopped)} for", units.duration(min(stopped.values()))))
    elif pace is not None:
        parts.append((pace[0], units.rounded(pace[1])))
    for name in ("training", "epoch", "lr", loss):
        value = run_numbers.latest(run, name)
        if value is not None:
            lost = f" since step {units.count(since)}" if name == loss and since is not None else ""
            parts.append((name, units.metric(value) + lost))
    rows: list[Line] = [(Span(" "),)]
    for name, text in parts:
        shown = (Span(f"{name} ", "dim"), Span(text, "bad" if name == loss and since is not None else "value"), Span("   "))
        if len(rows) == 1 and line_width(rows[0]) + line_width(shown) > width:
            rows.append((Span(" "),))
        rows[-1] = (*rows[-1], *shown)
    if len(rows) == 1:
        rows.append((Span(f" {clean(' '.join(run.command))}" if run.command else "", "dim"),))
    return rows


def _steps(step: int | None, total: int | None) -> str:
    """Return "1 240/5 000", or how many steps there will be before the first is known; "N/A" if that is unknown too."""
    if step is None:
        return f"none of {units.count(total)} yet" if total else units.UNKNOWN
    return units.count(step) + (f"/{units.count(total)}" if total else "")


def no_metric_lines(run: Run, width: int) -> tuple[Line, ...]:
    """Return how to log a metric, for a run without one."""
    text = "No metric yet. " + (
        "The run is starting; the first values come with its first steps."
        if run.state == "starting"
        else "A script logs one with gputop.log(loss=loss); gputop run -- … finds the loss by itself."
    )
    return wrapped(text, max(20, width), "dim")
