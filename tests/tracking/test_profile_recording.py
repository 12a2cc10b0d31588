"""When a recording ends by itself, and what it leaves behind. Torch's profiler and the trainer are fakes."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import get_ident
from types import FrameType, SimpleNamespace

import pytest

from gputop.tracking.journal.worker import Worker
from gputop.tracking.profiling import exchange, recording
from gputop.tracking.profiling.one_step import OneStep
from gputop.tracking.profiling.recording import Recording
from gputop.tracking.profiling.service import ProfileService
from gputop.tracking.standing import reporter

STEP_S = 0.01


class Trainer:
    """A training on a thread of its own, that steps until ``evaluates`` or ``hangs``. Evaluating fetches batches."""

    def __init__(self) -> None:
        self.evaluates = self.hangs = False
        self.step, self.marked = 0, time.perf_counter()
        self.call: Callable[[], None] | None = None
        self.thread = threading.Thread(target=self._train, daemon=True)
        self.ended = threading.Event()

    def _train(self) -> None:
        while not self.ended.wait(STEP_S):
            if not (self.evaluates or self.hangs):
                self.step, self.marked = self.step + 1, time.perf_counter()
            if self.call is not None and not self.hangs:
                self.call()

    def trains_on(self) -> int:
        return self.thread.ident or 0

    def last_step(self) -> tuple[int | None, float | None]:
        return self.step, self.marked

    def recent_steps_s(self) -> list[float]:
        return [STEP_S] * 9

    def phase_of(self, frame: FrameType | None) -> str:
        return "other"

    def between_steps(self, call: Callable[[], None] | None) -> None:
        self.call = call


class Profiler:
    """torch's profiler: notes what is called on which thread, and saves a trace of one byte."""

    use_device = None

    def __init__(self, on_start: Callable[[], None] = lambda: None, on_save: Callable[[], None] = lambda: None) -> None:
        self.kineto_results = self
        self.calls: list[tuple[str, int]] = []
        self._on_start, self._on_save = on_start, on_save

    def _prepare_trace(self) -> None:
        self.calls.append(("prepare", get_ident()))

    def _start_trace(self) -> None:
        self.calls.append(("start", get_ident()))
        self._on_start()

    def __exit__(self, *_: object) -> None:
        self.calls.append(("stop", get_ident()))

    def save(self, path: str) -> None:
        Path(path).write_text("x")
        self._on_save()


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Trainer]:
    """A training that steps, and torch's module, which only has to be there."""
    kinds = ("profile", "emit_nvtx", "emit_itt", "record_function")
    methods = {"__enter__": lambda self: self, "__exit__": lambda self: None}
    own = SimpleNamespace(**{name: type(name, (), methods) for name in kinds})
    monkeypatch.setitem(sys.modules, "torch.autograd.profiler", own)
    found = Trainer()
    found.thread.start()
    yield found
    found.ended.set()
    found.thread.join()


def recording_of(trainer: Trainer, profiler: Profiler, monkeypatch: pytest.MonkeyPatch) -> Recording:
    found = Recording(trainer, STEP_S, lambda path: False)
    monkeypatch.setattr(found, "_profiler", lambda: profiler)
    return found


