"""A paste into a terminal that does not bracket it arrives as keys, and does not fill the memory."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from tests import REPOSITORY
from tests.terminal import Terminal

PASTED = b"z" * 48_000
"""No key of the dashboard. The terminal itself holds 4 kB, and Textual's own queue would take 140 MB for all."""
READING_S = 2.0
GROWTH_MAX_KB = 20_000


def peak_kb(pid: int) -> int:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1])


def test_an_unbracketed_paste_waits_in_the_terminal(tmp_path: Path) -> None:
    environment = {"GPUTOP_DIR": str(tmp_path / "gputop"), "HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    with Terminal((sys.executable, "-m", "gputop", "--virtual", "2"), environment, 80, 24) as terminal:
        terminal.wait_for("q quit")
        before = peak_kb(terminal.process.pid)
        pasting = threading.Thread(target=os.write, args=(terminal._master, PASTED), daemon=True)
        pasting.start()
        pasting.join(READING_S)
        terminal.wait_for("q quit")
        assert peak_kb(terminal.process.pid) - before < GROWTH_MAX_KB
        terminal.process.terminate()
        assert terminal.wait_exit() in (0, 143), "its end does not wait for the keys"
