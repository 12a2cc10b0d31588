"""Known error texts in the output of jobs, as they are written; and the explanation of a job that failed."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
from itertools import pairwise
from pathlib import Path

import pytest

from gputop.doctor.logs.meaning.explain import explain
from gputop.doctor.logs.scan import LogScan
from gputop.jobs import record, stopping, store
from gputop.jobs.output import matches as log_matches
from gputop.jobs.output import scan as log_scan
from gputop.jobs.output.explained import explanation_of, paragraph
from gputop.jobs.output.follower import Backlog
from gputop.jobs.output.matches import LogMatches
from gputop.recipes.catalogue import Launch
from gputop.snapshot import LogMatch
from tests.tracking.kit import Home, eventually, home

assert home

FAILS = """
import sys
print("epoch 0 loss 0.5")
sys.stdout.flush()
def main():
    raise RuntimeError("CUDA error: invalid device ordinal")
main()
"""
RANKS = """
import os, sys, time
directory = os.path.join(os.environ["PET_LOG_DIR"], "x_1", "attempt_0")
texts = {
    0: "RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:22467",
    1: "ValueError: the real error",
}
for rank, text in texts.items():
    os.makedirs(os.path.join(directory, str(rank)))
    with open(os.path.join(directory, str(rank), "stderr.log"), "w") as file:
        file.write("Traceback (most recent call last):\\n")
        file.write(f'  File "train.py", line {9 + rank}, in <module>\\n    step()\\n{text}\\n')
sys.exit(1)
"""


def start(code: str) -> store.Job:
    return store.start(Launch((sys.executable, "-c", textwrap.dedent(code)), {}, os.getcwd(), "job"))


def ended(job: store.Job) -> store.Job:
    return eventually(lambda: found if not (found := store.find(job.id)).active else None, "the job ends")


def log_of(job: store.Job) -> str:
    path = job.directory / record.OUT_LOG
    return path.read_text() if path.exists() else ""


def until(matches: LogMatches, wanted: str) -> LogMatch:
    return eventually(lambda: next((item for item in matches.poll() if item.pattern == wanted), None), wanted)


def test_a_text_is_found_once_and_the_first_failure_first(home: Home) -> None:
    job, matches = start(FAILS), LogMatches()
    found = until(matches, "invalid_ordinal")
    assert (found.job_id, found.run_id, found.cause, found.cascade) == (job.id, job.id, None, False)
    assert found.file == record.OUT_LOG
    ended(job)
    again = [matches.poll() for _ in range(3)][-1]
    assert [item.pattern for item in again].count("invalid_ordinal") == 1
    finding = explanation_of(job.id)
    assert finding is not None
    assert finding.id == "invalid_ordinal"
    assert "LOCAL_RANK" in finding.fix
    assert finding.title in paragraph(finding)


def test_the_rank_that_failed_first_is_the_root_and_not_who_noticed(home: Home) -> None:
    job = ended(start(RANKS))
    matches = LogMatches()
    found = eventually(matches.poll, "the ranks' texts")
    assert found[0].rank == 1
    assert "the real error" in found[0].line
    assert [item.cascade for item in found if item.rank == 0] == [True]
    finding = explanation_of(job.id)
    assert finding is not None
    assert "the real error" in str([fact.text for fact in finding.evidence]) + finding.title


STOPPED = """
import signal, sys, time

class SignalException(Exception):
    pass

def close(number, frame):
    print(f"W1127 13:43:42.297000 199 torch/distributed/elastic/agent/server/api.py:753] Received {number} death signal, "
          "shutting down workers")
    raise SignalException(f"Process 199 got signal: {number}")

