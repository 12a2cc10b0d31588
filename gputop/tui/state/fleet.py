"""What the hosts screen draws from: the state of each host, and the view of its newest snapshot. Imports no Textual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gputop.doctor.findings.finding import Finding
from gputop.hosts.state import SHOWING_STATES, HostStatus
from gputop.joined.launches import JoinedLaunch
from gputop.joined.rendezvous import Rendezvous
from gputop.joined.runs import JoinedRun
from gputop.joined.untracked import JoinedProcessRun
from gputop.settings.values import Settings
from gputop.tui.state.own_cost import Cost
from gputop.tui.state.view import View


@dataclass(frozen=True, slots=True)
class HostView:
    """One host. ``view`` is None until its first snapshot arrives, and keeps the last one while a link is lost."""

    status: HostStatus
    view: View | None = None

    @property
    def is_lost(self) -> bool:
        """Whether no readings arrive and none are expected."""
        return self.status.state not in SHOWING_STATES and self.status.state != "connecting"


@dataclass(frozen=True, slots=True)
class FleetView:
    """All hosts, in the order in which the user named them. ``time`` is this machine's clock, in seconds since the epoch."""

    time: float
    hosts: tuple[HostView, ...] = ()
    settings: Settings = field(default_factory=Settings)
    paused: bool = False
    runs: tuple[JoinedRun, ...] = ()
    """The live runs that span several hosts, or that have missing ranks."""
    untracked: tuple[JoinedProcessRun, ...] = ()
    """The untracked runs that span several hosts."""
    launches: tuple[JoinedLaunch, ...] = ()
    """The launches over several hosts that wait for one of them: their ranks have not met."""
    rendezvous: tuple[Rendezvous, ...] = ()
    """The torchruns that gputop did not launch and that wait for other nodes."""
    findings: tuple[Finding, ...] = ()
    """What the doctor finds from several hosts together; ``Finding.run`` is one of ``runs``."""
    twice: Mapping[str, str] = field(default_factory=dict)
    """Host that is not among ``hosts`` -> the name under which the same machine is shown."""
    own_cost: Cost | None = None
    """What gputop itself takes on this machine; None before it is known."""
