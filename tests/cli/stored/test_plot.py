"""``gputop runs plot``: as a real command, in a pipe and in a terminal."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.terminal import Terminal
from tests.tracking.kit import Home, clean_environment

SCRIPT = """
import gputop, math, os
run = gputop.init(name="lenet")
for step in range(200):
    run.log(step=step, loss=2.0 / (1 + step / 20) + 0.1 * int(os.environ["RANK"]), accuracy=step / 200)
"""
COLOR = "\x1b[38;5;"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with a run of two ranks, one that names its loss otherwise, one with only NaN, one without points."""
    home = Home(tmp_path_factory.mktemp("state"))
    assert home.run(SCRIPT.replace("loss=", "train_loss="), GPUTOP_RUN_ID="other", RANK="0", WORLD_SIZE="1")[0] == 0
    for rank in ("0", "1"):
        assert home.run(SCRIPT, GPUTOP_RUN_ID="two", RANK=rank, WORLD_SIZE="2")[0] == 0
    assert home.run("import gputop\ngputop.init(name='nan').log(loss=float('nan'))", GPUTOP_RUN_ID="nan")[0] == 0
    assert home.run("import gputop\ngputop.init(name='bare')", GPUTOP_RUN_ID="bare")[0] == 0
    return home


def plot(state: Home, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gputop", *("runs", "plot", *arguments)]
    env = {**clean_environment(state.state), "PYTHONIOENCODING": "utf-8", **environment}
    kept = {name: value for name, value in env.items() if name not in ("COLUMNS", "LINES") or name in environment}
    return subprocess.run(command, env=kept, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180)


def test_in_a_pipe_the_loss_is_plain_text_of_80_by_24(state: Home) -> None:
    done = plot(state, "two")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "loss  lenet two"
    assert lines[1] == "* mean  . lowest and highest"
    assert len(lines) == 23
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in done.stdout
    assert "┤" in done.stdout
    assert "***" in done.stdout
    assert lines[-1].split() == ["0", "50", "100", "150"]


def test_metrics_are_plotted_one_below_the_other_in_the_given_size(state: Home) -> None:
    done = plot(state, "lenet", "accuracy", "loss", "--width", "60", "--height", "10")
    blocks = done.stdout.rstrip("\n").split("\n\n")
    assert [block.split()[0] for block in blocks] == ["accuracy", "loss"]
    for block in blocks:
        rows = block.split("\n")[2:]
        assert len(rows) == 10
        assert 50 < max(map(len, rows)) <= 60
    tall = plot(state, "two", COLUMNS="120", LINES="40").stdout.splitlines()
    assert len(tall) == 39
    assert 110 < max(map(len, tall)) <= 120


def test_a_terminal_gets_color_unless_it_wants_none(state: Home) -> None:
    environment = {**clean_environment(state.state), "NO_COLOR": ""}
    command = [sys.executable, "-m", "gputop", "runs", "plot", "two"]
    with Terminal(command, environment, 100, 30) as terminal:
        assert terminal.wait_exit() == 0
        shown = terminal.received.decode()
    assert COLOR in shown
    assert re.search("[\u2801-\u28ff]", shown)
    assert max(len(line) for line in re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()) > 90
    for arguments, changed in (((), {"NO_COLOR": "1"}), (("--no-color",), {})):
        command = [sys.executable, "-m", "gputop", *arguments, "runs", "plot", "two"]
        with Terminal(command, {**environment, **changed}, 100, 30) as terminal:
            assert terminal.wait_exit() == 0
            shown = terminal.received.decode()
        assert "\x1b" not in shown
        assert "***" in shown


def test_an_unknown_run_or_metric_says_which_there_are(state: Home) -> None:
    done = plot(state, "two", "acuracy")
    assert (done.returncode, done.stdout) == (2, "")
    assert "has no metric 'acuracy'. It has: accuracy, loss" in done.stderr
    done = plot(state, "three")
    assert (done.returncode, done.stdout) == (2, "")
    assert "There is no run 'three'. gputop runs lists them." in done.stderr
    for option, value in (("--width", "5"), ("--height", "2"), ("--width", "100000"), ("--height", "0")):
        done = plot(state, "two", option, value)
        assert done.returncode == 2
        assert f"{option} {value} is out of range." in done.stderr


def test_runs_are_compared_in_one_plot(state: Home) -> None:
    done = plot(state, "two", "--with", "other", "--with", "two")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:2] == ["loss  lenet two, lenet other", "* two  o other"]
    assert len(lines) == 23
    assert "o" in done.stdout.split("other")[-1]
    assert "**" in done.stdout
    done = plot(state, "two", "accuracy", "--with", "bare")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Run bare has no metric 'accuracy'. It has none yet." in done.stderr
    done = plot(state, "two", "--with", "three")
    assert "There is no run 'three'." in done.stderr


def test_a_run_without_points_says_so(state: Home) -> None:
    done = plot(state, "bare")
    assert (done.returncode, done.stdout) == (0, "bare (bare) has no points yet.\n")
    assert "every value so far is NaN or infinite" in plot(state, "nan").stdout


def test_an_output_that_cannot_draw_gets_ascii(state: Home, tmp_path: Path) -> None:
    done = plot(state, "two", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "+" in done.stdout
