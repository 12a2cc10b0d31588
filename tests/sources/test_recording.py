"""Recordings and their replay: the same stream, in a file."""

from __future__ import annotations

import gzip
import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gputop.agent.feed import ReplayFeed, landmark
from gputop.errors import GputopError, UsageError
from gputop.snapshot import Snapshot
from gputop.sources.recording import Recorder, read_recording
from tests import samples
from tests.fuzzing import examples
from tests.real_processes import eventually


def recorded(path: Path, count: int, gap_s: float = 1.0) -> list[Snapshot]:
    snapshots = [samples.snapshot(number, time=samples.EPOCH + number * gap_s) for number in range(count)]
    with Recorder(path) as recorder:
        for snapshot in snapshots:
            recorder.write(snapshot.to_json())
    return snapshots


class Seen:
    """Collects what a feed delivers."""

    def __init__(self, feed: ReplayFeed) -> None:
        self.feed = feed
        self.event = threading.Event()
        self.snapshots: list[Snapshot] = []
        feed.start(self.event.set)

    def until(self, count: int, timeout_s: float = 30.0) -> list[int]:
        for _ in range(2000):
            self.snapshots += self.feed.drain()
            if len(self.snapshots) >= count or "end" in (self.feed.status() or ""):
                break
            assert self.event.wait(timeout_s), "the replay stopped delivering"
            self.event.clear()
        return [snapshot.sequence for snapshot in self.snapshots]


def test_what_was_recorded_comes_back(tmp_path: Path) -> None:
    snapshots = recorded(tmp_path / "r", 3)
    assert list(read_recording(tmp_path / "r")) == snapshots


def test_a_killed_recorder_leaves_whole_lines(tmp_path: Path) -> None:
    snapshots = recorded(tmp_path / "r", 3)
    whole = (tmp_path / "r").read_bytes()
    (tmp_path / "r").write_bytes(whole[:-20])
    assert list(read_recording(tmp_path / "r")) == snapshots[:2]


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("thesis")
    with pytest.raises(GputopError, match="already exists"):
        Recorder(tmp_path / "r")
    assert (tmp_path / "r").read_text() == "thesis"


def test_a_full_disk_is_reported_without_a_traceback(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r")
    import os

    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, recorder._file)
    with pytest.raises(GputopError, match="No space left"):
        recorder.write("x")


@given(st.binary(min_size=1, max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(40))
def test_a_foreign_file_is_reported_without_a_traceback(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "foreign").write_bytes(data + b"\n")
    with pytest.raises(GputopError):
        list(read_recording(tmp_path / "foreign"))


def test_a_newer_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r").write_text('{"gputop_recording": 99, "schema_version": 1}\n')
    with pytest.raises(GputopError, match="newer gputop"):
        list(read_recording(tmp_path / "r"))


def test_a_recording_is_never_called_compressed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"r\.ndjson\.gz has the name of a compressed file"):
        Recorder(tmp_path / "r.ndjson.gz")
    assert not (tmp_path / "r.ndjson.gz").exists()


def test_a_compressed_recording_is_named_so(tmp_path: Path) -> None:
    recorded(tmp_path / "r", 2, gap_s=1.0)
    (tmp_path / "r.gz").write_bytes(gzip.compress((tmp_path / "r").read_bytes()))
    with pytest.raises(GputopError, match="is compressed") as raised:
        list(read_recording(tmp_path / "r.gz"))
    assert raised.value.hint == f"Unpack it first: gunzip {tmp_path / 'r.gz'}"


def test_replay_delivers_all_in_order(tmp_path: Path) -> None:
    recorded(tmp_path / "r", 5, gap_s=0.02)
    assert Seen(ReplayFeed(tmp_path / "r")).until(5) == [0, 1, 2, 3, 4]


