"""The live feed and a sampler that ends, stops, says nothing, floods or garbles: told with the reason, and replaced."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gputop.agent import feed as feed_module
from gputop.agent import lines, live
from gputop.agent.live import LiveFeed
from gputop.history.history import History
from tests import samples
from tests.patience import DEADLINE_S

FIRST = samples.snapshot(7).to_json()
LATER = samples.snapshot(3).to_json()

# Stands for the sampler. Its first start fails after one snapshot, in the way that a test wants; later ones are good.
AGENT = """
import os, pathlib, signal, sys, time
started = pathlib.Path({folder!r}, "started")
number = len(started.read_text()) if started.exists() else 0
started.write_text("x" * (number + 1))
first, later = pathlib.Path({folder!r}, "first").read_text(), pathlib.Path({folder!r}, "later").read_text()
if number:
    while True:
        print(later, flush=True)
        time.sleep(0.1)
if {early!r}:
    exec({fails!r})
print(first, flush=True)
exec({fails!r})
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for tenths of seconds where the feed waits for seconds."""
    for name, value in (("STOPPED_S", 0.2), ("BACKOFF_S", (0.2,))):
        monkeypatch.setattr(live, name, value)
    monkeypatch.setattr(lines, "POLL_S", 0.05)
    monkeypatch.setattr(lines, "LINE_MAX_BYTES", 1 << 20)


class Watched:
    """A feed, and everything that it says about itself."""

    def __init__(self, feed: LiveFeed) -> None:
        self.feed = feed
        self.sequences: list[int] = []
        self.problems: list[str] = []
        self._lock = threading.Lock()
        feed.start(self.take)

    def take(self) -> None:
        problem = self.feed.problem()
        with self._lock:
            if problem and problem not in self.problems:
                self.problems.append(problem)
            self.sequences += [snapshot.sequence for snapshot in self.feed.drain()]

    def until(self, happened: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not happened():
            assert time.monotonic() < deadline, (self.sequences, self.problems)
            time.sleep(0.02)
            self.take()


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Watched]]:
    """Start a feed whose sampler fails once, as the code says."""
    feeds: list[LiveFeed] = []

    def start(fails: str, *, early: bool = False) -> Watched:
        (tmp_path / "gputop").mkdir()
        (tmp_path / "gputop" / "__init__.py").touch()
        (tmp_path / "gputop" / "__main__.py").write_text(AGENT.format(folder=str(tmp_path), fails=fails, early=early))
        (tmp_path / "first").write_text(FIRST)
        (tmp_path / "later").write_text(LATER)
        monkeypatch.chdir(tmp_path)
        feeds.append(LiveFeed())
        return Watched(feeds[-1])

    yield start
    for feed in feeds:
        feed.close()


FAILURES = {
    "sys.exit('the disk is gone')": "The sampler ended: the disk is gone.",
    "sys.exit(3)": "The sampler ended with exit code 3.",
    "os.kill(os.getpid(), signal.SIGKILL)": "The sampler was ended by signal 9.",
    "os.kill(os.getpid(), signal.SIGSTOP)": "The sampler was stopped by a signal.",
    "time.sleep(600)": "The sampler has said nothing for",
    "os.close(1); time.sleep(600)": "The sampler closed its output.",
    "while True: sys.stdout.write('x' * 65536)": "The sampler sent a line without an end.",
    "while True: print(first)": "The sampler sent far more than requested.",
    "sys.stderr.write('x' * (1 << 20) + '\\nlast words'); sys.exit(1)": "The sampler ended: last words.",
}


@pytest.mark.parametrize("fails", FAILURES, ids=lambda text: FAILURES[text])
def test_a_sampler_that_fails_is_replaced_and_the_reason_shown(
    watch: Callable[..., Watched], fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "said nothing" in FAILURES[fails]:  # on a busy machine, others say nothing for a second either
        monkeypatch.setattr(live, "MUTE_S", 0.5)
        monkeypatch.setattr(live, "MUTE_INTERVALS", 0.5)
    watched = watch(fails)
    watched.until(lambda: 3 in watched.sequences)
    assert watched.sequences[0] == 7
    assert watched.problems[0].startswith(FAILURES[fails])
    assert "It restarts in" in watched.problems[0]
    watched.until(lambda: watched.feed.problem() is None)


def test_errors_that_nobody_asked_for_stop_nothing(watch: Callable[..., Watched]) -> None:
    watched = watch("sys.stderr.write('x' * (4 << 20)); print(later, flush=True); time.sleep(0.1); print(later, flush=True)")
    watched.until(lambda: watched.sequences == [7, 3, 3])
    assert watched.problems == []


def test_a_line_that_cannot_be_read_affects_no_other(watch: Callable[..., Watched]) -> None:
    watched = watch("print('[' * 100_000); print(later, flush=True)")
    watched.until(lambda: watched.sequences == [7, 3])
    assert watched.feed.problem() is None


def test_a_sampler_that_cannot_begin_is_not_started_again(watch: Callable[..., Watched]) -> None:
    watched = watch("sys.exit('There is no GPU 9 here.')", early=True)
    watched.until(watched.feed.problem)
    assert watched.feed.problem() == "The sampler ended: There is no GPU 9 here. Quit and start gputop again."
    assert Path("started").read_text() == "x"


def test_a_first_look_does_not_shorten_the_time_for_the_first_snapshot(
    watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a load of 35 on two cores, gputop showed the GPUs and ended itself 15 s later: its sampler was still importing."""
    monkeypatch.setattr(live, "MUTE_S", 0.5)
    monkeypatch.setattr(live, "MUTE_INTERVALS", 0.5)
    look = '{"first_look":{"devices":[]}}'
    watched = watch(f"print({look!r}, flush=True); time.sleep(2); print(later, flush=True); time.sleep(600)", early=True)
    watched.until(lambda: watched.sequences or watched.problems)
    assert watched.sequences == [3]


