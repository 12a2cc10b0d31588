"""One follower: bounded looks, both ends of a large file, and no byte lost, doubled or taken from another content."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.jobs.output.follower import Backlog, Chunk, FileFollower, fingerprint, first_whole_line
from tests.fuzzing import examples

ALL = Backlog(0, 1 << 30)
CHANGES = st.lists(st.sampled_from(("append", "cut", "rewrite", "replace", "recreate", "delete", "chunk")), max_size=30)


@settings(max_examples=examples(150), deadline=None)
@given(CHANGES, st.integers(1, 400))
def test_what_was_read_is_the_beginning_of_the_file_whatever_happened_to_it(changes: list[str], max_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        follower, read = FileFollower(path, ALL), b""
        numbers = itertools.count()

        def lines() -> bytes:
            return b"".join(b"line %d\n" % next(numbers) for _ in range(20))

        def look() -> Chunk:
            nonlocal read
            chunk = follower.read(max_bytes)
            assert len(chunk.data) <= max_bytes
            read = chunk.data if chunk.restarted else read + chunk.data
            held = path.read_bytes() if path.exists() else None
            assert held is None or held.startswith(read)
            if chunk.at_end and held is not None:
                assert read == held
            return chunk

        for change in changes:
            if change == "chunk":
                look()
            elif change == "append" and path.exists():
                path.write_bytes(path.read_bytes() + lines())
            elif change == "cut" and path.exists():
                with path.open("r+b") as file:
                    file.truncate(0)
            elif change == "delete":
                path.unlink(missing_ok=True)
            elif change == "rewrite":
                path.write_bytes(lines() + lines())
            elif change == "recreate":
                path.unlink(missing_ok=True)
                path.write_bytes(lines())
            elif change == "replace":
                fresh = path.with_suffix(".new")
                fresh.write_bytes(lines())
                fresh.replace(path)
        rest = (look() for _ in range(100_000))
        assert any(chunk.at_end and not chunk.data for chunk in rest), "it comes to an end"


def test_both_ends_of_a_large_file_and_whole_lines_after_the_gap(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"line {number:04}\n" for number in range(1000)))
    follower = FileFollower(path, Backlog(100, 205))
    first, second = follower.read(100), follower.read(100)
    assert first.data.startswith(b"line 0000\n")
    assert (first.at_end, first.skipped_bytes) == (False, 0)
    assert second.data.startswith(b"line 0980\n")
    assert second.skipped_bytes == 9800 - 100, "what stands of the line that was cut counts as skipped"
    rest = [follower.read(100) for _ in range(3)]
    assert b"".join(chunk.data for chunk in rest).endswith(b"line 0999\n")
    assert [chunk.at_end for chunk in rest] == [False, True, True]


def test_a_reader_that_falls_behind_skips_to_the_tail(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"begin\n")
    follower = FileFollower(path, Backlog(0, 100))
    assert follower.read(50).data == b"begin\n"
    with path.open("ab") as file:
        file.write(b"".join(b"line %04d\n" % number for number in range(1000)))
    chunk = follower.read(50)
    assert chunk.skipped_bytes
    assert not chunk.restarted
    assert chunk.data.startswith(b"line ")
    assert follower.offset == path.stat().st_size - 50


def test_the_last_line_is_complete_once_nothing_more_is_written(tmp_path: Path) -> None:
    path = tmp_path / "log"
    follower = FileFollower(path, ALL)
    assert (follower.read(10).complete, follower.read(10).written_at) == (False, None)
    path.write_bytes(b"without an end")
    assert not follower.read(10, finished=True).complete, "there is more"
    assert not follower.read(10).complete, "it may go on"
    assert follower.read(10, finished=True).complete
    path.unlink()
    assert follower.read(10, finished=True).complete


@pytest.mark.parametrize(
    ("data", "start"), [(b"ne\nnext", 3), (b"0%\r10%\r", 3), (b"ne\r\nnext", 4), (b"none", 0), (b"", 0), (b"\nnext", 1)]
)
def test_where_the_first_whole_line_begins(data: bytes, start: int) -> None:
    assert first_whole_line(data) == start


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret\n")
    (tmp_path / "log").symlink_to(tmp_path / "secret")
    assert FileFollower(tmp_path / "log", ALL).read(100).data == b""


def test_a_fingerprint_changes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert fingerprint(path) == ()
    path.write_text("same size")
    before = fingerprint(path)
    fresh = tmp_path / "new"
    fresh.write_text("size same")
    fresh.replace(path)
    assert fingerprint(path) != before