def test_replay_pauses_and_steps(tmp_path: Path) -> None:
    recorded(tmp_path / "r", 4, gap_s=5.0)
    feed = ReplayFeed(tmp_path / "r")
    feed.toggle_pause()
    seen = Seen(feed)
    feed.step()
    assert seen.until(1) == [0]
    feed.step()
    assert seen.until(2) == [0, 1]
    assert "paused" in (feed.status() or "")
    assert feed.drain() == []
    feed.close()


def test_replay_goes_back_and_forward(tmp_path: Path) -> None:
    recorded(tmp_path / "r", 100, gap_s=10.0)
    feed = ReplayFeed(tmp_path / "r")
    feed.toggle_pause()
    seen = Seen(feed)
    feed.seek(300.0)
    assert seen.until(31) == list(range(31))
    assert feed.status() == "5m00s ×1 paused"
    feed.seek(-120.0)
    assert seen.until(31 + 19)[31:] == list(range(19)), "from the beginning to there"
    assert feed.status() == "3m00s ×1 paused"
    assert feed.drain() == [], "it is still paused"
    feed.seek(1e6)
    assert seen.until(131)[50:] == list(range(19, 100))
    eventually(lambda: feed.is_at_end, bool)
    feed.seek(-1e6)
    assert seen.until(132)[131:] == [0]
    assert not feed.is_at_end
    feed.close()


def test_replay_goes_back_to_the_nearest_landmark_that_the_screen_knows(tmp_path: Path) -> None:
    recorded(tmp_path / "r", 350, gap_s=10.0)
    feed = ReplayFeed(tmp_path / "r")
    feed.toggle_pause()
    seen = Seen(feed)
    feed.seek(1e6)
    assert seen.until(350) == list(range(350))
    eventually(lambda: feed.is_at_end, bool)
    feed.begin_from([landmark(read) for number, read in enumerate(read_recording(tmp_path / "r")) if number in (0, 100, 200)])
    feed.seek(-500.0)  # to 2,990 s
    assert seen.until(450)[350:] == list(range(200, 300))
    feed.seek(-1_800.0)  # to 1,190 s
    assert seen.until(470)[450:] == list(range(100, 120))
    feed.seek(-1_000.0)
    assert seen.until(490)[470:] == list(range(20))
    feed.close()


def test_replay_speeds_up(tmp_path: Path) -> None:
    """At a hundred times the speed, a gap of 40 s is over before the 30 s that the test waits at most."""
    recorded(tmp_path / "r", 6, gap_s=40.0)
    feed = ReplayFeed(tmp_path / "r")
    for _ in range(10):
        feed.faster()
    assert "×100" in (feed.status() or "")
    assert Seen(feed).until(6) == [0, 1, 2, 3, 4, 5]
    for _ in range(20):
        feed.slower()
    assert "×0.25" in (feed.status() or "")


def test_replay_of_a_damaged_file_ends_with_a_message(tmp_path: Path) -> None:
    recorded(tmp_path / "r", 2, gap_s=0.0)
    with (tmp_path / "r").open("a") as file:
        file.write("garbage\n")
    feed = ReplayFeed(tmp_path / "r")
    assert Seen(feed).until(99) == [0, 1]
    assert "Only files of gputop record" in (feed.problem() or "")


@pytest.mark.parametrize("words", [("replay",), ("doctor", "--replay")], ids=" ".join)
def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path, words: tuple[str, ...]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    run = subprocess.run([sys.executable, "-m", "gputop", *words, str(pipe)], capture_output=True, text=True, check=False)
    assert run.returncode == 2, run
    assert len(run.stderr.splitlines()) == 1, run.stderr
    assert str(pipe) in run.stderr


def test_a_recording_is_judged_from_a_pipe_and_not_replayed_from_one(tmp_path: Path) -> None:
    recorded(tmp_path / "recording.ndjson", 3)
    command = f"{shlex.quote(sys.executable)} -m gputop doctor --replay <(cat recording.ndjson)"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.returncode in (0, 1), run
    command = f"cat recording.ndjson | {shlex.quote(sys.executable)} -m gputop replay /dev/stdin"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.returncode == 2, run
    assert "Write it to a file first" in run.stderr