def test_what_follows_the_recorded_step_is_not_recorded(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    profiler = Profiler(on_start=lambda: setattr(trainer, "evaluates", True))
    found = recording_of(trainer, profiler, monkeypatch)
    found.record(3, tmp_path / "rank.ring", "0" * 16)
    assert profiler.calls == [(name, trainer.trains_on()) for name in ("prepare", "start", "stop")]
    assert found.note == "a step had not ended after 3 times its usual length"
    assert not found.traces
    assert trainer.call is None, "steps are as they were before"


def test_a_step_that_never_begins_is_not_recorded(trainer: Trainer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    profiler = Profiler()
    found = recording_of(trainer, profiler, monkeypatch)
    monkeypatch.setattr(recording, "LATE_STEPS", 5.0)
    monkeypatch.setattr(trainer, "between_steps", lambda call: setattr(trainer, "hangs", True))
    found.record(1, tmp_path / "rank.ring", "0" * 16)
    assert (profiler.calls, found.note) == ([], "no step came for a while")


def test_a_thread_that_trains_elsewhere_starts_nothing(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    profiler = Profiler()
    found = recording_of(trainer, profiler, monkeypatch)
    monkeypatch.setattr(recording, "LATE_STEPS", 5.0)
    monkeypatch.setattr(trainer, "trains_on", lambda: 1)
    found.record(1, tmp_path / "rank.ring", "0" * 16)
    assert (profiler.calls, found.note) == ([], "no step came for a while")


@pytest.mark.parametrize("interrupted", ["_prepare_trace", "_start_trace", "__exit__"])
def test_what_a_signal_handler_raises_reaches_the_script_and_no_profiler_stays_on(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    class TimeUpError(Exception):
        pass

    def handler(*_: object) -> None:
        raise TimeUpError

    profiler = Profiler()
    usual = getattr(profiler, interrupted)
    once = [True]

    def called(*args: object) -> None:
        usual(*args)
        if once and once.pop():
            signal.raise_signal(signal.SIGALRM)

    monkeypatch.setattr(profiler, interrupted, called)
    monkeypatch.setattr(trainer, "trains_on", get_ident)
    monkeypatch.setattr(trainer, "last_step", lambda: (trainer.step, 0.0))
    before = signal.signal(signal.SIGALRM, handler)
    try:
        one = OneStep(trainer, profiler)
        raised = 0
        for step in (1, 2):
            trainer.step = 1000 * step
            try:
                one.between_steps()
            except TimeUpError:
                raised += 1
    finally:
        signal.signal(signal.SIGALRM, before)
    assert raised == 1
    assert one.stopped.is_set()
    assert "stop" in [name for name, _ in profiler.calls]


def test_every_profiler_of_the_script_comes_first(trainer: Trainer) -> None:
    found = Recording(trainer, STEP_S, lambda path: False)
    own = sys.modules["torch.autograd.profiler"]
    for kind in (own.profile, own.emit_nvtx, own.emit_itt):
        original = kind.__enter__
        with found._making_way():
            script = threading.Thread(target=kind().__enter__)
            script.start()
            script.join()
        assert kind.__enter__ is original
        assert found._ended == "the training started a profiler itself"
        found._ended = ""


def test_a_step_that_was_saved_before_the_end_counts(trainer: Trainer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = recording_of(trainer, Profiler(on_save=lambda: setattr(trainer, "hangs", True)), monkeypatch)
    found.record(1, tmp_path / "rank.ring", "0" * 16)
    assert found.note == "no step came for a while"
    assert [path.name for path in tmp_path.glob("rank*")] == found.traces
    assert len(found.traces) == len(found.windows) == 1


@pytest.mark.parametrize("ends_first", [False, True])
def test_the_traces_of_a_recording_that_fails_are_removed(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ends_first: bool
) -> None:
    service = ProfileService(tmp_path / "rank.ring", lambda path: False)

    def record(self: Recording, steps: int, ring: Path, request_id: str) -> None:
        trace = exchange.trace_path(ring, request_id, 0)
        trace.write_text("x")
        self.traces.append(trace.name)
        if ends_first:
            monkeypatch.setattr(self, "end_now", lambda why: None)
            service.end()
        raise ValueError("torch's")

    monkeypatch.setattr(Recording, "record", record)
    monkeypatch.setattr(reporter, "_trainer", trainer)
    monkeypatch.setattr(service, "_request", exchange.Request("0" * 16, 1, True, 0.0))
    monkeypatch.setattr(service, "_worker", Worker(service._record))
    service._record()
    if not ends_first:
        assert "failed" in exchange.read(exchange.answer_path(tmp_path / "rank.ring"))["why"]
        service.end()
    assert not list(tmp_path.glob("rank*"))
