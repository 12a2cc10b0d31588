"""Output that is closed or full, streams that are missing, and a user without an entry in passwd: words, never a traceback."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import REPOSITORY
from tests.terminal import Terminal

PYTHON = shlex.quote(sys.executable)
FULL = "The output cannot be written: No space left on device."
CLOSED = "Standard output is closed."
COMMANDS = ("runs", "jobs", "--once --virtual 1", "--stream -n 1 --virtual 1", "doctor --rules", "--help", "agent --virtual 1")


def run(command: str, redirected: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"exec {PYTHON} -m gputop {command} {redirected}"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_output_that_is_full_or_closed_is_reported_in_one_line(command: str) -> None:
    for redirected, wanted in ((">/dev/full", FULL), (">&-", CLOSED)):
        done = run(command, redirected)
        assert done.returncode == 1, (redirected, done)
        assert done.stderr.startswith(f"gputop: {wanted}")
        assert len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize("redirected", ["2>&-", "<&- 2>&-"])
def test_closed_errors_and_input_change_nothing(redirected: str) -> None:
    done = run("--once --virtual 1", redirected)
    assert done.returncode == 0
    assert "Virtual GPU" in done.stdout
    done = run("runs show nobody", redirected)
    assert (done.returncode, done.stdout) == (2, "")


def test_no_stream_is_left_for_a_message() -> None:
    done = run("--once --virtual 1", "<&- >&- 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_a_reader_that_closes_the_pipe_is_not_an_error() -> None:
    done = run("doctor --rules", "| head -1")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("redirected", ["2>&-", "2>/dev/null", "<&-", "</dev/null"])
def test_the_dashboard_draws_and_reads_on_the_terminal_that_there_is(tmp_path: Path, redirected: str) -> None:
    command = ["bash", "-c", f"exec {PYTHON} -m gputop --virtual 1 {redirected}"]
    with Terminal(command, {"GPUTOP_DIR": str(tmp_path)}, 100, 30) as terminal:
        terminal.wait_for("VIRTUAL GPUs")
        terminal.press("q")
        assert terminal.wait_exit() == 0


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can become another user")
def test_a_user_without_an_entry_in_passwd_gets_an_answer() -> None:
    # Unlike os.setuid, this keeps the right to read a Python below /root.
    become = ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUTOP", "XDG_")) and name != "HOME"}
    if subprocess.run([*become, "test", "-r", REPOSITORY / "gputop" / "__init__.py"], check=False).returncode:
        pytest.skip("another user cannot read this checkout")
    for arguments in (["--once", "--virtual", "1"], ["runs"], ["jobs"]):
        done = subprocess.run(
            [*become, sys.executable, "-m", "gputop", *arguments],
            env={**kept, "PYTHONPATH": str(REPOSITORY)},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
