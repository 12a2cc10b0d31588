"""A script that forks prints the same as without gputop, and its run continues to be recorded."""

from __future__ import annotations

import signal

import pytest

from tests.tracking.kit import Home, eventually, home, read_all

assert home

pytestmark = pytest.mark.interpreter

FORKS = """
import os, sys, gputop

def ours():
    return len(os.listdir("/proc/self/task")) - 1

run = gputop.init()
for number in range(200):
    run.log(loss=float(number))
    if number % 20 == 10:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        if number == 190:
            print("forked", ours() if sys.version_info >= (3, 12) else 0, flush=True)
            sys.stdin.readline()
print("logged", ours(), flush=True)
sys.stdin.readline()
run.log(loss=200.0)
print("done", flush=True)
sys.stdin.readline()
"""


def test_a_fork_prints_no_warning_and_the_run_continues(home: Home) -> None:
    process = home.start(FORKS)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "forked 0\n", "Python would warn of a thread that is there now"
    (archive,) = home.archives()

    def kept(last: float) -> bool:
        return read_all(archive).series.get("loss", [(0, -1.0)])[-1][1] == last

    eventually(lambda: kept(190.0), "what was logged before the fork is in the archive, although nothing is logged")
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "logged 1\n", "the next record starts the thread again"
    eventually(lambda: kept(199.0), "and it copies to the archive")
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"
    process.send_signal(signal.SIGKILL)
    assert process.stderr.read() == ""
    process.wait()
    assert home.only_run().ranks[0].metrics == {"loss": 200.0}
    assert read_all(archive).series["loss"] == [(step, float(step)) for step in range(201)]


RAISES = """
import os, signal, threading, time
from gputop.tracking.journal import worker

class TimeIsUp(Exception):
    pass

def handle(number, frame):
    raise TimeIsUp

def work():
    while not slow._fork:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGALRM)
    waits.wait()

worker.FORK_WAIT_S = 30.0
waits = threading.Event()
slow = worker.Worker(work)
signal.signal(signal.SIGALRM, handle)
slow.start()
try:
    worker._before_fork()
    print("lost")
except TimeIsUp:
    print("raised")
waits.set()
"""


def test_an_exception_of_a_signal_handler_during_a_fork_is_not_our_failure(home: Home) -> None:
    assert home.run(RAISES) == (0, "raised\n", "")


DEAD_DISK = """
import os, threading, gputop

answers, waits = threading.Event(), threading.Event()
write = os.pwrite

def pwrite(*arguments):
    waits.set()
    answers.wait()
    return write(*arguments)

run = gputop.init()
os.pwrite = pwrite
run.log(loss=0.0)
waits.wait()
for step in range(1, 4):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    run.log(loss=float(step))
print(len(os.listdir("/proc/self/task")) - 1)
answers.set()
run.log(loss=4.0)
"""


def test_a_fork_does_not_wait_for_a_disk_that_does_not_answer(home: Home) -> None:
    code, said, error = home.run(DEAD_DISK)
    assert code == 0, error
    assert said == "1\n", "one thread, which still waits for the disk"
    (archive,) = home.archives()
    assert read_all(archive).series["loss"] == [(step, float(step)) for step in range(5)]
    assert home.only_run().state == "finished"


OTHERS = """
import os, threading, gputop

stop = threading.Event()
other = threading.Thread(target=stop.wait)
run = gputop.init()
run.log(loss=0.0)
other.start()
before = os.listdir("/proc/self/task")
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
print(len(before), before == os.listdir("/proc/self/task"))
stop.set()
"""


def test_our_threads_stay_if_the_script_has_threads(home: Home) -> None:
    code, said, error = home.run(OTHERS)
    assert (code, said) == (0, "3 True\n"), error
