"""The frames of a session add up to what the whole screen sent anew shows, whatever happens to the terminal in between."""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path

import pytest

from tests.real_processes import eventually
from tests.terminal import Terminal

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="process states come from Linux's /proc")

COMMAND = [sys.executable, "-m", "gputop", "--virtual", "2", "-i", "10m"]
KEYS = ("?", "escape", "d", "escape", "o", "escape", "tab", "down", "f2", "escape", "l", "escape")
SIZES = ((100, 30), (80, 24), (110, 32))
STEPS = 10


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def still(terminal: Terminal) -> list[tuple[object, ...]]:
    """Return how the cells look once nothing comes any more: a blank has no color of text, and no weight."""
    terminal.wait_until_still()
    return [cell if cell[0] != " " or any(cell[5:8]) else (" ", "", cell[2]) for row in terminal.cells() for cell in row]


@pytest.mark.parametrize("seed", range(2))
def test_frames_add_up_whatever_happens_in_between(tmp_path: Path, seed: int) -> None:
    luck = random.Random(seed)
    with Terminal(COMMAND, {"GPUTOP_DIR": str(tmp_path)}, *SIZES[0]) as terminal:
        terminal.wait_for("Processes")
        pid = terminal.process.pid
        for _ in range(STEPS):
            what = luck.choice(("key", "key", "size", "stop"))
            if what == "key":
                terminal.press(luck.choice(KEYS))
            elif what == "size":
                terminal.resize(*luck.choice(SIZES))
            else:
                os.kill(pid, signal.SIGTSTP)
                eventually(lambda: state_of(pid), lambda state: state == "T")
                with terminal._lock:  # a shell and its program
                    terminal._stream.feed(b"\x1b[0m$ make\r\n\x1b[1;35;44mall\x1b[7m done\r\n")
                seen = len(terminal.received)
                os.kill(pid, signal.SIGCONT)
                eventually(lambda seen=seen: terminal.received[seen:], lambda new: b"\x1b[?1049h" in new)
            shown = still(terminal)
            seen = len(terminal.received)
            terminal.press("ctrl+l")
            eventually(lambda seen=seen: len(terminal.received) > seen, bool)
            assert shown == still(terminal), what
        terminal.press("escape", "escape", "q")
        assert terminal.wait_exit() == 0
