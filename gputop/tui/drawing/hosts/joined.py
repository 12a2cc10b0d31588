"""Runs over several hosts in words and lines: where their ranks are, their joint loss, and what is wrong. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gputop import units
from gputop.doctor.findings.finding import Finding
from gputop.joined.launches import JoinedLaunch
from gputop.joined.rendezvous import Rendezvous, rendezvous_text
from gputop.joined.runs import JoinedRun, Part
from gputop.joined.troubles import launch_troubles, troubles, untracked_troubles
from gputop.joined.untracked import JoinedProcessRun
from gputop.tui.drawing import run_numbers
from gputop.tui.drawing.line import Line, Span, clean, clip, joined, line
from gputop.tui.state.fleet import FleetView, HostView

PLACES_MOST = 16
"""Maximum number of hosts that a line names."""


def of_host(fleet: FleetView, host: str) -> tuple[JoinedRun, ...]:
    """Return the runs over several hosts that have ranks on this one."""
    return tuple(run for run in fleet.runs if any(part.host == host for part in run.parts))


def untracked_of_host(fleet: FleetView, host: str) -> tuple[JoinedProcessRun, ...]:
    """Return the untracked runs over several hosts that have ranks on this one."""
    return tuple(run for run in fleet.untracked if any(part.host == host for part in run.parts))


def launches_of_host(fleet: FleetView, host: str) -> tuple[JoinedLaunch, ...]:
    """Return the launches that wait for a host, if this one has a job of them."""
    return tuple(launch for launch in fleet.launches if host in launch.hosts)


def rendezvous_of_host(fleet: FleetView, host: str) -> tuple[Rendezvous, ...]:
    """Return the torchruns that wait for other nodes, if one of them waits on this host."""
    return tuple(one for one in fleet.rendezvous if host in one.hosts)


def own_findings(fleet: FleetView, host: HostView) -> tuple[Finding, ...]:
    """Return what a host's doctor found, without the launchers that wait: ``fleet.rendezvous`` says more about them."""
    findings = host.view.findings if host.view is not None else ()
    there = rendezvous_of_host(fleet, host.status.host)
    return tuple(item for item in findings if not any(one.tells_of(host.status.host, item.pids) for one in there))


def found_in(fleet: FleetView, run: JoinedRun | JoinedProcessRun) -> tuple[Finding, ...]:
    """Return the doctor's findings about a run over its hosts; for an untracked run, about the traffic between them."""
    name = run.run.run_id if isinstance(run, JoinedRun) else run.exchange_id
    return tuple(finding for finding in fleet.findings if finding.run == name)


def silent_hosts(fleet: FleetView) -> tuple[str, ...]:
    """Return the hosts without a reading so far."""
    return tuple(host.status.host for host in fleet.hosts if host.view is None)


def run_lines(run: JoinedRun, silent: Sequence[str], width: int) -> tuple[Line, ...]:
    """Return the summary of a run over its hosts: ranks, step and loss; where its ranks are; what is wrong."""
    name = run_numbers.loss_name(run.run)
    loss = run_numbers.latest(run.run, name) if name is not None else None
    hosts, slow = len(run.parts), run.slowest
    parts = [
        line(("Run ", "dim"), (clean(run.run.name), "title"), (f" over {hosts} host{'s' * (hosts != 1)}", "dim")),
        line((f"{len(run.run.ranks)} of {run.run.world_size or len(run.run.ranks)} ranks", "text")),
        line((f"step {units.count(run.run.step)}", "text")) if run.run.step is not None else (),
        line((f"{clean(name or '')} ", "dim"), (units.metric(loss, 3), "value")) if loss is not None else (),
        line(("slowest ", "dim"), (clean(slow.host), "text"), (f" by {slow.share * 100:.0f}%", "dim")) if slow else (),
    ]
    return _lines(parts, run.parts, troubles(run, silent), width)


def untracked_lines(run: JoinedProcessRun, silent: Sequence[str], width: int) -> tuple[Line, ...]:
    """Return the summary of an untracked run over its hosts, like ``run_lines``; its step and its loss are not known."""
    parts = [
        line(("Run ", "dim"), (clean(run.name), "title"), (f" over {len(run.parts)} hosts", "dim")),
        line((f"{sum(len(part.ranks) for part in run.parts)} of {run.world_size} ranks", "text")),
        line(("not tracked", "dim")),
        line(("meets at ", "dim"), (clean(run.meets_at), "text")),
    ]
    return _lines(parts, run.parts, untracked_troubles(run, silent), width)


def launch_lines(launch: JoinedLaunch, silent: Sequence[str], width: int) -> tuple[Line, ...]:
    """Return the summary of a launch that waits for a host, and what is wrong."""
    parts = [
        line(("Launch ", "dim"), (clean(launch.name), "title"), (f" over {len(launch.hosts) + launch.unheard} hosts", "dim")),
        line(("no step yet", "text")),
        line(("l shows its output, and stops it", "dim")),
    ]
    summary = clip(joined(parts, Span(" · ", "dim")), width)
    return (summary, *_wrong(launch_troubles(launch, silent), width))


def rendezvous_lines(one: Rendezvous, silent: Sequence[str], width: int) -> tuple[Line, ...]:
    """Return the summary of torchruns that wait for other nodes, and what is wrong."""
    parts = [
        line(("Run ", "dim"), (clean(one.name), "title"), (f" over {one.nodes} nodes", "dim")),
        line(("no rank yet", "text")),
        line(("not tracked", "dim")),
        line(("meets at ", "dim"), (clean(one.meets_at), "text")),
    ]
    summary = clip(joined(parts, Span(" · ", "dim")), width)
    return (summary, *_wrong((rendezvous_text(one, silent),), width))


def _lines(summary: Sequence[Line], parts: Sequence[Part], wrong: Sequence[str], width: int) -> tuple[Line, ...]:
    places = [_place(part) for part in parts[:PLACES_MOST]]
    more = line((f"and {len(parts) - PLACES_MOST} more", "dim")) if len(parts) > PLACES_MOST else ()
    return (
        clip(joined(summary, Span(" · ", "dim")), width),
        clip(joined((line("  "), *places, more), Span("  ")), width),
        *_wrong(wrong, width),
    )


def _wrong(texts: Sequence[str], width: int) -> tuple[Line, ...]:
    return tuple(clip(line(("  ! ", "warn"), (clean(text), "warn")), width) for text in texts)


def _place(part: Part) -> Line:
    gpus = sorted({index for indices in part.devices.values() for index in indices})
    on = f" GPU {units.ranges(gpus, compact=True)}" if gpus else ""
    ranks = units.ranges(part.ranks, compact=True)
    style = "text" if part.current else "bad"
    return line((clean(part.host), style), (f" r{ranks}", "owner"), (on, "dim"))
