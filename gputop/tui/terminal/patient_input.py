"""Waits for a terminal's keys without polling, and for its answers that everything has arrived (``pace``).

Textual polls for keys ten times a second, and waits for up to two polls when it closes. Here the thread sleeps until a key
arrives, and ends when it is woken to do so.
"""

from __future__ import annotations

import codecs
import os
import select
from typing import Any

from textual import constants
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key

from gputop.tui.terminal.pace import ASK, Answers, Pace
from gputop.tui.terminal.private_textual import parser_of_keys

PLAIN = "\x1b[0m"
READ_BYTES = 4096
"""How much of the input is read at a time."""
LOOKS = 2
"""How often to check, after a key, whether it was complete."""
_ENDS_WITHIN_S = 1.0
"""How long the thread waits for the mark that ends it, which is set right after it is woken."""


def patient(driver: type[Any]) -> type[Any]:
    """Return a driver that waits for keys in this way; the driver itself where Textual does not read keys as expected."""
    if not issubclass(driver, LinuxDriver) or parser_of_keys() is None:
        return driver

    class Patient(driver):  # type: ignore[misc]
        """Sleeps until a key arrives."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._woken, self._wake = os.pipe()
            self.pace = Pace()
            self.sent_bytes = 0
            """Everything sent to the terminal so far."""

        def write(self, data: str) -> None:
            super().write(data)
            self.pace.sent(len(data))
            self.sent_bytes += len(data.encode(errors="replace"))

        def stop_application_mode(self) -> None:
            # A frame leaves its style behind (``ShownCells``), and not every terminal restores the shell's.
            self.write(PLAIN)
            super().stop_application_mode()

        def ask(self) -> None:
            """Ask the terminal whether it has received everything, if enough was sent since the last question."""
            if self.pace.is_to_ask():
                super().write(ASK)

        def answered(self) -> None:
            """Note the answer, and tell the app."""
            self.pace.answered()
            self._go_on()

        def process_message(self, message: Any) -> None:
            super().process_message(message)
            if isinstance(message, Key) and self.pace.hurry():
                self._go_on()

        def _go_on(self) -> None:
            go_on = getattr(self._app, "go_on", None)
            if go_on is not None:
                self._loop.call_soon_threadsafe(go_on)

        def disable_input(self) -> None:
            thread = self._key_thread
            if thread is not None and thread.is_alive() and not self.exit_event.is_set():
                self.pace.wait()
                os.write(self._wake, b".")
            super().disable_input()
            self.pace.forget()

        def run_input_thread(self) -> None:
            # Not every byte that a terminal sends is text: pasted Latin-1, mouse reports of the oldest kind.
            parser, decode = parser_of_keys(), codecs.getincrementaldecoder("utf-8")("replace").decode
            if parser is None:
                super().run_input_thread()
                return
            poller = select.poll()
            for descriptor in (self.fileno, self._woken):
                poller.register(descriptor, select.POLLIN)
            answers = Answers(self.answered)
            looks = 0
            while not self.exit_event.is_set():
                ready = dict(poller.poll(1000 * constants.ESCAPE_DELAY if looks else None))
                # An Escape may begin a sequence until nothing has followed for a while.
                looks = LOOKS if self.fileno in ready else max(0, looks - 1)
                if self._woken in ready:
                    os.read(self._woken, 1)
                    self.exit_event.wait(_ENDS_WITHIN_S)
                elif self.fileno in ready:
                    data = os.read(self.fileno, READ_BYTES)
                    if not data:
                        return  # the terminal is gone, which another thread notices
                    for event in parser.feed(text) if (text := answers.without(decode(data))) else ():
                        self.process_message(event)
                elif rest := answers.rest():
                    for event in parser.feed(rest):
                        self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)

    return Patient
