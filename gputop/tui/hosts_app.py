"""The app of several hosts: the hosts screen first, and the dashboard of one of them over it.

Keys and screens are the same as for one machine (``app.py``) and apply to the host under the cursor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from gputop.agent.feed import Feed
from gputop.hosts.feed import HostFeed
from gputop.settings.values import Settings
from gputop.tui.app import GputopApp
from gputop.tui.fleet import Fleet
from gputop.tui.messages import HostsFound
from gputop.tui.screen_factory import AnyScreen
from gputop.tui.screens.dashboard import DashboardScreen
from gputop.tui.screens.hosts.screen import HostsScreen
from gputop.tui.state.fleet import FleetView
from gputop.tui.widgets.requests import HostChosen, HostOpened

DRAWN_EVERY_S = 0.4
"""Snapshots of many hosts arrive one by one: those within this time share a drawing of the hosts screen."""

More: TypeAlias = Callable[[Callable[[Sequence[HostFeed]], object]], object]
"""Receives a function that is called, on any thread, with the feeds of hosts that are found later."""


class HostsApp(GputopApp):
    """gputop's screen on several hosts."""

    REST_S = 0.02
    """Hosts report one by one: those within this time share a turn."""

    def __init__(self, hosts: Sequence[HostFeed], settings: Settings, more: More | None = None) -> None:
        """``more`` asks to be notified of hosts that are found later."""
        super().__init__(hosts[0], settings)
        self._more = more
        self.fleet = Fleet(hosts)
        self.machine = self.fleet.machines[0]
        self._fleet_view: FleetView | None = None
        self._due = False
        """Whether a drawing of the hosts screen is scheduled."""
        self._drawing_took_s = 0.0

    async def on_mount(self) -> None:
        """Also ask for the hosts that are found later; Textual itself calls the base class's handler."""
        if self._more is not None:
            self._more(lambda feeds: self.post_message(HostsFound(feeds)))

    def on_hosts_found(self, message: HostsFound) -> None:
        """Show hosts that were not there at the start."""
        self.fleet.add(message.feeds)
        self.follow(message.feeds)

    def first_screen(self) -> AnyScreen:
        """Return the screen of all hosts."""
        return HostsScreen()

    def feeds(self) -> Sequence[Feed]:
        """Return the streams of all hosts."""
        return self.fleet.feeds

    def take_in(self, *, is_answered: bool = False) -> bool:
        """Process waiting snapshots of any host; return whether there are more than fit into a turn."""
        is_more = self.fleet.take_in()
        if self._paused:
            return is_more
        if not isinstance(self.screen, HostsScreen):
            self.refresh_view()
        else:
            self._draw_soon()
        return is_more

    def _draw_soon(self) -> None:
        """Draw once, after a pause at least as long as the last drawing took: keys and readings get their turns in it.

        Textual's ``set_timer`` drops a call whose time passes before its task begins: on a busy machine.
        """
        if not self._due:
            self._due = True
            rest_s = max(DRAWN_EVERY_S, self._drawing_took_s)
            asyncio.get_running_loop().call_later(rest_s, self.call_later, self._draw_hosts)

    def without_view(self) -> None:
        """Wait for the host: its row says what is wrong."""

    def fleet_view(self) -> FleetView:
        """Return the newest view of all hosts; while paused, the one that is shown."""
        if self._fleet_view is None or not self._paused:
            self._fleet_view = self.fleet.view(self.settings, own_cost=self._look_at_cost())
        return self._fleet_view

    def _draw_hosts(self) -> None:
        self._due = False
        if not isinstance(self.screen, HostsScreen):
            return
        clock = asyncio.get_running_loop().time
        began = clock()
        self.screen.show_fleet(self.fleet_view())
        self._drawing_took_s = clock() - began
        if not self.fleet.judging and any(machine.latest is not None for machine in self.fleet.machines):
            self.call_after_refresh(self._judge)

    def _judge(self) -> None:
        self.fleet.judge()
        self.on_feed_arrived()

    def _check_age(self) -> None:
        if not isinstance(self.screen, HostsScreen):
            super()._check_age()
        elif not self._paused:
            self.on_feed_arrived()  # a host that sends nothing also changes what is said of the runs on it

    def refresh_view(self) -> None:
        """Also draw the hosts screen: settings may have changed."""
        super().refresh_view()
        if isinstance(self.screen, HostsScreen):
            self._draw_soon()

    def action_pause(self) -> None:
        """Freeze the screen; histories keep growing."""
        if not isinstance(self.screen, HostsScreen):
            super().action_pause()
            return
        self._fleet_view = replace(self.fleet_view(), paused=not self._paused)
        self._paused = not self._paused
        self._draw_hosts()

    def on_host_chosen(self, message: HostChosen) -> None:
        """Apply the keys of every screen to the host under the cursor."""
        machine = self.fleet.machine(message.host) if message.host is not None else None
        if machine is not None and machine is not self.machine:
            self.machine = machine
            self.view = machine.view(self.settings, paused=self._paused, own_cost=self._look_at_cost())

    async def _open(self, name: str) -> None:
        """Open a screen; over the hosts screen, it shows the newest reading of the host under the cursor."""
        if isinstance(self.screen, HostsScreen) and (self.view is None or not self._paused):
            self.view = self.machine.view(self.settings, paused=self._paused, own_cost=self._look_at_cost())
        await super()._open(name)

    async def on_host_opened(self, message: HostOpened) -> None:
        """Open the dashboard of a host over the hosts screen."""
        self.on_host_chosen(HostChosen(message.host))
        self.view = self.machine.view(self.settings, paused=self._paused, own_cost=self._look_at_cost())
        if self.view is None:
            self.screen.notify(f"There is no reading of {message.host} yet.")
            return
        await self._show(DashboardScreen(self.keeper.layout, over_hosts=True))
