"""A thread of ours, where a signal handler of the script interrupts its start."""

from __future__ import annotations

import _thread
import signal
import threading
from typing import Any

import pytest

from gputop.tracking.journal.unseen_thread import UnseenThread
from gputop.tracking.journal.worker import Worker
from tests.patience import DEADLINE_S
from tests.tracking.kit import Home, home

assert home

pytestmark = pytest.mark.interpreter


class TimeUp(BaseException):
    pass


def test_a_start_that_a_handler_interrupts_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = threading.Event()
    worker = Worker(ran.set)

    def interrupted(self: Any) -> None:
        raise TimeUp

    with monkeypatch.context() as patch:
        patch.setattr(UnseenThread, "start", interrupted)
        with pytest.raises(TimeUp):
            worker.start()
    assert worker.join(0.0)
    worker.start()
    assert ran.wait(DEADLINE_S)


def test_a_thread_that_never_started_is_not_waited_for() -> None:
    worker = Worker(lambda: None)
    worker._thread = UnseenThread(lambda: None)
    assert worker.join(0.0)


def test_a_thread_that_is_a_greenlet_of_the_script_s_leaves_its_signals_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    monkeypatch.setattr(_thread, "start_new_thread", lambda run, arguments: run(*arguments))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    thread = UnseenThread(lambda: ran.append(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
    thread.start()
    assert ran == [before]
    assert not thread.is_alive()


ALONE = """
import os, signal, threading, time, gputop

def blocks(task):
    with open(f"/proc/self/task/{task}/status") as status:
        mask = int(next(line.split()[1] for line in status if line.startswith("SigBlk")), 16)
    has = [bool(mask >> number - 1 & 1) for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGSEGV)]
    return has == [True, True, False]  # while the C library starts a thread, it blocks all of them

seen = []
threading.settrace(lambda *told: seen.append(told[0].f_code.co_name))
threading.setprofile(lambda *told: seen.append(told[0].f_code.co_name))
run = gputop.init()
for number in range(100):
    run.log(loss=float(number))
print(len(os.listdir("/proc/self/task")) > 1, threading.active_count(), seen)
ours = [task for task in os.listdir("/proc/self/task") if int(task) != os.getpid()]
until = time.monotonic() + 30
while not all(map(blocks, ours)) and time.monotonic() < until:
    time.sleep(0.01)
print(bool(ours), all(map(blocks, ours)))
for number in (signal.SIGUSR1, signal.SIGTERM):  # each would end the process
    signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    os.kill(os.getpid(), number)
    run.log(loss=0.0)
    print(signal.sigwait({number}).name)
run.finish()
print(threading.active_count(), seen)
"""


def test_a_script_does_not_notice_our_threads(home: Home) -> None:
    assert home.run(ALONE) == (0, "True 1 []\nTrue True\nSIGUSR1\nSIGTERM\n1 []\n", "")


def test_a_thread_whose_end_was_awaited_by_an_interrupted_call_is_gone() -> None:
    """A signal handler that raises between the two halves of ``join`` leaves the lock held."""
    thread = UnseenThread(lambda: None)
    thread.start()
    thread.join(DEADLINE_S)
    thread._running.acquire()
    assert not thread.is_alive()
