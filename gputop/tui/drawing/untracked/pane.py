"""Untracked runs in the training pane: what their processes show, and how to track them. Pure."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping, Sequence

from gputop import units
from gputop.process import OUTPUT
from gputop.snapshot import Device, ProcessRun
from gputop.tui.drawing import run_numbers
from gputop.tui.drawing.line import Drawing, Line, Span, clean, clip, joined, line, wrap
from gputop.tui.drawing.loss import LossChart
from gputop.tui.drawing.training import draw_training
from gputop.tui.state.view import View

NOT_TRACKED, STARTING = "not tracked", "starting"
_BY_HAND = ("python", "multiprocessing")
"""Launchers that are not named, because the script starts its ranks itself."""
_GAP = Span("  ")
NAMED = 2
"""Maximum number of a curve's files to name, and of folders of each."""
NAME_CELLS = 24


def draw_process_runs(view: View, width: int, height: int) -> Drawing:
    """Return the training pane while only runs without a journal are alive: the largest in full, the others in a line each."""
    runs = view.snapshot.process_runs
    devices = {device.uuid: device for device in view.snapshot.devices}
    lines, others = _first_lines(view, width), runs[1:]
    shown = _others_shown(runs, len(lines), height)
    if others and height > len(lines) + 1:
        lines.append(())
        lines += [clip(_in_a_line(run, view.snapshot.time, devices), width) for run in shown]
        if len(shown) < len(others):
            lines.append(line((f"{len(others) - len(shown)} more", "dim")))
    return Drawing(_title(runs), tuple(lines[: max(1, height)]))


def _first_lines(view: View, width: int) -> list[Line]:
    first, devices = view.snapshot.process_runs[0], {device.uuid: device for device in view.snapshot.devices}
    return [*(clip(part, width) for part in _in_full(first, view.snapshot.time, devices)), *how_to_track_it(first, width)]


def _others_shown(runs: Sequence[ProcessRun], above: int, height: int) -> Sequence[ProcessRun]:
    others, room = runs[1:], max(0, height - above - 1)
    return others if len(others) <= room else others[: max(0, room - 1)]


def run_at(view: View, width: int, height: int, place: int) -> ProcessRun | None:
    """Return the run that ``draw_process_runs`` draws in the line ``place``; None for a blank line and that of the rest."""
    runs = view.snapshot.process_runs
    above = len(_first_lines(view, width))
    if place < above:
        return runs[0]
    return dict(enumerate(_others_shown(runs, above, height), start=above + 1)).get(place)


def untracked_run(view: View) -> ProcessRun | None:
    """Return what the processes show of the chosen run, if it is untracked and gputop only knows its curve."""
    return run_of_curve(view, view.run_id)


def run_of_curve(view: View, run_id: str | None) -> ProcessRun | None:
    """Return the untracked run whose curve is shown as the run ``run_id``, alive or ended; None if that run is tracked."""
    every = (*view.snapshot.process_runs, *view.snapshot.ended_runs)
    return next((run for run in every if run_id in run.curve_ids), None)


def draw_its_curve(view: View, run: ProcessRun, chart: LossChart, width: int, height: int) -> Drawing:
    """Return the training pane of a run whose curve comes from its files: which files, and what its processes show."""
    devices = {device.uuid: device for device in view.snapshot.devices}
    parts = [line((ranks_text(run), "text")), line((gpus_text(run, devices), "text")), age(run, view.snapshot.time)]
    parts += [line((text, "warn")) for text in absent(run)] if run.ended_at is None else [how_it_ended(run)]
    head = [joined(parts, _GAP), *_how_to_keep_it(view, run)]
    drawing = draw_training(view, chart, width, max(1, height - len(head)))
    step = view.run.step if view.run is not None else None
    title = [line(("Training: ", "title"), (clean(run.name), "title"))]
    if step is not None and view.run is not None:
        counted = "line" if run_numbers.counts_lines(view.run) else "step"
        title.append(line((f"{counted} {units.count(step)}", "text")))
    state = STARTING if run.starting else NOT_TRACKED if run.ended_at is None else f"{NOT_TRACKED}, ended"
    title.append(line((state, "warn"), (f", {_origin(view, run)}", "dim")))
    return drawing._replace(
        title=joined(title, Span(" · ", "dim")),
        lines=(*(clip(part, width) for part in head), *drawing.lines)[: max(1, height)],
    )


