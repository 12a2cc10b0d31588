"""The files behind pipes to which untracked runs print: real shells, pipes, and ``tee``."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gputop.process import ProcessRank, ProcessRun
from gputop.untracked import outputs, pipelines
from gputop.untracked.curves import UntrackedCurves
from tests.real_processes import eventually

PRINTS = """
import os, pathlib, sys, time
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
for step in range(1, 31):
    print(f"step {step}/100 loss {1.0 / step:.4f}", flush=True)
while not pathlib.Path(sys.argv[1] + ".fail").exists():
    time.sleep(0.02)
raise ValueError("batch size 7 is not divisible by 2")
"""

Shell = Callable[[str], int]
"""Starts a pipeline whose first command is ``TRAIN``; returns the PID of the training."""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    started: list[subprocess.Popen[bytes]] = []

    def start(pipeline: str) -> int:
        mark = tmp_path / f"pid{len(started)}"
        training = shlex.join([sys.executable, "-u", "-c", PRINTS, str(mark)])
        command = ["bash", "-c", pipeline.replace("TRAIN", training)]
        quiet = subprocess.DEVNULL
        started.append(subprocess.Popen(command, cwd=tmp_path, stdout=quiet, stderr=quiet, stdin=quiet, start_new_session=True))
        text = eventually(lambda: mark.read_text() if mark.exists() else "", bool)
        return int(text)

    yield start
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def names(pid: int) -> list[str]:
    return sorted(file.path.name for file in outputs.output_files(pid))


@pytest.mark.parametrize(
    ("pipeline", "files"),
    [
        ("TRAIN 2>&1 | tee train.log", ["train.log"]),
        ("TRAIN 2>&1 | tee -a train.log > /dev/null", ["train.log"]),
        # The other files hold the same lines: read together, each value would count twice.
        ("TRAIN | tee one.log two.log > three.log", ["one.log"]),
        ("TRAIN | tee one.log > two.log", ["one.log"]),
        ("TRAIN | tee one.log | grep --line-buffered loss > two.log", ["one.log"]),
        ("TRAIN | tee /dev/null | tee two.log", ["two.log"]),
        ("TRAIN 2>&1 | sed -u s/loss/loss/ | tee train.log", ["train.log"]),
        ("TRAIN 2>&1 | cat > train.log", ["train.log"]),
        ("TRAIN > >(tee out.log) 2> >(tee err.log >&2)", ["err.log", "out.log"]),
        ("TRAIN 2> err.log | tee out.log", ["err.log", "out.log"]),
        # What another program prints is its own output, and a file that it reads is none.
        ("TRAIN | tail -n 1 > last.log", []),
        ("touch in.log; TRAIN | cat - in.log", []),
        ("TRAIN | tee", []),
    ],
)
def test_the_files_behind_a_pipe(shell: Shell, pipeline: str, files: list[str]) -> None:
    pid = shell(pipeline)
    if files:
        eventually(lambda: names(pid), lambda found: found == files)
    else:
        reader = pipeline.split("| ")[-1].split()[0]
        eventually(lambda: _reads_the_pipe_of(pid, reader), bool)
        assert names(pid) == []


def test_another_pipeline_beside_it_is_left_alone(shell: Shell) -> None:
    first, second = shell("TRAIN | tee one.log"), shell("TRAIN | tee two.log")
    eventually(lambda: (names(first), names(second)), lambda found: found == (["one.log"], ["two.log"]))


def test_the_curve_and_the_error_of_a_run_that_prints_through_tee(shell: Shell, tmp_path: Path) -> None:
    pid = shell("TRAIN 2>&1 | tee -a train.log")
    run = ProcessRun(f"pid:{pid}", "train.py", (ProcessRank(pid),), started_at=1.0)
    reader = UntrackedCurves()
    curves = eventually(lambda: reader.poll([run]), lambda found: found.runs and found.runs[0].step == 30)
    assert curves.process_runs[0].outputs == (str(tmp_path / "train.log"),)
    # An error that stands in the output when it is looked at first may be an old one.
    eventually(
        lambda: reader.poll([run]) and [followed._turns for followed in reader._followed.values()], lambda turns: turns[0] >= 3
    )
    (tmp_path / "pid0.fail").touch()
    logs = eventually(lambda: reader.poll([run] if Path(f"/proc/{pid}/exe").exists() else []).logs, bool)
    assert "not divisible by 2" in logs[0].line


class Looks:
    """Counts the looks at all processes, of which only the given ones are read, on a clock that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number, self.now_s = 0, 1000.0
        self._look = pipelines._readers_of_pipes
        monkeypatch.setattr(pipelines, "_readers_of_pipes", self._counted)
        monkeypatch.setattr(pipelines, "_shared", pipelines.SharedReaders())
        monkeypatch.setattr(pipelines, "time", SimpleNamespace(monotonic=lambda: self.now_s))

    def _counted(self) -> dict[pipelines.Identity, list[int]]:
        self.number += 1
        return self._look()


def test_runs_that_are_searched_together_share_one_scan_of_all_processes(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = [shell(f"TRAIN | tee {number}.log") for number in range(3)]
    eventually(lambda: [names(pid) for pid in pids], lambda found: found == [["0.log"], ["1.log"], ["2.log"]])
    looks = Looks(monkeypatch)
    for _ in range(10):
        assert [names(pid) for pid in pids] == [["0.log"], ["1.log"], ["2.log"]]
        looks.now_s += pipelines.KNOWN_S / 10
    assert looks.number == 1
    looks.now_s += 0.1
    assert names(pids[0]) == ["0.log"]
    assert looks.number == 2


def test_a_pipe_that_nothing_reads_is_looked_for_more_and_more_rarely(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    unread = shell("TRAIN | (exec 3<&0 0</dev/null; exec sleep 120)")
    pid = shell("TRAIN | tee one.log")
    eventually(lambda: names(pid), lambda found: found == ["one.log"])
    looks = Looks(monkeypatch)
    for _ in range(300):
        assert names(unread) == []
        looks.now_s += 1.0
    assert 20 < looks.number < 30
    assert names(pid) == ["one.log"], "one of these looks has found the reader of another pipe"


def test_a_reader_that_is_gone_is_none_and_the_next_one_is_found(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = shell("TRAIN | (exec 3<&0 0</dev/null; tee first.log <&3 & wait $!; exec tee second.log <&3)")
    eventually(lambda: names(pid), lambda found: found == ["first.log"])
    looks = Looks(monkeypatch)
    assert names(pid) == ["first.log"]
    pipe = pipelines.identity_of_pipe(f"/proc/{pid}/fd/1")
    assert pipe is not None
    (reader,) = pipelines._shared.of(pipe)
    os.kill(reader, signal.SIGKILL)

    def found() -> list[str]:
        looks.now_s += 1.0
        return names(pid)

    assert "first.log" not in eventually(found, lambda files: files != ["first.log"])
    eventually(found, lambda files: files == ["second.log"])


def _reads_the_pipe_of(pid: int, reader: str) -> bool:
    """Return whether a process with this name has the standard output of another one as its standard input."""
    pipe = os.readlink(f"/proc/{pid}/fd/1")
    for entry in Path("/proc").iterdir():
        try:
            is_reader = entry.name.isdigit() and (entry / "comm").read_text().strip() == reader
            if is_reader and os.readlink(entry / "fd" / "0") == pipe:
                return True
        except OSError:
            continue
    return False
