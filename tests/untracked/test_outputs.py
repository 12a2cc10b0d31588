"""The curves of untracked runs from the files that they print to: real processes, real files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import pytest

from gputop.jobs.output.follower import Backlog
from gputop.jobs.output.printed_rank import PrintedFile, PrintedRank
from gputop.process import Ancestor, ProcessRank, ProcessRun
from gputop.snapshot import Rank
from gputop.untracked import outputs, run_curves
from gputop.untracked.curves import Curves, UntrackedCurves
from tests.real_processes import eventually

T0 = 1_700_000_000.0

PRINTS = """
import os, sys, time
parent, step = os.getppid(), 0
print("Loading data")
while os.getppid() == parent:
    step += 1
    if step <= 30:
        print(f"step {step}/100 loss {float(sys.argv[1]) / step:.4f}", flush=True)
    time.sleep(0.01)
"""


class Printing:
    """Starts processes whose output goes to files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, scale: float = 1.0) -> subprocess.Popen[bytes]:
        with (self.folder / name).open("ab") as out:
            return self.start_into(out, scale)

    def start_into(
        self, out: IO[bytes] | int, scale: float = 1.0, program: str = sys.executable, **variables: str
    ) -> subprocess.Popen[bytes]:
        return self._start([program, "-u", "-c", PRINTS, str(scale)], out, subprocess.STDOUT, variables)

    def start_silent(self, errors: IO[bytes] | int) -> subprocess.Popen[bytes]:
        """Start a process that prints nothing, and whose errors would go to ``errors``."""
        return self._start(["sleep", "600"], subprocess.DEVNULL, errors, {})

    def _start(
        self, command: Sequence[str], out: IO[bytes] | int, errors: IO[bytes] | int, variables: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command, stdout=out, stderr=errors, stdin=subprocess.DEVNULL, env={**os.environ, **variables}
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@pytest.fixture
def printing(tmp_path: Path) -> Iterator[Printing]:
    started = Printing(tmp_path)
    yield started
    started.end()


def run_of(
    *processes: subprocess.Popen[bytes], launcher: subprocess.Popen[bytes] | None = None, name: str = "torchrun"
) -> ProcessRun:
    numbered = len(processes) > 1
    ranks = tuple(ProcessRank(process.pid, place if numbered else None) for place, process in enumerate(processes))
    above = Ancestor(launcher.pid, name) if launcher is not None else None
    return ProcessRun(f"pid:{processes[0].pid}", "train.py", ranks, above, started_at=1.0)


def losses(curves: Curves) -> list[dict[int, float | None]]:
    return [{rank.rank: rank.metrics.get("loss") for rank in run.ranks} for run in curves.runs]


def test_a_redirected_output_becomes_a_curve_and_is_followed(printing: Printing) -> None:
    run, reader = run_of(printing.start("nohup é.out")), UntrackedCurves()
    steps: list[int] = []

    def poll() -> Curves:
        curves = reader.poll([run])
        steps.extend(step for points in curves.points if points.metric == "loss" for step in points.steps)
        return curves

    curves = eventually(poll, lambda curves: steps[-1:] == [30])
    assert steps == sorted(set(steps))
    (shown,), (known,) = curves.process_runs, curves.runs
    assert (shown.run_id, shown.outputs) == (known.run_id, (str(printing.folder / "nohup é.out"),))
    assert (known.name, known.state, known.step, known.ranks[0].pid) == ("train.py", "running", 30, run.ranks[0].pid)
    assert known.ranks[0].metrics["loss"] == pytest.approx(1 / 30, abs=1e-4)
    again = UntrackedCurves()
    curves = eventually(lambda: again.poll([run]), lambda curves: len(curves.runs) == 1)
    assert curves.runs[0].run_id == known.run_id, "another sampler gives it the same id"
    assert reader.poll([]) == Curves((), (), ())


def test_steps_counted_from_lines_are_marked_as_counted(tmp_path: Path) -> None:
    """What the Trainer prints names no step; its bar goes elsewhere, or to the same file."""
    path, rank = tmp_path / "trainer.out", PrintedRank()
    rank.files[path] = PrintedFile(path, outputs.TAIL)

    def shown(text: str) -> tuple[int | None, object]:
        with path.open("a") as file:
            file.write(text)
        for _ in range(2):
            rank.poll(ended=False, max_bytes=outputs.READ_BYTES)
        known = rank.rank(Rank(0))
        return known.step, known.facts.get("progress")

    line = "{'loss': '2.5', 'learning_rate': '4e-05', 'epoch': '0.25'}\n"
    assert shown(line) == (1, {"total_steps": None, "counts_lines": True})
    assert shown(f"{line}\r 17%|█▋        | 20/120 [00:00<00:01, 91.05it/s]\n") == (20, {"total_steps": 120})


def test_what_was_printed_before_it_was_read_has_one_time(tmp_path: Path) -> None:
    """The file is written while it is read, in many pieces: with the time of each, hours would have the pace of reading."""
    path = tmp_path / "train.out"
    file, times = PrintedFile(path, outputs.TAIL), []
    path.write_text("".join(f"step {step} loss {1 / step:.4f}\n" for step in range(1, 201)))
    os.utime(path, (T0, T0))
    for later in range(1, 50):
        steps, at = file.read(False, 200)
        times += [at] * len(steps)
        if file.at_end:
            break
        with path.open("a") as growing:
            growing.write(f"step {200 + later} loss 0.0010\n")
        os.utime(path, (T0 + later, T0 + later))
    assert file.at_end
    assert len(times) > 200
    assert set(times) == {T0}
    with path.open("a") as growing:
        growing.write("step 999 loss 0.0010\n")
    steps, at = file.read(False, 200)
    assert [step for step, _ in steps] == [999]
    assert at > T0 + 1000, "what is printed while it is read has the time of reading"


@pytest.mark.parametrize("resumed", [False, True])
def test_the_curve_begins_at_this_start_in_a_file_that_is_appended_to(printing: Printing, resumed: bool) -> None:
    """``python train.py >> train.log``, again after a crash."""
    crashed = "".join(f"step {step}/100 loss 9.0\n" for step in range(1, 90))
    error = 'Traceback (most recent call last):\n  File "train.py", line 3, in main\nKeyError: 1\n'
    first = "Resuming from checkpoint 0\n" if resumed else "Loading data\n"
    (printing.folder / "train.log").write_text(first + crashed + error)
    run, reader = run_of(printing.start("train.log")), UntrackedCurves()
    eventually((printing.folder / "train.log").read_text, lambda text: text.count("step 30/") == 2)
    found: list[tuple[int, float]] = []

    def poll() -> Curves:
        curves = reader.poll([run])
        for points in curves.points:
            found.extend(zip(points.steps, points.values, strict=True) if points.metric == "loss" else ())
        return curves

    curves = eventually(poll, lambda curves: curves.runs and curves.runs[0].step == 30)
    assert curves.runs[0].step == 30
    assert max(value for _, value in found) == pytest.approx(1.0)


def test_a_long_file_is_read_from_its_end(printing: Printing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_curves, "TAIL", Backlog(0, 2000))
    (printing.folder / "job.out").write_text("step 7 loss 9.0\n" * 10_000)
    run = run_of(printing.start("job.out"))
    reader, points = UntrackedCurves(), 0

    def poll() -> Curves:
        nonlocal points
        curves = reader.poll([run])
        points += sum(len(item.steps) for item in curves.points)
        return curves

    eventually(poll, lambda curves: curves.runs and curves.runs[0].step == 30)
    assert points < 400


def test_ranks_with_files_of_their_own_have_a_curve_each(printing: Printing) -> None:
    launcher = printing.start("launcher.log")
    run = run_of(printing.start("0-stdout"), printing.start("1-stdout", 2.0), launcher=launcher)
    reader = UntrackedCurves()
    both = {0: pytest.approx(1 / 30, abs=1e-4), 1: pytest.approx(2 / 30, abs=1e-4)}
    eventually(lambda: losses(reader.poll([run])), lambda found: found == [both])


def test_ranks_that_print_through_their_launcher_have_its_curve(printing: Printing) -> None:
    launcher = printing.start("slurm-1.out")
    ranks = [printing.start_into(subprocess.DEVNULL) for _ in range(2)]
    reader, run = UntrackedCurves(), run_of(*ranks, launcher=launcher)
    eventually(lambda: losses(reader.poll([run])), lambda found: found == [{0: pytest.approx(1 / 30, abs=1e-4), 1: None}])


def test_a_file_that_the_launcher_has_open_too_is_still_its_ranks(printing: Printing) -> None:
    """Slurm's step daemon has the first task's file as its standard error, where each task has a file (``srun -o %t.out``)."""
    with (printing.folder / "0.out").open("ab") as first:
        daemon = printing.start_silent(first)
    run = run_of(printing.start("0.out"), printing.start("1.out", 2.0), launcher=daemon)
    both = {0: pytest.approx(1 / 30, abs=1e-4), 1: pytest.approx(2 / 30, abs=1e-4)}
    reader = UntrackedCurves()
    eventually(lambda: losses(reader.poll([run])), lambda found: found == [both])


@pytest.mark.parametrize("job", ["17", "18"])
def test_tasks_that_print_through_srun_have_its_curve(printing: Printing, job: str) -> None:
    """``srun python train.py`` in a script of sbatch: srun writes what the step daemon sends it."""
    program = printing.folder / "srun"
    program.symlink_to(sys.executable)
    with (printing.folder / "slurm-17.out").open("ab") as out:
        client = printing.start_into(out, program=str(program), SLURM_JOB_ID="17")
    eventually(lambda: Path(f"/proc/{client.pid}/comm").read_text(), lambda name: name == "srun\n")
    daemon = printing.start_silent(subprocess.DEVNULL)
    ranks = [printing.start_into(subprocess.DEVNULL, SLURM_JOB_ID=job) for _ in range(2)]
    run = run_of(*ranks, launcher=daemon, name="srun")
    eventually(lambda: (printing.folder / "slurm-17.out").read_text(), lambda text: "step 30/" in text)
    files = outputs.files_of(run)
    assert [[file.path.name for file in own] for own in files.values()] == ([["slurm-17.out"]] if job == "17" else [])


def test_ambiguous_or_missing_lines_give_no_curve(printing: Printing) -> None:
    both = [run_of(printing.start("both.out")), run_of(printing.start("both.out"))]
    piped = run_of(printing.start_into(subprocess.PIPE))
    gone = run_of(printing.start("gone.out"))
    (printing.folder / "gone.out").unlink()
    eventually((printing.folder / "both.out").read_text, lambda text: text.count("step 30/") == 2)
    reader = UntrackedCurves()
    for _ in range(3):
        curves = reader.poll([*both, piped, gone])
        assert (curves.runs, curves.points) == ((), ())
        assert [run.run_id for run in curves.process_runs] == [None] * 4
    ended = printing.start("ended.out")
    ended.kill()
    ended.wait()
    assert UntrackedCurves().poll([run_of(ended)]).runs == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read another user's output, and does not")
def test_another_users_output_is_left_alone(printing: Printing, monkeypatch: pytest.MonkeyPatch) -> None:
    process = printing.start("theirs.out")
    assert outputs.output_files(process.pid)
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert outputs.output_files(process.pid) == ()
