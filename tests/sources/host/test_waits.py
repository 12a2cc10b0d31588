"""What the main thread of a real process waits for, by its system call."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from gputop.sources.host import evidence, procfs, waits
from gputop.sources.host.book import ProcessBook
from tests.real_processes import BUSY, Processes, eventually

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64") or not Path("/proc/self/syscall").exists(), reason="no table of calls here"
)
PAIR = "import socket; a, b = socket.socketpair(); "


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("time.sleep(100)", "sleep"),
        ("import select; select.select([], [], [], 100)", "sleep"),
        ("r, w = os.pipe(); os.read(r, 1)", "pipe"),
        (f"{PAIR}a.recv(1)", "socket"),
        (f"{PAIR}os.read(a.fileno(), 1)", "socket"),
        ("import select; r, w = os.pipe(); select.select([r], [], [], 100)", "events"),
        ("import select; p = select.epoll(); p.poll(100)", "events"),
        ("import queue; queue.Queue().get()", "lock"),
        ("lock = threading.Lock(); lock.acquire(); lock.acquire()", "lock"),
        ("import subprocess; child = subprocess.Popen(['sleep', '100']); os.waitpid(child.pid, 0)", "child"),
    ],
)
def test_what_a_process_waits_for(processes: Processes, code: str, word: str) -> None:
    child, _ = processes.ready(f"say('ready'); {code}")
    eventually(lambda: waits.read_waits_for(child.pid), lambda found: found == word)
    assert word in waits.WAITS
    assert procfs.read_stat(child.pid).state == "S", "reading it stops nothing"


def test_a_process_that_computes_waits_for_nothing(processes: Processes) -> None:
    child, _ = processes.ready(BUSY)
    eventually(lambda: (waits.read_waits_for(child.pid), procfs.read_stat(child.pid).state), lambda found: found == (None, "R"))


def test_each_reading_comes_with_its_time(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    child, _ = processes.ready("say('ready'); time.sleep(100)")
    monkeypatch.setattr(evidence, "WAITS_S", 600.0)
    facts = ProcessBook().look_up(child.pid)
    assert facts is not None
    known = evidence.Evidence()
    assert known.waits_read_s is None
    for now_s in (1000.0, 1001.0, 1599.0):
        known.read(facts, now_s)
        assert known.waits_read_s == 1000.0
    known.read(facts, 1600.0)
    assert known.waits_read_s == 1600.0
    facts.stat = facts.stat._replace(state="R")
    known.read(facts, 2200.0)
    assert (known.waits_for, known.waits_read_s) == (None, 2200.0), "that it runs is a reading, too"


def test_a_process_that_is_gone_raises(processes: Processes) -> None:
    child, _ = processes.ready("say('ready')")
    child.wait()
    with pytest.raises(OSError, match=str(child.pid)):
        waits.read_waits_for(child.pid)
