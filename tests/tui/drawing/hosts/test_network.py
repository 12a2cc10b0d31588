"""The network of a host below its run: shown where ranks use it, and where there is room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.joined.runs import Part
from gputop.joined.untracked import JoinedProcessRun, exchange_id
from gputop.network.records import Interface, NetworkPath
from gputop.network.words import rate_text, speed_text
from gputop.snapshot import Snapshot
from gputop.tui.drawing.hosts.details import draw_host
from gputop.tui.drawing.hosts.network import network_line
from gputop.tui.drawing.hosts.row import host_row
from gputop.tui.drawing.hosts.whole import verdict_line
from gputop.tui.drawing.line import plain
from gputop.tui.drawing.loss import LossChart
from gputop.tui.state.fleet import HostView
from tests import samples
from tests.tui import dashboards
from tests.tui.screens.hosts.kit import fleet_view, live

PATH = NetworkPath("10.0.0.2", "10.0.0.1", None, "eth0", 2, 60.0, 10**9, 10**9, 18.0, 0.0, 10, 0, 0.001)
CARD = Interface(
    "eth0", state="up", speed_mbit_per_s=25_000, duplex="full", window_s=60.0, received_bytes=6 * 10**9, sent_bytes=10**9
)
TEXT = "Network · eth0 25 Gb/s sends 133 Mb/s, receives 800 Mb/s · data waits 30% of the time"


def with_network(*interfaces: Interface, paths: tuple[NetworkPath, ...] = (PATH,)) -> Snapshot:
    return samples.snapshot(interfaces=interfaces, paths=paths)


def text(snapshot: Snapshot, width: int = 160) -> str | None:
    found = network_line(snapshot, width)
    return plain(found) if found is not None else None


def test_the_line_says_what_the_interface_carries() -> None:
    assert text(with_network(CARD, replace(CARD, name="eth1"))) == TEXT
    assert text(with_network(CARD, paths=())) is None, "nothing of the run uses it"
    assert text(with_network()) is None
    assert len(text(with_network(CARD), 40) or "") <= 40


def test_what_is_unknown_is_left_out() -> None:
    virtual = Interface("eth0", "virtual")
    first = NetworkPath("10.0.0.2", "10.0.0.1", interface="eth0")
    assert text(with_network(virtual, paths=(first,))) == "Network · eth0"


def test_a_link_that_is_not_well_says_so() -> None:
    assert "eth0 half duplex 100 Mb/s" in (text(with_network(replace(CARD, duplex="half", speed_mbit_per_s=100))) or "")
    assert "eth0 down" in (text(with_network(replace(CARD, state="down"))) or "")


def test_rdma_ports_are_shown_while_they_carry_something() -> None:
    port = replace(CARD, name="mlx5_0/1", kind="rdma", speed_mbit_per_s=200_000)
    idle = replace(port, name="mlx5_1/1", sent_bytes=0)
    assert (text(with_network(port, idle, paths=())) or "").startswith("Network · mlx5_0/1 200 Gb/s sends")


@pytest.mark.parametrize(("height", "shown"), [(30, True), (3, False)])
def test_the_host_under_the_cursor_shows_it_where_there_is_room(height: int, shown: bool) -> None:
    view = dashboards.healthy()
    view = replace(view, snapshot=replace(view.snapshot, interfaces=(CARD,), paths=(PATH,)))
    drawing = draw_host(fleet_view([HostView(live("node1"), view)]), "node1", LossChart(), 120, height)
    assert (TEXT in [plain(row) for row in drawing.lines]) is shown


def test_what_is_wrong_between_the_hosts_of_an_untracked_run_is_shown_with_it() -> None:
    parts = tuple(Part(host, (rank,), {}) for rank, host in enumerate(("node1", "node2")))
    run = JoinedProcessRun("train.py", 2, "node1:29500", parts)
    slow = Finding("K05", "warning", "likely", "Slow network: node2", (), "", "", run=run.exchange_id)
    other = replace(slow, title="Slow network: node3", run=exchange_id(["node3", "node4"]))
    hosts = [HostView(live(part.host), dashboards.healthy()) for part in parts]
    fleet = replace(fleet_view(hosts), untracked=(run,), findings=(slow, other))
    shown = "\n".join(plain(row) for row in draw_host(fleet, "node1", LossChart(), 120, 40).lines)
    assert "Slow network: node2" in shown
    assert "Slow network: node3" not in shown
    rows = [host_row(host, samples.EPOCH) for host in hosts]
    assert "run train.py: Slow network: node2" in plain(verdict_line(fleet, rows, 200))


@pytest.mark.parametrize(
    ("mbit_per_s", "words"),
    [(None, "N/A"), (2.5, "2.5 Mb/s"), (100, "100 Mb/s"), (1000, "1 Gb/s"), (2500, "2.5 Gb/s"), (400_000, "400 Gb/s")],
)
def test_speeds_are_in_bits(mbit_per_s: float | None, words: str) -> None:
    assert speed_text(mbit_per_s) == words


def test_a_rate_without_time_is_unknown() -> None:
    assert (rate_text(1, 0.0), rate_text(1, None), rate_text(None, 1.0), rate_text(125_000, 1.0)) == (
        "N/A",
        "N/A",
        "N/A",
        "1.0 Mb/s",
    )
