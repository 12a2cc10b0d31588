"""The error texts in what untracked runs print: a fault, its look-alikes, and healthy runs; real files, real processes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.doctor.diagnosis import Doctor
from gputop.doctor.findings.finding import Finding
from gputop.process import ProcessRank, ProcessRun
from gputop.snapshot import Host, LogMatch, Snapshot
from gputop.untracked import errors as errors_module
from gputop.untracked import followed
from gputop.untracked.curves import UntrackedCurves
from gputop.untracked.errors import OUTLIVED_S, OutputErrors
from gputop.untracked.followed import FollowedRun
from gputop.untracked.outputs import OutputFile
from gputop.untracked.panes import Pane, PaneReader
from tests.real_processes import eventually

STEPS = "".join(f"step {step} loss {4 - step / 100}\n" for step in range(20))
MORE = "".join(f"step {step} loss {3 - step / 100}\n" for step in range(20, 40))
TRACEBACK = """\
Traceback (most recent call last):
  File "/home/ann/train.py", line 41, in <module>
    main()
  File "/home/ann/train.py", line 30, in main
    row = table[key]
KeyError: 'speaker-7'
"""
RANKS = (4001, 4002)


class Output:
    """The output of a run with two ranks, and what is read of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.errors = OutputErrors("pid-4001-1")
        self.now = 0.0
        self.write("")
        found = path.stat()
        self.errors.follow({0: (OutputFile((found.st_dev, found.st_ino), path),)})

    def write(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)

    def look(self, *pids: int, after_s: float = 1.0, ended: bool = False) -> tuple[LogMatch, ...]:
        self.now += after_s
        self.errors.read(pids, self.now, ended)
        return self.errors.matches


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return Output(tmp_path / "nohup.out")


def findings(matches: tuple[LogMatch, ...]) -> tuple[Finding, ...]:
    doctor, found = Doctor(), ()
    for second in range(3):
        found = doctor.observe(Snapshot(second, float(second), float(second), 1.0, Host("host"), logs=matches))
    return found


def test_an_error_of_a_rank_that_is_gone_is_explained_with_file_and_line(output: Output) -> None:
    output.write(STEPS)
    assert output.look(*RANKS) == ()
    output.write(TRACEBACK)
    output.look(*RANKS)
    (match,) = output.look(RANKS[0], ended=True)
    assert (match.pattern, match.job_state, match.file, match.line_number) == ("exception", "failed", "nohup.out", 26)
    (found,) = findings((match,))
    assert found.confidence == "certain"
    assert "KeyError" in found.title
    assert "train.py:30 (main)" in found.title
    assert "nohup.out:26" in {fact.source for fact in found.evidence}


def test_a_known_text_has_the_cause_that_a_log_gets(output: Output) -> None:
    output.write(TRACEBACK.replace("KeyError: 'speaker-7'", "ModuleNotFoundError: No module named 'sentencepiece'"))
    output.look(*RANKS)
    (found,) = findings(output.look(ended=True))
    assert "sentencepiece" in found.title + found.cause


def test_the_error_of_one_rank_is_explained_while_the_others_hang(output: Output) -> None:
    output.write(STEPS + TRACEBACK)
    output.look(*RANKS)
    output.look(RANKS[0])
    (match,) = output.look(RANKS[0])
    assert (match.line, match.job_state) == ("KeyError: 'speaker-7'", "failed")


def test_while_all_ranks_live_nothing_has_failed(output: Output) -> None:
    output.write(STEPS + TRACEBACK + "\n")
    output.look(*RANKS)
    assert {match.job_state for match in output.look(*RANKS)} <= {"running"}
    assert findings(output.errors.matches) == ()


def test_an_error_that_is_caught_and_printed_ends_nothing(output: Output) -> None:
    output.write(STEPS + TRACEBACK + MORE)
    output.look(*RANKS)
    assert output.look(*RANKS, after_s=OUTLIVED_S + 1) == ()
    assert output.look(ended=True) == ()


def test_an_error_above_what_the_script_had_buffered_is_explained(output: Output) -> None:
    """Python writes stderr at once, and what it buffered of stdout as it ends."""
    output.write(TRACEBACK + STEPS)
    output.look(*RANKS)
    (match,) = output.look(ended=True)
    assert match.followed
    (found,) = findings((match,))
    assert found.confidence == "likely"
    assert "KeyError" in found.title


