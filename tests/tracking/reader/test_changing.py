"""Files of a run that change under their reader: truncated, replaced, removed. What can be read is shown."""

from __future__ import annotations

import os
import random
import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gputop.tracking.journal import format as form
from gputop.tracking.journal.read import JournalReader, salvage
from gputop.tracking.reader.runs import RunReader
from gputop.tracking.reader.unreadable import notes_of
from gputop.tracking.reader.update import RunUpdate
from tests.fuzzing import examples
from tests.tracking.kit import Home, home
from tests.tracking.reader.test_runs import open_rank

assert home


@pytest.mark.timeout(60)
@pytest.mark.parametrize("change", ["pipe", "other journal", "gone"])
def test_what_a_dead_process_left_is_copied_only_into_its_own_journal(home: Home, change: str) -> None:
    opened = open_rank(home, "x")
    opened.journal.log(loss=1.0)
    archive = home.runs / "x" / "rank-00000.gpr"
    (ring,) = home.rings()
    reader = JournalReader(archive)
    assert reader.has_ring
    archive.rename(archive.with_suffix(".old"))
    if change == "pipe":
        os.mkfifo(archive)
    elif change == "other journal":
        shutil.copy(archive.with_suffix(".old"), archive)
    before = Path(archive).read_bytes() if change == "other journal" else b""
    descriptors = os.listdir("/proc/self/fd")
    assert not salvage(reader, archive, ring)
    assert os.listdir("/proc/self/fd") == descriptors
    assert ring.exists(), "it is the only copy"
    assert change != "other journal" or archive.read_bytes() == before
    reader.close()


def value_of(metric: str, step: int) -> float:
    """What the writer below logs: no other number is right."""
    return {"loss": 1000.0, "lr": 2000.0, "late": 3000.0}[metric] + step


@pytest.mark.parametrize("lost_bytes", [8, 4, 1, 24, 32, 0])
def test_zeros_in_place_of_a_lost_end_are_no_values(home: Home, lost_bytes: int) -> None:
    opened = open_rank(home, "x")
    for step in range(100):
        opened.journal.log(step=step, loss=value_of("loss", step))
    opened.finish(form.FINISHED, None)
    archive = home.runs / "x" / "rank-00000.gpr"
    content = archive.read_bytes()
    last = struct.pack("<d", value_of("loss", 60))
    end = content.index(last) + len(last)
    archive.write_bytes(content[: end - lost_bytes] + bytes(4096 + lost_bytes))
    reader = RunReader(home.runs)
    update = reader.poll()
    reader.close()
    check(update, 100)
    assert [len(points.steps) for points in update.points] == [61 if not lost_bytes else 60]


