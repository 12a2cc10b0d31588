"""A program that calls the command line as a function gets the exit code back, and goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest

CALL = """
import gc, sys
from gputop.cli.main import main
code = main(sys.argv[1:])
print("returned", code, gc.isenabled())
"""


@pytest.mark.parametrize("words", ["--once", "--stream -n 1", "doctor --for 1s", "doctor --before"])
def test_a_command_that_reads_the_machine_returns_to_its_caller(words: str) -> None:
    command = [sys.executable, "-c", CALL, *words.split(), "--virtual", "1"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout.splitlines()[-1:] in (["returned 0 True"], ["returned 1 True"]), run.stderr
