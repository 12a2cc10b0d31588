"""What the hosts screen looks like, as pictures; after an intended change, run with --snapshot-update."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from gputop.hosts.state import HostStatus
from gputop.tui.state.fleet import HostView
from tests import samples
from tests.tui import dashboards
from tests.tui.screens.hosts.kit import FleetScreenApp, fleet_view, live
from tests.tui.screens.test_looks import settle, utc

assert utc
Look = Callable[..., bool]


def lab() -> list[HostView]:
    """A host that works, one with a fault, one with another clock, one that was lost and one that is not there yet."""
    lost = HostStatus("node4", "ended", samples.EPOCH - 12, "The link was lost.", None, samples.EPOCH - 12, 0.0)
    healthy, idle = dashboards.healthy(), replace(dashboards.healthy(), run_id=None)
    return [
        HostView(live("node1"), healthy),
        HostView(live("node2"), dashboards.one_gpu()),
        HostView(replace(live("node3"), clock_offset_s=-75.0), replace(idle, stale_s=8.0)),
        HostView(lost, healthy),
        HostView(HostStatus("node5")),
    ]


@pytest.mark.parametrize(
    ("size", "settings"),
    [
        ((160, 50), {}),
        ((80, 24), {}),
        ((160, 50), {"theme": "light"}),
        ((80, 24), {"theme": "mono", "color": False, "ascii": True}),
    ],
    ids=["wide", "small", "light", "mono"],
)
def test_the_hosts(snap_compare: Look, size: tuple[int, int], settings: dict[str, object]) -> None:
    async def before(pilot: Pilot[None]) -> None:
        await settle(pilot)
        await pilot.press("down")
        await settle(pilot)

    assert snap_compare(FleetScreenApp(fleet_view(lab(), **settings)), terminal_size=size, run_before=before)


def test_many_hosts(snap_compare: Look) -> None:
    hosts = [HostView(live(f"node{number:02}"), dashboards.healthy()) for number in range(64)]

    async def before(pilot: Pilot[None]) -> None:
        await settle(pilot)

    assert snap_compare(FleetScreenApp(fleet_view(hosts)), terminal_size=(160, 50), run_before=before)
