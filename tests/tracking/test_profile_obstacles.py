"""Why a profile is refused: each obstacle in its own words. The trainer is the only fake."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from threading import get_ident
from types import FrameType, SimpleNamespace

import pytest

from gputop.tracking.profiling.obstacles import compiles, obstacle


@dataclass
class Trainer:
    """A training with steps of these lengths."""

    times: list[float] = field(default_factory=lambda: [0.1] * 9)
    step: int | None = 8

    def trains_on(self) -> int:
        return get_ident()

    def last_step(self) -> tuple[int | None, float | None]:
        return self.step, 1.0

    def recent_steps_s(self) -> list[float]:
        return self.times

    def phase_of(self, frame: FrameType | None) -> str:
        return "other"


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """torch's profilers, idle."""
    own = SimpleNamespace(_is_profiler_enabled=False)
    monkeypatch.setitem(sys.modules, "torch.profiler", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "torch.autograd.profiler", own)
    for name in ("NSYS_PROFILING_SESSION_ID", "CUDA_INJECTION64_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "gettrace", lambda: None)  # a coverage run traces
    monkeypatch.setattr(sys, "monitoring", None, raising=False)
    return own


def test_a_usual_training_has_no_obstacle() -> None:
    assert obstacle(Trainer()) is None


@pytest.mark.parametrize(
    ("trainer", "words"),
    [
        (None, "No step has ended yet"),
        (Trainer(step=None), "No step has ended yet"),
        (Trainer([0.1] * 4), "Too few steps have ended"),
        (Trainer([0.001] * 9), "A step takes 1.0 ms"),
        (Trainer([60.0] * 9), "A step takes 60 s"),
    ],
)
def test_steps_that_cannot_be_profiled(trainer: Trainer | None, words: str) -> None:
    assert words in str(obstacle(trainer))


def test_other_profilers_take_precedence(torch: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    torch._is_profiler_enabled = True
    assert "itself is using torch's profiler" in str(obstacle(Trainer()))
    torch._is_profiler_enabled = False
    monkeypatch.setattr(sys, "gettrace", lambda: print)
    assert "debugger" in str(obstacle(Trainer()))
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "4")
    assert "NSYS_PROFILING_SESSION_ID" in str(obstacle(Trainer()))
    monkeypatch.delitem(sys.modules, "torch.profiler")
    assert "no torch.profiler" in str(obstacle(Trainer()))


class Schedule:
    """torch.profiler.profile, as far as it shows where in its schedule it is."""

    def __init__(self, action: str, *, begun: bool = True, stopped: bool = False) -> None:
        self.current_action = SimpleNamespace(name=action)
        self.profiler = SimpleNamespace(kineto_results=[] if stopped else None) if begun else None


@pytest.mark.parametrize(
    ("own", "is_seen"),
    [
        (Schedule("WARMUP"), True),
        (Schedule("WARMUP", begun=False), False),
        (Schedule("WARMUP", stopped=True), False),
        (Schedule("NONE", begun=False), False),
        (Schedule("RECORD", stopped=True), False),
    ],
)
def test_a_profiler_of_the_script_is_seen_while_it_warms_up(
    monkeypatch: pytest.MonkeyPatch, own: Schedule, is_seen: bool
) -> None:
    kind = type("profile", (Schedule,), {})  # of this case alone: those of the others exist, too
    mine = kind(own.current_action.name)
    mine.profiler = own.profiler
    monkeypatch.setitem(sys.modules, "torch.profiler", SimpleNamespace(profile=kind))
    assert ("itself is using torch's profiler" in str(obstacle(Trainer()))) is is_seen


def test_a_compilation_under_way_is_seen_on_the_stack() -> None:
    namespace: dict[str, object] = {"compiles": compiles, "thread": get_ident()}
    exec(compile("found = compiles(thread)", "/x/site-packages/torch/_dynamo/convert_frame.py", "exec"), namespace)
    assert namespace["found"]
    assert not compiles(get_ident())