def test_a_closed_feed_starts_nothing(watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "BACKOFF_S", (600.0,))
    watched = watch("sys.exit(3)")
    watched.until(watched.feed.problem)
    watched.feed.close()
    deadline = time.monotonic() + DEADLINE_S
    while any(thread.name == "feed" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert Path("started").read_text() == "x"


def test_a_stopped_real_sampler_is_replaced() -> None:
    feed = LiveFeed(["--virtual", "1", "-i", "100ms"])
    watched = Watched(feed)
    try:
        watched.until(lambda: watched.sequences)
        first = feed._process
        os.kill(first.pid, signal.SIGSTOP)
        watched.until(lambda: watched.problems)
        assert watched.problems[0].startswith("The sampler was stopped by a signal.")
        watched.sequences.clear()
        watched.until(lambda: watched.sequences)
        assert first.returncode == -signal.SIGKILL
        assert feed.problem() is None
    finally:
        feed.close()


def test_the_past_that_comes_again_is_not_counted_twice() -> None:
    history = History()
    points = samples.loss_points(1, steps=20)
    for sequence in (0, 1, 0):
        history.observe(samples.snapshot(sequence, points=points if not sequence else ()))
    assert history.metric("run-1", "loss")[0].by_step.samples == 20


class Asked(threading.Event):
    """An event that says when somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.set()
        return super().wait(timeout)


def test_a_screen_that_falls_behind_holds_the_sampler_back(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [replace(samples.snapshot(1), sequence=number).to_json().encode() for number in range(20)]
    read: list[int] = []

    def lines_of(self: object) -> Iterator[bytes]:
        for number, line in enumerate(many):
            read.append(number)
            yield line
        threading.Event().wait()  # a sampler that lives on

    monkeypatch.setattr(live._Sampler, "lines", lines_of)
    monkeypatch.setattr(feed_module, "WAITING_BYTES_MAX", 3 * len(many[0]))
    silent = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    feed = LiveFeed(process=silent)
    feed._taken = asked = Asked()
    feed.start(lambda: None)
    try:
        assert asked.waited.wait(DEADLINE_S)
        assert len(read) == 4, "three wait for the screen, and one for them"
        taken: list[int] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(taken) < len(many) and time.monotonic() < deadline:
            taken += [snapshot.sequence for snapshot in feed.drain()]
            time.sleep(0.001)
        assert taken == list(range(len(many))), "none is lost"
    finally:
        feed.close()


def test_a_feed_whose_screen_takes_nothing_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    line = samples.snapshot(1).to_json().encode()
    monkeypatch.setattr(live._Sampler, "lines", lambda self: iter((line, line)))
    monkeypatch.setattr(feed_module, "WAITING_BYTES_MAX", 1)
    feed = LiveFeed(process=subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    feed._taken = asked = Asked()
    feed.start(lambda: None)
    assert asked.waited.wait(DEADLINE_S)
    feed.close()
    assert feed._thread is not None
    feed._thread.join(DEADLINE_S)
    assert not feed._thread.is_alive()
