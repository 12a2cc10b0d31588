"""What Python calls for each line or function of a training is known by its name (E05)."""

from __future__ import annotations

import cProfile
import sys
from collections.abc import Iterator
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from gputop.tracking.auto.readings import settings

traced = settings._tracer  # the whole of the settings needs torch, whose start takes seconds


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
    ("given", "name"), [(tracer, "tracer"), (Debugger().trace, "Debugger.trace"), (Debugger(), "Debugger")], ids=str
)
@pytest.mark.parametrize("begin", [sys.settrace, sys.setprofile])
def test_it_is_named_as_python_does(begin: Any, given: Any, name: str) -> None:
    assert traced() is None
    begin(given)
    found = traced()
    begin(None)
    assert found == f"{__name__}.{name}"


def test_a_profiler_of_python_is_named() -> None:
    with cProfile.Profile():
        found = traced()
    assert found == "cProfile.Profile"


@pytest.mark.parametrize(("number", "found"), [(0, "debugpy"), (1, "debugpy"), (2, "debugpy"), (3, None), (5, None)])
def test_what_monitors_by_the_means_of_later_pythons_is_named(
    number: int, found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "gettrace", lambda: None)
    monkeypatch.setattr(sys, "getprofile", lambda: None)
    tools = SimpleNamespace(get_tool=lambda place: "debugpy" if place == number else None)
    monkeypatch.setattr(sys, "monitoring", tools, raising=False)
    assert traced() == found