def test_a_later_error_is_explained_though_one_was_caught_before(output: Output) -> None:
    output.write(STEPS + TRACEBACK + MORE)
    output.look(*RANKS)
    output.look(*RANKS, after_s=OUTLIVED_S + 1)
    output.write(TRACEBACK.replace("KeyError: 'speaker-7'", "ZeroDivisionError: division by zero"))
    (match,) = output.look(ended=True)
    assert match.line.startswith("ZeroDivisionError")


def test_a_healthy_run_that_ends_says_nothing(output: Output) -> None:
    output.write(STEPS)
    output.look(*RANKS)
    output.write(MORE + "training done\n")
    assert output.look(ended=True) == ()


def test_one_look_reads_a_bounded_piece(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors_module, "READ_BYTES", 200)
    output.write(STEPS + TRACEBACK)
    looks = 1
    while not output.look(ended=True):
        looks += 1
        assert looks < 20
    assert looks >= len(STEPS + TRACEBACK) // 200


def test_a_window_of_tmux_is_read_as_a_file_is(output: Output) -> None:
    reader = PaneReader(Pane(followed.TMUX, "/tmp/none", "%3", (1, 2)))
    reader.take_in(STEPS)
    output.errors.follow_pane(reader.scan)
    output.look(*RANKS)
    reader.take_in(f"{STEPS}{TRACEBACK}ann@host:~$ \n")
    (match,) = output.look(ended=True)
    assert (match.file, match.line_number) == ("the tmux window %3", None)
    assert match.job_state == "failed"


FAILS = """
import sys, time
print("step 1 loss 3.5", flush=True)
sys.stdin.readline()
raise LookupError("no row for speaker-7")
"""


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    monkeypatch.setattr(followed, "LAST_WORDS_S", 0.5)
    (tmp_path / "train.py").write_text(FAILS)
    with (tmp_path / "slurm-17.out").open("wb") as out:
        process = subprocess.Popen([sys.executable, "train.py"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=out, stderr=out)
    yield process
    process.kill()
    process.communicate()


def run_of(pid: int) -> ProcessRun:
    return ProcessRun(f"pid:{pid}", "train.py", (ProcessRank(pid),), None, started_at=time.time() - 20, command=("train.py",))


def test_what_ended_a_run_is_kept_after_it(started: subprocess.Popen[bytes]) -> None:
    curves = UntrackedCurves()
    run = run_of(started.pid)
    eventually(lambda: curves.poll([run]), lambda found: bool(found.runs))
    started.communicate(b"\n")
    found = eventually(lambda: curves.poll([]), lambda found: bool(found.logs))
    assert found.process_runs == ()
    (match,) = found.logs
    assert (match.line, match.file, match.job_state) == ("LookupError: no row for speaker-7", "slurm-17.out", "failed")
    assert [item.run for item in findings(found.logs)] == [match.run_id]


def test_a_run_that_is_tracked_now_has_not_ended(started: subprocess.Popen[bytes]) -> None:
    curves = UntrackedCurves()
    eventually(lambda: curves.poll([run_of(started.pid)]), lambda found: bool(found.runs))
    (followed_run,) = _followed(curves)
    curves.poll([], tracked=[started.pid])
    started.communicate(b"\n")
    eventually(lambda: curves.poll([], tracked=[started.pid]), lambda _: not followed_run.lingers)
    assert curves.poll([], tracked=[started.pid]).logs == ()


def test_what_two_runs_print_to_one_file_is_neithers(tmp_path: Path) -> None:
    path = tmp_path / "all.log"
    with path.open("wb") as out:
        pair = [
            subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=out, stderr=out) for _ in range(2)
        ]
    try:
        with path.open("a") as file:
            file.write(STEPS)
        curves = UntrackedCurves()
        runs = [run_of(process.pid) for process in pair]
        eventually(lambda: curves.poll(runs), lambda _: all(item.errors.reads_something for item in _followed(curves)))
        with path.open("a") as file:
            file.write(f"{TRACEBACK}INFO bye\n")
        eventually(lambda: curves.poll(runs[:1]), lambda _: any(item.errors.matches for item in _followed(curves)))
        assert curves.poll(runs[:1]).logs == ()
    finally:
        for process in pair:
            process.kill()
            process.communicate()


def _followed(curves: UntrackedCurves) -> list[FollowedRun]:
    return list(curves._followed.values())
