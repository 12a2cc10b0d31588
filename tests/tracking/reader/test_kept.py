"""What is kept beside an ended journal: the same run without reading the journal, and never a wrong one."""

from __future__ import annotations

import gc
import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gputop.cli.main import main
from gputop.snapshot import Points, Run
from gputop.tracking.journal import format as form
from gputop.tracking.journal.read import JournalReader
from gputop.tracking.reader import kept
from gputop.tracking.reader.rank_log import RankLog
from gputop.tracking.reader.runs import RunReader
from gputop.tracking.reader.update import RunUpdate
from tests.fuzzing import examples
from tests.tracking.kit import Home, home
from tests.tracking.reader.test_runs import open_rank

assert home


def journal(home: Home, run_id: str, values: int, *, end: bool = True) -> Path:
    opened = open_rank(home, run_id)
    opened.journal.state("config", "lr", 0.1)
    for step in range(values):
        opened.journal.log(step=step, loss=math.nan if step == 7 else 1000.0 if step == 4321 else 1 / (1 + step))
        if step % 5000 == 0:
            opened._flush()
    if end:
        opened.finish(form.FINISHED, None)
    return home.runs / run_id / "rank-00000.gpr"


def read(home: Home, points: int = kept.KEPT_POINTS) -> RunUpdate:
    """All runs as one reader sees them, however many polls that takes."""
    reader = RunReader(home.runs, backlog_points=points)
    found: list[Points] = []
    update = reader.poll()
    while update.points:
        found += update.points
        update = reader.poll()
    reader.close()
    return RunUpdate(update.runs, tuple(found))


def timeless(update: RunUpdate) -> list[Run]:
    """The runs without their times, which each reader derives from the clocks anew."""
    return [
        replace(
            run,
            created_at=None,
            ended_at=None,
            ranks=tuple(replace(rank, last_log_at=None, last_step_at=None) for rank in run.ranks),
        )
        for run in update.runs
    ]


@pytest.mark.parametrize("end", [False, True])
def test_without_points_a_reader_knows_the_same_of_the_runs(home: Home, end: bool) -> None:
    journal(home, "a", 5000, end=end)
    with_points = RunReader(home.runs)
    expected = timeless(with_points.poll())
    with_points.close()
    for path in (home.runs / "a").glob(f"*{kept.SUFFIX}"):
        path.unlink()
    reader = RunReader(home.runs, backlog_points=None)
    for _ in range(2):
        update = reader.poll()
        assert timeless(update) == expected
        assert not update.points
    reader.close()
    # What it kept of an ended run misleads no reader that needs points.
    assert len(read(home).points) == len({"loss"})


def beside(path: Path) -> Path:
    return path.with_name(path.name + kept.SUFFIX)


def in_json(update: RunUpdate) -> str:
    """Comparable where there are NaN."""
    return json.dumps([repr(update.runs), repr(update.points)])


def recorded(update: RunUpdate) -> str:
    """What was recorded, without times: each reading of a journal determines the clocks' difference by itself."""
    runs = [(run.run_id, run.state, run.config, [rank.metrics for rank in run.ranks]) for run in update.runs]
    return repr((runs, [(points.metric, points.steps, points.values) for points in update.points]))


