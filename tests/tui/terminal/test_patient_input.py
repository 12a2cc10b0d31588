from __future__ import annotations

import asyncio
import os
import pty
import signal
import threading
import tty
from collections.abc import Iterator
from typing import Any

import pytest
from textual import events
from textual.app import App
from textual.drivers.headless_driver import HeadlessDriver
from textual.drivers.linux_driver import LinuxDriver

from gputop.tui.terminal import patient_input
from gputop.tui.terminal.patient_input import patient

PATIENCE_S = 20.0


async def _made() -> Any:
    return patient(LinuxDriver)(App[None](), mouse=False)


class Reading:
    """A driver that reads one end of a pseudo-terminal, and what it has reported."""

    def __init__(self, terminal: int) -> None:
        self.driver = asyncio.run(_made())
        self.driver.fileno = terminal
        self.keys: list[str] = []
        self._came = threading.Condition()
        self.driver.process_message = self._take

    def _take(self, message: Any) -> None:
        with self._came:
            self.keys += [message.key] if isinstance(message, events.Key) else [type(message).__name__]
            self._came.notify_all()

    def wait_for(self, *keys: str) -> None:
        with self._came:
            self._came.wait_for(lambda: len(self.keys) >= len(keys), PATIENCE_S)
        assert self.keys == list(keys)
        self.keys.clear()

    def start(self) -> None:
        """Start the thread as the driver does, without writing to a terminal."""
        self.driver._key_thread = threading.Thread(target=self.driver._run_input_thread, daemon=True)
        self.driver._key_thread.start()


@pytest.fixture
def ends() -> Iterator[tuple[int, Reading]]:
    keyboard, terminal = pty.openpty()
    tty.setraw(terminal)
    before = {number: signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)}
    reading = Reading(terminal)
    reading.start()
    yield keyboard, reading
    reading.driver.disable_input()
    for number, handler in before.items():
        signal.signal(number, handler)
    os.close(keyboard)
    os.close(terminal)


def test_keys_come_whole_or_in_parts(ends: tuple[int, Reading]) -> None:
    keyboard, reading = ends
    os.write(keyboard, b"a\x1b[A")
    reading.wait_for("a", "up")
    for part in (b"\x1b[", b"B", "é".encode()[:1], "é".encode()[1:]):
        os.write(keyboard, part)
    reading.wait_for("down", "é")


def test_bytes_that_are_no_text_cost_no_later_key(ends: tuple[int, Reading]) -> None:
    """Pasted Latin-1, a mouse report of the oldest kind, a key with the eighth bit set, half a character."""
    keyboard, reading = ends
    for odd in (b"caf\xe9 ", b"\xff", b"\xc3("):
        os.write(keyboard, odd)
    os.write(keyboard, b"q")
    with reading._came:
        assert reading._came.wait_for(lambda: "q" in reading.keys, PATIENCE_S), reading.keys
    assert {"c", "a", "f", "space", "left_parenthesis"} < set(reading.keys)


def test_a_lone_escape_is_a_key_though_nothing_follows_it(ends: tuple[int, Reading]) -> None:
    keyboard, reading = ends
    os.write(keyboard, b"\x1b")
    reading.wait_for("escape")
    os.write(keyboard, b"b")
    reading.wait_for("b")


def test_reading_ends_at_once_and_can_begin_again(ends: tuple[int, Reading]) -> None:
    keyboard, reading = ends
    reading.driver.disable_input()
    assert not reading.driver._key_thread.is_alive()
    reading.start()
    os.write(keyboard, b"c")
    reading.wait_for("c")


def test_another_driver_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert patient(HeadlessDriver) is HeadlessDriver
    monkeypatch.setattr(patient_input, "parser_of_keys", lambda: None)
    assert patient(LinuxDriver) is LinuxDriver
