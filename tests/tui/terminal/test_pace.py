"""Frames wait for the terminal, not behind one another; a terminal that does not answer gets them as ever."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from gputop.tui.terminal.pace import ANSWER, LEAVING_S, PATIENCE_S, UNASKED_BYTES, Answers, Pace
from tests.terminal import Terminal

COMMAND = [sys.executable, "-m", "gputop", "--virtual", "1", "-i", "10m"]

POINTER = b"\x1b]22;default\x07"
"""The shape of the mouse pointer, which Textual sets with each screen."""


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def asked(clock: Clock) -> Pace:
    pace = Pace(clock)
    pace.sent(UNASKED_BYTES)
    assert pace.is_to_ask()
    return pace


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
    pace.sent(UNASKED_BYTES)
    assert pace.is_to_ask()
    assert pace.is_behind
    clock.now += PATIENCE_S + 1
    assert not pace.is_behind
    assert not pace.is_to_ask()
    pace.sent(UNASKED_BYTES)
    assert pace.is_to_ask(), "it answered once: it is asked again"


def test_a_terminal_that_does_not_answer_is_not_asked_again() -> None:
    clock = Clock()
    pace = asked(clock)
    clock.now += PATIENCE_S + 1
    assert not pace.is_behind
    pace.sent(UNASKED_BYTES)
    assert not pace.is_to_ask()
    began = time.monotonic()
    pace.wait()
    assert time.monotonic() - began < LEAVING_S


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
    """The way from the terminal to gputop; while it is ``cut``, answers wait."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.cut = False
        self.waiting = 0
        terminal.screen.write_process_input = self.answer

    def answer(self, data: str) -> None:
        assert data == ANSWER
        self.waiting += 1
        if not self.cut:
            self.mend()

    def mend(self) -> None:
        self.cut = False
        os.write(self.terminal._master, ANSWER.encode() * self.waiting)
        self.waiting = 0


def test_a_slow_terminal_gets_one_frame_and_then_the_newest(tmp_path: Path) -> None:
    with Terminal(COMMAND, {"GPUTOP_DIR": str(tmp_path)}) as terminal:
        link = Link(terminal)
        terminal.wait_for("3 Processes")
        terminal.press("?")
        terminal.wait_for("Keys and words")
        link.cut = True
        terminal.press("escape")
        terminal.wait_for("3 Processes")
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
