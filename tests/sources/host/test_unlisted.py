"""What looks like training on the CPU, for a process whose time on a core and in the queue for one the test sets."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from gputop.sources.host import procfs, unlisted
from gputop.sources.host.process_cache import Facts, ProcessCache
from gputop.sources.host.unlisted import UnlistedTrainings

LONG_S = 1000.0


class OneProcess(ProcessCache):
    """A cache with this process only, which maps PyTorch and started ``LONG_S`` before the test's clock."""

    def __init__(self) -> None:
        super().__init__()
        stat = procfs.read_stat(os.getpid())
        assert stat is not None
        self.facts = Aged(stat._replace(comm="python", cpu_ticks=0))

    def pythons(self, now_s: float, every_s: float) -> list[Facts]:
        return [self.facts]

    def torch_mapped(self, facts: Facts, now_s: float) -> bool:
        return True

    def use(self, core_s: float) -> None:
        ticks = self.facts.stat.cpu_ticks + int(core_s * procfs.TICKS_PER_S)
        self.facts = replace(self.facts, stat=self.facts.stat._replace(cpu_ticks=ticks))


class Aged(Facts):
    @property
    def age_s(self) -> float:
        return LONG_S


@pytest.fixture
def queued_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in the queue since the process started, in seconds, for a test to change."""
    found = [0.0]
    monkeypatch.setattr(procfs, "read_queued_ns", lambda pid: int(found[0] * 1e9))
    monkeypatch.setattr(procfs, "command_line_of", lambda pid: ("python", "train.py"))  # these tests run in a tool
    return found


def test_an_old_wait_for_a_core_no_longer_counts(queued_s: list[float]) -> None:
    cache = OneProcess()
    found = UnlistedTrainings(cache)
    queued_s[0] = LONG_S * 0.8  # it trained on a crowded machine
    assert found.pids(0.0, ()) == set()
    for now_s in (10.0, 20.0, 30.0):
        cache.use(core_s=2.0)  # and now a fifth of a core is all that it needs
        assert found.pids(now_s, ()) == set()
        cache.use(core_s=0.5)
        assert found.pids(now_s + 5.0, ()) == set()


def test_a_wait_for_a_core_counts_from_the_second_search_on(queued_s: list[float]) -> None:
    cache = OneProcess()
    found = UnlistedTrainings(cache)
    assert found.pids(0.0, ()) == set()
    for now_s, expected in ((10.0, set()), (20.0, {os.getpid()})):
        cache.use(core_s=2.0)
        queued_s[0] += 8.0
        assert found.pids(now_s, ()) == expected


def test_a_wait_since_the_start_counts_at_the_first_search(queued_s: list[float]) -> None:
    cache = OneProcess()
    cache.use(core_s=LONG_S * 0.2)
    queued_s[0] = LONG_S * 0.8
    assert UnlistedTrainings(cache).pids(0.0, ()) == {os.getpid()}


def test_what_trained_for_long_stays_listed_for_as_long_but_not_for_ever(queued_s: list[float]) -> None:
    cache = OneProcess()
    found = UnlistedTrainings(cache)
    for now_s in range(0, 110, 10):
        cache.use(core_s=9.0)
        found.pids(float(now_s), ())
    assert found.pids(185.0, ()) == {os.getpid()}
    assert found.pids(195.0, ()) == set()
    for now_s in range(210, 1310, 10):
        cache.use(core_s=9.0)
        found.pids(float(now_s), ())
    assert found.pids(1895.0, ()) == {os.getpid()}
    assert found.pids(1905.0, ()) == set()


def test_what_waits_for_a_process_that_waits_for_it_stays_listed(
    queued_s: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    woken_by, asked = ["nothing"], []
    monkeypatch.setattr(unlisted, "read_child_woken_by", lambda pid: asked.append(pid) or woken_by[0])
    cache = OneProcess()
    found = UnlistedTrainings(cache)
    found.pids(0.0, ())
    cache.use(core_s=9.0)
    found.pids(10.0, ())
    for now_s in range(12, 200, 2):
        assert found.pids(float(now_s), ()) == {os.getpid()}
    assert len(asked) <= 200 // 30, "it is asked only when it would leave the list"
    woken_by[0] = "others"
    found.pids(231.0, ())
    assert found.pids(233.0, ()) == set()