def _how_to_keep_it(view: View, run: ProcessRun) -> list[Line]:
    """Return the command that stores the curve of a run that has ended: gputop itself forgets it when it quits."""
    curve = next((curve for curve in run.curves if curve.run_id == view.run_id and curve.files), None)
    if run.ended_at is None or curve is None or view.remote is not None:
        return []
    path = os.path.commonpath(curve.files) if len(curve.files) > 1 else curve.files[0]
    return [line(("keep its curve: ", "dim"), (f"gputop runs import {shlex.quote(clean(path))}", "key"))]


def _origin(view: View, run: ProcessRun) -> str:
    """Return "from TensorBoard, runs/exp1/events.out…", and who else may have written the files."""
    curve = next((curve for curve in run.curves if curve.run_id == view.run_id), None)
    files = curve.files if curve is not None else run.outputs
    is_output = curve is None or curve.source == OUTPUT
    names = list(dict.fromkeys(clean(path.rpartition("/")[2]) if is_output else _short(path) for path in files))
    named = ", ".join(names[:NAMED]) + (" …" if len(names) > NAMED else "")
    if curve is None or is_output:
        return f"from {named}"
    if not files:
        return f"from {curve.source}"
    if not curve.shared:
        return f"from {curve.source}, {named}"
    pids = [other.ranks[0].pid for other in view.snapshot.process_runs if curve.run_id in other.curve_ids]
    whose = " or ".join(map(str, pids)) if len(pids) > 1 else f"{pids[0]} or another"
    return f"perhaps from {curve.source}, {named} (PID {whose})"


def _short(path: str) -> str:
    """Return a path's last folders and its file, which is shortened if it is long."""
    *folders, name = clean(path).split("/")
    return "/".join([*folders[-NAMED:], name if len(name) <= NAME_CELLS else f"{name[: NAME_CELLS - 1]}…"]).lstrip("/")


def how_to_track_it(run: ProcessRun, width: int) -> tuple[Line, ...]:
    """Return why there is no loss, and the command that would record one."""
    if run.starting:
        return tuple(
            wrap("gputop tracks it and has seen no training step yet. The loss comes with the first one.", width, "dim")
        )
    command = tracking_command(run)
    if command is None:
        return tuple(wrap("Not tracked: gputop shows a loss for Python training only.", width, "dim"))
    return (
        *wrap("Not tracked. For its loss, start it the next time with:", width, "dim"),
        clip(line((f"  {clean(command)}", "key")), width),
    )


def tracking_command(run: ProcessRun) -> str | None:
    """Return "gputop run -- torchrun … train.py"; None for a program that is not Python, which has nothing to record."""
    words = run.command
    if not words:
        return "gputop run -- …"
    if words[0] != "-m" and not words[0].endswith(".py"):
        return None
    launcher = run.launcher.name if run.launcher is not None else "python"
    start = "python" if launcher in _BY_HAND else "accelerate launch …" if launcher == "accelerate" else f"{launcher} …"
    script = " ".join(words[:2]) if words[0] == "-m" else words[0].rpartition("/")[2]
    more = " …" if len(words) > (2 if words[0] == "-m" else 1) else ""
    return f"gputop run -- {start} {script}{more}"


def _title(runs: Sequence[ProcessRun]) -> Line:
    parts = [line(("Training", "title"))]
    for word, starting in ((STARTING, True), (NOT_TRACKED, False)):
        count = sum(run.starting is starting for run in runs)
        if count:
            parts.append(line((f"{count} run{'s' * (count != 1)} {word}", "warn")))
    return joined(parts, Span(" · ", "dim"))


def _in_full(run: ProcessRun, now: float, devices: Mapping[str, Device]) -> list[Line]:
    parts = [line((clean(run.name), "value")), line((ranks_text(run), "text"))]
    if run.world_size is not None and run.world_size != len(run.ranks):
        parts.append(line(("world size ", "dim"), (str(run.world_size), "text")))
    parts += [age(run, now), line((clean(run.user or units.UNKNOWN), "dim"))]
    lines = [joined(parts, _GAP), joined([line((gpus_text(run, devices), "text")), *load(run, devices)], _GAP)]
    return lines + [line((text, "warn")) for text in absent(run)]


