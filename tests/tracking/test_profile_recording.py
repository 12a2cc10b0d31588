"""When a recording ends by itself, and what it leaves behind. Torch's profiler, the trainer and its clock are fakes."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from threading import get_ident
from types import FrameType, SimpleNamespace

import pytest

from gputop.tracking.journal.worker import Worker
from gputop.tracking.profiling import papers, recording
from gputop.tracking.profiling.desk import Desk
from gputop.tracking.profiling.recording import Recording
from gputop.tracking.standing import attendant

STEP_S = 0.5


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now

    def perf_counter_ns(self) -> int:
        return int(self.now * 1e9)

    time_ns = perf_counter_ns

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Trainer:
    """A training whose steps take ``STEP_S``, until it hangs at ``hangs_at``."""

    def __init__(self, clock: Clock, hangs_at: float) -> None:
        self.clock, self.began, self.hangs_at = clock, clock.now, hangs_at

    def trains_on(self) -> int:
        return get_ident()

    def last_step(self) -> tuple[int | None, float | None]:
        step = int((min(self.clock.now, self.hangs_at) - self.began) / STEP_S)
        return step, self.began + step * STEP_S

    def recent_steps_s(self) -> list[float]:
        return [STEP_S] * 9

    def phase_of(self, frame: FrameType | None) -> str:
        return "other"


class Profiler:
    """torch's profiler: notes when it runs, and saves a trace of one byte."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.profiler = SimpleNamespace(kineto_results=self)
        self.ran: list[float] = []

    def start(self) -> None:
        self.ran.append(self.clock.now)

    def stop(self) -> None:
        self.ran.append(self.clock.now)

    def save(self, path: str) -> None:
        Path(path).write_text("x")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The recording's clock, and torch's modules, which only have to be there."""
    found = Clock()
    monkeypatch.setattr(recording, "time", found)
    kinds = ("profile", "emit_nvtx", "emit_itt")
    own = SimpleNamespace(**{name: type(name, (), {"__enter__": lambda self: self}) for name in kinds})
    monkeypatch.setitem(sys.modules, "torch.autograd.profiler", own)
    return found


@pytest.mark.parametrize("steps_before", [1.9, 2.1])
def test_what_follows_the_recorded_step_is_not_recorded(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, steps_before: float
) -> None:
    profiler = Profiler(clock)
    found = Recording(Trainer(clock, clock.now + steps_before * STEP_S), STEP_S, lambda path: False)
    monkeypatch.setattr(found, "_profile", lambda: profiler)
    found.record(3, tmp_path / "rank.ring", "0" * 16)
    began, ended = profiler.ran
    assert ended - began < 5 * STEP_S, "the hang, or the evaluation, is not recorded"
    assert found.note == "a step had not ended after 3 times its usual length"
    assert not found.traces


def test_every_profiler_of_the_script_comes_first(clock: Clock, tmp_path: Path) -> None:
    found = Recording(Trainer(clock, clock.now), STEP_S, lambda path: False)
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


def test_a_step_that_was_saved_before_the_end_counts(clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = Recording(Trainer(clock, clock.now + 5.1 * STEP_S), STEP_S, lambda path: False)
    monkeypatch.setattr(found, "_profile", lambda: Profiler(clock))
    found.record(1, tmp_path / "rank.ring", "0" * 16)
    assert found.note == "no step came for a while"
    assert [path.name for path in tmp_path.glob("rank*")] == found.traces
    assert len(found.traces) == len(found.windows) == 1


@pytest.mark.parametrize("ends_first", [False, True])
def test_the_traces_of_a_recording_that_fails_are_removed(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ends_first: bool
) -> None:
    desk = Desk(tmp_path / "rank.ring", lambda path: False)

    def record(self: Recording, steps: int, ring: Path, request_id: str) -> None:
        trace = papers.trace_path(ring, request_id, 0)
        trace.write_text("x")
        self.traces.append(trace.name)
        if ends_first:
            monkeypatch.setattr(self, "end_now", lambda why: None)
            desk.end()
        raise ValueError("torch's")

    monkeypatch.setattr(Recording, "record", record)
    monkeypatch.setattr(attendant, "_trainer", Trainer(clock, clock.now))
    monkeypatch.setattr(desk, "_request", papers.Request("0" * 16, 1, True, 0.0))
    monkeypatch.setattr(desk, "_worker", Worker("test", desk._record))
    desk._record()
    if not ends_first:
        assert "failed" in papers.read(papers.answer_path(tmp_path / "rank.ring"))["why"]
        desk.end()
    assert not list(tmp_path.glob("rank*"))
