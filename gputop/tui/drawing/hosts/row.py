"""One host in brief: how bad its state is, its GPUs, its run and its first finding. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from gputop import units
from gputop.device import NO_GPU_CODES
from gputop.doctor.findings.finding import Finding
from gputop.hosts.state import WORDS
from gputop.snapshot import LIVE_STATES, Device, Problem
from gputop.terminal_text import printable
from gputop.tui.drawing import run_numbers
from gputop.tui.drawing.gpus.balance import WORKING_PERCENT, countable, recent_use
from gputop.tui.state.fleet import HostView
from gputop.tui.state.view import View

Level = Literal["lost", "error", "late", "warning", "idle", "connecting", "fine"]
LEVELS: tuple[Level, ...] = get_args(Level)
"""From worst to best: no link; a finding or a GPU in error; readings too old; a warning; GPUs that do nothing; nothing yet."""
_NO_GPU_WORDS = {
    "library_not_found": "no driver",
    "no_driver": "no driver",
    "driver_mismatch": "driver mismatch",
    "library_unusable": "driver unusable",
    "no_permission": "no permission",
    "hung": "driver hangs",
}
"""Code of a host's problem -> the state of a host without GPUs, in words; any other: "no GPU"."""


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU of a host: its mean utilization in percent over the last seconds, None if unknown; or that it is broken."""

    percent: float | None
    broken: bool = False

    @property
    def works(self) -> bool:
        """Whether it does more than a display or an idle context does."""
        return self.percent is not None and self.percent >= WORKING_PERCENT

    @property
    def idles(self) -> bool:
        """Whether it is known to do nothing."""
        return self.percent is not None and not self.works


@dataclass(frozen=True, slots=True)
class HostRow:
    """One host in the list. Texts are clean; ``memory_used_bytes`` is None if no GPU's memory is known."""

    host: str
    level: Level
    state: str
    gpus: tuple[GpuUse, ...] = ()
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    run: str = ""
    ranks: str = ""
    loss: str = ""
    loss_lost: bool = False
    """The loss is NaN or infinite."""
    said: str = ""
    """What to do about a host without a link, or else what is wrong."""
    finding: Finding | None = None
    more: int = 0
    """Further findings that are a problem."""

    @property
    def is_current(self) -> bool:
        """Whether the readings are current: those of a lost host are its last ones."""
        return self.level != "lost"

    @property
    def working(self) -> int:
        """How many GPUs work, or worked last."""
        return sum(gpu.works for gpu in self.gpus)


def host_row(host: HostView, now: float) -> HostRow:
    """Return the row of a host. ``now`` is this machine's clock, in seconds since the epoch."""
    status, view = host.status, host.view
    if view is None:
        return HostRow(status.host, "lost" if host.is_lost else "connecting", _state(host, now), said=_said(host))
    gpus = tuple(_use(device, view) for device in countable(view.snapshot.devices))
    problems = [finding for finding in view.findings if finding.severity != "info"]
    name, ranks = _run(view)
    loss, lost = _loss(view)
    used = [device.memory_used_bytes for device in countable(view.snapshot.devices) if device.memory_used_bytes is not None]
    totals = [device.memory_total_bytes for device in countable(view.snapshot.devices) if device.memory_total_bytes]
    return HostRow(
        host=status.host,
        level=_level(host, gpus, problems),
        state=_state(host, now),
        gpus=gpus,
        memory_used_bytes=sum(used) if used else None,
        memory_total_bytes=sum(totals) if totals else None,
        run=name,
        ranks=ranks,
        loss=loss,
        loss_lost=lost,
        said=_said(host),
        finding=problems[0] if problems else None,
        more=max(0, len(problems) - 1),
    )


def by_need(rows: list[HostRow]) -> list[HostRow]:
    """Return the rows, those that need attention first; equal ones keep their order."""
    return sorted(rows, key=lambda row: LEVELS.index(row.level))


def _state(host: HostView, now: float) -> str:
    """Return the state of the link in words, with the age of the readings if they are old."""
    status, view = host.status, host.view
    words = printable(WORDS.get(status.state, status.state))
    if host.is_lost and status.last_heard_at is not None:
        return f"{words} {units.duration(max(1.0, now - status.last_heard_at))}"
    problem = missing_gpus(host)
    if problem is not None and status.state == "live" and (view is None or view.stale_s is None):
        return _NO_GPU_WORDS.get(problem.code, "no GPU")
    if view is not None and view.stale_s is not None and status.state in ("live", "slow"):
        return f"stale {units.duration(view.stale_s)}"
    if view is not None and view.snapshot.host.source == "prometheus" and status.last_heard_at is not None:
        return f"{units.duration(max(0.0, now - status.last_heard_at))} old"  # a sample is never entirely current
    return words


def _said(host: HostView) -> str:
    return printable(host.status.hint or host.status.message or "") if host.is_lost else ""


def missing_gpus(host: HostView) -> Problem | None:
    """Return why a host has no GPU; None if it has one, or a virtual one stands in."""
    return host.view.snapshot.host.problem if host.view is not None and not host.view.snapshot.devices else None


def _level(host: HostView, gpus: tuple[GpuUse, ...], problems: list[Finding]) -> Level:
    if host.is_lost:
        return "lost"
    if any(gpu.broken for gpu in gpus) or any(finding.severity == "error" for finding in problems):
        return "error"
    if host.status.state != "live" or (host.view is not None and host.view.stale_s is not None):
        return "late"
    missing = missing_gpus(host)
    if problems or (missing is not None and missing.code not in NO_GPU_CODES):
        return "warning"
    return "idle" if any(gpu.idles for gpu in gpus) else "fine"


def _use(device: Device, view: View) -> GpuUse:
    if device.state in ("lost", "error"):
        return GpuUse(None, broken=True)
    return GpuUse(recent_use(view, device) if device.state == "ok" else None)


def _run(view: View) -> tuple[str, str]:
    """Return the name of the host's run, and how many of its ranks are there: "8 of 16"."""
    run = view.run
    seen = view.snapshot.process_runs
    read = next((found for found in seen if view.run_id in found.curve_ids), None)  # the curve lists only the rank that writes
    if run is not None and run.state in LIVE_STATES and read is None:
        here = sum(rank.state in LIVE_STATES and rank.hostname in (None, view.snapshot.host.hostname) for rank in run.ranks)
        world = run.world_size or len(run.ranks)
        return printable(run.name), str(here) if here == world else f"{here} of {world}"
    found = read if read is not None and read.ranks else next((found for found in seen if found.ranks), None)
    if found is None:
        return "", ""
    world = found.world_size or len(found.ranks)
    return printable(found.name), str(len(found.ranks)) if world == len(found.ranks) else f"{len(found.ranks)} of {world}"


def _loss(view: View) -> tuple[str, bool]:
    """Return the loss with its direction, and whether it is NaN or infinite."""
    run = view.run
    name = run_numbers.loss_name(run) if run is not None and run.state in LIVE_STATES else None
    value = run_numbers.latest(run, name) if run is not None and name is not None else None
    if run is None or name is None or value is None:
        return "", False
    if run_numbers.not_finite_since(run, view.history) is not None:
        return units.metric(value, 3), True
    return f"{units.metric(value, 3)} {run_numbers.trend(run, name, view.history)}".rstrip(), False
