"""How often an output repeats its losses, and whether real processes are connected by their sockets."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gputop.process import Ancestor, ProcessRank, ProcessRun, Repeated
from gputop.untracked import followed
from gputop.untracked.alike import Repeats
from gputop.untracked.connections import connected
from tests.patience import DEADLINE_S
from tests.real_processes import IDLE, Processes

LOSSES = [2.3456 - step / 1000 for step in range(60)]
LISTENS = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); say(s.getsockname()[1]); "

GROUPED = "import ctypes; ctypes.CDLL(None).prctl(15, b'pt_gloo_runloop'); "
"""As gloo names a thread of its own (PR_SET_NAME)."""


@pytest.fixture
def processes(tmp_path: Path) -> object:
    started = Processes(tmp_path)
    yield started
    started.end()


def counted(*losses: float, name: str = "loss") -> Repeated | None:
    repeats = Repeats()
    for loss in losses:
        repeats.add({"lr": 0.1, name: loss})
    return repeats.found


def drifting(losses: list[float], behind: int) -> list[float]:
    """Two ranks, one of which prints some lines later."""
    lines = []
    for place in range(len(losses) + behind):
        lines += losses[place : place + 1]
        lines += losses[place - behind : place - behind + 1] if place >= behind else []
    return lines


@pytest.mark.parametrize(
    ("losses", "times"),
    [
        (LOSSES, None),
        ([loss for loss in LOSSES for _ in "ab"], 2),
        ([loss for loss in LOSSES for _ in range(4)], 4),
        (drifting(LOSSES, 3), 2),
        ([loss for loss in [*LOSSES, 1.234] for _ in "ab"][:-1], 2),
        (drifting(LOSSES, 30), None),
        ([loss for loss in LOSSES[:10] for _ in "ab"], None),
        ([0.6931] * 120, None),
        ([round(loss, 1) for loss in LOSSES for _ in "ab"], None),
        ([loss + rank / 100000 for loss in LOSSES for rank in range(2)], None),
    ],
    ids=["once", "twice", "four times", "behind", "torn", "far behind", "few", "one value", "few digits", "own losses"],
)
def test_how_often_losses_are_printed(losses: list[float], times: int | None) -> None:
    found = counted(*losses)
    assert (found.times if found is not None else None) == times
    assert counted(*losses, name="val_acc") is None


def run_of(*pids: int, launcher: int | None = None) -> ProcessRun:
    above = Ancestor(launcher, "torchrun") if launcher is not None else None
    return ProcessRun("a", "train.py", tuple(ProcessRank(pid, place) for place, pid in enumerate(pids)), above)


def test_ranks_are_connected_by_a_socket_between_them(processes: Processes) -> None:
    first, words = processes.ready(f"{LISTENS}idle()")
    port = int(words[0])
    second, _ = processes.ready(f"import socket; s = socket.create_connection(('127.0.0.1', {port})); {IDLE}")
    alone, _ = processes.ready(IDLE)
    beside, _ = processes.ready(IDLE)
    assert connected(run_of(first.pid, second.pid)) is True
    assert connected(run_of(alone.pid, beside.pid)) is False
    assert connected(run_of(first.pid, alone.pid)) is None, "another rank may still connect to one that listens"
    assert connected(run_of(first.pid, alone.pid), settled=True) is None, "it has no process group: it may serve something"
    grouped, _ = processes.ready(f"{GROUPED}{LISTENS}idle()")
    assert connected(run_of(grouped.pid, alone.pid)) is None
    assert connected(run_of(grouped.pid, alone.pid), settled=True) is False, "none has come"
    assert connected(run_of(grouped.pid, first.pid), settled=True) is None, "not all that listen have one"
    assert connected(run_of(first.pid, second.pid), settled=True) is True
    assert connected(run_of(alone.pid, 2**22), settled=True) is None
    assert connected(run_of(alone.pid, 2**22)) is None, "nothing is known about a process that has ended"
    assert connected(run_of(second.pid, alone.pid)) is False, "a connection to something else"
    assert connected(run_of(second.pid, alone.pid, launcher=first.pid)) is True


def test_ranks_are_connected_where_they_would_meet(processes: Processes) -> None:
    _, words = processes.ready(f"{LISTENS}idle()")
    port = int(words[0])
    code = f"import socket; s = socket.create_connection(('127.0.0.1', {port})); {IDLE}"
    there, _ = processes.ready(code, MASTER_PORT=str(port))
    alone, _ = processes.ready(IDLE, MASTER_PORT=str(port))
    assert connected(run_of(alone.pid, there.pid)) is True
    elsewhere, _ = processes.ready(code, MASTER_PORT="1")
    beside, _ = processes.ready(IDLE, MASTER_PORT="1")
    assert connected(run_of(beside.pid, elsewhere.pid)) is False


def test_ranks_that_listen_count_as_apart_once_nobody_has_come_for_a_minute(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = processes.ready(f"{GROUPED}{LISTENS}idle()")
    alone, _ = processes.ready(IDLE)
    run = run_of(first.pid, alone.pid)
    monkeypatch.setattr(followed, "next_search_s", lambda *_: 0.0)
    item = followed.FollowedRun("a")
    try:
        item.ask(run, ())
        item.wait(DEADLINE_S)
        assert item.connected is None
        monkeypatch.setattr(followed, "SETTLED_S", 0.0)
        end = time.monotonic() + DEADLINE_S
        while item.connected is None and time.monotonic() < end:
            item.ask(run, ())
            time.sleep(0.02)
        assert item.connected is False
    finally:
        item.end(dropped=True)
