"""Frames wait for the terminal, not behind one another; a terminal that does not answer gets them as ever."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from gputop.tui.terminal.pace import (
    ANSWER,
    FIRST_S,
    LEAST_PATIENCE_S,
    LEAVING_S,
    LOST_MOST,
    OVERDUE_S,
    PATIENCE_S,
    PATIENCE_TIMES,
    UNASKED_BYTES,
    Answers,
    Pace,
)
from tests.terminal import Terminal

PATIENT = """
import sys
from gputop.cli.main import main
from gputop.tui.terminal import pace
pace.PATIENCE_S = pace.LEAST_PATIENCE_S = pace.OVERDUE_S = pace.LEAVING_S = pace.FIRST_S = 600.0
sys.exit(main(["--virtual", "1", "-i", "10m"]))
"""
COMMAND = [sys.executable, "-c", PATIENT]
"""Whatever it does in a test, it does not because it has waited long enough."""

POINTER = b"\x1b]22;default\x07"
"""The shape of the mouse pointer, which Textual sets with each screen."""


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def asked(clock: Clock) -> Pace:
    pace = Pace(clock)
    ask(pace)
    return pace


def ask(pace: Pace) -> None:
    pace.sent(UNASKED_BYTES)
    assert pace.is_to_ask()


def test_little_is_sent_without_a_question_and_one_is_out_at_a_time() -> None:
    pace = Pace()
    pace.sent(UNASKED_BYTES - 1)
    assert not pace.is_to_ask()
    pace.sent(1)
    assert pace.is_to_ask()
    pace.sent(UNASKED_BYTES)
    assert not pace.is_to_ask()
    pace.answered()
    assert pace.is_to_ask()


def test_frames_wait_only_for_a_terminal_that_has_answered() -> None:
    clock = Clock()
    pace = asked(clock)
    assert not pace.is_behind
    pace.answered()
    ask(pace)
    assert pace.is_behind
    clock.now += LEAST_PATIENCE_S + 0.1
    assert not pace.is_behind
    assert not pace.is_to_ask()
    ask(pace)  # it answered once: it is asked again


def test_a_slow_terminal_is_waited_for_longer_until_it_is_quick_again() -> None:
    clock = Clock()
    pace = asked(clock)
    clock.now += 2.0
    pace.answered()
    ask(pace)
    clock.now += PATIENCE_TIMES * 2.0 - 0.1
    assert pace.is_behind
    pace.answered()
    assert pace.patience_s == PATIENCE_S
    for _ in range(60):
        ask(pace)
        pace.answered()
    assert pace.patience_s == LEAST_PATIENCE_S


def test_frames_no_longer_wait_for_a_terminal_that_has_stopped_answering() -> None:
    clock = Clock()
    pace = asked(clock)
    pace.answered()
    for _ in range(LOST_MOST):
        ask(pace)
        assert pace.is_behind
        clock.now += LEAST_PATIENCE_S + 0.1
        assert not pace.is_behind
    ask(pace)
    assert not pace.is_behind
    pace.answered()
    ask(pace)
    assert pace.is_behind


def test_a_key_passes_only_an_answer_that_is_overdue() -> None:
    clock = Clock()
    pace = asked(clock)
    pace.answered()
    ask(pace)
    assert not pace.hurry()
    clock.now += OVERDUE_S + 0.1
    assert pace.hurry()
    assert not pace.is_behind
    assert not pace.hurry()


def test_a_change_of_size_passes_one_answer_and_not_each() -> None:
    pace = asked(Clock())
    pace.answered()
    ask(pace)
    pace.pass_by()
    assert not pace.is_behind
    ask(pace)
    pace.pass_by()
    assert pace.is_behind
    pace.answered()
    ask(pace)
    pace.pass_by()
    assert not pace.is_behind


def test_a_terminal_that_does_not_answer_is_not_asked_again() -> None:
    clock = Clock()
    pace = asked(clock)
    clock.now += FIRST_S + 0.1
    began = time.monotonic()
    pace.wait()
    clock.now += PATIENCE_S
    assert not pace.is_behind
    pace.sent(UNASKED_BYTES)
    assert not pace.is_to_ask()
    pace.wait()
    assert time.monotonic() - began < LEAVING_S


class Waits:
    """Stands for the event that an answer sets: notes for how long it is waited for."""

    def __init__(self) -> None:
        self.waited_s: list[float] = []

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def wait(self, timeout_s: float) -> None:
        self.waited_s.append(timeout_s)


def test_the_end_waits_for_an_answer_as_long_as_one_may_take() -> None:
    clock = Clock()
    pace = asked(clock)
    pace._nothing_open = waits = Waits()  # type: ignore[assignment]
    clock.now += 0.2
    pace.wait()
    assert waits.waited_s == [pytest.approx(FIRST_S - 0.2)], "the first answer of all"
    clock.now += 0.7
    pace.answered()
    ask(pace)
    clock.now += 0.1
    pace.wait()
    assert waits.waited_s[1:] == [LEAVING_S], "on a slow link"
    pace = asked(clock)
    pace._nothing_open = waits = Waits()  # type: ignore[assignment]
    pace.answered()
    ask(pace)
    clock.now += 0.1
    pace.wait()
    assert waits.waited_s == [pytest.approx(LEAST_PATIENCE_S - 0.1)], "on a quick one"


def test_answers_are_no_keys_however_they_are_cut() -> None:
    sent = f"a{ANSWER}\x1b[A{ANSWER}\x1b"
    for cut in range(len(sent) + 1):
        came: list[int] = []
        answers = Answers(lambda came=came: came.append(1))
        if sent[:cut].endswith("\x1b") and cut < len(sent):
            continue  # an answer comes in one piece, a key of a person is alone
        assert answers.without(sent[:cut]) + answers.without(sent[cut:]) + answers.rest() == "a\x1b[A\x1b"
        assert len(came) == 2
    assert answers.without("\x1b[") == ""
    assert answers.rest() == "\x1b["


class Link:
    """The way from the terminal to gputop, on which answers wait while the screen shows what ``cut_at`` says."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.waiting = 0
        self._cut_at: str | None = None
        terminal.screen.write_process_input = self.answer

    def answer(self, data: str) -> None:
        assert data == ANSWER
        self.waiting += 1
        # Answers to earlier frames pass: cut at a moment, one of those might be the one that waits.
        if self._cut_at is None or not any(self._cut_at in line for line in self.terminal.screen.display):
            self._give()

    def _give(self) -> None:
        os.write(self.terminal._master, ANSWER.encode() * self.waiting)
        self.waiting = 0

    def press(self, key: str, shown: str) -> None:
        """Press a key, and let the answer to its frame, which has ``shown``, wait."""
        self._cut_at = shown
        self.terminal.press(key)
        self.terminal.wait_for(lambda text: shown in text and self.waiting)

    def mend(self) -> None:
        self._cut_at = None
        self._give()

    def lose(self) -> None:
        """Lose what waits, and what the terminal shows: another terminal has taken its place."""
        assert self.waiting == 1
        self._cut_at, self.waiting = None, 0
        self.terminal.screen.reset()


