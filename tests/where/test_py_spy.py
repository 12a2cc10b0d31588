"""py-spy, where it is asked for: what it says, what it costs when it fails, and that it leaves nothing stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.errors import UsageError
from gputop.where import py_spy
from gputop.where.untracked import ask_process
from gputop.whereabouts.records import RankPlace
from tests.tracking.kit import eventually

FRAMES = [
    {"filename": "/usr/lib/python3.11/threading.py", "line": 5, "name": "wait"},
    {"filename": "/home/x/train.py", "line": 88, "name": "train_step"},
]


@pytest.fixture
def pid() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", "print(flush=True); import time; time.sleep(60)"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process.pid
    process.kill()
    process.communicate()


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "py-spy"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_its_stack_gives_the_line_of_the_script(pid: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "said").write_text(json.dumps([{"os_thread_id": pid, "frames": FRAMES}]))
    install(tmp_path, monkeypatch, 'echo "$@" > "$(dirname "$0")/asked"; cat "$(dirname "$0")/said"')
    found = py_spy.ask(RankPlace(0, pid))
    assert (found.source, found.line, found.function) == ("py-spy", "train.py:88", "train_step")
    assert "--nonblocking" in (tmp_path / "asked").read_text()


def test_a_process_that_py_spy_stopped_is_continued(pid: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(py_spy, "DEADLINE_S", 0.5)
    monkeypatch.setattr(py_spy, "CHECKED_S", 0.1)
    install(tmp_path, monkeypatch, f"kill -STOP {pid}; exec sleep 60")
    found = py_spy.ask(RankPlace(0, pid))
    assert (found.source, found.line) == (None, None)
    eventually(lambda: state(pid) == "S", "it goes on")


def test_a_process_that_was_stopped_before_is_not_touched(pid: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, 'touch "$(dirname "$0")/asked"')
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: state(pid) == "T", "it stops")
    assert py_spy.ask(RankPlace(0, pid)) == RankPlace(0, pid)
    assert state(pid) == "T"
    assert not (tmp_path / "asked").exists()


def test_a_missing_py_spy_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="py-spy is not installed"):
        py_spy.program()


def test_an_untracked_process_is_observed_from_outside(pid: int) -> None:
    eventually(lambda: state(pid) == "S", "it sleeps")
    (place,) = ask_process(pid).ranks
    assert (place.rank, place.pid, place.process_state, place.state) == (None, pid, "S", "untracked")
    assert place.cpu_percent is not None
    with pytest.raises(UsageError, match="There is no process"):
        ask_process(2**22 + 1)
