"""Untracked runs that have ended, in the training pane: when, how as far as it is known, and where their output is. Pure."""

from __future__ import annotations

from gputop import units
from gputop.snapshot import ProcessRun
from gputop.tui.drawing.line import Drawing, Line, Span, clean, clip, joined, line, wrap
from gputop.tui.drawing.untracked.pane import NAMED, age, gpus_text, how_it_ended, how_to_track_it, ranks_text
from gputop.tui.state.view import View

_GAP = Span("  ")


def draw_ended_runs(view: View, width: int, height: int) -> Drawing:
    """Return the training pane while no run is alive, and the newest that ended has no curve."""
    first, *others = view.snapshot.ended_runs
    now = view.snapshot.time
    devices = {device.uuid: device for device in view.snapshot.devices}
    parts = [line((clean(first.name), "value")), line((ranks_text(first), "text")), age(first, now)]
    parts.append(line((clean(first.user or units.UNKNOWN), "dim")))
    lines: list[Line] = [joined(parts, _GAP)]
    lines.append(joined([line((gpus_text(first, devices), "text")), how_it_ended(first)], _GAP))
    lines = [clip(part, width) for part in lines]
    lines += [*wrap(_where(first), width, "text"), *how_to_track_it(first, width)]
    if others:
        lines.append(())
        lines += [clip(_in_a_line(run, now), width) for run in others]
    title = line(("Training", "title"), (" · ", "dim"), (f"{len(view.snapshot.ended_runs)} ended", "warn"))
    return Drawing(title, tuple(lines[: max(1, height)]))


def _where(run: ProcessRun) -> str:
    files = [clean(path) for path in run.outputs]
    if not files:
        return "No file with its output or its loss is known."
    return f"It printed to {', '.join(files[:NAMED])}{' …' if len(files) > NAMED else ''}."


def _in_a_line(run: ProcessRun, now: float) -> Line:
    return joined([line((clean(run.name), "text")), line((ranks_text(run), "dim")), age(run, now), how_it_ended(run)], _GAP)