def test_a_slow_terminal_gets_one_frame_and_then_the_newest(tmp_path: Path) -> None:
    with Terminal(COMMAND, {"GPUTOP_DIR": str(tmp_path)}) as terminal:
        link = Link(terminal)
        terminal.wait_for("3 Processes")
        terminal.press("?")
        terminal.wait_for("Keys and words")
        link.press("escape", "3 Processes")
        assert link.waiting == 1
        before = len(terminal.received)
        terminal.press("?", "escape", "d", "escape", "l", "escape", "o")
        time.sleep(0.3)
        behind = terminal.received[before:].replace(POINTER, b"")
        assert behind == b"", "nothing is sent behind a frame that has not arrived"
        link.mend()
        terminal.wait_for("› run")
        terminal.press("escape", "q")
        assert terminal.wait_exit() == 0


def test_a_lost_answer_keeps_back_nothing_that_is_drawn_anew(tmp_path: Path) -> None:
    with Terminal(COMMAND, {"GPUTOP_DIR": str(tmp_path)}) as terminal:
        link = Link(terminal)
        terminal.wait_for("3 Processes")
        link.press("?", "Keys and words")
        link.lose()
        terminal.resize(150, 48)
        terminal.wait_for("Keys and words")

        link.press("escape", "3 Processes")
        link.lose()
        terminal.press("ctrl+l")
        terminal.wait_for("3 Processes")

        link.press("?", "Keys and words")
        os.kill(terminal.process.pid, signal.SIGSTOP)
        link.lose()
        seen = len(terminal.received)
        os.kill(terminal.process.pid, signal.SIGCONT)
        terminal.wait_for(lambda text: b"\x1b[?1049h" in terminal.received[seen:] and "Keys and words" in text)
        terminal.press("escape")
        terminal.wait_for("3 Processes")
        terminal.press("q")
        assert terminal.wait_exit() == 0


def test_the_end_waits_for_the_first_answer_which_the_shell_would_read(tmp_path: Path) -> None:
    with Terminal(COMMAND, {"GPUTOP_DIR": str(tmp_path)}) as terminal:
        link = Link(terminal)
        link.press("", "3 Processes")
        assert link.waiting == 1
        terminal.press("q")
        time.sleep(0.3)
        assert b"\x1b[?1049l" not in terminal.received
        link.mend()
        assert terminal.wait_exit() == 0
