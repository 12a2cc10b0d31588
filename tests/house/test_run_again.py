"""``make test`` runs failed tests again on their own; what passes then must not fail the command."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests import REPOSITORY

TESTS = """
import os

def test_first(snapshot):
    assert "first" == snapshot
    assert not os.environ.get("BUSY")

def test_second(snapshot):
    assert "second" == snapshot
"""


def run(folder: Path, *options: str, **environment: str) -> int:
    """Return the exit code of pytest on the tests of a folder."""
    command = [sys.executable, "-m", "pytest", "-q", *options]
    return subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, check=False).returncode


def test_a_snapshot_test_that_passes_when_it_is_run_again_counts_as_passed(tmp_path: Path) -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    (again,) = re.findall(r"^AGAIN := (.+)$", makefile, re.MULTILINE)
    (tmp_path / "test_words.py").write_text(TESTS)
    assert run(tmp_path, "--snapshot-update") == 0
    assert run(tmp_path, BUSY="1") == 1
    assert run(tmp_path, *shlex.split(again)) == 0
