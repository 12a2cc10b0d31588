"""The end of a screen."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests import REPOSITORY
from tests.terminal import Terminal

SITE = """
import atexit, os, pathlib, sys
if os.environ.get("GPUTOP_TEST_ENDS"):
    path, leave = os.environ.pop("GPUTOP_TEST_ENDS"), os._exit
    atexit.register(lambda: open(path, "w").close())
    os._exit = lambda code: (pathlib.Path(path + ": modules").write_text("\\n".join(sys.modules)), leave(code))
"""
"""Notes that Python itself takes the first process down, or what it had imported; what that starts has lost the variable."""


def test_q_does_not_wait_for_python_to_free_what_the_screen_had(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SITE)
    taken_down = tmp_path / "taken down"
    environment = {
        "GPUTOP_DIR": str(tmp_path / "gputop"),
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join((str(tmp_path), str(REPOSITORY))),
        "GPUTOP_TEST_ENDS": str(taken_down),
    }
    with Terminal((sys.executable, "-m", "gputop", "--version"), environment, 80, 24) as terminal:
        assert terminal.wait_exit() == 0
    assert taken_down.exists(), "other commands end as Python does"
    taken_down.unlink()
    with Terminal((sys.executable, "-m", "gputop", "--virtual", "1"), environment, 80, 24) as terminal:
        terminal.wait_for("q quit")
        terminal.press("q")
        assert terminal.wait_exit() == 0
        assert b"\x1b[?1049l" in terminal.received, "the terminal shows again what it showed before"
    assert not taken_down.exists()
    loaded = Path(f"{taken_down}: modules").read_text().splitlines()
    assert "gputop.tui.app" in loaded
    assert "gputop.jobs.store" not in loaded, "no job was ever launched that could go on"
