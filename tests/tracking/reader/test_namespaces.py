"""A run in a container that shares the directory of runs: its journal names its processes by other PIDs than this machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.agent.sampler import Sampler
from gputop.snapshot import Rank
from gputop.sources.virtual import VirtualSource
from gputop.tracking.reader import rank_log
from gputop.tracking.reader.runs import RunReader
from tests.tracking.kit import Home, eventually, home

assert home

APART = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child")
TRAINS = """
import mmap, os, sys, time
from pathlib import Path
from gputop.tracking.journal import identity
from gputop.tracking.journal.writing.files import OpenJournal
with open(sys.argv[2], "rb") as file:
    kept = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
opened = OpenJournal(identity.identify(identity.Place(0, 0, 1, 0), "inside"), Path(sys.argv[1]))
opened.journal.log(step=1, loss=1.5)
print(os.getpid(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def inside(home: Home, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A rank in a PID namespace of its own, which has logged a step."""
    if subprocess.run([*APART, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine makes no PID namespaces")
    library = tmp_path / "libtorch_cpu.so"
    library.write_bytes(b"not really\n")
    command = ["env", "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", sys.executable, "-c", TRAINS, str(home.runs), str(library)]
    process = subprocess.Popen([*APART, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n", "it is the first one there"
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def rank_of(reader: RunReader) -> Rank:
    (run,) = reader.poll().runs
    (rank,) = run.ranks
    return rank


def test_its_ranks_have_the_pids_of_this_machine_while_they_live(
    home: Home, inside: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = RunReader(home.runs)
    try:
        rank = eventually(lambda: found if (found := rank_of(reader)).metrics else None, "its loss is read")
        (pid,) = map(int, Path(f"/proc/{inside.pid}/task/{inside.pid}/children").read_text().split())
        assert (rank.pid, rank.local_pid, rank.elsewhere, rank.state) == (pid, pid, False, "running")
        inside.kill()
        inside.wait()
        rank = eventually(lambda: found if (found := rank_of(reader)).elsewhere else None, "it has ended")
        assert (rank.pid, rank.local_pid, rank.state) == (1, None, "killed")
        (log,) = reader._logs()
        eventually(lambda: reader.poll() and log.done, "its ring is freed")
        monkeypatch.setattr(rank_log, "pid_here", lambda who: None)  # whether or not somebody has waited for it
        monkeypatch.setattr(rank_log, "is_gone", lambda who: False)
        fresh = RunReader(home.runs)
        assert rank_of(fresh).state == "killed", "who comes later sees it at once"
        fresh.close()
    finally:
        reader.close()


def test_who_comes_first_sees_that_it_has_ended_once_it_is_silent(
    home: Home, inside: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    eventually(lambda: RunReader(home.runs).poll().runs, "its journal is there")
    inside.kill()
    inside.wait()
    monkeypatch.setattr(rank_log, "SILENT_S", 0.5)
    reader = RunReader(home.runs)
    eventually(lambda: rank_of(reader).state == "killed", "nobody has its ring any more")
    reader.close()


def test_a_rank_whose_ring_is_on_a_tmpfs_of_its_own_is_not_killed_because_nobody_sees_the_ring(
    home: Home, inside: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_log, "pid_here", lambda who: None)
    monkeypatch.setattr(rank_log, "is_gone", lambda who: False)
    monkeypatch.setattr(rank_log, "SILENT_S", 0.0)
    before = RunReader(home.runs)
    (log,) = eventually(lambda: before.poll() and list(before._logs()), "its journal is there")
    eventually(lambda: before.poll() and log.reader.live.flushed, "its loss is in its archive, too")
    ring = log.ring
    before.close()
    assert ring is not None
    hidden = ring.rename(ring.with_suffix(".hidden"))
    reader = RunReader(home.runs)
    try:
        assert eventually(lambda: rank_of(reader).metrics, "its loss is read from there") == {"loss": 1.5}
        assert rank_of(reader).state == "running"
    finally:
        reader.close()
        hidden.unlink()


def test_a_rank_whose_directory_was_deleted_is_not_alive_because_its_ring_is_left(
    home: Home, inside: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_log, "pid_here", lambda who: None)  # as in another container, which cannot look it up
    monkeypatch.setattr(rank_log, "is_gone", lambda who: False)
    shutil.rmtree(home.runs)
    living = RunReader(home.runs)
    assert eventually(lambda: rank_of(living).metrics, "its loss is read from its ring") == {"loss": 1.5}
    assert rank_of(living).state == "running"
    inside.kill()
    inside.wait()
    fresh = RunReader(home.runs)
    try:
        eventually(lambda: rank_of(fresh).state == "killed", "who comes later sees it at once")
        assert rank_of(fresh).metrics == {"loss": 1.5}
        eventually(lambda: rank_of(living).state == "killed", "and who saw it live")
    finally:
        living.close()
        fresh.close()


def test_a_run_in_a_container_is_not_listed_twice(home: Home, inside: subprocess.Popen[str]) -> None:
    sampler = Sampler(VirtualSource(1), 1.0, runs=RunReader(home.runs))
    (pid,) = map(int, Path(f"/proc/{inside.pid}/task/{inside.pid}/children").read_text().split())

    def is_of_the_run() -> bool:
        snapshot = sampler.take()
        untracked = {rank.pid for run in snapshot.process_runs for rank in run.ranks}
        return pid not in untracked and any(each.pid == pid and each.run_id == "inside" for each in snapshot.processes)

    eventually(is_of_the_run, "the process is the run's")
