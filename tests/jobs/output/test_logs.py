"""Logs of jobs: the end of a large file, what came since, progress bars, escapes, one file for each rank."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.errors import UsageError
from gputop.jobs import record
from gputop.jobs.output import logs
from gputop.jobs.output.logs import LogFollower, clean_line, sources
from gputop.jobs.output.scan import scan_job
from tests.jobs.printed import printed_lines


@pytest.fixture
def job(own_places: Path) -> Path:
    from gputop.places import jobs_dir, make_private_dir

    directory = make_private_dir(jobs_dir() / "job-1")
    record.write_json(directory / record.SPEC, {"id": "job-1"})
    return directory


def rank_log(job: Path, rank: int, text: str, attempt: int = 0, stream: str = "stdout") -> Path:
    path = job / record.RANKS / "none_x1y2" / f"attempt_{attempt}" / str(rank) / f"{stream}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"plain", "plain"),
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07after", "after"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\r 10%|#    |\r 50%|###  |", " 50%|###  |"),
        (b"windows\r", "windows"),
        (b"a\tb", "a       b"),
        (b"bell\x07\x00nul", "bellnul"),
        ("Größe €".encode(), "Größe €"),
        (b"\xff\xfe", "��"),
        (b"x" * 10_000, "x" * (logs.LINE_CHARS - 1) + "…"),
    ],
)
def test_a_line_for_a_screen(raw: bytes, text: str) -> None:
    assert clean_line(raw) == text


@given(st.binary(max_size=300))
def test_no_control_character_reaches_the_screen(raw: bytes) -> None:
    assert all(char.isprintable() or not ("\x00" <= char <= "\x1f" or "\x7f" <= char <= "\x9f") for char in clean_line(raw))


def test_the_follower_gives_each_line_once_and_the_one_being_written(job: Path) -> None:
    out = job / record.OUT_LOG
    follower = LogFollower("job-1")
    assert follower.poll() == []
    with out.open("ab", buffering=0) as log:
        log.write(b"one\ntw")
        assert follower.poll() == ["one"]
        assert follower.pending == "tw"
        log.write(b"o\r 1%\r 2%")
        assert follower.poll() == []
        assert follower.pending == " 2%"
        log.write(b"\rdone\nthree\n")
        assert follower.poll() == ["done", "three"]
        assert follower.pending == ""
        assert follower.poll() == []


def test_a_truncated_log_is_reported_and_read_on(job: Path) -> None:
    out = job / record.OUT_LOG
    out.write_text("first\nsecond\n")
    follower = LogFollower("job-1")
    assert follower.poll() == ["first", "second"]
    out.write_text("new\n")
    cut, new = follower.poll()
    assert "cut or replaced" in cut
    assert new == "new"


def test_a_large_log_is_read_at_its_end_in_bounded_memory(job: Path) -> None:
    out = job / record.OUT_LOG
    with out.open("wb") as log:
        log.truncate(3 * 2**30)  # three sparse GiB
        log.seek(0, 2)
        log.write(b"\n" + b"".join(b"line %d\n" % number for number in range(1000)))
    tracemalloc.start()
    found = printed_lines("job-1")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found[-1] == "line 999"
    assert peak < 2**21


def test_a_burst_between_two_polls_is_skipped_and_reported(job: Path) -> None:
    out = job / record.OUT_LOG
    out.write_text("begin\n")
    follower = LogFollower("job-1", max_bytes=100)
    follower.poll()
    with out.open("a") as log:
        log.write("".join(f"line {number}\n" for number in range(1000)))
    said, *lines = follower.poll()
    assert "bytes skipped" in said
    assert lines[-1] == "line 999"
    assert all(line.startswith("line ") for line in lines)


def test_a_line_without_an_end_stays_bounded(job: Path) -> None:
    out = job / record.OUT_LOG
    follower = LogFollower("job-1", max_bytes=1000)
    with out.open("ab", buffering=0) as log:
        for _ in range(50):
            log.write(b"x" * 900)
            assert follower.poll() == []
    assert 0 < len(follower.pending) <= 1000


def test_ranks_are_labelled_and_the_newest_attempt_counts(job: Path) -> None:
    (job / record.OUT_LOG).write_text("agent\n")
    rank_log(job, 0, "old\n", attempt=0)
    rank_log(job, 0, "loss 1.0\n", attempt=1)
    rank_log(job, 0, "warning\n", attempt=1, stream="stderr")
    rank_log(job, 1, "loss 1.1\n", attempt=1)
    assert [source.label for source in sources("job-1")] == ["launcher", "rank 0", "rank 0", "rank 1"]
    assert printed_lines("job-1") == ("[launcher] agent", "[rank 0] loss 1.0", "[rank 0] warning", "[rank 1] loss 1.1")
    assert printed_lines("job-1", label="rank 1") == ("loss 1.1",)
    follower = LogFollower("job-1", label="rank 1")
    assert follower.poll() == ["loss 1.1"]


def test_on_a_node_of_several_a_file_names_the_local_rank(job: Path) -> None:
    record.write_json(job / record.SPEC, {"id": "job-1", "nodes": 2})
    rank_log(job, 0, "loss 1.0\n", attempt=0)
    rank_log(job, 0, "ValueError: no\n", attempt=0, stream="stderr")
    assert printed_lines("job-1") == ("[local rank 0] loss 1.0", "[local rank 0] ValueError: no")
    assert printed_lines("job-1", label="local rank 0") == printed_lines("job-1")
    assert not any(scan.ranks for scan in scan_job("job-1")), "torchrun numbers the ranks of all nodes as they come"


def test_a_missing_job_is_reported() -> None:
    with pytest.raises(UsageError, match="no job"):
        printed_lines("nobody")
