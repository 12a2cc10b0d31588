from __future__ import annotations

import errno
import gc
import os
import random
import shutil
import struct
from pathlib import Path

import pytest

from gputop import places
from gputop.snapshot import Run
from gputop.tracking.journal import format as form
from gputop.tracking.journal import identity
from gputop.tracking.journal.writing.files import OpenJournal
from gputop.tracking.reader import launched
from gputop.tracking.reader import runs as reader
from gputop.tracking.reader.runs import RunReader
from tests.tracking.kit import Home, home, read_all

assert home


def open_rank(home: Home, run_id: str, rank: int = 0, world: int = 1, job_id: str | None = None) -> OpenJournal:
    opened = OpenJournal(identity.identify(identity.Place(rank, rank, world, 0), run_id), home.runs)
    opened.journal.state(
        "card", "run", {"name": f"name-{run_id}", "project": None, "job_id": job_id, "command": ["python", "x.py"]}
    )
    return opened


def by_id(update: reader.RunUpdate) -> dict[str, Run]:
    return {run.run_id: run for run in update.runs}


def test_an_empty_or_missing_directory_is_not_an_error(tmp_path: Path) -> None:
    found = RunReader(tmp_path / "nowhere")
    assert found.poll() == reader.RunUpdate()
    (tmp_path / "nowhere").mkdir()
    assert found.poll() == reader.RunUpdate()


def test_runs_and_ranks_that_come_later_are_found(home: Home) -> None:
    follow = RunReader(home.runs)
    assert follow.poll().runs == ()
    first = open_rank(home, "a", 0, 2)
    first.journal.log(loss=1.0)
    assert [rank.rank for rank in by_id(follow.poll())["a"].ranks] == [0]
    second = open_rank(home, "a", 1, 2)
    second.journal.log(loss=3.0)
    update = follow.poll()
    run = by_id(update)["a"]
    assert [(rank.rank, rank.metrics["loss"]) for rank in run.ranks] == [(0, 1.0), (1, 3.0)]
    assert (run.world_size, run.state, run.name) == (2, "running", "name-a")
    assert [(points.rank, points.values) for points in update.points] == [(1, (3.0,))]
    first.finish(form.FINISHED, None)
    assert by_id(follow.poll())["a"].state == "running"
    second.finish(form.FAILED, 1)
    assert by_id(follow.poll())["a"].state == "failed"
    follow.close()


def test_a_training_has_no_phase_of_the_one_before_it(home: Home) -> None:
    opened, follow = open_rank(home, "folds"), RunReader(home.runs)
    opened.journal.log(step=0, **{"loss": 2.0, "phase/forward": 1.0, "phase/backward": 1.0})
    follow.poll()
    opened.journal.log(step=1, **{"auto/training": 2.0, "loss": 1.0, "phase/backward": 3.0})
    opened.journal.log(step=2, loss=0.5)
    opened.journal.log(step=3, **{"auto/training": 2.0, "loss": 0.5})
    (rank,) = by_id(follow.poll())["folds"].ranks
    assert rank.metrics == {"auto/training": 2.0, "loss": 0.5, "phase/backward": 3.0}
    opened.finish(form.FINISHED, None)
    follow.close()


@pytest.mark.parametrize(("automatic", "own"), [("auto/loss", (2.0, 3.0)), ("loss", (71.25, 93.5))])
def test_a_metric_of_the_script_that_rises_ends_no_training(home: Home, automatic: str, own: tuple[float, float]) -> None:
    """A script may call its accuracy "training", in percent, or count something by that name."""
    opened, follow = open_rank(home, "accuracy"), RunReader(home.runs)
    opened.journal.log(step=0, **{automatic: 2.0, "phase/forward": 1.0})
    for step, value in enumerate(own):
        opened.journal.log(step=step, training=value)
    (rank,) = by_id(follow.poll())["accuracy"].ranks
    assert rank.metrics == {automatic: 2.0, "phase/forward": 1.0, "training": own[-1]}
    opened.finish(form.FINISHED, None)
    follow.close()


