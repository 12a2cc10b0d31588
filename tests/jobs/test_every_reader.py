"""Files that are cut, replaced and deleted while they are followed: every reader of a job's output notices.

The files are real; between two looks each test does to them what rotation, ``> out.log`` and editors do. The job is
running as far as its files say: this process stands in for its launcher.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gputop.jobs import identity, record
from gputop.jobs.output import printed_runs
from gputop.jobs.output.explained import explanation_of
from gputop.jobs.output.follower import Backlog
from gputop.jobs.output.logs import LogFollower
from gputop.jobs.output.matches import LogMatches
from gputop.jobs.output.printed_runs import PrintedRuns
from gputop.jobs.output.scan import scan_job
from gputop.jobs.output.search import find, page
from gputop.places import jobs_dir, make_private_dir
from tests.jobs.printed import printed_lines

JOB = "job-1"
ERROR = "RuntimeError: CUDA error: invalid device ordinal"
OLD = "reading the data of an earlier run\n" * 20
# What is looked for comes first, so that a reader that goes on at its old offset misses it.
NEW = f"step 7 loss: 0.75\n{ERROR}\n" + "working on it, with other words\n" * 60


class Follower:
    """``gputop logs -f`` and the launch screen."""

    def __init__(self) -> None:
        self._follower = LogFollower(JOB)
        self._lines: list[str] = []

    def found(self) -> int:
        self._lines += self._follower.poll()
        return sum(ERROR in line for line in self._lines)


class Matches:
    """The error texts in each snapshot."""

    def __init__(self) -> None:
        self._matches = LogMatches()

    def found(self) -> int:
        return sum(ERROR in match.line for match in self._matches.poll())


class Printed:
    """The runs made from what jobs print."""

    def __init__(self) -> None:
        self._printed = PrintedRuns(patience_s=0.0)
        self._values: list[float] = []

    def found(self) -> int:
        self._values += [value for points in self._printed.poll(()).points for value in points.values]
        return self._values.count(0.75)


class Scan:
    """The doctor's reading of a whole job."""

    def found(self) -> int:
        return sum(ERROR in seen.line for scan in scan_job(JOB) for seen in scan.observations)


class Search:
    """The launch screen's search, which goes on from the last hit, and the page around it."""

    def __init__(self) -> None:
        self._path = jobs_dir() / JOB / record.OUT_LOG
        self._last = find(self._path, "earlier run", 10**6, backwards=True) or 0

    def found(self) -> int:
        offset = find(self._path, ERROR, self._last + 1)
        if offset is None:
            offset = find(self._path, ERROR, 10**6, backwards=True)
        shown = page(self._path, offset or 0)
        return sum(ERROR in line for line in shown.lines)


READERS = (Follower, Matches, Printed, Scan, Search)
Reader = Follower | Matches | Printed | Scan | Search
Change = Callable[[Path], None]


@pytest.fixture
def out(own_places: Path) -> Path:
    directory = make_private_dir(jobs_dir() / JOB)
    alive = identity.describe(os.getpid())
    spec = {"id": JOB, "name": "job", "argv": [], "hostname": socket.gethostname(), "created_at": time.time()}
    record.write_json(directory / record.SPEC, spec)
    record.write_json(directory / record.STATUS, {"state": "running", "supervisor": alive, "child": alive})
    out = directory / record.OUT_LOG
    out.write_text(OLD)
    return out


def truncate_in_place(out: Path) -> None:
    with out.open("r+") as file:
        file.truncate(0)
        file.write(NEW[: len(OLD) // 2])


def truncate_and_grow_past_the_old_size(out: Path) -> None:
    with out.open("r+") as file:
        file.truncate(0)
        file.write(NEW)


def truncate_and_grow_to_the_old_size(out: Path) -> None:
    with out.open("r+") as file:
        file.truncate(0)
        file.write(NEW[: len(OLD) - 1] + "\n")
    assert out.stat().st_size == len(OLD)


def rename_over(out: Path) -> None:
    fresh = out.with_suffix(".new")
    fresh.write_text(NEW)
    fresh.replace(out)


def delete_and_create(out: Path) -> None:
    out.unlink()
    out.write_text(NEW)  # most file systems use the inode number again


CHANGES = (
    truncate_in_place,
    truncate_and_grow_past_the_old_size,
    truncate_and_grow_to_the_old_size,
    rename_over,
    delete_and_create,
)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("reader", READERS)
def test_another_content_is_read_from_its_beginning(out: Path, reader: type[Reader], change: Change) -> None:
    reading = reader()
    assert reading.found() == 0
    change(out)
    assert reading.found() == 1
    assert reading.found() == 1, "and once only"


@pytest.mark.parametrize("reader", READERS)
def test_what_is_appended_is_read_once(out: Path, reader: type[Reader]) -> None:
    reading = reader()
    assert reading.found() == 0
    with out.open("a") as file:
        for part in (NEW[:25], NEW[25:40], NEW[40:]):
            file.write(part)
            file.flush()
            reading.found()
    assert reading.found() == 1


@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_is_gone_for_a_while(out: Path, reader: type[Reader]) -> None:
    reading = reader()
    assert reading.found() == 0
    out.unlink()
    assert reading.found() == 0
    out.write_text(NEW)
    assert reading.found() == 1


@pytest.mark.parametrize("reader", READERS)
def test_appending_while_it_is_read_loses_and_doubles_nothing(out: Path, reader: type[Reader]) -> None:
    reading = reader()

    def write() -> None:
        with out.open("a", buffering=1) as file:
            for number in range(2000):
                file.write(f"working, part {number}\n")
            file.write(NEW)

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        reading.found()
    writer.join()
    assert reading.found() == 1


@pytest.mark.parametrize("reader", READERS)
def test_what_is_not_a_regular_file_is_skipped(out: Path, reader: type[Reader]) -> None:
    reading = reader()
    out.unlink()
    os.mkfifo(out)
    assert reading.found() == 0, "nobody waits for a writer"
    out.unlink()
    out.mkdir()
    assert reading.found() == 0


def test_metrics_are_read_from_whole_lines_of_a_large_log(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out.write_text("".join(f"step {number} val_loss: 0.75\n" for number in range(1000, 2000)))
    size = len("step 1000 val_loss: 0.75\n")
    for cut in range(size):
        monkeypatch.setattr(printed_runs, "METRICS", Backlog(0, 10 * size + cut))
        found = PrintedRuns(patience_s=0.0).poll(()).points
        assert [(points.metric, set(points.values)) for points in found] == [("val_loss", {0.75})]
        assert found[0].steps[0] >= 1989


def test_lines_come_in_order_whatever_happens_to_the_file(out: Path) -> None:
    follower = LogFollower(JOB)
    follower.poll()
    truncate_and_grow_past_the_old_size(out)
    told, first, *_ = follower.poll()
    assert "cut or replaced" in told
    assert first == "step 7 loss: 0.75"
    assert printed_lines(JOB)[0] == first


def test_an_explanation_follows_the_file_and_not_its_size(out: Path) -> None:
    directory = out.parent
    ended = {"state": "ended", "ended_at": time.time(), "exit_code": 1, "signal": None, "asked": []}
    record.write_json(directory / record.STATUS, ended)
    assert explanation_of(JOB) is None
    truncate_and_grow_to_the_old_size(out)
    finding = explanation_of(JOB)
    assert finding is not None
    assert finding.id == "invalid_ordinal"
