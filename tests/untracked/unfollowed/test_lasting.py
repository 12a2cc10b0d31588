"""What tracked runs print: the lasting texts in a file that a live run writes, for runs that are no jobs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gputop.snapshot import Rank, Run
from gputop.untracked.unfollowed import lasting
from gputop.untracked.unfollowed.lasting import LastingTexts
from tests import REPOSITORY
from tests.facts.checks import assert_facts
from tests.real_processes import eventually

PRINTS = """
print("step 1 loss 3.5", flush=True)
for line in iter(input, "end"):
    print(line, flush=True)
"""
FULL = "WARNING could not save epoch 3: [Errno 28] No space left on device: 'last.pt'"
BROADCASTS = (
    "loss.py:538: UserWarning: Using a target size (torch.Size([8])) that is different to the input size (torch.Size([8, 1])). "
    "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size."
)


@pytest.fixture
def trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """A process that writes to a file the lines that it is sent."""
    monkeypatch.setattr(lasting, "READ_S", 0.05)
    with (tmp_path / "train.log").open("w") as out:
        process = subprocess.Popen([sys.executable, "-c", PRINTS], stdin=subprocess.PIPE, stdout=out, stderr=out, text=True)
    eventually((tmp_path / "train.log").read_text, bool)
    yield process
    process.kill()
    process.communicate()


def say(process: subprocess.Popen[str], *lines: str) -> None:
    assert process.stdin is not None
    process.stdin.write("".join(f"{line}\n" for line in lines))
    process.stdin.flush()


def run_of(process: subprocess.Popen[str]) -> Run:
    return Run("run-1", "train.py", state="running", ranks=(Rank(rank=0, pid=process.pid, state="running"),))


@pytest.mark.parametrize(("line", "pattern"), [(FULL, "disk_full"), (BROADCASTS, "target_size")])
def test_a_text_that_stays_true_is_told_while_the_run_lives(line: str, pattern: str, trains: subprocess.Popen[str]) -> None:
    outputs, run = LastingTexts(), run_of(trains)
    eventually(lambda: outputs.poll([run]), lambda _: bool(outputs._known))
    say(trains, line, "step 2 loss 3.4", "step 3 loss 3.3")
    (match,) = eventually(lambda: outputs.poll([run]), bool)
    assert (match.pattern, match.run_id, match.file, match.job_state) == (pattern, "run-1", "train.log", "running")
    assert outputs.poll([replace(run, state="finished")]) == ()


def test_other_texts_and_jobs_are_left_to_their_own_readers(trains: subprocess.Popen[str]) -> None:
    outputs, run = LastingTexts(), run_of(trains)
    eventually(lambda: outputs.poll([run]), lambda _: bool(outputs._known))
    say(trains, "RuntimeError: CUDA out of memory", "step 2 loss nan", FULL)
    found = eventually(lambda: outputs.poll([run]), bool)
    assert [match.pattern for match in found] == ["disk_full"]
    job = LastingTexts()
    assert job.poll([replace(run, job_id="job-1")]) == ()
    assert job._reading is None


def test_evaluations_and_returns_that_a_run_prints_are_a_fact_of_its_rank(trains: subprocess.Popen[str]) -> None:
    outputs, run = LastingTexts(), run_of(trains)
    say(
        trains,
        "epoch 1: train_loss 1.5  val_loss 1.9559  val_acc 0.143",
        "epoch 2: train_loss 1.2  val_loss 1.9559  val_acc 0.151",
        "update 5 | return 20.5 | policy loss -0.0012 | value loss 190.123 | 1 s",
    )

    def courses(_: object = None) -> dict[str, tuple[int, float, float]]:
        outputs.poll([run])
        (rank,) = outputs.with_printed([run])[0].ranks
        assert_facts(dict(rank.facts))
        return {item["name"]: (item["values"], item["lowest"], item["highest"]) for item in rank.facts.get("printed", ())}

    found = eventually(courses, lambda said: len(said) == 3)
    assert found == {"val_loss": (2, 1.9559, 1.9559), "val_acc": (2, 0.143, 0.151), "return": (1, 20.5, 20.5)}
    say(trains, "epoch 3: train_loss 1.1  val_loss 1.8  val_acc 0.2")
    assert eventually(courses, lambda said: said["val_loss"][0] == 3)["val_loss"] == (3, 1.8, 1.9559)
    assert outputs.with_printed([replace(run, run_id="run-2")])[0].ranks[0].facts == {}


def test_what_a_run_printed_before_its_first_step_is_its_own(trains: subprocess.Popen[str], tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    say(trains, BROADCASTS)
    eventually(log.read_text, lambda text: "Using a target" in text)
    outputs = LastingTexts()
    run = replace(run_of(trains), created_at=log.stat().st_mtime + 60.0)
    (match,) = eventually(lambda: outputs.poll([run]), bool)
    assert match.pattern == "target_size"


CRASHED = "run.sh: line 7:  4242 Segmentation fault      (core dumped) python -u train.py"


@pytest.mark.parametrize("facts", [{}, {"error": {"type": "KeyError", "message": "'img_901'", "where": "train.py:12"}}])
def test_the_shell_s_line_on_a_run_that_ended_without_a_word_is_told(
    facts: dict[str, object], trains: subprocess.Popen[str], tmp_path: Path
) -> None:
    outputs, run = LastingTexts(), run_of(trains)
    eventually(lambda: outputs.poll([run]), lambda _: bool(outputs._known))
    say(trains, "step 2 loss 3.4")
    trains.kill()
    trains.wait()
    with (tmp_path / "train.log").open("a") as shell:
        shell.write(f"{CRASHED}\n")
    killed = replace(run, state="killed", ranks=tuple(replace(rank, state="killed", facts=facts) for rank in run.ranks))
    if facts:  # the journal says why
        outputs.poll([killed])
        assert outputs._reading is not None
        outputs._reading.join()
        assert outputs.poll([killed]) == ()
        return
    (match,) = eventually(lambda: outputs.poll([killed]), bool)
    assert (match.pattern, match.run_id, match.job_state) == ("signal_crash", "run-1", "failed")
    assert outputs.poll([replace(killed, state="finished")]) == ()


READS_A_PIPE = """
import os, sys, time
from gputop.snapshot import Rank, Run
from gputop.untracked.unfollowed import lasting
lasting.READ_S = 0.0
outputs, run = lasting.LastingTexts(), Run("run-1", "train.py", state="running", ranks=(Rank(0, os.getpid(), state="running"),))
for _ in range(2):
    outputs.poll([run])
    outputs._reading.join()
