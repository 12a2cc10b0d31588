"""Measures in a PID namespace of its own: gputop follows all programs of a machine, also those of another measurement.

Where two measured at once, each took the programs that the other had stopped for runs that had failed.
"""

from __future__ import annotations

import os
import subprocess
import sys

_APART = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child")
_IS_APART = "GPUTOP_BENCHMARK_IS_APART"


def go_apart() -> None:
    """Start this program again in such a namespace, if the machine makes one."""
    if _IS_APART in os.environ or subprocess.run([*_APART, "true"], capture_output=True, check=False).returncode:
        return
    os.environ[_IS_APART] = "1"
    sys.stdout.flush()
    os.execvp(_APART[0], [*_APART, sys.executable, *sys.argv])
