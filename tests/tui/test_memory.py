"""What the screen and its sampler hold together is bounded: at most 60 MiB on the machine where it was measured."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests import REPOSITORY
from tests.tracking.reader.test_namespaces import APART

MOST_MIB = 28.0
"""What both may hold beyond their libraries, which hold 32: 60 MiB in all. It was 26.4 when this was last measured;
11 of that are the code of gputop's modules."""


@pytest.mark.skipif(subprocess.run([*APART, "true"], capture_output=True).returncode != 0, reason="no PID namespaces here")
def test_eight_ranks_a_full_history_and_every_screen_take_little_memory() -> None:
    command = [*APART, sys.executable, "-m", "tests.tui.whole_memory"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    own = sum(found["own"].values()) - sum(found["libraries"].values())
    assert 0 < own < MOST_MIB, found
