"""What /proc shows of a process that rests, and which lines of a stack are the user's."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

import gputop.tracking.auto.hooks
from gputop.tracking.standing.stack import Frame, where
from gputop.where import outside
from gputop.where.libraries import is_library
from tests.tracking.kit import eventually


@pytest.mark.parametrize("call", ["flock", "lockf"])
def test_a_process_that_waits_for_a_file_lock_says_for_which(tmp_path: Path, call: str) -> None:
    code = f"import fcntl, sys; fcntl.{call}(open(sys.argv[1], 'w'), fcntl.LOCK_EX); input()"
    path = tmp_path / "lock"
    with path.open("w") as held:
        getattr(fcntl, call)(held, fcntl.LOCK_EX)
        child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE)
        try:
            eventually(lambda: _doing(child.pid) == f"waits for the lock of {path}", "it waits for the lock")
        finally:
            child.kill()
            child.communicate()


def _doing(pid: int) -> str | None:
    found = outside.look(pid)
    return found.doing if found is not None else None


def test_gputop_s_own_frames_are_never_the_user_s_line() -> None:
    """A signal's stack has them; in a checkout they are in no site-packages."""
    own = gputop.tracking.auto.hooks.__file__
    stack = [Frame(f"{own}#importlib._bootstrap", 364, "save"), Frame("/home/me/train.py", 12, "save")]
    assert where(stack, is_library).line == "train.py:12"
