"""The signal to a rank whose Python does not run: it would end a process that has no handler for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gputop.tracking.journal.identity import process_state
from gputop.tracking.standing.page import Page
from gputop.where import last_words

HANDLES = """
import faulthandler, os, signal, sys
fd = os.memfd_create("gputop-stack")
if sys.argv[1] == "handles":
    faulthandler.register(signal.SIGRTMAX - 9, file=fd, all_threads=False)
def hold():
    print(fd, flush=True)
    sys.stdin.readline()
hold()
"""


def start(how: str) -> tuple[subprocess.Popen[str], Page]:
    process = subprocess.Popen(
        [sys.executable, "-c", HANDLES, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    fd = int(process.stdout.readline())
    return process, Page(1, 1, process.pid, signal.SIGRTMAX - 9, fd, {})


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The signals that were sent."""
    found: list[int] = []
    kill = os.kill
    with monkeypatch.context() as patched:
        patched.setattr("os.kill", lambda pid, number: (found.append(number), kill(pid, number)))
        yield found


def test_a_process_without_our_handler_gets_no_signal(sent: list[int]) -> None:
    process, page = start("does not")
    state = process_state(process.pid)
    assert state is not None
    assert last_words.ask(process.pid, state[0], page) == []
    assert sent == []
    process.communicate("\n")
    assert process.returncode == 0


def test_only_a_process_that_matches_its_record_gets_the_signal(sent: list[int]) -> None:
    process, page = start("handles")
    state = process_state(process.pid)
    assert state is not None
    ticks = state[0]
    for wrong in (
        replace(page, descriptor=0),
        replace(page, descriptor=99),
        replace(page, signal=0),
        replace(page, thread=process.pid + 1),
        replace(page, signal=signal.SIGUSR1),
    ):
        assert last_words.ask(process.pid, ticks, wrong) == []
    assert last_words.ask(process.pid, ticks + 1, page) == [], "another process has its number now"
    assert sent == []
    assert [frame.function for frame in last_words.ask(process.pid, ticks, page)] == ["hold", "<module>"]
    assert sent == [signal.SIGRTMAX - 9]
    process.communicate("\n")
    assert process.returncode == 0
