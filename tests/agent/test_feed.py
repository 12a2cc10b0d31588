"""The live feed: what it does with lines that are not as they should be, and with a sampler that does not listen."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gputop.agent import feed as feed_module
from gputop.agent.feed import ReplayFeed
from gputop.agent.live import LiveFeed
from gputop.hosts.feed import WAITING_MAX, HostFeed
from gputop.hosts.following import Deliver
from gputop.hosts.state import HostStatus
from gputop.hosts.stream import Heard
from gputop.process import ProcessAnswer, ProcessQuestion
from gputop.sources.recording import Recorder
from tests import samples
from tests.patience import DEADLINE_S


def foreign_agent(folder: Path, *lines: str) -> None:
    """Put a program in ``folder`` that ``python -m gputop agent`` runs there: it writes these lines and waits."""
    (folder / "gputop").mkdir()
    (folder / "gputop" / "__init__.py").touch()
    (folder / "gputop" / "__main__.py").write_text(
        f"import json, sys\nfor line in json.loads({json.dumps(lines)!r}):\n    print(line, flush=True)\nsys.stdin.read()\n"
    )


def test_a_damaged_answer_affects_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = ProcessAnswer(ProcessQuestion(7), problem="none")
    damaged = ('{"process_answer":{"question":', '{"process_answer":[]}', '{"process_answer":' + "[" * 100_000)
    foreign_agent(tmp_path, samples.snapshot(0).to_json(), *damaged, answer.to_json(), samples.snapshot(1).to_json())
    monkeypatch.chdir(tmp_path)
    feed = LiveFeed()
    arrived = threading.Event()
    try:
        feed.start(arrived.set)
        snapshots, answers = [], []
        until = time.monotonic() + DEADLINE_S
        while len(snapshots) < 2 or not answers:
            assert time.monotonic() < until, (snapshots, answers, feed.problem())
            arrived.wait(1.0)
            arrived.clear()
            snapshots += feed.drain()
            answers += feed.take_answers()
        assert [snapshot.sequence for snapshot in snapshots] == [0, 1]
        assert answers == [answer]
        assert feed.problem() is None
    finally:
        feed.close()


def test_asking_a_sampler_that_does_not_listen_returns_at_once() -> None:
    feed = LiveFeed(["--virtual", "1"])
    os.kill(feed._process.pid, signal.SIGSTOP)

    def ask() -> None:
        for _ in range(20_000):  # more than a pipe holds
            feed.ask(ProcessQuestion(1))

    asking = threading.Thread(target=ask, daemon=True)
    try:
        asking.start()
        asking.join(DEADLINE_S)
        assert not asking.is_alive()
    finally:
        feed.close()


def test_a_replay_has_no_answers(tmp_path: Path) -> None:
    with Recorder(tmp_path / "r") as recorder:
        recorder.write(samples.snapshot(0).to_json())
    feed = ReplayFeed(tmp_path / "r")
    feed.ask(ProcessQuestion(1))
    assert feed.take_answers() == []


MANY = 20


class Asked(threading.Event):
    """An event that says when somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.set()
        return super().wait(timeout)


class Sends(threading.Thread):
    """A host that sends ``MANY`` snapshots as fast as they are taken, once ``connected``."""

    def __init__(self, deliver: Deliver) -> None:
        super().__init__(daemon=True)
        self.status = HostStatus("a", "live")
        self.failures = 0
        self.deliver = deliver
        self.connected = threading.Event()

    def run(self) -> None:
        self.connected.wait(DEADLINE_S)
        for number in range(MANY):
            self.deliver(Heard(self.status, samples.snapshot(number), size_bytes=1000))

    def keep_wanting(self, command: object) -> None: ...

    def send(self, command: object) -> None: ...

    def close(self) -> None: ...


def sending(monkeypatch: pytest.MonkeyPatch, most_bytes: int = 3000) -> tuple[HostFeed, Sends]:
    """The feed of a host that waits for its screen, which has this many bytes to process."""
    monkeypatch.setattr(feed_module, "WAITING_BYTES_MAX", most_bytes)
    streams: list[Sends] = []

    def link(deliver: Deliver) -> Sends:
        streams.append(Sends(deliver))
        return streams[0]

    feed = HostFeed("a", link)
    feed._taken = asked = Asked()
    streams[0].connected.set()
    assert asked.waited.wait(DEADLINE_S)
    return feed, streams[0]


@pytest.mark.parametrize(("most_bytes", "waiting"), [(3000, 3), (1 << 20, WAITING_MAX)])
def test_a_screen_that_falls_behind_holds_a_host_back(most_bytes: int, waiting: int, monkeypatch: pytest.MonkeyPatch) -> None:
    feed, _ = sending(monkeypatch, most_bytes)
    assert len(feed._pending) == waiting
    assert taken_of(feed) == list(range(MANY)), "none is lost"


def test_a_reading_is_as_old_as_the_clock_of_its_host_says(monkeypatch: pytest.MonkeyPatch) -> None:
    feed, stream = sending(monkeypatch)
    feed.close()
    made = replace(samples.snapshot(), time=time.time() + 1000.0 - 75.0)  # its clock is ahead
    assert feed.age_s(made) == 0.0, "the clocks are not compared"
    stream.status = replace(stream.status, clock_offset_s=1000.0, clock_error_s=0.1)
    assert feed.age_s(made) >= 75.0
    assert feed.age_s(replace(made, time=made.time + 3600.0)) == 0.0


def test_the_feed_of_a_host_that_waits_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    feed, stream = sending(monkeypatch)
    feed.close()
    stream.join(DEADLINE_S)
    assert not stream.is_alive()


def test_a_screen_that_falls_behind_holds_a_replay_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "WAITING_MAX", 3)
    with Recorder(tmp_path / "r") as recorder:
        for number in range(MANY):
            recorder.write(replace(samples.snapshot(number), time=samples.EPOCH).to_json())
    feed = ReplayFeed(tmp_path / "r")
    feed._taken = asked = Asked()
    feed.start(lambda: None)
    try:
        assert asked.waited.wait(DEADLINE_S)
        assert len(feed._pending) == 3
        assert taken_of(feed) == list(range(MANY)), "none is lost"
    finally:
        feed.close()


def taken_of(feed: HostFeed | ReplayFeed) -> list[int]:
    """The sequences of the snapshots that come until there are ``MANY``."""
    found: list[int] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < MANY and time.monotonic() < deadline:
        found += [snapshot.sequence for snapshot in feed.drain()]
        time.sleep(0.001)
    return found