def _in_a_line(run: ProcessRun, now: float, devices: Mapping[str, Device]) -> Line:
    parts = [line((clean(run.name), "text")), line((ranks_text(run), "dim")), line((gpus_text(run, devices), "text"))]
    parts += [age(run, now), line((clean(run.user or units.UNKNOWN), "dim"))]
    if absent(run):
        parts.append(line((absent(run)[0], "warn")))
    return joined(parts, _GAP)


def ranks_text(run: ProcessRun) -> str:
    """Return "torchrun, 8 ranks", "multiprocessing, 4 processes", "1 process": ranks only if they have numbers."""
    count = len(run.ranks)
    what = "rank" if any(rank.rank is not None for rank in run.ranks) else "process"
    plural = {"rank": "ranks", "process": "processes"}[what] if count != 1 else what
    launched = f"{run.launcher.name}, " if run.launcher is not None else ""
    return f"{launched}{count} {plural}"


def gpus_text(run: ProcessRun, devices: Mapping[str, Device]) -> str:
    """Return "GPU 0-7", "no GPU", or "GPU N/A" if a rank has one and it is not known which."""
    indices = sorted({devices[uuid].index for uuid in run.devices if uuid in devices})
    if not indices and any(rank.devices is None for rank in run.ranks):
        return f"GPU {units.UNKNOWN}"
    return f"GPU {units.ranges(indices)}" if indices else "no GPU"


def absent(run: ProcessRun) -> list[str]:
    """Return which parts of a run are not here: its ranks that are missing, elsewhere, or without a GPU."""
    found = []
    missing, count = run.missing_local_ranks, len(run.missing_local_ranks)
    if missing:
        found.append(f"local rank{'s' * (count > 1)} {units.ranges(missing)} not seen on this machine")
    if run.ranks_elsewhere:
        found.append(f"{run.ranks_elsewhere} rank{'s' * (run.ranks_elsewhere > 1)} on other machines")
    waiting = [rank.rank for rank in run.ranks if rank.rank is not None and rank.devices == ()]
    if run.devices and waiting:
        found.append(f"rank{'s' * (len(waiting) > 1)} {units.ranges(waiting)} without a GPU")
    return found


def age(run: ProcessRun, now: float) -> Line:
    """Return "up 1d02h", or "ended 12s ago, after 1d02h"."""
    until = now if run.ended_at is None else run.ended_at
    took = _rough(until - run.started_at) if run.started_at is not None else units.UNKNOWN
    if run.ended_at is None:
        return line(("up ", "dim"), (took, "text"))
    return line(("ended ", "warn"), (f"{_rough(now - run.ended_at)} ago", "warn"), (", after ", "dim"), (took, "text"))


def _rough(seconds: float) -> str:
    seconds = max(1.0, math.floor(seconds))
    if seconds > 600:
        seconds -= seconds % 60  # what took hours does not need its seconds on screen
    return units.duration(seconds).replace("m00s", "m")


def how_it_ended(run: ProcessRun) -> Line:
    """Return what is known of how a run ended."""
    if run.failed:
        return line(("its output shows that it failed", "bad"))
    return line(("exit code unknown", "dim"))


def load(run: ProcessRun, devices: Mapping[str, Device]) -> list[Line]:
    """Return the utilization of the run's devices: the mean, and the lowest and highest if they differ."""
    known = [
        (devices[uuid].utilization_percent or 0.0, devices[uuid].index)
        for uuid in run.devices
        if uuid in devices and devices[uuid].utilization_percent is not None
    ]
    if not known:
        return []
    low, high = min(known), max(known)
    uneven = units.percent(low[0]) != units.percent(high[0])
    parts = [line(("mean ", "dim"), (units.percent(units.mean([share for share, _ in known])), "value"))]
    if uneven:
        parts.append(line(("lowest ", "dim"), (f"{units.percent(low[0])} (GPU {low[1]})", "text")))
        parts.append(line(("highest ", "dim"), (f"{units.percent(high[0])} (GPU {high[1]})", "text")))
    return parts
