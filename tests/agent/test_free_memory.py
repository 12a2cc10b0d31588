"""Memory that was freed between objects that stay goes back to the system."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from tests import REPOSITORY

FREES = """
from gputop.tui.terminal.free_memory import give_back
from tests.tui.whole_memory import own_mib
kept = [bytearray(1000) for _ in range(40_000)][::100]
before = own_mib("self")
give_back()
print(before - own_mib("self"))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library decides itself")
def test_memory_between_objects_that_stay_is_given_back() -> None:
    run = subprocess.run([sys.executable, "-c", FREES], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert float(run.stdout) > 20
