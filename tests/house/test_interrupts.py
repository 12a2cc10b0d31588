"""Tests that interrupt or quit what they start also work where those signals are ignored when they begin."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests import REPOSITORY

IN_THE_BACKGROUND = """
import signal
for number in (signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
import tests.conftest
print(*(signal.getsignal(number) is signal.SIG_IGN for number in (signal.SIGINT, signal.SIGQUIT)))
"""
"""As a shell without job control starts ``make test &``."""


def test_signals_reach_what_tests_start_in_the_background() -> None:
    found = subprocess.run(
        [sys.executable, "-c", IN_THE_BACKGROUND], cwd=REPOSITORY, capture_output=True, text=True, timeout=60.0, check=True
    )
    assert found.stdout == "False False\n"
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    assert signal.getsignal(signal.SIGQUIT) is not signal.SIG_IGN
