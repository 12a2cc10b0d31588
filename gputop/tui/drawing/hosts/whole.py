"""The two lines above the list: how many hosts and GPUs there are, and what is wrong. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gputop import units
from gputop.doctor.findings.finding import Finding
from gputop.joined.rendezvous import rendezvous_text
from gputop.joined.troubles import launch_troubles, troubles, untracked_troubles
from gputop.tui.drawing.hosts.joined import found_in, own_findings, rendezvous_of_host, silent_hosts
from gputop.tui.drawing.hosts.row import HostRow, Level, by_need
from gputop.tui.drawing.line import Line, Span, clean, clip, fit, joined, line, spread
from gputop.tui.state.fleet import FleetView

_DOT = Span(" · ", "dim")
OWN_COST_CELLS_MIN = 100
"""On a narrower screen, what gputop itself takes is left out."""


def header_line(fleet: FleetView | None, rows: Sequence[HostRow], cells: int) -> Line:
    """Return "gputop  12 hosts · 96 GPUs", the badges, the clock and the interval in exactly ``cells`` cells."""
    name = line(" ", ("gputop", "title"))
    if fleet is None:
        return spread((*name, Span("  starting …", "dim")), (), cells)
    count = joined((line((_number(len(fleet.hosts), "host"), "value")), _gpus(fleet, rows), _simulated(fleet)), _DOT)
    own = line(("gputop ", "dim"), (fleet.own_cost.words(), "dim")) if fleet.own_cost is not None else ()
    right = joined(
        (
            own if cells >= OWN_COST_CELLS_MIN else (),
            line(("PAUSED", "accent")) if fleet.paused else (),
            line(units.clock(fleet.time)),
            line((f"{fleet.settings.interval_s:g} s", "dim")),
        ),
        Span("   "),
    )
    return spread((*name, Span("  "), *count), (*right, Span(" ")), cells)


def verdict_line(fleet: FleetView, rows: Sequence[HostRow], cells: int) -> Line:
    """Return how many GPUs work, then what is wrong: links, late hosts, runs, the worst finding. Exactly ``cells`` cells."""
    if not rows:
        return fit((), cells)
    levels = Counter(row.level for row in rows)
    gpus = sum(len(row.gpus) for row in rows)
    working = sum(row.working for row in rows if row.is_current)
    style = "bad" if levels["lost"] or levels["error"] else "warn" if levels["late"] or levels["warning"] else "dim"
    if style == "dim" and levels["fine"] == len(rows):
        style = "ok"
    chip = f" {working} of {_number(gpus, 'GPU')} work " if gpus else f" {_number(len(rows), 'host')} "
    return fit(clip((Span(chip, f"chip {style}"), Span(" "), *joined(_parts(fleet, rows, levels), _DOT)), cells), cells)


def _parts(fleet: FleetView, rows: Sequence[HostRow], levels: Counter[Level]) -> list[Line]:
    parts: list[Line] = []
    lost = [clean(row.host) for row in rows if not row.is_current]
    if lost:
        parts.append(line((f"no link to {lost[0] if len(lost) == 1 else _number(len(lost), 'host')}", "bad")))
    if levels["late"]:
        parts.append(line((f"{_number(levels['late'], 'host')} late", "warn")))
    if levels["connecting"]:
        parts.append(line((f"{_number(levels['connecting'], 'host')} connecting", "dim")))
    silent = silent_hosts(fleet)
    problems = [
        f"run {clean(run.run.name)}: {text}"
        for run in fleet.runs
        for text in (*map(clean, troubles(run, silent)), *(clean(finding.title) for finding in found_in(fleet, run)))
    ]
    problems += [
        f"run {clean(run.name)}: {clean(text)}"
        for run in fleet.untracked
        for text in (*untracked_troubles(run, silent), *(finding.title for finding in found_in(fleet, run)))
    ]
    problems += [
        f"launch {clean(launch.name)}: {clean(text)}" for launch in fleet.launches for text in launch_troubles(launch, silent)
    ]
    problems += [f"{clean(one.name)}: {clean(rendezvous_text(one, silent))}" for one in fleet.rendezvous]
    if problems:
        parts.append(line((problems[0], "warn"), (f" (+{len(problems) - 1})" if len(problems) > 1 else "", "dim")))
    current = [row for row in rows if row.is_current]
    found = [(row, worst, more) for row in by_need(current) for worst, more in (_own(fleet, row),) if worst is not None]
    if found:
        row, worst, _ = found[0]
        others = sum(1 + more for _, _, more in found) - 1
        said = f"{clean(row.host)}: {clean(worst.title)}"
        parts.append(line((said, "bad" if worst.severity == "error" else "warn"), (f" (+{others})" if others else "", "dim")))
    idle = sum(gpu.idles for row in current for gpu in row.gpus)
    if idle:
        parts.append(line((f"{_number(idle, 'GPU')} idle", "dim")))
    return parts


def _own(fleet: FleetView, row: HostRow) -> tuple[Finding | None, int]:
    """Return a host's first finding and the number of further ones, without what ``fleet.rendezvous`` tells."""
    if not rendezvous_of_host(fleet, row.host):
        return row.finding, row.more
    host = next(host for host in fleet.hosts if host.status.host == row.host)
    problems = [finding for finding in own_findings(fleet, host) if finding.severity != "info"]
    return (problems[0], len(problems) - 1) if problems else (None, 0)


def _gpus(fleet: FleetView, rows: Sequence[HostRow]) -> Line:
    """Return how many GPUs there are; nothing before the first host has reported."""
    if all(host.view is None for host in fleet.hosts):
        return ()
    so_far = " so far" if any(row.level == "connecting" for row in rows) else ""
    return line((f"{_number(sum(len(row.gpus) for row in rows), 'GPU')}{so_far}", "text"))


def _simulated(fleet: FleetView) -> Line:
    views = [host.view for host in fleet.hosts if host.view is not None]
    if any(view.snapshot.host.simulated for view in views):
        return line(("SIMULATED", "warn"))
    virtual = sum(view.snapshot.host.source == "virtual" for view in views)
    return line(("VIRTUAL GPUs" if virtual == len(views) else f"VIRTUAL GPUs on {virtual}", "warn")) if virtual else ()


def _number(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"
