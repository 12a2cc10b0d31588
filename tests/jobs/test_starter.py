"""A job that goes on only if the process that started it says so: what its supervisor makes of that process's end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputop.jobs import identity, record
from gputop.jobs.supervisor import Supervisor

TAKES_NO_TERM = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(3)"
"""It ends by itself after some looks of its supervisor."""


@pytest.fixture
def gone() -> dict[str, Any]:
    """What identifies a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        return identity.describe(process.pid)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", TAKES_NO_TERM], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield process


def supervisor(directory: Path, starter: dict[str, Any]) -> Supervisor:
    return Supervisor(directory, {"id": "20261122-141300-3f2a", "starter": starter})


def test_a_job_whose_starter_is_gone_is_asked_to_end(
    tmp_path: Path, gone: dict[str, Any], child: subprocess.Popen[bytes]
) -> None:
    found = supervisor(tmp_path, gone)
    assert found._wait(child) == 0
    (asked,) = found.status["asked"]
    assert (asked["signal"], asked["pid"]) == ("SIGTERM", gone["pid"])


def test_a_kept_job_continues(tmp_path: Path, gone: dict[str, Any], child: subprocess.Popen[bytes]) -> None:
    record.write_json(tmp_path / record.KEPT, {"at": 1.0})
    found = supervisor(tmp_path, gone)
    assert found._wait(child) == 0
    assert found.status["asked"] == []


def test_a_disk_that_does_not_say_whether_a_job_is_kept_ends_neither_it_nor_its_supervisor(
    tmp_path: Path, gone: dict[str, Any], child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "KEPT", "x" * 300)  # the disk refuses to look
    found = supervisor(tmp_path, gone)
    assert found._wait(child) == 0
    assert found.status["asked"] == []


def test_a_job_that_is_ending_already_keeps_its_time_to_end(
    tmp_path: Path, gone: dict[str, Any], child: subprocess.Popen[bytes]
) -> None:
    found = supervisor(tmp_path, gone)
    found._asked(child, signal.SIGTERM, os.getpid(), os.getuid())
    assert found._wait(child) == 0, "it was killed"
    assert len(found.status["asked"]) == 1
