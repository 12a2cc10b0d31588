"""A terminal that goes away under the screen: gputop ends, its sampler ends, and nothing spins; jobs are not asked."""

from __future__ import annotations

import re
import signal
import sys
import time
from pathlib import Path

import pytest

from gputop.jobs import identity
from tests.patience import DEADLINE_S
from tests.terminal import Terminal

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="hangups are told by Linux' poll")

IGNORING = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.executable, sys.argv[1:])"


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children]


@pytest.mark.parametrize("ignored", [False, True], ids=["hangup", "hangup-ignored"])
def test_the_screen_ends_with_its_terminal(tmp_path: Path, ignored: bool) -> None:
    command = [sys.executable, "-m", "gputop", "--virtual", "2"]
    if ignored:
        command = [sys.executable, "-c", IGNORING, *command]
    environment = {"GPUTOP_DIR": str(tmp_path / "state"), "HOME": str(tmp_path)}
    with Terminal(command, environment) as terminal:
        terminal.wait_for(re.compile("GPUs (work|idle)").search)
        process = terminal.process
        sampler = descendants(process.pid)
        assert sampler, "the screen's sampler is a process of its own"
        if ignored:
            assert f"{1 << (signal.SIGHUP - 1):016x}"[-1] in Path(f"/proc/{process.pid}/status").read_text()
        terminal.hang_up()
        process.wait(DEADLINE_S)
        deadline = time.monotonic() + DEADLINE_S
        while any(identity.start_ticks(pid) is not None for pid in sampler):
            assert time.monotonic() < deadline, "the sampler outlives the screen"
            time.sleep(0.05)
