"""Tests that interrupt what they start also work where SIGINT is ignored when they begin."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests import REPOSITORY

IN_THE_BACKGROUND = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
import tests.conftest
print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
"""
"""As a shell that is not interactive starts ``make test &``."""


def test_interrupts_reach_what_tests_start_in_the_background() -> None:
    found = subprocess.run(
        [sys.executable, "-c", IN_THE_BACKGROUND], cwd=REPOSITORY, capture_output=True, text=True, timeout=60.0, check=True
    )
    assert found.stdout == "False\n"
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
