"""Runs made from what real jobs print: jobs of plain scripts without torch and without gputop."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from gputop.agent.sampler import Sampler
from gputop.agent.source import NoSource
from gputop.jobs import identity, record, spawn, stopping, store
from gputop.jobs.output import printed_runs
from gputop.jobs.output.printed_runs import PrintedRuns
from gputop.jobs.store import Job
from gputop.places import runs_dir
from gputop.recipes.catalogue import Launch
from gputop.snapshot import Points, Problem, Run
from tests.jobs.printed import printed_lines
from tests.patience import DEADLINE_S
from tests.tracking.kit import eventually

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="jobs are known by /proc")

PLAIN = """
import sys, time
for step in range(1, 6):
    print(f"step {step}/5 loss: {1 / step}", flush=True)
sys.stdin.read() if False else time.sleep(float(sys.argv[1]))
print("done, packet loss: 5%")
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    for job in store.list_jobs():
        identity.signal_marked(job.id, signal.SIGKILL)
    for process in spawn.started:
        process.wait(DEADLINE_S)


def start(code: str, *arguments: str) -> Job:
    return store.start(Launch((sys.executable, "-c", code, *arguments), {}, os.getcwd(), "plain", values={"lr": 0.1}))


class Seen:
    """What several looks returned together."""

    def __init__(self, printed: PrintedRuns) -> None:
        self.printed = printed
        self.points: list[Points] = []

    def until(self, happened: Callable[[Run], bool]) -> Run:
        def look() -> Run | None:
            update = self.printed.poll(())
            self.points += update.points
            return next((run for run in update.runs if happened(run)), None)

        return eventually(look, "a run from the log")

    def values(self, metric: str) -> list[tuple[int, float]]:
        return [
            pair for points in self.points if points.metric == metric for pair in zip(points.steps, points.values, strict=True)
        ]


def test_a_plain_script_has_a_loss_curve_from_its_log() -> None:
    began = time.time()
    job = start(PLAIN, "600", "0")
    seen = Seen(PrintedRuns(patience_s=0.0))
    run = seen.until(lambda run: run.ranks[0].step == 5)
    assert seen.values("loss") == [(step, 1 / step) for step in range(1, 6)]
    assert all(began - 1 < at < time.time() + 1 for points in seen.points for at in points.times)
    assert (run.run_id, run.job_id, run.name, run.state, run.config) == (job.id, job.id, "plain", "running", {"lr": 0.1})
    (rank,) = run.ranks
    assert rank.facts == {"source": "log", "progress": {"total_steps": 5}}
    assert rank.metrics == {"loss": 0.2}
    status = record.read_json(job.directory / record.STATUS)
    assert status is not None
    assert rank.pid == status["child"]["pid"]
    stopping.stop(job.id)
    assert seen.until(lambda run: run.state != "running").state == "stopped"


def test_the_parts_of_a_launch_over_hosts_are_runs_of_their_own() -> None:
    for node in (0, 1):  # of two machines with one home, or of one machine by two names
        code = f"for step in range(1, 4): print(f'step {{step}} loss {{{node} + step}}.5')"
        launch = Launch((sys.executable, "-c", code), {}, os.getcwd(), "part")
        store.start(launch, job_id=f"20261122-141300-3f2a-n{node}", launch_id="20261122-141300-3f2a")
    printed, points = PrintedRuns(patience_s=0.0), list[Points]()

    def look() -> set[str]:
        update = printed.poll(())
        points.extend(update.points)
        ended = {run.run_id for run in update.runs if run.ended_at is not None}
        return ended if len(ended) == len(update.runs) == 2 else set()

    first, second = sorted(eventually(look, "both parts"))
    assert (first, second) == ("20261122-141300-3f2a-n0", "20261122-141300-3f2a-n1")
    for part, expected in ((first, [1.5, 2.5, 3.5]), (second, [2.5, 3.5, 4.5])):
        assert [value for item in points if item.run_id == part for value in item.values] == expected
    assert not PrintedRuns(patience_s=0.0).poll({"20261122-141300-3f2a"}).runs, "the journal of the launch has them"


