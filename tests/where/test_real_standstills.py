"""Real ranks that stand still, under torchrun and ``gputop run``: who is asked says which line the others wait for."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gputop.where.asking import ask_run
from gputop.whereabouts.records import RankPlace, Whereabouts
from gputop.whereabouts.verdict import summary
from tests.nursery import is_warm, nursery
from tests.packages import needs
from tests.tracking.kit import Home, clean_environment, eventually, home

pytestmark = needs("torch")
SCRIPT = Path(__file__).with_name("standstills.py")
LAUNCH_S = 120.0
"""Three processes import torch."""
LINES = {
    mark: f"standstills.py:{number}"
    for number, line in enumerate(SCRIPT.read_text().splitlines(), 1)
    for mark in re.findall(r"# ([A-Z]+)$", line)
}


class Ranks:
    """Two ranks of one launch, and what they do."""

    def __init__(self, home: Home, folder: Path, forked: bool) -> None:
        self.home, self.folder = home, folder
        os.mkfifo(folder / "fifo")
        self.scene("train")
        self.process: subprocess.Popen[str] | None = None
        command = (
            *(sys.executable, "-m", "gputop", "run", "--", sys.executable, "-m", "torch.distributed.run"),
            *("--standalone", "--nproc-per-node=2", str(SCRIPT), str(folder)),
        )
        environment = clean_environment(home.state, OMP_NUM_THREADS="1")
        if forked:
            home.started.extend(nursery().start_ranks(command, folder, environment))
        else:
            self.process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            home.started.append(self.process)
        try:
            eventually(lambda: len(home.archives()) == 2 and self.steps() > 3, "both ranks train", LAUNCH_S)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Kill the launcher, if there is one, and its ranks, which it has put into sessions of their own."""
        if self.process is None:
            return
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and _parent(path) == self.process.pid]
        for pid in (self.process.pid, *pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def scene(self, name: str) -> None:
        part = self.folder / "part"
        part.write_text(name)
        part.rename(self.folder / "scene")

    def steps(self) -> int:
        with suppress(ValueError):  # a journal that is only just made is no run yet
            run = self.home.only_run()
            return min((rank.step or 0 for rank in run.ranks), default=0) if len(run.ranks) == 2 else 0
        return 0

    def pid(self, rank: int) -> int:
        return next(item.pid for item in self.home.only_run().ranks if item.rank == rank and item.pid)

    def ask(self) -> Whereabouts:
        return ask_run(self.home.only_run(), self.home.runs)

    def until(self, holds: Callable[[Whereabouts], bool]) -> Whereabouts:
        """Ask until the ranks have come to where the scene stops them."""
        last = []

        def asked() -> Whereabouts | None:
            last[:] = [self.ask()]
            return last[0] if holds(last[0]) else None

        try:
            return eventually(asked, "an answer")
        except AssertionError:
            raise AssertionError(f"{last}") from None


def _parent(process: Path) -> int | None:
    with suppress(OSError):
        return int((process / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    return None


def behind(line: str) -> Callable[[Whereabouts], bool]:
    return lambda found: found.behind == (1,) and found.ranks[1].line == LINES[line]


def ahead(found: Whereabouts) -> RankPlace:
    first = found.ranks[0]
    assert (first.state, first.line, first.function, first.operation) == ("answers", LINES["SYNC"], "sync", "all_reduce")
    return first


@pytest.fixture
def ranks(home: Home, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Ranks]:
    found = Ranks(home, tmp_path, is_warm(request.node))
    yield found
    found.close()


assert home


def test_the_rank_that_the_others_wait_for_is_named_with_its_line(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    # One launch for all scenes: it takes as long as they do together.
    signals = []
    kill = os.kill
    monkeypatch.setattr("gputop.where.last_words.os.kill", lambda pid, number: (signals.append(pid), kill(pid, number)))
    ranks.scene("branch")
    found = ranks.until(lambda found: behind("BRANCH")(found) and found.ranks[1].doing in (None, "sleeps"))  # None: hidden
    late = found.ranks[1]
    assert (late.function, late.state, late.source, late.operation) == ("validate", "answers", "rank", None)
    begun = ahead(found).begun
    assert begun is not None
    assert late.begun == begun - 1
    assert (late.next_operation, late.next_number) == ("all_reduce", begun)
    assert found.verdict == (
        f"rank 0 waits in all_reduce #{begun} for rank 1, which has begun {begun - 1} collectives of {begun}"
    )
    done = subprocess.run(
        [sys.executable, "-m", "gputop", "where", "--json"],
        env=clean_environment(ranks.home.state), capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert json.loads(done.stdout)["behind"] == [1]

    assert signals == [], "a rank that answers gets none"
    ranks.scene("lock")
    found = ranks.until(behind("LOCK"))
    late = found.ranks[1]
    assert (late.state, late.source, late.function) == ("silent", "signal", "hold_the_lock")
    ahead(found)
    (ranks.folder / "fifo").write_text("x")
    assert set(signals) == {late.pid}
    signals.clear()

    writer = os.open(ranks.folder / "fifo", os.O_RDWR)  # so that opening it waits for nobody
    ranks.scene("reads")
    found = ranks.until(behind("READS"))
    assert (found.ranks[1].function, found.ranks[1].phase) == ("__getitem__", "data")
    if found.ranks[1].doing is not None:  # not everybody may see it
        assert found.ranks[1].doing == f"reads {ranks.folder / 'fifo'}"
    ahead(found)
    ranks.scene("train")
    os.close(writer)

    before = ranks.steps()
    eventually(lambda: ranks.steps() > before, "they train again: no signal and no question has harmed them")
    pid = ranks.pid(1)
    kill(pid, signal.SIGSTOP)
    found = ranks.until(lambda found: found.behind == (1,))
    assert (found.ranks[1].state, found.ranks[1].process_state) == ("stopped", "T")
    kill(pid, signal.SIGCONT)

    ranks.scene("mismatch")
    found = ranks.until(lambda found: found.verdict is not None and "different collectives" in found.verdict)
    assert found.verdict == "The ranks wait for one another in different collectives: rank 0 in all_reduce; rank 1 in barrier"
    assert found.ranks[1].line == LINES["BARRIER"]
    assert found.behind == (0, 1)
    assert signals == []
    for rank in (0, 1):
        status = Path(f"/proc/{ranks.pid(rank)}/status").read_text()
        assert "TracerPid:\t0\n" in status


@pytest.mark.warm
def test_ranks_that_name_different_sources_move_no_more_and_none_is_behind(ranks: Ranks) -> None:
    ranks.scene("sources")
    found = ranks.until(lambda found: found.verdict is not None)
    assert str(found.verdict).startswith("all ranks have waited in broadcast #")
    assert (found.behind, [place.line for place in found.ranks]) == ((), [LINES["SOURCES"]] * 2)
    done = subprocess.run(
        [sys.executable, "-m", "gputop", "where"],
        env=clean_environment(ranks.home.state), capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr


@pytest.mark.warm
def test_a_rank_that_has_left_is_named(ranks: Ranks) -> None:
    """gloo tells the other ranks at once that it is gone: they fail, and do not wait for it."""
    run = ranks.home.only_run()
    ranks.scene("exits")
    assert [rank.wait(LAUNCH_S) for rank in ranks.home.started] == [1, 7]
    for known in (run, ranks.home.only_run()):  # as it was known before, and as it is known now
        found = ask_run(known, ranks.home.runs)
        assert [place.state for place in found.ranks] == ["ended"] * 2
    assert found.ranks[1].exit_code == 7
    assert summary(found) == "no rank is alive on this machine"
