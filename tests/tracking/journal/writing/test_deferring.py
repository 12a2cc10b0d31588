"""Records given to ``Journal.defer``: none is lost, none changes, and they wait only for moments."""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Iterator
from time import monotonic_ns

import pytest

import gputop
from gputop.tracking.journal.writing.deferring import DEFERRED_MAX, Deferred
from gputop.tracking.journal.writing.writer import Journal
from gputop.tracking.run import Run
from tests.tracking.kit import Home, eventually, home, read_all

assert home


def journal() -> tuple[Run, Journal]:
    run = gputop.init(name="later")
    assert run.journal is not None
    return run, run.journal


def points(home: Home, name: str) -> list[tuple[int, float]]:
    (archive,) = home.archives()
    return list(read_all(archive).series[name])


def test_deferred_records_are_written_in_order_whatever_comes_between(home: Home) -> None:
    run, written = journal()
    for step in range(3 * DEFERRED_MAX + 5):
        written.defer({"loss": float(step)} if step % 3 else {"loss": float(step), "lr": 0.5}, step)
        if step == 40:
            run.log({"note": 1.0})  # counted from the current step, although its record still waits
            run.fact("at", 40)
    run.finish()
    assert points(home, "loss") == [(step, float(step)) for step in range(3 * DEFERRED_MAX + 5)]
    assert points(home, "note") == [(41, 1.0)]


def test_no_record_is_lost_if_a_script_sets_the_clock_back(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    run, written = journal()
    written.defer({"loss": 0.0}, 0)
    monkeypatch.setattr("gputop.tracking.journal.writing.deferring.monotonic_ns", lambda: 1)
    for step in range(1, 40):
        written.defer({"loss": float(step)}, step)
    run.finish()
    assert points(home, "loss") == [(step, float(step)) for step in range(40)]


def test_each_deferred_record_keeps_its_time(home: Home) -> None:
    run, written = journal()
    written.defer({"loss": 1.0}, 0)
    given = []
    for step in range(1, 4):
        time.sleep(0.01)
        given.append(time.monotonic_ns())
        written.defer({"loss": 1.0}, step)
    ended = time.monotonic_ns()
    run.finish()
    (archive,) = home.archives()
    found = read_all(archive).times_ns
    for step, (before, after) in enumerate(zip(given, [*given[1:], ended], strict=True), 1):
        assert before <= found[step] <= after


def test_the_last_ones_before_a_pause_are_seen_all_the_same(home: Home) -> None:
    run, written = journal()
    for step in range(DEFERRED_MAX // 2):
        written.defer({"loss": float(step)}, step)
    ring = eventually(lambda: next(iter(home.rings()), None), "the ring")
    last = eventually(
        lambda: read_all(None, ring).series["loss"][-1] == (DEFERRED_MAX // 2 - 1, float(DEFERRED_MAX // 2 - 1)) or None,
        "the last record",
    )
    assert last
    run.finish()


def test_the_thread_looks_often_while_records_wait_and_not_longer(home: Home) -> None:
    run, written = journal()
    run.log(loss=0.0, step=0)  # the thread runs from here on
    assert not written.quick
    written.defer({"loss": 1.0}, 1)
    written.defer({"loss": 2.0}, 2)
    assert written.quick, "the second one is left behind"
    eventually(lambda: not written.waits or None, "that nothing waits")
    eventually(lambda: not written.quick or None, "that the thread sleeps again")
    run.finish()
    assert points(home, "loss") == [(0, 0.0), (1, 1.0), (2, 2.0)]


def test_a_signal_handler_and_another_thread_may_log_meanwhile(home: Home) -> None:
    run, written = journal()
    handled = 0

    def handler(*_: object) -> None:
        nonlocal handled
        run.log({"handled": float(handled)})
        handled += 1

    previous = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    over = threading.Event()
    others = 0

    def other() -> None:
        nonlocal others
        while not over.is_set():
            run.log({"other": 1.0})
            written.catch_up()
            others += 1

    thread = threading.Thread(target=other)
    thread.start()
    try:
        for step in range(20_000):
            written.defer({"loss": float(step)}, step)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)
        over.set()
        thread.join()
    run.finish()
    assert [step for step, _ in points(home, "loss")] == list(range(20_000))
    assert len(points(home, "handled")) == handled
    assert len(points(home, "other")) == others


def test_a_killed_process_loses_those_that_wait_and_no_others(home: Home) -> None:
    process = home.start(
        f"""
import os, signal, sys, gputop
run = gputop.init(name="killed")
run.journal.quick = True  # the thread that would write them soon is not told
run.journal.defer({{"loss": 0.0}}, 0)
for step in range(1, {DEFERRED_MAX} + 5):
    run.journal.defer({{"loss": float(step)}}, step)
print(len(run.journal.deferred), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    said, _ = process.communicate(timeout=180)
    assert process.returncode == -signal.SIGKILL
    waited = int(said)
    assert waited < DEFERRED_MAX
    (archive,) = home.archives()
    (ring,) = home.rings()
    assert [step for step, _ in read_all(archive, ring).series["loss"]] == list(range(DEFERRED_MAX + 5 - waited))


def test_without_a_ring_no_record_is_deferred(home: Home) -> None:
    process = home.start(
        """
import os, signal, gputop
run = gputop.init(name="through")
for step in range(5):
    run.journal.defer({"loss": float(step)}, step)
os.kill(os.getpid(), signal.SIGKILL)
""",
        GPUTOP_THREAD="0",
    )
    process.communicate(timeout=180)
    assert points(home, "loss") == [(step, float(step)) for step in range(5)]


def test_an_exception_while_deferred_records_are_written_loses_and_repeats_none(home: Home) -> None:
    class InterruptError(Exception):
        pass

    _, written = journal()
    raises = True
    left = deque(range(10))

    class Stretch:
        def __bool__(self) -> bool:
            return bool(left)

        def __iter__(self) -> Iterator[Deferred]:
            nonlocal raises
            while left:
                if len(left) == 5 and raises:
                    raises = False
                    raise InterruptError  # as a signal's handler does, in the middle
                yield ("loss",), (0.5,), left.popleft(), monotonic_ns()

    written.deferred.append(Stretch())
    written.defer({"loss": 1.0}, 10)
    written.catch_up()
    assert not raises
    written.catch_up()
    assert not written.waits
    gputop.finish()
    assert [step for step, _ in points(home, "loss")] == list(range(11))


def test_the_thread_leaves_records_to_a_training_that_writes_them(home: Home) -> None:
    _, written = journal()
    written.quick = True
    written.defer({"loss": 0.0}, 0)
    written.defer({"loss": 1.0}, 1)
    assert written.catch_up(10**12), "they wait"
    assert written.waits
    written.catch_up()
    assert not written.waits
    gputop.finish()


def test_records_of_another_thread_are_written_with_the_deferred_ones(home: Home) -> None:
    run, written = journal()
    run.log(loss=0.0, step=0)

    def slowly() -> Iterator[Deferred]:
        yield ("loss",), (1.0,), 1, monotonic_ns()
        thread = threading.Thread(target=run.log, args=({"other": 1.0},), kwargs={"step": 1})
        thread.start()
        thread.join()
        yield ("loss",), (2.0,), 2, monotonic_ns()

    written.deferred.append(slowly())
    written.catch_up()
    (archive,), (ring,) = home.archives(), home.rings()
    found = read_all(archive, ring).series  # as after a kill -9: nothing comes after
    assert list(found["other"]) == [(1, 1.0)]
    assert len(found["loss"]) == 3
    run.finish()
