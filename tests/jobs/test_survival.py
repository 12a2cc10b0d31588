"""What a job survives and what ends it, with real torchrun: each end as promised, and no process left over.

| what happens | what is promised |
|---|---|
| whoever started it is killed, or hangs up | it trains on; another gputop lists it with its log, and can stop it |
| its supervisor is killed | it trains on, is listed as running, can be stopped; its end is noticed |
| torchrun is killed | its ranks are ended by the supervisor within seconds; the job reads "killed" |
| its supervisor gets a hangup | it trains on |
| the disk with its state is full | it trains on, and its end is written |
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.errors import GputopError
from gputop.jobs import identity, rank_reserve, record, stopping, store
from gputop.jobs.output import logs
from gputop.recipes.catalogue import Launch
from tests.jobs.printed import printed_lines
from tests.packages import needs
from tests.tracking.kit import REPOSITORY, Home, clean_environment, eventually, home

pytestmark = [
    needs("torch"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="jobs are known by /proc"),
]
assert home

TRAIN = """
import time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
step = 0
while True:
    step += 1
    dist.all_reduce(torch.ones(1))
    print("step", step, flush=True)
    time.sleep(0.1)
"""
STEPS = """
import signal, sys, time
if "--deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
step = 0
while True:
    step += 1
    print("step", step, flush=True)
    time.sleep(0.1)
"""
"""Ranks that need no other one and not the seconds of torch's start: what does not end them leaves them behind."""
START = "import sys; from tests.jobs.test_survival import start; print(start(sys.argv[1]).id, flush=True); input()"


def start(script: str, *arguments: str) -> store.Job:
    argv = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", script, *arguments)
    return store.start(Launch(argv, {"OMP_NUM_THREADS": "1"}, str(REPOSITORY), "survivor"))


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(STEPS)
    return str(path)


@pytest.fixture(autouse=True)
def nothing_left(home: Home) -> Iterator[None]:
    yield
    left = {job.id: identity.marked(job.id) for job in store.list_jobs()}
    for job_id in left:
        identity.signal_marked(job_id, signal.SIGKILL)
    assert not any(left.values()), left


def steps(job_id: str) -> int:
    """The newest step in the job's log."""
    words = [line.split() for line in printed_lines(job_id) if " step " in f" {line}"]
    return max((int(line[-1]) for line in words if line[-1].isdigit()), default=0)


def trains(job_id: str) -> int:
    return eventually(lambda: steps(job_id), "it trains", 60.0)


def trains_on(job_id: str) -> None:
    before = steps(job_id)
    eventually(lambda: steps(job_id) > before, "it trains on")


def gone(job_id: str) -> bool:
    return not identity.marked(job_id)


def elsewhere(home: Home, *arguments: str) -> str:
    """What another gputop says of it."""
    run = [sys.executable, "-m", "gputop", *arguments]
    done = subprocess.run(run, capture_output=True, text=True, env=clean_environment(home.state), timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def listed(home: Home, job_id: str) -> dict[str, object]:
    found: list[dict[str, object]] = json.loads(elsewhere(home, "jobs", "--json"))
    return next(item for item in found if item["id"] == job_id)


def test_it_survives_its_starter_and_every_hangup(home: Home, script: str) -> None:
    Path(script).write_text(TRAIN)
    starter = home.start(START, script, PYTHONPATH=str(REPOSITORY))
    assert starter.stdout is not None
    job_id = starter.stdout.readline().strip()
    trains(job_id)
    starter.kill()
    starter.wait()
    supervisor = store.find(job_id).supervisor_pid
    assert supervisor is not None
    os.kill(supervisor, signal.SIGHUP)
    trains_on(job_id)
    assert listed(home, job_id)["state"] == "running"
    assert "step" in elsewhere(home, "logs", job_id)
    elsewhere(home, "stop", job_id)
    assert gone(job_id)
    assert listed(home, job_id)["state"] == "stopped"


def test_without_its_supervisor_it_trains_on_and_can_be_stopped(home: Home, script: str) -> None:
    job = start(script)
    trains(job.id)
    supervisor = store.find(job.id).supervisor_pid
    assert supervisor is not None
    os.kill(supervisor, signal.SIGKILL)
    trains_on(job.id)
    assert listed(home, job.id)["state"] == "running"
    elsewhere(home, "stop", job.id)
    assert gone(job.id)
    assert listed(home, job.id)["state"] == "stopped"


@pytest.mark.parametrize("deaf", [(), ("--deaf",)], ids=["ranks", "deaf-ranks"])
def test_ranks_that_a_killed_torchrun_leaves_behind_are_ended(home: Home, script: str, deaf: tuple[str, ...]) -> None:
    job = start(script, *deaf)
    trains(job.id)
    status = record.read_json(job.directory / record.STATUS)
    assert status is not None
    ranks = [pid for pid in identity.marked(job.id) if pid != status["child"]["pid"]]
    assert len(ranks) >= 2
    os.kill(status["child"]["pid"], signal.SIGKILL)
    eventually(lambda: gone(job.id), "its ranks are gone", 60.0)
    ended = eventually(lambda: found if not (found := store.find(job.id)).active else None, "the job has ended")
    assert (ended.state, ended.signal) == ("killed", "SIGKILL")
    assert set(ranks) & set(ended.swept)


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    directory = tmp_path / "disk"
    directory.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "none", directory], capture_output=True).returncode:
        pytest.skip("mounting a tmpfs is not permitted here")
    monkeypatch.setenv("GPUTOP_DIR", str(directory / "state"))
    yield directory
    subprocess.run(["umount", "-l", directory], check=True)


def test_a_full_disk_ends_no_job_and_its_end_is_written_all_the_same(small_disk: Path, home: Home, script: str) -> None:
    job = start(script)
    trains(job.id)
    logged = [source.path for source in logs.sources(job.id) if source.rank is not None]
    assert len(logged) == 4
    eventually(
        lambda: all(path.stat().st_blocks * 512 >= rank_reserve.RESERVE_BYTES for path in logged), "room ahead of the ranks"
    )
    free = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(bytes(free.f_bavail * free.f_frsize))
    with pytest.raises(OSError, match="space"):
        (small_disk / "more").write_bytes(bytes(64 * 1024))
    trains_on(job.id)
    assert stopping.stop(job.id, grace_s=2.0).state == "stopped"
    assert gone(job.id)


def test_a_job_that_cannot_begin_on_a_full_disk_says_so(small_disk: Path, home: Home, script: str) -> None:
    store.start(Launch(("true",), {}, "/", "first"))
    free = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(bytes(free.f_bavail * free.f_frsize))
    with pytest.raises(GputopError, match=r"cannot be started.*space"):
        start(script)
