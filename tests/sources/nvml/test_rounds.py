"""GPUs that one thread reads in turn, by stand-ins whose reading does what a test wants."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputop.sources.nvml import rounds as rounds_module
from gputop.sources.nvml.rounds import SLOW_S, Rounds
from tests.nvml_sim import h100_box
from tests.nvml_sim.watch import Watch

PATIENCE_S = 30.0


class Gpu:
    """Counts its readings; ``reads`` is called within each."""

    def __init__(self, index: int, reads: Callable[[], Any] = lambda: None) -> None:
        self.index = index
        self.reads = reads
        self.readings = 0
        self.thread = threading.current_thread()
        self.alone_in: list[threading.Thread] = []
        self.finished = threading.Event()

    def tick(self, now: float) -> None:
        self.reads()
        self.readings += 1

    def run(self) -> None:
        self.alone_in.append(threading.current_thread())

    def start(self) -> None:
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def finish(self) -> None:
        self.finished.set()


@pytest.fixture(autouse=True)
def no_gpu_is_slow_because_the_machine_is(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(rounds_module, "SHARE", 1e9)
    if "slow" not in request.function.__name__:
        monkeypatch.setattr(rounds_module, "SLOW_S", 1e9)


def joined(rounds: Rounds, *gpus: Gpu) -> tuple[Gpu, ...]:
    for gpu in gpus:
        rounds.join(gpu)
    return gpus


def until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def has_more(gpu: Gpu) -> Callable[[], object]:
    before = gpu.readings
    return lambda: gpu.readings > before + 1


def test_a_call_that_hangs_keeps_its_thread_and_leaves_the_others() -> None:
    free = threading.Event()
    rounds = Rounds(0.01)
    one, hung, other = joined(rounds, Gpu(0), Gpu(1, free.wait), Gpu(2))
    first = hung.thread
    until(lambda: one.readings)
    until(lambda: rounds.leave_hanging_call() or other.readings)
    assert one.thread is other.thread is not first
    assert (hung.thread, first.is_alive(), hung.readings) == (first, True, 0)
    until(has_more(one))
    free.set()
    until(lambda: hung.alone_in)
    assert hung.alone_in == [first]
    rounds.stop()
    assert one.finished.wait(PATIENCE_S)
    assert other.finished.wait(PATIENCE_S)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_reading_that_fails_ends_alone() -> None:
    def fail() -> None:
        raise ValueError("no such reading")

    rounds = Rounds(0.01)
    failing, other = joined(rounds, Gpu(0, fail), Gpu(1))
    until(has_more(other))
    until(lambda: not failing.thread.is_alive())
    assert other.thread.is_alive()
    rounds.stop()


def test_a_slow_gpu_is_read_alone_from_then_on() -> None:
    rounds = Rounds(0.01)
    other, slow = joined(rounds, Gpu(0), Gpu(1, lambda: time.sleep(SLOW_S)))
    until(lambda: slow.alone_in)
    until(has_more(other))
    assert slow.readings == 1
    assert len(slow.alone_in) == 1
    rounds.stop()


def test_a_new_interval_holds_at_once() -> None:
    rounds = Rounds(3600.0)
    (gpu,) = joined(rounds, Gpu(0))
    rounds.set_interval(0.01)
    until(has_more(gpu))
    rounds.stop()
    assert gpu.finished.wait(PATIENCE_S)


def test_many_gpus_that_answer_at_once_share_a_thread(tmp_path: Path) -> None:
    with Watch(h100_box(16).write(tmp_path / "s"), 0.2) as watch:
        watch.settled()
        until(lambda: len(os.listdir(f"/proc/{watch.process.pid}/task")) < 12)
        assert {device.state for device in watch.read().devices} == {"ok"}
