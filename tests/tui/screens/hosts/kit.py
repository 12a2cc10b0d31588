"""Hosts with all snapshots at the start, gputop's own app on them, and an app that shows one view of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from textual.app import App
from textual.pilot import Pilot

from gputop.hosts.state import HostStatus
from gputop.settings.values import Settings
from gputop.snapshot import Device, Snapshot
from gputop.tui.hosts_app import HostsApp
from gputop.tui.screens.hosts.screen import HostsScreen
from gputop.tui.state.fleet import FleetView, HostView
from gputop.tui.terminal.palette import THEMES, theme_name
from tests import samples
from tests.patience import DEADLINE_S
from tests.tui.kit import StillFeed, text_of


class HostStill(StillFeed):
    """The feed of a host."""

    def __init__(self, status: HostStatus, *snapshots: Snapshot) -> None:
        super().__init__(*snapshots)
        self.host = status.host
        self.link = status


def live(host: str) -> HostStatus:
    return HostStatus(host, "live", since=samples.EPOCH, last_heard_at=samples.EPOCH, clock_offset_s=0.0)


def working(host: str, ticks: int = 12, devices: int = 8, **changes: object) -> list[Snapshot]:
    """Snapshots of a host all of whose GPUs work for its own run; their clock advances with the ticks."""
    made = []
    for tick in range(ticks):
        base = samples.snapshot(tick)
        busy: tuple[Device, ...] = tuple(samples.device(index) for index in range(devices))
        ranks = tuple(replace(rank, hostname=host) for rank in base.runs[0].ranks)
        runs = (replace(base.runs[0], ranks=ranks),)
        whole = replace(base, interval_s=3600.0, host=replace(base.host, hostname=host), devices=busy, runs=runs)
        made.append(replace(whole, **changes))  # type: ignore[arg-type]
    return made


def hosts_app(*feeds: HostStill, **settings: object) -> HostsApp:
    given: Any = feeds
    return HostsApp(given, Settings(**settings))  # type: ignore[arg-type]


async def until(pilot: Pilot[None], app: App[None], *words: str) -> str:
    """Wait until the screen shows all these words; return its text."""
    deadline = time.monotonic() + DEADLINE_S
    while not all(word in text_of(app) for word in words):
        assert time.monotonic() < deadline, f"{words} not in\n{text_of(app)}"
        await pilot.pause(0.02)
    return text_of(app)


class FleetScreenApp(App[None]):
    """Shows the hosts screen with one view."""

    CSS_PATH = None
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, fleet: FleetView) -> None:
        super().__init__()
        self.fleet = fleet

    def fleet_view(self) -> FleetView:
        return self.fleet

    def on_mount(self) -> None:
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = theme_name(self.fleet.settings.theme, self.fleet.settings.color)
        self.push_screen(HostsScreen())


def fleet_view(hosts: Sequence[HostView], **changes: object) -> FleetView:
    settings = Settings(**changes)  # type: ignore[arg-type]
    shown = (host if host.view is None else replace(host, view=replace(host.view, settings=settings)) for host in hosts)
    return FleetView(samples.EPOCH, tuple(shown), settings)
