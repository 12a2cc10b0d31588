"""What an untracked run is, above its rows: launcher, ranks, age, user, GPUs, and how to track it. Pure."""

from __future__ import annotations

from gputop import units
from gputop.doctor.findings.finding import Finding
from gputop.snapshot import ProcessRun
from gputop.tui.drawing.doctor.pane import brief_finding
from gputop.tui.drawing.line import Line, Span, clean, clip, joined, line
from gputop.tui.drawing.prose import wrapped
from gputop.tui.drawing.untracked.pane import NOT_TRACKED, STARTING, absent, age, gpus_text, how_to_track_it, load
from gputop.tui.state.view import View

_GAP = Span("  ")
GONE = "ended or tracked now"
ENDED = "It has ended, or gputop tracks it now (o lists the runs). These are its last values."
TRACKED = "tracked now"
OPENS = "gputop tracks it now: Enter shows its curve. These are the last values from before."


def name_line(run: ProcessRun, gone: bool, tracked: bool = False) -> Line:
    """Return the run's name and its state."""
    state = TRACKED if tracked else GONE if gone else STARTING if run.starting else NOT_TRACKED
    return line((clean(run.name), "value"), _GAP, (state, "warn"))


def head_lines(run: ProcessRun, view: View, gone: bool, width: int, tracked: bool = False) -> list[Line]:
    """Return who started the run, when and where, its GPUs, its missing parts, and how to track it."""
    devices = {device.uuid: device for device in view.snapshot.devices}
    count, number = len(run.ranks), any(rank.rank is not None for rank in run.ranks)
    what = ("rank" if count == 1 else "ranks") if number else ("process" if count == 1 else "processes")
    size = f" of world size {run.world_size}" if run.world_size is not None else ""
    first = [line((f"{count} {what}{size}", "text"))]
    if run.launcher is not None:
        first.insert(0, line((f"{clean(run.launcher.name)} ", "text"), (f"PID {run.launcher.pid}", "dim")))
    if not gone:
        first.append(age(run, view.snapshot.time))
    first.append(line(("since ", "dim"), (units.clock(run.started_at, "%Y-%m-%d %H:%M"), "text")))
    who = f"{clean(run.user or units.UNKNOWN)} on {clean(view.snapshot.host.hostname)}"
    second = [line((gpus_text(run, devices), "text")), *([] if gone else load(run, devices)), line((who, "text"))]
    second += [line((text, "warn")) for text in absent(run)]
    below = wrapped(OPENS if tracked else ENDED, width, "warn") if gone else how_to_track_it(run, width)
    return [*(clip(joined(parts, _GAP), width) for parts in (first, second)), *below]


def no_curve_lines(run: ProcessRun, width: int) -> tuple[Line, ...]:
    """Return what to show in the place of a chart: how to track the run, and where its processes are shown."""
    opens = wrapped("Enter shows what its processes do.", max(20, width), "dim")
    return (*how_to_track_it(run, max(20, width)), *opens)


def findings_of(run: ProcessRun, view: View) -> list[Finding]:
    """Return what the doctor found in a run or in its processes."""
    pids = {rank.pid for rank in run.ranks} | ({run.launcher.pid} if run.launcher is not None else set())
    return [finding for finding in view.findings if finding.run in run.curve_ids or not pids.isdisjoint(finding.pids)]


def finding_lines(findings: list[Finding], width: int, ascii_only: bool, most: int) -> list[Line]:
    """Return each finding with its evidence and its fix, in at most ``most`` lines each."""
    return [part for finding in findings for part in brief_finding(finding, width, most, ascii_only)]
