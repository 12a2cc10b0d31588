"""The live feed: what it does with lines that are not as they should be, and with a sampler that does not listen."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from gputop.agent.feed import ReplayFeed
from gputop.agent.live import LiveFeed
from gputop.process import ProcessAnswer, ProcessQuestion
from gputop.sources.recording import Recorder
from tests import samples

DEADLINE_S = 30.0


def foreign_agent(folder: Path, *lines: str) -> None:
    """Put a program in ``folder`` that ``python -m gputop agent`` runs there: it writes these lines and waits."""
    (folder / "gputop").mkdir()
    (folder / "gputop" / "__init__.py").touch()
    (folder / "gputop" / "__main__.py").write_text(
        f"import json, sys\nfor line in json.loads({json.dumps(lines)!r}):\n    print(line, flush=True)\nsys.stdin.read()\n"
    )


def test_a_damaged_answer_costs_itself_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
