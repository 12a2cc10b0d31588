"""Stat files that are held open: as good as those that are opened each time, and never more than are useful."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

from gputop.sources.host import process_cache, procfs
from gputop.sources.host.process_cache import ProcessCache, StatFiles
from tests.real_processes import IDLE, Processes


def held() -> int:
    found = 0
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # of the listing itself
            found += os.readlink(f"/proc/self/fd/{number}").endswith("/stat")
    return found


def test_a_file_is_held_from_the_second_reading_on(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    child, _ = processes.ready(IDLE)
    cache = ProcessCache()
    before = held()
    first = cache.look_up(child.pid)
    assert held() == before
    assert cache.look_up(child.pid) is first
    assert held() == before + 1
    monkeypatch.setattr(procfs, "read_stat_line", lambda pid: pytest.fail("opened again"))
    third = cache.look_up(child.pid)
    assert third is not None
    assert third.key == first.key
    del cache
    assert held() == before


def test_a_process_that_has_ended_is_gone(processes: Processes) -> None:
    child, _ = processes.ready(IDLE)
    cache = ProcessCache()
    before = held()
    assert [cache.look_up(child.pid) is None for _ in range(2)] == [False, False]
    child.kill()
    child.wait()
    assert cache.look_up(child.pid) is None
    assert held() == before


def test_at_most_so_many_are_held(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_cache, "HELD_MAX", 1)
    files = StatFiles()
    before = held()
    pids = [processes.ready(IDLE)[0].pid for _ in range(2)]
    for _ in range(2):
        lines = [files.read_line(pid, again=True) for pid in pids]
        assert [line.split()[0] for line in lines if line is not None] == [b"%d" % pid for pid in pids]
        assert held() == before + 1
    files.keep_only(pids[1:])
    assert held() == before
