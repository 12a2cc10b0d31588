"""The signal and the memory for a stack that C code holds up: taken on one thread, and given back on another at any moment."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gputop.tracking.journal import format as form
from gputop.tracking.journal.writing.mapping import private
from gputop.tracking.standing import last_words
from gputop.tracking.standing.last_words import LastWords
from gputop.tracking.standing.reporter import Reporter

pytestmark = pytest.mark.interpreter


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The signals that are registered now; all others are released afterwards."""
    found: list[int] = []
    register, unregister = faulthandler.register, faulthandler.unregister

    def registers(number: int, **options: Any) -> None:
        register(number, **options)
        found.append(number)

    def unregisters(number: int) -> bool:
        found.remove(number)
        return unregister(number)

    monkeypatch.setattr(faulthandler, "register", registers)
    monkeypatch.setattr(faulthandler, "unregister", unregisters)
    yield found
    for number in found:
        unregister(number)


def during(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, call: Callable[[], None]) -> None:
    """Run ``call`` before and after a function of another thread, as if that were interrupted there."""
    original = getattr(place, name)

    def interrupted(*args: Any, **options: Any) -> Any:
        call()
        try:
            return original(*args, **options)
        finally:
            call()

    monkeypatch.setattr(place, name, interrupted)


@pytest.mark.parametrize(("place", "name"), [(last_words, "identity_of"), (faulthandler, "register"), (os, "close")])
def test_a_run_that_ends_while_they_are_taken_ends_as_usual(
    place: Any, name: str, registered: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter, descriptors = Reporter(lambda path: False), set(os.listdir("/proc/self/fd"))
    during(monkeypatch, place, name, reporter.end)
    reporter.write_if_due(private(form.HEADER_BYTES), 1)
    assert not registered, "nobody would release it"
    assert set(os.listdir("/proc/self/fd")) == descriptors


def test_they_are_released_once_whoever_asks(registered: list[int]) -> None:
    for _ in range(20):
        words = LastWords()
        words.prepare()
        assert registered == [words.signal]
        both = [threading.Thread(target=words.give_up) for _ in range(2)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        assert not registered
        assert (words.signal, words.descriptor) == (0, -1)


def test_a_signal_that_the_script_uses_is_left_to_it(registered: list[int]) -> None:
    words = LastWords()
    words.prepare()
    number = words.signal
    before = signal.signal(number, lambda *_: None)
    try:
        words.check()
        assert (words.signal, words.descriptor) == (0, -1)
        assert registered == [number], "to release it would take the script's handler away"
    finally:
        signal.signal(number, before)
