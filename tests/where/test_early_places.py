"""How often ranks before their first step are looked at for where they stand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gputop.process import ProcessRank, ProcessRun
from gputop.where import early_places
from gputop.where.early_places import ASK_S, RANKS_MAX, EarlyPlaces
from gputop.whereabouts.records import RankPlace

RUN = ProcessRun("launcher:1", "train.py", tuple(ProcessRank(pid, pid - 10) for pid in (10, 11, 12)), started_at=1.0)


def test_a_silent_run_is_left_alone_until_a_query_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    now, looked, read = [100.0], [], []
    monkeypatch.setattr(early_places, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(early_places, "_file_of", lambda pid: looked.append(pid))
    look = early_places._read
    monkeypatch.setattr(early_places, "_read", lambda rank, *others: (read.append(rank.pid), look(rank, *others))[1])
    places = EarlyPlaces()
    for _ in range(5):
        assert places.add((RUN,)) == (RUN,)
    assert looked == read == [10, 11, 12]
    now[0] += ASK_S
    for _ in range(5):
        assert places.add((RUN,))[0] is RUN
    assert looked == read == [10, 11, 12] * 2
    fourth = replace(RUN, ranks=(*RUN.ranks, ProcessRank(13, 3)))
    places.add((fourth,))
    assert looked[6:] == [13]
    places.add((fourth,))
    assert looked[6:] == [13]


def test_a_rank_that_says_where_it_is_is_read_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(rank: ProcessRank, run: ProcessRun, known: early_places._Known) -> RankPlace | None:
        if rank.pid == 11:
            known.path = Path("/memory")
            read.append(rank.pid)
            return RankPlace(1, 11)
        known.due_s = 1e12
        return None

    read: list[int] = []
    monkeypatch.setattr(early_places, "_read", told)
    places = EarlyPlaces()
    for _ in range(3):
        (run,) = places.add((RUN,))
        assert [rank.place for rank in run.ranks] == [None, RankPlace(1, 11), None]
    assert read == [11] * 3


def test_a_pool_of_hundreds_of_processes_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr(early_places, "_file_of", lambda pid: looked.append(pid))
    ranks = tuple(ProcessRank(2**22 + number, number) for number in range(RANKS_MAX + 1))
    pool, places = replace(RUN, ranks=ranks), EarlyPlaces()
    assert places.add((pool,)) == (pool,)
    assert looked == []
    places.add((replace(RUN, ranks=ranks[1:]),))
    assert len(looked) == RANKS_MAX