signal.signal(signal.SIGTERM, close)
print("RuntimeError: CUDA error: invalid device ordinal" if sys.argv[1:] else "ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("earlier", [[], ["invalid_ordinal"]], ids=["a healthy job", "one with an error before"])
def test_what_a_launcher_prints_of_a_stop_that_was_asked_for_explains_nothing(home: Home, earlier: list[str]) -> None:
    argv = (sys.executable, "-c", STOPPED, *earlier)
    job, matches = store.start(Launch(argv, {}, os.getcwd(), "job")), LogMatches()
    eventually(lambda: log_of(job), "it prints")
    stopping.stop(job.id, grace_s=5.0)
    assert "got signal: 15" in log_of(job)
    assert [item.pattern for _ in range(3) for item in matches.poll()] == earlier * 3


def test_a_stop_is_known_before_the_jobs_are_listed_again(home: Home) -> None:
    job, matches = start(STOPPED), LogMatches(clock=lambda: 0.0)  # it lists them only once
    eventually(lambda: log_of(job), "it prints")
    matches.poll()
    stopping.stop(job.id, grace_s=5.0)
    assert "got signal: 15" in log_of(job)
    assert [item.pattern for _ in range(3) for item in matches.poll()] == []


def test_a_stop_that_nobody_asked_gputop_for_is_reported(home: Home) -> None:
    job, matches = start(STOPPED), LogMatches()
    running = eventually(lambda: found if (found := store.find(job.id)).command_pid is not None else None, "its command runs")
    eventually(lambda: log_of(job), "it prints")
    os.kill(running.command_pid or 0, signal.SIGTERM)
    ended(job)
    assert until(matches, "stopped").job_state == "failed"


def test_a_caught_error_is_left_out_once_another_one_ended_the_script(home: Home) -> None:
    code = """
    print("an earlier run said RuntimeError: CUDA error: invalid device ordinal")
    for epoch in range(9):
        print("reading the data again", "epoch", epoch, "loss 0.5")
    raise ValueError("the end")
    """
    ended(start(code))
    matches = LogMatches()
    found = eventually(matches.poll, "the job's texts")
    assert [item.pattern for item in found] == ["exception"]


def test_a_job_that_ended_well_has_nothing_to_explain(home: Home) -> None:
    job = ended(start("print('all is well')"))
    assert LogMatches().poll() == ()
    assert explanation_of(job.id) is None


def test_a_large_log_is_read_at_both_ends_in_bounded_steps(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_scan, "ERRORS", Backlog(10_000, 10_000))
    monkeypatch.setattr(log_matches, "READ_BYTES", 4_000)
    code = "for n in range(60_000): print('step', n)\nraise RuntimeError('CUDA error: invalid device ordinal')"
    job, matches = ended(start(code)), LogMatches()
    assert (job.directory / record.OUT_LOG).stat().st_size > 500_000
    polls = 0
    while not matches.poll():
        polls += 1
        assert polls < 20, "the middle is left out"


def test_a_poll_ends_when_its_time_is_over_and_the_next_one_continues(home: Home) -> None:
    code = "print('ERROR the sample was not read\\n' * 20_000)\nraise RuntimeError('CUDA error: invalid device ordinal')"
    job, now, offsets = ended(start(code)), [0.0], []
    size = (job.directory / record.OUT_LOG).stat().st_size

    def clock() -> float:
        now[0] += log_matches.TICK_S / 4  # it is asked before each piece
        return now[0]

    matches = LogMatches(clock)
    while not matches.poll():
        assert len(offsets) < 100
        (followed,) = matches._followed.values()
        offsets.append(sum(file._file.offset for file in followed.files.values()))
    steps = [after - before for before, after in pairwise([0, *offsets])]
    assert min(steps) > 0, "each poll reads on"
    assert max(steps) <= 4 * log_matches.PIECE_BYTES < size / 4
    assert [match.pattern for match in matches.poll()] == ["invalid_ordinal"]


def test_a_truncated_log_is_read_again(home: Home) -> None:
    code = (
        "import os, sys, time\n"
        "path = os.path.join(os.path.dirname(os.environ['PET_LOG_DIR']), 'out.log')\n"
        "print('noise ' * 1000, flush=True)\ntime.sleep(0.5)\n"
        "os.truncate(path, 0)\nprint('RuntimeError: CUDA error: invalid device ordinal', flush=True)\ntime.sleep(60)"
    )
    job, matches = start(code), LogMatches()
    matches.poll()
    until(matches, "invalid_ordinal")
    stopping.stop(job.id, grace_s=1.0)


def test_a_job_that_is_gone_is_forgotten(home: Home) -> None:
    import shutil

    job, matches = start(FAILS), LogMatches()
    until(matches, "invalid_ordinal")
    ended(job)
    while job.directory.exists():  # its supervisor may still be tidying up
        shutil.rmtree(job.directory, ignore_errors=True)
    eventually(lambda: not matches.poll(), "nothing is left of it")
    assert isinstance(job.directory, Path)


COMPILER = "ops.cu:3:10: fatal error: cusparse.h: No such file or directory"
REPORT = """Traceback (most recent call last):
  File "train.py", line 9, in <module>
    load()
subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.
"""


@pytest.mark.parametrize(("report", "patterns"), [(REPORT, ["toolchain", "exception"]), ("", [])])
def test_a_compiler_error_matches_only_if_it_is_the_root(report: str, patterns: list[str]) -> None:
    scan = LogScan("train.log")
    scan.feed(f"{COMPILER}\n{report}".encode())
    scan.end()
    found = log_matches.of_run("run-1", None, "failed", explain([scan]).root, scan.observations)
    assert [match.pattern for match in found] == patterns
