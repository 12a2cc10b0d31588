"""What Python calls for each line or function of a training is known by its name (E05)."""

from __future__ import annotations

import cProfile
import sys
from collections.abc import Iterator
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from gputop.tracking.auto.readings import settings

READ: dict[Any, Any] = {sys.settrace: settings._tracer, sys.setprofile: settings._profiler}
"""The whole of the settings needs torch, whose start takes seconds."""


def tracer(frame: FrameType, event: str, argument: Any) -> None:
    return None


class Debugger:
    def trace(self, frame: FrameType, event: str, argument: Any) -> None:
        return None

    __call__ = trace


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    trace, profile = sys.gettrace(), sys.getprofile()
    sys.settrace(None)
    sys.setprofile(None)
    yield
    sys.setprofile(profile)
    sys.settrace(trace)


@pytest.mark.parametrize(
    ("given", "name"),
    [(tracer, "tracer"), (Debugger().trace, "Debugger.trace"), (Debugger(), "Debugger")],
    ids=["a function", "a method", "an object"],
)
@pytest.mark.parametrize("begin", [sys.settrace, sys.setprofile])
def test_it_is_named_as_python_does(begin: Any, given: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "monitoring", None, raising=False)
    assert READ[begin]() is None
    begin(given)
    found = {other: read() for other, read in READ.items()}
    begin(None)
    assert found.pop(begin) == f"{__name__}.{name}"
    assert list(found.values()) == [None]


def test_a_profiler_of_python_is_named() -> None:
    with cProfile.Profile():
        found = settings._profiler()
    assert found in ("cProfile.Profile", "cProfile")  # before Python 3.12, and from then on


@pytest.mark.parametrize(
    ("number", "events", "found"),
    [(2, 4, "scalpel"), (2, 0, None), (0, 4, None), (1, 4, None)],
    ids=["a profiler", "one that does not listen", "a debugger", "coverage"],
)
def test_a_profiler_that_monitors_is_named(
    number: int, events: int, found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = SimpleNamespace(
        get_tool=lambda place: "scalpel" if place == number else None, get_events=lambda place: events if place == number else 0
    )
    monkeypatch.setattr(sys, "monitoring", tools, raising=False)
    assert settings._profiler() == found