def test_a_long_past_is_decimated_and_no_spike_is_lost(home: Home) -> None:
    opened = open_rank(home, "long")
    rng = random.Random(1)
    for step in range(30_000):
        value = rng.random()
        if step == 12_345:
            value = 1e6
        if step == 20_001:
            value = float("nan")
        opened.journal.log(loss=value, step=step)
    opened._flush()
    follow = RunReader(home.runs, backlog_points=200)
    (points,) = follow.poll().points
    assert len(points.values) <= 200
    spikes = {step: value for step, value in zip(points.steps, points.values, strict=True) if not value <= 1.0}
    assert spikes.keys() == {12_345, 20_001}
    assert points.steps[-1] == 29_999
    for step in range(30_000, 30_003):
        opened.journal.log(loss=0.5, step=step)
    (points,) = follow.poll().points
    assert points.steps == (30_000, 30_001, 30_002)
    for step in range(5000):
        opened.journal.log(loss=0.5, step=step)
    (points,) = follow.poll().points
    assert 100 < len(points.values) <= reader.POLL_POINTS
    opened.finish(form.FINISHED, None)
    follow.close()


def test_a_past_beyond_the_budget_of_one_poll_follows_in_the_next(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_rank(home, "big")
    for step in range(100_000):
        opened.journal.log(loss=float(step))
        if step % 5000 == 0:
            opened._flush()
    opened.finish(form.FINISHED, None)
    monkeypatch.setattr(reader, "POLL_BYTES", 1 << 20)
    follow = RunReader(home.runs)
    seen: list[int] = []
    polls = 0
    while (update := follow.poll()).points:
        seen += [step for points in update.points for step in points.steps]
        polls += 1
    assert polls > 2
    assert seen == sorted(set(seen))
    assert (seen[0], seen[-1]) == (0, 99_999)


def test_only_recent_and_living_runs_are_followed(home: Home) -> None:
    living = open_rank(home, "oldest-alive")
    living.journal.log(loss=1.0)
    for number in range(6):
        opened = open_rank(home, f"run-{number}")
        opened.journal.log(loss=1.0)
        opened.finish(form.FINISHED, None)
        os.utime(home.runs / f"run-{number}", ns=(10**18 * 2 + number,) * 2)
    os.utime(home.runs / "oldest-alive", ns=(10**18, 10**18))
    os.utime(home.runs)
    follow = RunReader(home.runs, recent_runs=3)
    assert set(by_id(follow.poll())) >= {"oldest-alive", "run-5", "run-4"}
    assert not {"run-0", "run-1", "run-2"} & set(by_id(follow.poll()))
    living.finish(form.FINISHED, None)
    follow.close()


def test_a_file_that_is_not_a_journal_is_remembered_and_left_alone(home: Home, tmp_path: Path) -> None:
    good = open_rank(home, "good")
    good.journal.log(loss=1.0)
    page = home.archives()[0].read_bytes()[: form.HEADER_BYTES]
    junk = home.runs / "junk"
    junk.mkdir()
    (junk / "rank-00000.gpr").write_bytes(os.urandom(100_000))
    (junk / "rank-00001.gpr").write_bytes(b"")
    (junk / "rank-00002.gpr").write_bytes(page[:8] + struct.pack("<H", 9) + page[10:])
    (junk / "rank-00003.gpr").symlink_to("/etc/passwd")
    (junk / "rank-00004.gpr").mkdir()
    (junk / "rank-00005.gpr").write_bytes(page)
    os.mkfifo(junk / "rank-00006.gpr")
    (junk / "notes.txt").write_text("hello")
    (home.runs / "file").write_text("no run")
    follow = RunReader(home.runs)
    for _ in range(3):
        assert list(by_id(follow.poll())) == ["good"]
    assert len(follow.problems) == 6, "an empty file may be one that is being made"
    assert "newer gputop" in follow.problems[junk / "rank-00002.gpr"]
    assert "belongs to run good" in follow.problems[junk / "rank-00005.gpr"]
    good.finish(form.FINISHED, None)
    follow.close()


def test_a_file_that_was_read_while_it_was_made_is_read_again(home: Home) -> None:
    path = home.runs / "slow" / "rank-00000.gpr"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    follow = RunReader(home.runs)
    assert follow.poll().runs == ()
    path.write_bytes(form.pack_header(form.ARCHIVE, 0, identity.identify(identity.Place(0, None, 1, 0), "slow"), ""))
    assert [run.run_id for run in follow.poll().runs] == ["slow"]
    assert follow.problems == {}
    follow.close()


def test_a_run_whose_archive_is_empty_because_the_disk_is_full_is_read_from_its_ring(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*ignored: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("gputop.tracking.journal.writing.own_file.OwnFile.write", full)
    rank = open_rank(home, "full")
    rank.journal.log(loss=1.0)
    (archive,) = home.archives()
    assert archive.stat().st_size == 0
    follow = RunReader(home.runs)
    found = follow.poll().runs
    assert found == (), "it may be opening its files just now"
    monkeypatch.setattr("gputop.tracking.reader.runs.OPENING_S", 0.0)
    assert [(run.run_id, run.ranks[0].step) for run in follow.poll().runs] == [("full", 0)]
    assert follow.problems == {}
    follow.close()
    rank.finish(form.FINISHED, None)


ON_A_FULL_DISK = """
import errno, gputop, os, sys
from gputop.tracking.journal.writing.own_file import OwnFile
def full(*ignored):
    raise OSError(errno.ENOSPC, "No space left on device")
OwnFile.write = full
run = gputop.init(name="full")
run.log(loss=1.0)
if "killed" in sys.argv:
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(("end", "state"), [("finished", "finished"), ("killed", "killed")])
def test_a_run_that_ended_on_a_full_disk_is_listed_at_once(home: Home, end: str, state: str) -> None:
    home.run(ON_A_FULL_DISK, end)
    (archive,) = home.archives()
    assert archive.stat().st_size == 0
    found = home.only_run()
    assert (found.name, found.state, found.ranks[0].metrics) == ("full", state, {"loss": 1.0})


FULL_FOR_LONG = """
import errno, gputop, os, sys
from gputop.tracking.journal import format as form
from gputop.tracking.journal.writing.own_file import OwnFile
from_byte, write = int(sys.argv[1]), OwnFile.write
def full(self, raw, offset):
    if offset >= form.HEADER_BYTES + from_byte:
        raise OSError(errno.ENOSPC, "No space left on device")
    write(self, raw, offset)
OwnFile.write = full
run = gputop.init(name="full", config={"lr": 0.1})
for step in range(70_000):
    run.log(loss=float(step))
    if step > 1000:
        run.log(acc=0.5, step=step)
if "killed" in sys.argv:
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("end", ["finished", "killed"])
@pytest.mark.parametrize("from_byte", ["0", "8000", "65536"])
def test_the_end_of_a_run_that_outgrew_its_ring_on_a_full_disk_is_kept_once_there_is_room(
    home: Home, from_byte: str, end: str
) -> None:
    home.run(FULL_FOR_LONG, from_byte, end)
    first = home.only_run()
    assert home.rings() == [], "there is room now: the ring is copied to the archive"
    (archive,) = home.archives()
    for kept in archive.parent.glob("*.kept"):
        kept.unlink()
    again = home.only_run()
    assert again == first
    assert again.ranks[0].metrics == {"loss": 69_999.0, "acc": 0.5}
    assert again.config == {"lr": 0.1}
    series = read_all(archive).series
    assert len(series["acc"]) > 10_000
    assert all(value == step for step, value in series["loss"])


def test_a_deleted_run_that_had_ended_goes_away(home: Home) -> None:
    opened = open_rank(home, "gone")
    opened.journal.log(loss=1.0)
    opened.finish(form.FINISHED, None)
    follow = RunReader(home.runs)
    assert list(by_id(follow.poll())) == ["gone"]
    shutil.rmtree(home.runs / "gone")
    assert follow.poll().runs == ()
    follow.close()


def test_ended_runs_keep_no_file_open(home: Home) -> None:
    for number in range(8):
        opened = open_rank(home, f"run-{number}")
        opened.journal.log(loss=1.0)
        opened.finish(form.FINISHED, None)
    gc.collect()  # else the rings of earlier tests may be released in between
    before = len(os.listdir("/proc/self/fd"))
    follow = RunReader(home.runs)
    follow.poll()
    follow.poll()
    assert len(os.listdir("/proc/self/fd")) == before


def test_rings_of_dead_processes_are_freed_also_when_their_run_is_not_followed(home: Home) -> None:
    for run_id in ("kept", "deleted"):
        home.run("import gputop, os\ngputop.init().log(loss=1.0)\nos.kill(os.getpid(), 9)", GPUTOP_RUN_ID=run_id)
    newer = open_rank(home, "newer")
    newer.finish(form.FINISHED, None)
    shutil.rmtree(home.runs / "deleted")
    assert len(home.rings()) == 2
    follow = RunReader(home.runs, recent_runs=1)
    follow.poll()
    assert home.rings() == []
    follow.close()
    runs = {run.run_id: run for run in RunReader(home.runs).poll().runs}
    assert runs["kept"].state == "killed"
    assert runs["kept"].ranks[0].metrics == {"loss": 1.0}
    assert "deleted" not in runs


def test_a_run_names_the_recipe_that_it_was_launched_by(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTOP_DIR", str(home.state))
    monkeypatch.setattr(launched, "_known", {})  # other tests have jobs of these names
    specs = {"demo": '{"id": "demo", "recipe_id": "faults/dp"}', "own": '{"id": "own", "recipe_id": null}', "odd": "[1]"}
    for job_id, spec in specs.items():
        (places.jobs_dir() / job_id).mkdir(parents=True)
        (places.jobs_dir() / job_id / "spec.json").write_text(spec)
    for job_id in (*specs, "missing", "../demo"):
        opened = open_rank(home, job_id.replace("../", "outside-"), job_id=job_id)
        opened.journal.log(loss=1.0)
        opened.finish(form.FINISHED, None)
    found = {run_id: run.recipe for run_id, run in by_id(RunReader(home.runs).poll()).items()}
    assert found == {"demo": "faults/dp", "own": None, "odd": None, "missing": None, "outside-demo": None}


def test_a_script_that_numbers_its_values_by_epochs_or_tokens_keeps_its_numbers(home: Home) -> None:
    """Automatic values are beside them, by optimizer steps: neither number is confused with the other."""
    follow = RunReader(home.runs)
    by_epoch, automatic = open_rank(home, "own", 0, 2), open_rank(home, "own", 1, 2)
    for step in range(300):
        for opened in (by_epoch, automatic):
            name = "auto/loss" if opened is by_epoch else "loss"
            opened.journal.log({name: 1.0, "step_s": 0.1}, step=step)
        if step % 100 == 99:
            by_epoch.journal.log({"loss": 0.5}, step=step // 100)
    run = by_id(follow.poll())["own"]
    assert [(rank.step, rank.optimizer_step, rank.steps_taken) for rank in run.ranks] == [(2, 299, 299), (299, None, 299)]
    assert run.step == 2
    by_epoch.journal.log({"auto/loss": 1.0, "step_s": 0.1}, step=300)
    assert by_id(follow.poll())["own"].ranks[0].steps_taken == 300
    follow.close()
    by_epoch.finish(form.FINISHED, None)
    automatic.finish(form.FINISHED, None)


@pytest.mark.parametrize("own", [{"loss": 0.5}, {"auto/loss": 0.5, "step_s": 0.1}, {"reward": 1.0}])
def test_what_a_thread_logs_beside_the_training_is_no_step(home: Home, own: dict[str, float]) -> None:
    follow, opened = RunReader(home.runs), open_rank(home, "own")
    opened.journal.log(own, step=7)
    first = by_id(follow.poll())["own"].ranks[0]
    assert first.last_step_at == first.last_log_at is not None
    opened.journal.log({"queue": 3.0}, step=7)
    follow.poll()
    opened.journal.log({"queue": 4.0}, step=7)
    beside = by_id(follow.poll())["own"].ranks[0]
    assert (beside.last_log_at or 0.0) > first.last_log_at
    assert beside.last_step_at == first.last_step_at
    opened.journal.log(own, step=8)
    then = by_id(follow.poll())["own"].ranks[0]
    assert then.last_step_at == then.last_log_at
    follow.close()


def test_a_loss_that_is_logged_by_epochs_shows_each_step(home: Home) -> None:
    follow, opened = RunReader(home.runs), open_rank(home, "own")
    for _ in range(3):
        opened.journal.log({"loss": 0.5}, step=0)
        rank = by_id(follow.poll())["own"].ranks[0]
        assert rank.last_step_at == rank.last_log_at is not None
    opened.journal.log({"queue": 3.0})
    assert by_id(follow.poll())["own"].ranks[0].last_step_at == rank.last_step_at
    follow.close()
