"""A run whose job was stopped on request reads "stopped", here as there; another one does not."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator

import pytest

from gputop.jobs import stopping, store
from gputop.recipes.catalogue import Launch
from gputop.snapshot import Rank
from gputop.tracking.reader import stopped
from tests.tracking.kit import Home, eventually, home

assert home

TRAIN = "import gputop, time\nrun = gputop.init(name='r')\nfor step in range(10**6):\n    run.log(loss=1.0); time.sleep(0.01)"


def start() -> store.Job:
    return store.start(Launch((sys.executable, "-c", TRAIN), {}, os.getcwd(), "job"))


def first_rank(home: Home) -> Rank | None:
    """None also while a journal's file is there and nothing is written to it yet."""
    try:
        return home.only_run().ranks[0]
    except ValueError:
        return None


@pytest.fixture(autouse=True)
def forgotten(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing known from before; and no job is left where a test fails in the middle."""
    monkeypatch.setattr(stopped, "_known", {})
    yield
    for job in store.list_jobs():
        if job.active:
            stopping.stop(job.id, grace_s=0.5)


def test_a_requested_stop_differs_from_an_accident(home: Home) -> None:
    job = start()
    eventually(lambda: (rank := first_rank(home)) and rank.step, "it trains")
    assert stopping.stop(job.id, grace_s=2.0).state == "stopped"
    run = home.only_run()
    assert (run.job_id, run.state, run.ranks[0].state) == (job.id, "stopped", "stopped")
    for path in home.archives():
        path.unlink()

    second = start()
    pid = eventually(lambda: (rank := first_rank(home)) and rank.pid, "its process")
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not store.find(second.id).active, "it ended")
    assert store.find(second.id).state == "killed"
    assert home.only_run().state == "killed"


ENDS_BEHIND_PYTHON = "import ctypes; ctypes.CDLL(None)._exit({code})"


@pytest.mark.parametrize(
    ("end", "state", "code"),
    [
        (ENDS_BEHIND_PYTHON.format(code=3), "failed", 3),
        (ENDS_BEHIND_PYTHON.format(code=0), "finished", 0),
        ("import os; os.kill(os.getpid(), 9)", "killed", -9),
    ],
)
def test_the_job_knows_the_exit_of_its_command(home: Home, end: str, state: str, code: int) -> None:
    script = f"import gputop\ngputop.init(name='r').log(loss=1.0)\n{end}"
    job = store.start(Launch((sys.executable, "-c", script), {}, os.getcwd(), "job"))
    eventually(lambda: not store.find(job.id).active, "it ended")
    for _ in range(2):
        run = home.only_run()
        assert (run.state, run.ranks[0].state, run.ranks[0].exit_code) == (state, state, code)


def test_a_command_s_exit_says_nothing_about_its_children(home: Home) -> None:
    script = f"import gputop\ngputop.init(name='r').log(loss=1.0)\n{ENDS_BEHIND_PYTHON.format(code=3)}"
    shell = f"{shlex.quote(sys.executable)} -c {shlex.quote(script)}; exit 7"
    job = store.start(Launch(("sh", "-c", shell), {}, os.getcwd(), "job"))
    eventually(lambda: not store.find(job.id).active, "it ended")
    assert (home.only_run().state, home.only_run().ranks[0].exit_code) == ("killed", None)


@pytest.mark.parametrize("name", ["", "../jobs", ".hidden", "gone"])
def test_a_job_that_cannot_be_read_was_not_stopped(home: Home, name: str) -> None:
    assert stopped.job_end(name) == stopped.UNKNOWN
