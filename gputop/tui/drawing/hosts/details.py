"""The host under the cursor: its link and clock, its verdict, its findings and its run, in the space that is left. Pure."""

from __future__ import annotations

from dataclasses import replace

from gputop import units
from gputop.tui.drawing.doctor.pane import brief_finding, draw_doctor
from gputop.tui.drawing.gpus.verdict import verdict_line
from gputop.tui.drawing.header import device_summary
from gputop.tui.drawing.hosts.joined import (
    found_in,
    launch_lines,
    launches_of_host,
    of_host,
    own_findings,
    rendezvous_lines,
    rendezvous_of_host,
    run_lines,
    silent_hosts,
    untracked_lines,
    untracked_of_host,
)
from gputop.tui.drawing.hosts.network import network_line
from gputop.tui.drawing.hosts.row import missing_gpus
from gputop.tui.drawing.line import Drawing, Line, Span, clean, clip, joined, line, wrap
from gputop.tui.drawing.loss import LossChart
from gputop.tui.drawing.training import draw_training
from gputop.tui.state.fleet import FleetView, HostView

CLOCK_OFF_S = 1.0
"""Smaller clock differences are not shown if their error has no bound: the snapshot's travel time is part of the difference."""
CLOCK_KNOWN_OFF_S = 0.1
"""The same if a bound is known and the difference exceeds it: far below a step of most trainings."""
FINDING_LINES_MOST = 6
FINDING_SHARE = 0.5
"""How many lines, and what share of the pane, the findings may take."""
RUN_LINES_MIN = 2
"""With fewer lines left, the run is not drawn."""


def draw_host(fleet: FleetView | None, name: str | None, chart: LossChart, width: int, height: int) -> Drawing:
    """Return the pane of the host ``name`` in ``width`` cells and ``height`` lines; the findings come before the run."""
    host = next((host for host in fleet.hosts if host.status.host == name), None) if fleet is not None else None
    if fleet is None or host is None:
        return Drawing(line(("Host", "title")), (line(("No host matches the filter.", "dim")),))
    title = line((clean(host.status.host), "title"))
    lines: list[Line] = []
    if host.status.message or host.is_lost:
        lines += wrap(clean(host.status.sentence), width, "bad" if host.is_lost else "warn")
    view = host.view
    if view is None:
        return Drawing(title, tuple(lines or [line(("No reading yet.", "dim"))]))
    view = replace(view, findings=own_findings(fleet, host))
    also = [name for name, first in fleet.twice.items() if first == host.status.host]
    if also:
        are = "names the same machine, and is" if len(also) == 1 else "name the same machine, and are"
        lines += wrap(clean(f"{', '.join(also)} {are} not shown."), width, "dim")
    missing = missing_gpus(host)
    if missing is not None:
        lines += wrap(clean(f"{missing.message} {missing.hint}"), width, "dim")
    lines.append(verdict_line(view, width))
    if view.findings:
        room = min(FINDING_LINES_MOST, max(1, int((height - len(lines)) * FINDING_SHARE)))
        lines += draw_doctor(view, width, room).lines[:room]
    for over in of_host(fleet, host.status.host):
        lines += run_lines(over, silent_hosts(fleet), width)
        for finding in found_in(fleet, over):
            lines += brief_finding(finding, width, FINDING_LINES_MOST, fleet.settings.ascii)
    for untracked in untracked_of_host(fleet, host.status.host):
        lines += untracked_lines(untracked, silent_hosts(fleet), width)
        for finding in found_in(fleet, untracked):
            lines += brief_finding(finding, width, FINDING_LINES_MOST, fleet.settings.ascii)
    for launch in launches_of_host(fleet, host.status.host):
        lines += launch_lines(launch, silent_hosts(fleet), width)
    for one in rendezvous_of_host(fleet, host.status.host):
        lines += rendezvous_lines(one, silent_hosts(fleet), width)
    network = network_line(view.snapshot, width)
    if network is not None and height - len(lines) > RUN_LINES_MIN + 1:
        lines.append(network)
    room = height - len(lines) - 1
    if room >= RUN_LINES_MIN and view.run is not None:
        run = draw_training(view, chart, width, room)
        lines += [clip(run.title, width), *run.lines]
    return Drawing(title, tuple(lines[: max(1, height)]), subtitle=_machine(host))


def _machine(host: HostView) -> Line:
    """Return what the host is, and by how much its clock differs from this machine's."""
    view = host.view
    if view is None:
        return ()
    found, offset = view.snapshot.host, host.status.clock_offset_s
    parts = [line((device_summary(view.snapshot.devices) or "no GPU", "dim"))]
    if found.hostname != host.status.host:
        parts.append(line((clean(found.hostname), "dim")))
    if found.cpu_percent is not None:
        parts.append(line((f"CPU {found.cpu_percent:.0f}%", "dim")))
    error = host.status.clock_error_s
    least_s = CLOCK_OFF_S if error is None else max(error, CLOCK_KNOWN_OFF_S)
    if offset is not None and abs(offset) >= least_s:
        where = "ahead of" if offset > 0 else "behind"
        by = units.duration(abs(offset)) if abs(offset) >= CLOCK_OFF_S else f"{abs(offset) * 1000:.0f} ms"
        within = f" ±{error * 1000:.0f} ms" if error is not None else ""
        parts.append(line((f"its clock is {by} {where} ours{within}", "warn")))
    return joined(parts, Span(" · ", "dim"))
