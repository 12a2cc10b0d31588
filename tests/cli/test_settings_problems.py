"""A settings file that gputop cannot use is said at once, wherever gputop starts: it was silent until the settings screen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.terminal import Terminal

GPUTOP = (sys.executable, "-m", "gputop")
BAD = 'interval_s = "abc"\nnonsense = 3\n'


def test_one_reading_says_it_on_standard_error(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(BAD)
    command = [*GPUTOP, "--once", "--json", "--virtual", "1"]
    said = subprocess.run(
        command, capture_output=True, text=True, timeout=180, check=False, env={**os.environ, "GPUTOP_CONFIG": str(file)}
    )
    assert said.returncode == 0
    assert said.stdout.startswith("{")
    assert "line 1: interval_s must be a number of seconds from 0.1 to 3600, not 'abc'. The default is used." in said.stderr
    assert "'nonsense' is not a gputop setting. It is ignored." in said.stderr


def test_the_dashboard_says_it_at_start(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(BAD)
    with Terminal([*GPUTOP, "--virtual", "1"], {"GPUTOP_CONFIG": str(file)}, 100, 30) as terminal:
        terminal.wait_for("'nonsense'")
        terminal.press("q")
        assert terminal.wait_exit() == 0


def test_many_problems_do_not_cover_the_screen(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"{BAD}mouse = 1\nvirtual = 0\n")
    with Terminal([*GPUTOP, "--virtual", "1"], {"GPUTOP_CONFIG": str(file)}, 80, 24) as terminal:
        terminal.wait_for("3 more problems with the settings: F2 lists them all.")
        assert "mouse must" not in terminal.text()
        terminal.press("f2")
        terminal.wait_for("mouse must be true or false, not 1.")
        terminal.press("q")