def reads_journals(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The journals that are opened from now on."""
    opened: list[Path] = []
    real = JournalReader.__init__

    def watched(self: JournalReader, archive: Path | None, ring: Path | None = None) -> None:
        opened.append(archive or ring or Path())
        real(self, archive, ring)

    monkeypatch.setattr(JournalReader, "__init__", watched)
    return opened


@pytest.fixture
def large(home: Home, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kept, "POINTS_FROM_BYTES", 1 << 10)
    return journal(home, "large", 6000)


def test_an_ended_run_opens_without_its_journal_and_is_the_same(
    home: Home, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.stat(large.parent).st_mtime_ns
    first = read(home)
    assert beside(large).stat().st_mode & 0o777 == 0o600
    assert os.stat(large.parent).st_mtime_ns == before, "a run that is read does not become the newest"
    opened = reads_journals(monkeypatch)
    again = read(home)
    assert opened == []
    assert in_json(again) == in_json(first)
    (points,) = again.points
    assert len(points.steps) <= kept.KEPT_POINTS
    assert 1000.0 in points.values, "no spike is lost"
    assert any(map(math.isnan, points.values))
    listed = read(home, 0)
    assert opened == []
    assert (listed.points, in_json(replace(listed, points=()))) == ((), in_json(replace(first, points=())))
    assert sum(len(part.steps) for part in read(home, 1 << 62).points) == 6000, "whoever wants more reads the journal"
    assert opened == [large]


def test_a_journal_read_in_parts_is_kept_as_one_series(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "POINTS_FROM_BYTES", 1 << 10)
    monkeypatch.setattr("gputop.tracking.reader.runs.POLL_BYTES", 1 << 20)
    journal(home, "long", 100_000)
    assert len(read(home).points) > 1
    (points,) = read(home).points
    assert len(points.steps) <= kept.KEPT_POINTS
    assert (points.steps[0], points.steps[-1]) == (0, 99_999)
    assert 1000.0 in points.values
    assert list(points.steps) == sorted(points.steps)


def test_of_a_small_journal_only_what_a_list_needs_is_kept(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    path = journal(home, "small", 50)
    read(home, 0)
    assert beside(path).stat().st_size < 4000
    opened = reads_journals(monkeypatch)
    assert read(home, 0).runs[0].ranks[0].metrics["loss"] == pytest.approx(1 / 50)
    assert opened == []
    assert len(read(home).points[0].steps) == 50
    assert opened == [path]


def test_a_run_that_was_listed_opens_without_its_journal(home: Home, large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list reads a large journal to its end, and whoever opened the run then waited for that a second time."""
    listed = read(home, 0)
    opened = reads_journals(monkeypatch)
    first = read(home)
    assert opened == []
    beside(large).unlink()
    assert recorded(first) == recorded(read(home)) == recorded(listed)


def test_a_list_does_not_take_away_the_points(home: Home, large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_points = RunReader(home.runs, backlog_points=None)
    without_points.poll()
    without_points.close()
    assert len(beside(large).read_bytes().splitlines()) == 1
    read(home)
    assert len(beside(large).read_bytes().splitlines()) == 2
    read(home, 0)
    opened = reads_journals(monkeypatch)
    assert len(read(home).points[0].steps) > 1000
    assert opened == []


def test_nothing_is_kept_of_a_run_that_lives(home: Home) -> None:
    path = journal(home, "live", 50, end=False)
    assert read(home).runs[0].state == "running"
    assert not beside(path).exists()


def test_a_journal_that_changed_is_read_again(home: Home, large: Path) -> None:
    first = read(home)
    os.utime(large, ns=(1, 1))
    assert len(read(home).points[0].steps) == len(first.points[0].steps)
    head = json.loads(beside(large).read_bytes().splitlines()[0])
    assert head["journal_ns"] == 1, "and kept anew"


def test_what_is_kept_is_deleted_with_its_run(home: Home, large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTOP_DIR", str(home.state))
    read(home)
    assert beside(large).exists()
    assert main(["runs", "prune", "--keep", "0", "--yes"]) == 0
    assert not large.parent.exists()


def test_a_read_only_directory_is_not_an_error(home: Home, large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside(large).mkdir()
    assert len(read(home).points[0].steps) > 1000
    assert sorted(path.name for path in large.parent.iterdir()) == [large.name, beside(large).name]


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    kind=st.sampled_from(["cut", "flip", "lines", "junk"]),
    share=st.floats(0, 1, exclude_max=True),
    byte=st.integers(32, 126),
)
def test_damage_means_reading_the_journal(
    kind: str, share: float, byte: int, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "POINTS_FROM_BYTES", 1 << 10)
    path = home.runs / "once" / "rank-00000.gpr"
    if not path.exists():
        journal(home, "once", 300)
    good = recorded(read(home))
    raw = bytearray(beside(path).read_bytes())
    at = int(share * len(raw))
    if kind == "cut":
        raw = raw[:at]
    elif kind == "flip":
        raw[at] = byte
    elif kind == "lines":
        raw = bytearray(b"\n".join(reversed(raw.splitlines())))
    else:
        raw = bytearray(bytes([byte]) * (at % 40))
    beside(path).write_bytes(raw)
    update = read(home)
    if kind != "flip":
        assert recorded(update) == good
    assert [run.run_id for run in update.runs] == ["once"]
    for points in update.points:
        assert len(points.steps) == len(points.times) == len(points.values)
    beside(path).unlink(missing_ok=True)


def test_a_journal_that_could_not_be_read_to_its_end_is_not_kept(
    home: Home, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError("Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(JournalReader, "poll", fail)
        assert read(home).points == ()
    assert not beside(large).exists()
    assert len(read(home).points[0].steps) > 1000


def test_runs_that_are_not_followed_leave_nothing_behind(home: Home) -> None:
    for number in range(4):
        journal(home, f"r{number}", 5)
    reader = RunReader(home.runs, recent_runs=1)
    reader.poll()
    gc.collect()
    assert not [found for found in gc.get_objects() if isinstance(found, RankLog) and found.identity.run_id != "r3"]
