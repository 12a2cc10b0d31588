"""When a recording ends by itself, and what it leaves behind. Torch's profiler and the trainer are fakes."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import get_ident
from types import FrameType, SimpleNamespace

import pytest

from gputop.tracking.journal.worker import Worker
from gputop.tracking.profiling import exchange, obstacles, recording
from gputop.tracking.profiling import service as service_module
from gputop.tracking.profiling.one_step import OneStep
from gputop.tracking.profiling.recording import Recording
from gputop.tracking.profiling.service import ProfileService
from gputop.tracking.standing import reporter
from tests.tracking.kit import eventually

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


NOTHING = lambda: None  # noqa: E731
LOOK = ("prepare", "start", "stop")
"""What a recording of nothing calls first."""


class Profiler:
    """torch's profiler: notes what is called on which thread, and saves a trace of one byte."""

    use_device = None

    def __init__(
        self,
        on_start: Callable[[], None] = NOTHING,
        on_save: Callable[[], None] = NOTHING,
        on_first_starts: Sequence[Callable[[], None]] = (),
    ) -> None:
        """``on_start`` is called where a step is recorded, ``on_first_starts`` one after the other, also where nothing is."""
        self.kineto_results = self
        self.calls: list[tuple[str, int]] = []
        self._on_start, self._on_save = on_start, on_save
        self._on_starts = iter(on_first_starts)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.calls)

    def _prepare_trace(self) -> None:
        self.calls.append(("prepare", get_ident()))

    def _start_trace(self) -> None:
        self.calls.append(("start", get_ident()))
        next(self._on_starts, NOTHING)()
        if len(self.calls) > len(LOOK):
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


def recording_of(
    trainer: Trainer, profiler: Profiler, monkeypatch: pytest.MonkeyPatch, *, longest: float = 1000.0
) -> Recording:
    """A recording that may make a step ``longest`` times as long: by default so long that a busy machine does not end it."""
    monkeypatch.setattr(obstacles, "LONGEST_STEPS", longest)
    found = Recording(trainer, STEP_S, lambda path: False)
    monkeypatch.setattr(found, "_profiler", lambda: profiler)
    return found


def test_what_follows_the_recorded_step_is_not_recorded(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    profiler = Profiler(on_start=lambda: setattr(trainer, "evaluates", True))
    found = recording_of(trainer, profiler, monkeypatch)
    found.record(3, tmp_path / "rank.ring", "0" * 16)
    assert profiler.calls == [(name, trainer.trains_on()) for name in LOOK * 2]
    assert found.note == "a step had not ended after 2.5 times its usual length"
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
        with found._watching_script():
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


LONG_S = 60 * STEP_S
"""Longer than five steps, also where the steps are slow on a busy machine."""


def test_it_ends_after_the_first_step_that_it_makes_too_long(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    profiler = Profiler(on_first_starts=[NOTHING, lambda: time.sleep(LONG_S)])
    found = recording_of(trainer, profiler, monkeypatch, longest=LONG_S / STEP_S)
    found.record(3, tmp_path / "rank.ring", "0" * 16)
    assert profiler.names == LOOK * 2
    assert found.note is not None
    assert "times as long as usual" in found.note
    assert found.over_s >= LONG_S
    assert len(found.traces) == 1, "what it has cost is not thrown away"


def test_the_last_step_is_judged_as_the_first(trainer: Trainer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    profiler = Profiler(on_first_starts=[NOTHING, lambda: time.sleep(LONG_S)])
    found = recording_of(trainer, profiler, monkeypatch, longest=LONG_S / STEP_S)
    found.record(1, tmp_path / "rank.ring", "0" * 16)
    assert "times as long as usual" in str(found.note)


@pytest.mark.parametrize(
    ("starts", "longest", "looks"),
    [
        ([LONG_S], LONG_S / STEP_S, 1),  # beyond the limit at once
        ([LONG_S, LONG_S], 1.5 * LONG_S / STEP_S, 2),  # within it, but nothing would be left for a step
    ],
)
def test_a_profiler_that_is_slow_to_start_or_stop_records_no_step(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, starts: list[float], longest: float, looks: int
) -> None:
    profiler = Profiler(on_first_starts=[partial(time.sleep, start_s) for start_s in starts])
    monkeypatch.setattr(recording, "RECORDED_STEPS", longest - 0.5 * LONG_S / STEP_S)
    found = recording_of(trainer, profiler, monkeypatch, longest=longest)
    found.record(3, tmp_path / "rank.ring", "0" * 16)
    assert profiler.names == LOOK * looks
    assert "starting and stopping torch's profiler took" in str(found.note)
    assert not found.traces


def test_a_slow_first_start_is_not_the_usual_one(trainer: Trainer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    profiler = Profiler(on_first_starts=[partial(time.sleep, LONG_S)])
    monkeypatch.setattr(recording, "RECORDED_STEPS", 1000.0)
    found = recording_of(trainer, profiler, monkeypatch, longest=1000.0 + 0.5 * LONG_S / STEP_S)
    found.record(1, tmp_path / "rank.ring", "0" * 16)
    assert profiler.names == LOOK * 3
    assert len(found.traces) == 1


def test_after_a_profile_that_made_a_step_too_long_there_is_no_other(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not until the steps are so long that the same cost would be within the limit, or some time has passed."""
    tmp_path.chmod(0o700)
    usual_s = 0.02
    service = ProfileService(tmp_path / "rank.ring", lambda path: False)
    monkeypatch.setattr(obstacles, "obstacle", lambda trainer: None)
    monkeypatch.setattr(obstacles, "step_s", lambda trainer: usual_s)
    monkeypatch.setattr(Recording, "record", lambda self, *_: setattr(self, "over_s", 0.2))
    monkeypatch.setattr(reporter, "_trainer", trainer)

    def asked(request_id: str, *, go: bool) -> dict[str, object]:
        request = {"id": request_id * 16, "steps": 1, "go": go, "at": time.time()}
        exchange.put(exchange.request_path(tmp_path / "rank.ring"), request)
        service._take()
        eventually(lambda: service._request is None, "the recording has ended")
        return exchange.read(exchange.answer_path(tmp_path / "rank.ring"))

    asked("0", go=True)
    for request_id, go in (("1", False), ("2", True)):
        refused = asked(request_id, go=go)
        assert refused["state"] == "refused"
        assert refused["why"] == (
            "A profile of this run has made a step 11.0 times as long as usual; 5 times is the limit. Ask again in 10 min."
        )
    with monkeypatch.context() as later:
        later.setattr(service_module, "RECOVERS_S", 0.0)
        assert asked("4", go=False)["state"] == "offer", "it is not held against the run for good"
    usual_s = 0.06
    assert asked("3", go=False)["state"] == "offer"
    service.end()


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
