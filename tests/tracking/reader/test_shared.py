"""Journals that another machine writes into a directory that both share: they are read, and nothing here is concluded or done
from them that only their own machine can know or do."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gputop.agent.sampler import began_of, claims_of, pids_of
from gputop.cli.stored.prune import choose
from gputop.snapshot import Run
from gputop.tracking.journal import format as form
from gputop.tracking.journal import identity, places
from gputop.tracking.journal.writing.files import OpenJournal
from gputop.tracking.reader.runs import RunReader
from gputop.where.asking import ask_run
from tests.tracking.kit import Home, eventually, home

assert home
NODE2 = {"hostname": "node2", "boot_id": "f" * 36}


class Elsewhere:
    """A rank on another machine: its journal is written in a home of its own, and appears here as on a file server."""

    def __init__(self, home: Home, there: Path, run_id: str = "over", **who: str) -> None:
        own = identity.identify(identity.Place(1, 1, 2, 0), run_id)
        self.opened = OpenJournal(replace(own, **{**NODE2, **who}), there)
        device = {"name": "virtual GPU", "uuid": "virtual-0", "virtual_index": 0, "thread_id": 7, "memory_bytes": 1}
        self.opened.journal.state("fact", "devices", [device])
        self.archive = there / run_id / "rank-00001.gpr"
        self.here = home.runs / run_id / "rank-00001.gpr"
        self.here.parent.mkdir(parents=True)

    def log(self, value: float, step: int) -> None:
        size = self.archive.stat().st_size if self.archive.exists() else 0
        self.opened.journal.log(step=step, loss=value)
        eventually(lambda: self.archive.stat().st_size > size, "flushed")

    def bring(self) -> None:
        """Let what was written there appear here; the ring in that machine's memory never does."""
        data = self.archive.read_bytes()
        with self.here.open("r+b" if self.here.exists() else "wb") as file:
            file.write(data.replace(b"/dev/shm/", b"/dev/mem/"))


@pytest.fixture
def rank(home: Home, tmp_path: Path) -> Iterator[Elsewhere]:
    """A rank of node2 that logged once."""
    there = Elsewhere(home, tmp_path / "there")
    there.log(1.5, 1)
    there.bring()
    yield there
    there.opened.finish(form.FINISHED, None)


def the_run(reader: RunReader) -> Run:
    (run,) = reader.poll().runs
    return run


def test_a_pid_of_another_machine_is_matched_with_no_process(home: Home, rank: Elsewhere) -> None:
    reader = RunReader(home.runs)
    run = the_run(reader)
    (found,) = run.ranks
    assert (found.pid, found.local_pid, found.hostname, found.state) == (os.getpid(), None, "node2", "running")
    assert found.metrics == {"loss": 1.5}
    assert (pids_of([run]), claims_of([run]), began_of([run])) == ({}, (), {}), "this process is not that rank"
    assert ask_run(run).ranks[0].state == "elsewhere"
    assert rank.here.name not in Path("/proc/self/maps").read_text(), "a file that another machine may cut is never mapped"
    reader.close()


def test_a_run_of_another_machine_is_judged_by_the_growth_of_its_journal(
    home: Home, rank: Elsewhere, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(os.listdir(rank.here.parent))
    long_ago = time.time() - 3600
    os.utime(rank.here, (long_ago, long_ago))
    reader = RunReader(home.runs)
    run = the_run(reader)
    assert (run.state, run.ended_at) == ("unheard", None)
    assert choose((run,), None, 0, time.time()) == [], "it may run"
    rank.log(1.25, 2)
    rank.bring()
    run = the_run(reader)
    assert (run.state, run.ranks[0].step) == ("running", 2)

    with rank.here.open("r+b") as file:
        file.truncate(100)
    assert the_run(reader).state == "running"
    rank.log(1.0, 3)
    rank.here.unlink()
    rank.bring()
    assert (the_run(reader).state, the_run(reader).ranks[0].step) == ("running", 3), "the file was replaced, and is read on"

    two_days_ago = time.time() - 2 * 86400
    os.utime(rank.here, (two_days_ago, two_days_ago))
    reader.close()
    written = rank.here.read_bytes()
    reader = RunReader(home.runs)
    assert [the_run(reader).state for _ in range(2)] == ["unheard"] * 2
    open_files = [os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    assert str(rank.here) not in open_files
    assert (rank.here.read_bytes(), sorted(os.listdir(rank.here.parent))) == (written, before)


def test_on_a_shared_file_system_a_name_says_nothing_and_nothing_is_written(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Elsewhere(home, tmp_path / "there", hostname=identity.hostname())
    there.log(1.0, 1)
    there.bring()
    assert the_run(RunReader(home.runs)).state == "killed", "this machine was restarted since"
    local = places.file_system
    monkeypatch.setattr(places, "file_system", lambda path: "nfs4" if path == home.runs else local(path))
    assert the_run(RunReader(home.runs)).state == "running", "another machine has the same name"
    there.opened.finish(form.FINISHED, None)
    there.bring()
    for leftover in there.here.parent.glob("*.kept"):
        leftover.unlink()
    reader = RunReader(home.runs)
    assert [the_run(reader).state for _ in range(2)] == ["finished"] * 2
    assert os.listdir(there.here.parent) == [there.here.name]
