"""All processes of a job are found and stopped: what is left of it alone, what cleared its environment, what has no record."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.errors import UsageError
from gputop.jobs import identity, job_processes, record, stopping, store
from gputop.jobs.store import Job
from gputop.places import state_dir
from gputop.tui.screens.stopping import target_of_job
from tests import samples
from tests.jobs.printed import printed_lines
from tests.jobs.test_signals import supervisor_of
from tests.jobs.test_store import LAUNCHER, SLEEP, ended, launch, nothing_left, says, until
from tests.tracking.kit import clean_environment
from tests.tui.kit import view_of

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="jobs are known by /proc")
assert nothing_left

# Starts sleepers without the environment: a child, one in its own session, one whose parent is gone, one with its own output.
CLEARED = """
import os, subprocess, sys, time
sleep = [sys.executable, "-c", "import os, time; print('pid', os.getpid(), flush=True); time.sleep(600)"]
subprocess.Popen(sleep, env={})
subprocess.Popen(sleep, env={}, start_new_session=True)
subprocess.run(["sh", "-c", '"$0" "$@" &', *sleep], env={}, start_new_session=True)
quiet = subprocess.Popen([*sleep[:2], "import time; time.sleep(600)"], env={}, stdout=-3, stderr=-3, start_new_session=True)
print("pid", quiet.pid, flush=True)
time.sleep(600)
"""


def gputop(*arguments: str) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-m", "gputop", *arguments]
    environment = clean_environment(state_dir())
    return subprocess.run(run, capture_output=True, text=True, env=environment, timeout=180, check=False)


def told_pids(job: Job) -> list[int]:
    return [int(line.split()[1]) for line in printed_lines(job.id) if line.startswith("pid ")]


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if identity.start_ticks(pid) is not None]


@pytest.fixture
def abandoned() -> Iterator[Job]:
    """A job with two ranks, whose supervisor and launcher were killed."""
    job = store.start(launch(LAUNCHER, SLEEP, device_uuids=("GPU-a", "GPU-b")))
    says(job, "up", times=2)
    status = record.read_json(job.directory / record.STATUS)
    assert status is not None
    os.kill(supervisor_of(job), signal.SIGKILL)
    os.kill(status["child"]["pid"], signal.SIGKILL)
    until(lambda: store.find(job.id).state == "lost")
    yield store.find(job.id)
    identity.signal_marked(job.id, signal.SIGKILL)


def test_ranks_without_supervisor_and_launcher_are_listed_and_stopped(abandoned: Job) -> None:
    ranks = identity.marked(abandoned.id)
    assert len(ranks) == 2
    assert sorted(abandoned.left) == sorted(ranks)
    listed = gputop("jobs").stdout
    assert f"Job {abandoned.id} is lost: its supervisor and its command are gone, but processes of it still run" in listed
    assert "GPU-a, GPU-b" in listed
    assert all(str(pid) in listed for pid in ranks)
    target = target_of_job(abandoned.id, abandoned.name, view_of(samples.snapshot()), abandoned.left)
    assert str(ranks[0]) in target.what_happens
    done = gputop("stop", abandoned.id)
    assert (done.returncode, done.stderr) == (0, "")
    before, after = done.stdout.splitlines()
    assert all(str(pid) in before for pid in ranks)
    assert after == f"{abandoned.id}: stopped"
    assert alive(ranks) == []
    found = store.find(abandoned.id)
    assert (found.state, found.left) == ("stopped", ())


@pytest.mark.parametrize("damage", ["deleted", "damaged"])
def test_a_job_without_a_record_is_stopped_by_its_id(damage: str) -> None:
    job = store.start(launch(LAUNCHER, SLEEP))
    says(job, "up", times=2)
    pids = identity.marked(job.id)
    if damage == "deleted":
        shutil.rmtree(job.directory)
    else:
        (job.directory / record.SPEC).write_text("{}")
    done = gputop("stop", job.id)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == f"{job.id}: stopped"
    assert alive(pids) == []
    again = gputop("stop", job.id)
    assert again.returncode == 2
    assert "no job" in again.stderr or "cannot be read" in again.stderr


def test_stop_finds_children_that_cleared_their_environment() -> None:
    job = store.start(launch(CLEARED))
    says(job, "pid", times=4)
    pids = told_pids(job)
    assert len(alive(pids)) == 4
    assert not set(pids) & set(identity.marked(job.id))
    try:
        stopped = stopping.stop(job.id)
        left = alive(pids)
    finally:
        for pid in alive(pids):
            os.kill(pid, signal.SIGKILL)
    assert stopped.state == "stopped"
    assert left == []


def test_a_job_started_inside_a_job_belongs_to_itself(tmp_path: Path) -> None:
    code = (
        "import os, sys, time\n"
        "from gputop.jobs import store\n"
        "from gputop.recipes.catalogue import Launch\n"
        f"print('inner', store.start(Launch((sys.executable, '-c', {SLEEP!r}), {{}}, os.getcwd(), 'inner')).id, flush=True)\n"
        "time.sleep(600)\n"
    )
    outer = store.start(launch(code))
    says(outer, "inner")
    inner = store.find(printed_lines(outer.id)[0].split()[1])
    says(inner, "up")
    assert len(job_processes.of_job(outer.id)) == 1
    assert stopping.stop(outer.id).state == "stopped"
    assert store.find(inner.id).state == "running"
    assert stopping.stop(inner.id).state == "stopped"


def test_a_signal_goes_to_no_later_process_with_the_same_number() -> None:
    own = identity.start_ticks(os.getpid())
    assert own is not None
    job_processes.send([job_processes.Member(os.getpid(), own - 1)], signal.SIGKILL)


def test_an_unknown_job_is_not_stopped() -> None:
    ended(store.start(launch("pass")))
    done = gputop("stop", "nothing")
    assert done.returncode == 2
    assert "There is no job 'nothing'" in done.stderr
    with pytest.raises(UsageError):
        stopping.stop("nothing")
