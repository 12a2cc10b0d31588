"""The GPUs and ranks that a finding is about, drawn as in the other panes. Pure."""

from __future__ import annotations

from dataclasses import replace

from gputop.doctor.findings.finding import Finding
from gputop.tui.drawing import run_numbers
from gputop.tui.drawing.gpus.pane import draw_gpus
from gputop.tui.drawing.line import Drawing, Line, Span
from gputop.tui.drawing.prose import BLANK
from gputop.tui.drawing.ranks import draw_ranks
from gputop.tui.state.view import View

MAX_DEVICES = 8
"""Maximum number of rows; further GPUs are only counted."""


def draw_involved(finding: Finding, view: View, width: int, height: int) -> Drawing:
    """Return the rows of a finding's GPUs and ranks, with its processes marked; at most ``height`` lines."""
    lines: list[Line] = []
    devices = [device for device in view.snapshot.devices if device.uuid in finding.devices]
    if devices:
        shown = devices[:MAX_DEVICES]
        part = replace(view, snapshot=replace(view.snapshot, devices=tuple(shown)), findings=(finding,))
        drawn = draw_gpus(replace(part, settings=replace(view.settings, density="compact")), width, len(shown))
        lines += drawn.lines[: len(shown)]
        if len(devices) > len(shown):
            lines.append((Span(f"   and {len(devices) - len(shown)} more GPUs", "dim"),))
    run = next((run for run in view.snapshot.runs if run.run_id == finding.run), None)
    if run is not None and run.ranks:
        if lines:
            lines.append(BLANK)
        ascii_only = view.settings.ascii
        loss = run_numbers.loss_name(run) or ""
        lines += draw_ranks(run, view.snapshot, width, metric=loss, marked=finding.pids, ascii_only=ascii_only)
    return Drawing((Span("GPUs and ranks involved", "title"),), tuple(lines[:height]))