outputs.poll([run])
print([name for name in sys.modules if name.startswith("gputop.doctor.")])
"""


def test_the_known_texts_are_loaded_only_for_output_in_a_file() -> None:
    run = subprocess.run([sys.executable, "-c", READS_A_PIPE], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert run.stdout == "[]\n"


def test_output_of_two_runs_is_neithers(trains: subprocess.Popen[str]) -> None:
    outputs = LastingTexts()
    runs = [run_of(trains), replace(run_of(trains), run_id="run-2")]
    eventually(lambda: outputs.poll(runs), lambda _: len(outputs._known) == 2)
    say(trains, FULL)
    eventually(lambda: outputs.poll(runs), lambda _: all(item.matches for item in outputs._known.values()))
    assert outputs._reading is not None
    outputs._reading.join()  # the next poll returns what it has found
    assert outputs.poll(runs) == ()


def test_a_terminal_and_a_run_elsewhere_are_not_read() -> None:
    outputs = LastingTexts()
    away = Run("run-1", "train.py", state="running", ranks=(Rank(rank=0, pid=os.getpid(), state="running", elsewhere=True),))
    outputs.poll([away])
    assert outputs._reading is not None
    outputs._reading.join()
    assert outputs._known == {}


def test_an_unexpected_error_is_raised_once(trains: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch) -> None:
    outputs, run = LastingTexts(), run_of(trains)
    monkeypatch.setattr(lasting, "files_of", lambda run: 1 / 0)
    outputs.poll([run])
    assert outputs._reading is not None
    outputs._reading.join()
    with pytest.raises(ZeroDivisionError):
        outputs.poll([run])