def unlink(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class Changing:
    """A run whose files are damaged while it writes them, and another one that is left alone."""

    def __init__(self, home: Home, chance: random.Random) -> None:
        self.home, self.chance, self.steps, self.is_cut = home, chance, 0, False
        self.good = open_rank(home, "good")
        self.good.journal.log(step=0, loss=value_of("loss", 0))
        self.good.finish(form.FINISHED, None)
        self.opened = open_rank(home, "x")
        self.directory = home.runs / "x"
        self.archive = self.directory / "rank-00000.gpr"
        (self.ring,) = home.rings()
        self.log()

    def log(self) -> None:
        for _ in range(self.chance.choice((1, 3, 4000))):
            names = ("loss", "lr", "late")[: self.chance.choice((1, 2, 2, 3))]
            self.opened.journal.log(step=self.steps, **{name: value_of(name, self.steps) for name in names})
            self.steps += 1

    def flush(self) -> None:
        self.opened._flush()

    def finish(self) -> None:
        self.opened.finish(form.FINISHED, None)

    def _either(self) -> Path:
        return self.chance.choice((self.archive, self.archive, self.ring))

    def truncate(self) -> None:
        path = self._either()
        if path.is_file():
            path.chmod(0o600)
            self.is_cut |= path == self.archive
            # Of the very last record, a reader cannot tell a zero that was written from one that was not.
            os.truncate(path, self.chance.randrange(max(1, path.stat().st_size - 64)))

    def grow(self) -> None:
        if self.archive.is_file() and not self.is_cut:  # else the bytes would be the rest of a record: no one can tell
            with self.archive.open("ab") as file:
                file.write(self.chance.randbytes(self.chance.choice((1, 8, 24, 5000))))

    def replace(self) -> None:
        path = self._either()
        if not path.parent.is_dir():
            return
        other = path.with_name("other")
        kind = self.chance.randrange(6)
        if kind == 0:
            os.mkfifo(other)
        elif kind == 1:
            other.symlink_to("/dev/zero")
        elif kind == 2 and path.is_file():
            other.write_bytes(path.read_bytes()[: self.chance.randrange(20_000)])
            self.is_cut |= path == self.archive
        elif kind == 3:
            other.write_bytes((self.home.runs / "good" / "rank-00000.gpr").read_bytes())
        elif kind == 4:
            other.touch()
        else:
            other.mkdir()
        if os.path.lexists(other):
            if path.is_dir() or other.is_dir():
                unlink(path)
            other.rename(path)

    def remove(self) -> None:
        unlink(self._either())

    def remove_directory(self) -> None:
        if self.chance.random() < 0.3:
            shutil.rmtree(self.directory, ignore_errors=True)


STEPS = (Changing.log, Changing.flush, Changing.truncate, Changing.grow, Changing.replace, Changing.remove)
LAST = (Changing.finish, Changing.remove_directory)


def check(update: RunUpdate, newest_step: int) -> None:
    for points in update.points:
        assert points.run_id in ("x", "good")
        for step, value in zip(points.steps, points.values, strict=True):
            assert value == value_of(points.metric, step), f"{points.metric} of step {step}"
    for run in update.runs:
        for rank in run.ranks:
            assert rank.step is None or 0 <= rank.step <= newest_step
            for metric, value in rank.metrics.items():
                assert value_of(metric, 0) <= value <= value_of(metric, newest_step)


@pytest.mark.timeout(600)
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_files_that_change_while_they_are_read_cost_nothing_else_and_give_no_wrong_number(seed: int, home: Home) -> None:
    for place in (home.runs, *home.rings()):
        unlink(place)
    chance = random.Random(seed)
    changing = Changing(home, chance)
    readers = [RunReader(home.runs), RunReader(home.runs, backlog_points=None)]
    descriptors = len(os.listdir("/proc/self/fd"))
    for step in [*(chance.choice(STEPS) for _ in range(10)), *LAST]:
        step(changing)
        if chance.random() < 0.3:
            readers.append(RunReader(home.runs))
        for reader in readers:
            update = reader.poll()
            check(update, changing.steps)
            assert "good" in {run.run_id for run in update.runs}
            notes_of(reader.unreadable(), reader.unreadable_labels())
    for reader in readers:
        reader.close()
    assert len(os.listdir("/proc/self/fd")) <= descriptors, "a reader keeps a file open"
    changing.opened.finish(form.FINISHED, None)


@pytest.mark.parametrize("ending", ["finished", "killed", "killed and read to its end"])
def test_a_run_that_takes_the_place_of_a_deleted_one_of_its_id_is_read(home: Home, ending: str) -> None:
    """It may begin between two readings, as when a script deletes its folder and starts again with the same GPUTOP_RUN_ID."""
    script = "import os, gputop\ngputop.init(id='x').log(step=700, loss=7.0)\nprint('logged')\ninput()\n"
    process = home.start(script)
    assert process.stdout is not None
    process.stdout.readline()
    reader = RunReader(home.runs)
    assert [run.ranks[0].metrics["loss"] for run in reader.poll().runs] == [7.0]
    if ending == "finished":
        process.communicate("\n")
    else:
        process.kill()
        process.wait()
    if ending == "killed and read to its end":
        assert [run.state for run in reader.poll().runs] == ["killed"]
    shutil.rmtree(home.runs / "x")
    opened = open_rank(home, "x")
    opened.journal.log(step=1, loss=3.0)
    (run,) = reader.poll().runs
    assert [(rank.step, rank.metrics) for rank in run.ranks] == [(1, {"loss": 3.0})]
    assert run.state == "running"
    assert reader.unreadable() == {}
    opened.finish(form.FINISHED, None)
    assert [run.state for run in reader.poll().runs] == ["finished"]
    reader.close()


def test_a_run_that_takes_the_place_of_another_is_read_once_it_has_written(home: Home, tmp_path: Path) -> None:
    opened = open_rank(home, "x")
    opened.journal.log(loss=7.0)
    opened.finish(form.FINISHED, None)
    later = open_rank(Home(tmp_path / "later"), "x")
    later.journal.log(loss=3.0)
    later.finish(form.FINISHED, None)
    archive = home.runs / "x" / "rank-00000.gpr"
    reader = RunReader(home.runs)
    assert [run.ranks[0].metrics for run in reader.poll().runs] == [{"loss": 7.0}]
    shutil.rmtree(home.runs / "x")
    archive.parent.mkdir()
    archive.touch()
    reader.poll()
    archive.write_bytes((tmp_path / "later" / "runs" / "x" / "rank-00000.gpr").read_bytes())
    assert [run.ranks[0].metrics for run in reader.poll().runs] == [{"loss": 3.0}]
    reader.close()
