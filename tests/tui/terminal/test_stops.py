"""The dashboard on a real terminal, stopped and continued, signaled, and on a terminal that nobody reads."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pyte
import pytest

from tests.patience import DEADLINE_S
from tests.terminal import Terminal, terminal_environment

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="process states come from Linux's /proc")

PLAIN = pyte.screens.Char(" ")
COMMAND = [sys.executable, "-m", "gputop", "--virtual", "1", "-i", "200ms"]


def until(happened: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not happened():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def local_modes(descriptor: int) -> int:
    modes: int = termios.tcgetattr(descriptor)[3]
    return modes & (termios.ICANON | termios.ECHO | termios.ISIG)


def waiting_bytes(descriptor: int) -> int:
    (number,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))
    return int(number)


@pytest.mark.parametrize(
    ("key", "stops"), [("q", [signal.SIGSTOP] * 2), ("ctrl+c", [signal.SIGTSTP, signal.SIGSTOP])], ids=["q", "c"]
)
def test_the_keys_work_and_the_terminal_is_given_back_after_a_stop(
    tmp_path: Path, key: str, stops: list[signal.Signals]
) -> None:
    with Terminal(COMMAND, {"GPUTOP_DIR": str(tmp_path)}, 100, 30) as terminal:
        cooked = local_modes(terminal._master)
        terminal.wait_for("Processes")  # the first picture, before Textual's, has none
        pid = terminal.process.pid
        for stop in stops:
            until(lambda: local_modes(terminal._master) == 0, "the screen reads keys raw")
            os.kill(pid, stop)
            until(lambda: state_of(pid) == "T", "it stops")
            assert stop == signal.SIGSTOP or local_modes(terminal._master) == cooked
            terminal.screen.reset()  # as a shell that writes its prompt over the screen
            seen = len(terminal.received)
            os.kill(pid, signal.SIGCONT)
            # Frames from before the stop may still arrive; keys that come before the screen begins again are dropped.
            until(lambda seen=seen: b"\x1b[?1049h" in terminal.received[seen:], "the screen begins again")
            terminal.wait_for("VIRTUAL GPUs")
            terminal.wait_for("Processes")
        terminal.press("?")
        terminal.wait_for("Keys and words")
        terminal.press("escape", key)
        assert terminal.wait_exit() == 0
        assert local_modes(terminal._master) == cooked
        assert terminal.received.rindex(b"\x1b[?1049l") > terminal.received.rindex(b"\x1b[?1049h")
        assert terminal.screen.cursor.attrs == PLAIN, "the shell does not write in the colors of a frame"


STOPS_WHILE_IT_STARTS = """
import os, signal, sys
from textual.drivers.linux_driver import LinuxDriver
from gputop.cli.main import main
step = getattr(LinuxDriver, sys.argv[1])
stopped = []
def stopping(self):
    if not stopped:
        stopped.append(1)
        os.kill(os.getpid(), signal.SIGSTOP)
    step(self)
setattr(LinuxDriver, sys.argv[1], stopping)
sys.exit(main(["--virtual", "1", "-i", "200ms"]))
"""


@pytest.mark.parametrize("step", ["_enable_mouse_support", "_disable_line_wrap"], ids=["before-raw", "raw"])
def test_a_stop_while_the_screen_starts_leaves_the_terminal_as_it_was(tmp_path: Path, step: str) -> None:
    """Textual's own handler would save the raw modes as those to restore; both are steps of its driver's start."""
    command = [sys.executable, "-c", STOPS_WHILE_IT_STARTS, step]
    with Terminal(command, {"GPUTOP_DIR": str(tmp_path)}, 100, 30) as terminal:
        cooked = local_modes(terminal._master)
        pid = terminal.process.pid
        until(lambda: state_of(pid) == "T", "it stops")
        os.kill(pid, signal.SIGCONT)
        terminal.wait_for("Processes")
        terminal.press("?")
        terminal.wait_for("Keys and words")
        terminal.press("escape", "q")
        assert terminal.wait_exit() == 0
        assert local_modes(terminal._master) == cooked


ENDING = (signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1, signal.SIGXCPU, signal.SIGALRM, signal.SIGPOLL, signal.SIGPWR)


@pytest.mark.parametrize("number", [*ENDING, signal.SIGRTMIN, signal.SIGRTMIN + 1, signal.SIGRTMAX])
def test_a_signal_ends_the_screen_and_gives_the_terminal_back(tmp_path: Path, number: int) -> None:
    with Terminal(COMMAND, {"GPUTOP_DIR": str(tmp_path)}, 100, 30) as terminal:
        cooked = local_modes(terminal._master)
        terminal.wait_for("VIRTUAL GPUs")
        os.kill(terminal.process.pid, number)
        assert terminal.wait_exit() in (0, 128 + number)
        assert local_modes(terminal._master) == cooked
        assert terminal.received.rindex(b"\x1b[?1049l") > terminal.received.rindex(b"\x1b[?1049h")


def test_a_signal_ends_the_screen_when_the_terminal_reads_nothing(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    cooked = local_modes(master)
    process = subprocess.Popen(
        COMMAND,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        env=terminal_environment({"GPUTOP_DIR": str(tmp_path)}),
    )
    os.close(slave)
    try:
        unread, since = 0, time.monotonic()
        until(lambda: waiting_bytes(master) > 1000, "the screen is drawn")
        while time.monotonic() - since < 1.0:  # until nothing more fits
            if waiting_bytes(master) != unread:
                unread, since = waiting_bytes(master), time.monotonic()
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(DEADLINE_S) in (0, 128 + signal.SIGTERM)
        assert local_modes(master) == cooked
    finally:
        process.kill()
        process.wait()
        os.close(master)
