"""Untracked runs whose ranks are looked at again and again, once one of them rests: the sampler shows what `where` tells."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace

import pytest

from gputop.process import Process, ProcessRank, ProcessRun
from gputop.sources.network import sockets
from gputop.where import messages, outside, untracked_places
from gputop.where.early_places import RANKS_MAX
from gputop.where.untracked_places import UntrackedPlaces
from gputop.whereabouts.records import RankPlace
from gputop.whereabouts.verdict import perhaps_behind
from tests.tracking.kit import eventually
from tests.where.test_messages import ranks

assert ranks


def run_of(pids: list[int]) -> ProcessRun:
    return ProcessRun("launcher:1", "train.py", tuple(ProcessRank(pid, number) for number, pid in enumerate(pids)))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that were looked at, without a wait between two looks."""
    found: list[int] = []
    look = outside.observe
    monkeypatch.setattr(untracked_places.outside, "observe", lambda pid: (found.append(pid), look(pid))[1])
    monkeypatch.setattr(untracked_places, "READ_EVERY_S", 0.0)
    monkeypatch.setattr(untracked_places, "FIRST_S", 0.0)
    monkeypatch.setattr(untracked_places, "SHARE", 1e9)
    return found


def test_the_rank_that_has_entered_nothing_is_shown(ranks: list[subprocess.Popen[str]], looks: list[int]) -> None:
    try:
        sockets.read_exchanges(())
    except OSError as error:
        pytest.skip(f"the kernel does not tell about connections: {error}")
    for process in ranks:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
    pids = [process.pid for process in ranks]
    time.sleep(messages.RESTS_S)
    places, run = UntrackedPlaces(), run_of(pids)

    def shown() -> list[RankPlace]:
        (now,) = places.add((run,), [Process(pid, cpu_percent=0.0) for pid in pids])
        return [rank.place for rank in now.ranks if rank.place is not None]

    found = perhaps_behind(eventually(shown, "places"))
    assert found is not None
    assert ([place.pid for place in found.late], [place.rank for place in found.ahead]) == ([pids[1]], [0])
    assert found.does.startswith("has sent nothing for ")
    assert set(looks) == set(pids)


def test_nothing_is_looked_at_while_all_ranks_work_or_say_themselves_where_they_are(looks: list[int]) -> None:
    run, own = run_of([10, 11]), ProcessRank(10, 0, place=RankPlace(0, 10, state="answers", at=1.0))
    says = replace(run, ranks=(own, run.ranks[1]))
    places = UntrackedPlaces()
    for processes in ([Process(10, cpu_percent=90.0), Process(11, cpu_percent=60.0)], [Process(10), Process(11)]):
        assert places.add((run,), processes)[0] is run
    idle = [Process(10, cpu_percent=0.0), Process(11, cpu_percent=0.0)]
    assert places.add((says, run_of([10])), idle) == (says, run_of([10]))
    assert looks == []


def test_the_more_a_look_costs_the_fewer_there_are(looks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untracked_places, "SHARE", 1e-9)
    places, idle = UntrackedPlaces(), [Process(2**22, cpu_percent=0.0), Process(2**22 + 1, cpu_percent=0.0)]
    for _ in range(5):
        places.add((run_of([2**22, 2**22 + 1]),), idle)
    assert looks == [2**22, 2**22 + 1]


def test_a_pool_of_hundreds_of_processes_is_not_looked_at(looks: list[int]) -> None:
    pids = list(range(2**22, 2**22 + RANKS_MAX + 1))
    idle = [Process(pid, cpu_percent=0.0) for pid in pids]
    places, pool = UntrackedPlaces(), run_of(pids)
    assert places.add((pool,), idle) == (pool,)
    assert looks == []
    places.add((run_of(pids[1:]),), idle)
    assert looks == pids[1:]