@pytest.mark.parametrize(("code", "state"), [(0, "finished"), (3, "failed")])
def test_a_printed_run_ends_with_its_job(code: int, state: str) -> None:
    start(PLAIN, "0", str(code))
    seen = Seen(PrintedRuns(patience_s=0.0))
    run = seen.until(lambda run: run.ended_at is not None)
    assert (run.state, run.ranks[0].exit_code) == (state, code)
    assert len(seen.values("loss")) == 5
    assert not seen.printed.poll(()).points, "nothing is told twice"


def test_a_job_with_a_journal_is_left_to_it_and_one_that_says_nothing_makes_no_run() -> None:
    quiet, tracked = start("print('hello')"), start(PLAIN, "0", "0")
    for job in (quiet, tracked):
        eventually(lambda job=job: not store.find(job.id).active, "the job's end")  # type: ignore[misc]
    printed = PrintedRuns(patience_s=0.0)
    assert [run.run_id for run in printed.poll({tracked.id}).runs] == []
    assert [run.run_id for run in printed.poll(()).runs] == [tracked.id]
    (runs_dir() / tracked.id).mkdir(parents=True)
    assert printed.poll(()).runs == ()


def test_a_young_job_may_still_begin_a_journal() -> None:
    start(PLAIN, "600", "0")
    printed = PrintedRuns(patience_s=600.0)
    eventually(lambda: any("loss" in line for line in printed_lines(store.list_jobs()[0].id)), "output")
    assert printed.poll(()).runs == ()


def test_ranks_have_their_own_files_and_bars_their_states() -> None:
    code = (
        "import os, sys, time\n"
        "for rank in (0, 1):\n"
        "    path = f\"{os.environ['PET_LOG_DIR']}/none_x/attempt_0/{rank}\"\n"
        "    os.makedirs(path)\n"
        "    with open(path + '/stderr.log', 'w') as file:\n"
        "        for step in range(1, 5):\n"
        "            file.write(f'\\r {step}/4 [00:01<00:01, 4.5it/s, loss={rank + step}.5]')\n"
        "print('loss: 99.0 is what the launcher says')\n"
    )
    start(code)
    seen = Seen(PrintedRuns(patience_s=0.0))
    run = seen.until(lambda run: run.ended_at is not None and len(run.ranks) == 2)
    assert [(rank.rank, rank.step, rank.metrics) for rank in run.ranks] == [
        (0, 4, {"loss": 4.5, "it_per_sec": 4.5}),
        (1, 4, {"loss": 5.5, "it_per_sec": 4.5}),
    ]
    assert [rank.pid for rank in run.ranks] == [None, None]
    of_rank_1 = [points for points in seen.points if points.rank == 1 and points.metric == "loss"]
    assert [value for points in of_rank_1 for value in points.values] == [2.5, 3.5, 4.5, 5.5]


def test_a_long_log_is_read_in_pieces_and_thinned_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed_runs, "READ_BYTES", 64_000)
    start("for step in range(20_000): print(f'step {step} loss {100.0 if step == 7777 else 1.0}')")
    eventually(lambda: not store.list_jobs()[0].active, "the job's end")
    seen = Seen(PrintedRuns(patience_s=0.0))
    seen.until(lambda run: run.ranks[0].step == 19_999)
    values = seen.values("loss")
    assert len(values) < 10_000
    assert (7777, 100.0) in values, "a spike stays"


def test_the_sampler_shows_it_beside_the_tracked_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed_runs, "JOURNAL_PATIENCE_S", 0.0)
    monkeypatch.setattr(PrintedRuns.__init__, "__defaults__", (0.0,))
    sampler = Sampler(NoSource(Problem("no_gpu", "none", "")), 1.0)
    job = start(PLAIN, "600", "0")

    def look() -> Run | None:
        snapshot = sampler.take()
        return next((run for run in snapshot.runs if run.run_id == job.id and snapshot.points), None)

    run = eventually(look, "the run in a snapshot")
    assert run.ranks[0].facts["source"] == "log"
    (process,) = (process for process in sampler.take().processes if process.run_id == job.id)
    assert process.pid == run.ranks[0].pid
