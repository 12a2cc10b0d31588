"""The row of a host in the list of hosts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.history.history import History
from gputop.hosts.state import HostStatus
from gputop.joined.rendezvous import Rendezvous
from gputop.process import ProcessCurve, ProcessRank, ProcessRun
from gputop.settings.values import Settings
from gputop.snapshot import Problem
from gputop.tui.drawing.hosts.details import draw_host
from gputop.tui.drawing.hosts.listing import DrawnRows, grid_of, heading
from gputop.tui.drawing.hosts.row import HostRow, host_row
from gputop.tui.drawing.hosts.whole import header_line, verdict_line
from gputop.tui.drawing.line import plain
from gputop.tui.drawing.loss import LossChart
from gputop.tui.state.fleet import FleetView, HostView
from gputop.tui.state.view import View
from tests import samples


def row_of(world_size: int, here: int) -> HostRow:
    """The row of a host on which ``here`` ranks of an untracked run are; its curve comes from the file of one of them."""
    curve = samples.run(world_size, run_id="read")
    ranks = tuple(ProcessRank(100 + rank, rank) for rank in range(here))
    found = ProcessRun("launcher:1", "train.py", ranks, world_size=world_size, curves=(ProcessCurve("read", "its output"),))
    snapshot = samples.snapshot(runs=(replace(curve, ranks=curve.ranks[:1]),), process_runs=(found,))
    return host_row(HostView(HostStatus("a", "live"), View(snapshot, History(), run_id="read")), samples.EPOCH)


def test_an_untracked_run_has_the_ranks_whose_processes_are_there() -> None:
    assert row_of(2, 2).ranks == "2"
    assert row_of(4, 2).ranks == "2 of 4"


def test_the_run_is_the_one_whose_loss_is_beside_it() -> None:
    def ranks(count: int, first: int) -> tuple[ProcessRank, ...]:
        return tuple(ProcessRank(first + rank, rank) for rank in range(count))

    silent = ProcessRun("launcher:1", "pretrain.py", ranks(4, 100), world_size=4)
    read = ProcessRun("launcher:2", "tune.py", ranks(2, 200), world_size=2, curves=(ProcessCurve("read", "its output"),))
    snapshot = samples.snapshot(runs=(samples.run(2, run_id="read"),), process_runs=(silent, read))
    row = host_row(HostView(HostStatus("a", "live"), View(snapshot, History(), run_id="read")), samples.EPOCH)
    assert (row.run, row.ranks, row.loss[:5]) == ("tune.py", "2", "0.436")


def test_a_wide_list_says_the_state_in_full() -> None:
    rows = [HostRow("a", "lost", "connection refused")]
    for width, shown in ((160, 18), (80, 17)):
        grid = grid_of(rows, width, 20)
        assert {column.key: cells for column, cells in grid.columns}["state"] == shown
        assert "STATE" in plain(heading(grid, width, ascii_only=False))


def test_a_name_of_a_run_is_not_cut_where_there_is_room() -> None:
    rows = [HostRow("a", "fine", "live", run="llama-pretraining", ranks="8 of 128")]
    for width, shown in ((160, 26), (80, 16)):
        assert {column.key: cells for column, cells in grid_of(rows, width, 20).columns}["run"] == shown


def test_a_host_without_a_link_says_what_to_do() -> None:
    unknown = HostStatus("a", "unknown_host_key", message="ssh does not know its key.", hint="Run: ssh a")
    row = host_row(HostView(unknown), samples.EPOCH)
    (drawn,) = DrawnRows().lines([row], grid_of([row], 80, 20), None, 80, ascii_only=False)
    assert "unknown host key" in plain(drawn)
    assert "Run: ssh a" in plain(drawn)


def test_gpus_are_counted_only_if_a_host_has_reported_them() -> None:
    connecting, unread = HostView(HostStatus("a")), HostView(HostStatus("b", "live"))
    known = HostView(HostStatus("c", "live"), View(samples.snapshot(), History()))

    def header(*hosts: HostView) -> str:
        fleet = FleetView(samples.EPOCH, hosts)
        return plain(header_line(fleet, [host_row(host, samples.EPOCH) for host in hosts], 80)).split("VIRTUAL")[0]

    assert "GPU" not in header(connecting, unread)
    assert "2 hosts · 8 GPUs so far" in header(connecting, known)
    assert "1 host · 8 GPUs" in header(known)
    assert "so far" not in header(known)


def without_gpus(code: str) -> HostView:
    """A host that is read, and whose driver says why there is no GPU."""
    problem = Problem(code, "The driver and its library differ.", "Reboot it.")
    host = replace(samples.snapshot().host, source="none", problem=problem)
    snapshot = samples.snapshot(host=host, devices=(), processes=(), runs=(), points=())
    return HostView(HostStatus("a", "live"), View(snapshot, History()))


@pytest.mark.parametrize(
    ("code", "words", "level"),
    [
        ("no_driver", "no driver", "warning"),
        ("driver_mismatch", "driver mismatch", "warning"),
        ("no_permission", "no permission", "warning"),
        ("hung", "driver hangs", "warning"),
        ("library_not_found", "no driver", "fine"),
        ("no_gpu", "no GPU", "fine"),
        ("of a newer gputop", "no GPU", "warning"),
    ],
)
def test_a_host_without_gpus_says_why(code: str, words: str, level: str) -> None:
    host = without_gpus(code)
    row = host_row(host, samples.EPOCH)
    assert (row.state, row.level) == (words, level)
    shown = [plain(line) for line in draw_host(FleetView(samples.EPOCH, (host,), Settings()), "a", LossChart(), 100, 20).lines]
    assert "The driver and its library differ. Reboot it." in shown


def test_virtual_gpus_that_stand_in_hide_nothing_else() -> None:
    host = without_gpus("no_driver")
    assert host.view is not None
    virtual = replace(host.view.snapshot, devices=(samples.device(0, kind="virtual"),))
    assert host_row(replace(host, view=replace(host.view, snapshot=virtual)), samples.EPOCH).state == "live"


def test_a_launcher_that_waits_is_named_once() -> None:
    waits = Finding("G06", "warning", "likely", "t.py has no rank: torchrun waits", (), "", "# start it", "", pids=(70,))
    other = replace(waits, id="H06", title="Memory runs out", pids=(71,))
    meeting = Rendezvous("t.py", 2, "gpu1:29500", ("a",), (), 300.0, pids=(70,))
    alone = HostView(HostStatus("a", "live"), View(samples.snapshot(), History(), findings=(waits,)))
    for host, more in ((alone, False), (replace(alone, view=replace(alone.view, findings=(waits, other))), True)):
        fleet = FleetView(samples.EPOCH, (host,), rendezvous=(meeting,))
        row = host_row(host, samples.EPOCH)
        assert row.level == "warning"
        assert row.finding == waits, "the list says why this host needs attention"
        pane = "\n".join(map(plain, draw_host(fleet, "a", LossChart(), 160, 40).lines))
        assert pane.count("torchrun") == 1
        assert ("Memory runs out" in pane) is more
        said = plain(verdict_line(fleet, [row], 160))
        assert said.count("torchrun") == 1, said
        assert ("a: Memory runs out" in said) is more
