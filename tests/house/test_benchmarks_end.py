"""A benchmark ends on a signal, also as the first process of a namespace, and takes with it what it has started."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys

import psutil
import pytest

from tests import REPOSITORY
from tests.real_processes import eventually

BENCHMARKS = REPOSITORY / "benchmarks"
SCRIPT = """
import subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from common.ending import ended_by_signals
waits = "import time; time.sleep(600)"
starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {waits!r}])"
with ended_by_signals():
    child = subprocess.Popen([sys.executable, "-c", starts], start_new_session=True)
    while True:
        time.sleep(600)
"""
NAMESPACE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")


def can_unshare() -> bool:
    return shutil.which("unshare") is not None and subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("namespace", [False, True])
def test_a_benchmark_ends_on_a_signal_with_all_that_it_started(number: signal.Signals, namespace: bool) -> None:
    if namespace and not can_unshare():
        pytest.skip("no PID namespace can be made here")
    command = [*(NAMESPACE if namespace else ()), sys.executable, "-c", SCRIPT, str(BENCHMARKS)]
    with subprocess.Popen(command) as outer:
        try:
            top = psutil.Process(outer.pid)
            started = eventually(lambda: top.children(recursive=True), lambda found: len(found) == 2 + namespace)
            (started[0] if namespace else top).send_signal(number)
            assert outer.wait() == 128 + number
            assert not [process for process in started if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
        finally:
            outer.kill()


def test_every_benchmark_that_starts_programs_ends_them() -> None:
    starting = [
        path.name
        for path in BENCHMARKS.glob("*.py")
        if "__main__" in (text := path.read_text()) and ("import subprocess" in text or "import Terminal" in text)
    ]
    assert "dashboard.py" in starting
    assert [name for name in starting if "with ended_by_signals():" not in (BENCHMARKS / name).read_text()] == []
