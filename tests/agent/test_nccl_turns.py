"""When NCCL's RAS service is asked: a real socket counts the questions; runs, processes and times are made up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from gputop.agent import nccl_turns
from gputop.agent.nccl_turns import QUIET_S, STILL_MIN_S, NcclTurns, WhenToAsk
from gputop.process import LaunchEnvironment, Process
from gputop.snapshot import Points, Rank, Run
from gputop.sources.nccl.ras import ask_all, question_about
from tests.sources.nccl.test_ras import Ras
from tests.sources.nccl.test_ras import job as ras_job
from tests.sources.nccl.test_ras import rank as ras_rank

RUN = "run-1"
START = 1000.0


@dataclass
class Machine:
    """Two ranks of one run with NCCL, one record a second, and the service that counts what it is asked."""

    ras: Ras
    when: WhenToAsk = "stood still"
    now: float = START
    step: int = 0
    logged_at: float | None = None
    states: list[str] = field(default_factory=lambda: ["running", "running"])
    processes: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.turns = NcclTurns(self.when)
        self.processes = [self.process(pid) for pid in (11, 12)]

    def process(self, pid: int, *, threads: int = 1, started_at: float = START, run_id: str | None = RUN) -> Process:
        environment = LaunchEnvironment(settings=(("NCCL_RAS_ADDR", f"127.0.0.1:{self.ras.address[1]}"),))
        return Process(
            pid, threads=(("pt_nccl_watchdg", threads),), started_at=started_at, run_id=run_id, environment=environment
        )

    def second(self, *, trains: bool) -> int:
        """Let a second pass; return how often the service was asked in it."""
        self.now += 1.0
        points: tuple[Points, ...] = ()
        if trains:
            self.step, self.logged_at = self.step + 1, self.now
            points = (Points(RUN, 0, "loss", (self.step,), (self.now,), (1.0,)),)
        ranks = tuple(
            Rank(number, pid=11 + number, state=state, step=self.step, last_log_at=self.logged_at)  # type: ignore[arg-type]
            for number, state in enumerate(self.states)
        )
        self.turns.observe_runs([Run(RUN, "resnet", state="running", created_at=START, ranks=ranks)], points, self.now)
        before = self.ras.asked
        ask_all(question_about(self.turns.askable(self.processes, self.now)))
        return self.ras.asked - before

    def seconds(self, number: float, *, trains: bool) -> int:
        """Let seconds pass; return how often the service was asked in them."""
        return sum(self.second(trains=trains) for _ in range(int(number)))


@pytest.fixture
def ras() -> Iterator[Ras]:
    with Ras(ras_job(1, ras_rank(0, 11), ras_rank(1, 12))) as service:
        yield service


def test_no_process_is_asked_while_steps_come_and_one_is_once_they_stop(ras: Ras) -> None:
    machine = Machine(ras)
    assert machine.seconds(3 * QUIET_S, trains=True) == 0
    assert machine.seconds(STILL_MIN_S, trains=False) == 0
    assert machine.second(trains=False) > 0
    assert machine.second(trains=True) == 0, "it goes on"


def test_slow_steps_are_not_a_standstill(ras: Ras) -> None:
    machine = Machine(ras)
    for _ in range(5):  # each step takes 20 s
        machine.seconds(19, trains=False)
        machine.second(trains=True)
    assert machine.seconds(20 * 20, trains=False) == 0
    assert machine.second(trains=False) > 0


@pytest.mark.parametrize("when", ["stood still", "requested"])
def test_no_process_is_asked_in_the_first_minute(ras: Ras, when: WhenToAsk) -> None:
    machine = Machine(ras, when)
    assert machine.seconds(3, trains=True) == 0
    assert machine.seconds(QUIET_S - 4, trains=False) == 0
    assert machine.seconds(40, trains=False) > 0


@pytest.mark.parametrize("when", ["stood still", "requested"])
def test_no_process_is_asked_while_a_communicator_is_made_or_a_rank_begins_or_ends(ras: Ras, when: WhenToAsk) -> None:
    machine = Machine(ras, when)
    machine.seconds(5, trains=True)
    assert machine.seconds(2 * QUIET_S, trains=False) > 0

    machine.processes[1] = machine.process(12, threads=2)  # another communicator
    assert machine.seconds(QUIET_S, trains=False) == 0
    assert machine.second(trains=False) > 0

    machine.states[1] = "finished"  # its process is still there
    assert machine.seconds(QUIET_S, trains=False) == 0
    assert machine.second(trains=False) > 0

    del machine.processes[1]  # and now it is gone
    assert machine.seconds(QUIET_S, trains=False) == 0
    assert machine.second(trains=False) > 0

    machine.states.append("starting")
    machine.processes.append(machine.process(13, started_at=machine.now))
    assert machine.seconds(QUIET_S, trains=False) == 0
    assert machine.second(trains=False) > 0


def test_a_live_training_at_the_same_address_protects_the_one_that_stands_still(ras: Ras) -> None:
    machine = Machine(ras)
    other = machine.process(99, run_id=None)
    machine.processes.append(other)
    machine.seconds(5, trains=True)
    assert machine.seconds(3 * QUIET_S, trains=False) == 0
    settings = LaunchEnvironment(settings=(("NCCL_RAS_ADDR", "127.0.0.1:1"),))
    machine.processes[-1] = replace(other, environment=settings)
    machine.seconds(QUIET_S + 1, trains=False)
    assert machine.second(trains=False) > 0


def test_a_run_without_a_journal_is_asked_about_on_request_only(ras: Ras) -> None:
    for when, asked in (("stood still", False), ("requested", True), ("never", False)):
        machine = Machine(ras, when)  # type: ignore[arg-type]
        machine.processes = [machine.process(11, run_id=None), machine.process(12, run_id=None)]
        assert bool(machine.seconds(2 * QUIET_S, trains=False)) is asked, when


def test_never_means_never(ras: Ras) -> None:
    machine = Machine(ras, "never")
    machine.seconds(5, trains=True)
    assert machine.seconds(5 * QUIET_S, trains=False) == 0


def test_a_run_that_has_not_begun_to_step_is_not_asked_about(ras: Ras) -> None:
    machine = Machine(ras)
    assert machine.seconds(10 * QUIET_S, trains=False) == 0


def test_a_first_look_at_a_run_that_hangs_asks_at_once(ras: Ras) -> None:
    machine = Machine(ras, now=START + 3600, step=100, logged_at=START + 600)
    past = Points(RUN, 0, "loss", tuple(range(0, 100, 10)), tuple(START + step for step in range(0, 100, 10)), (1.0,) * 10)
    ranks = (Rank(0, pid=11, state="running", last_log_at=START + 600),)
    machine.turns.observe_runs([Run(RUN, "resnet", created_at=START, ranks=ranks)], (past,), machine.now)
    assert machine.turns.askable(machine.processes, machine.now) == tuple(machine.processes)


def test_of_many_ranks_the_pace_is_that_of_the_newest_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl_turns, "RECENT_STEPS", 5)
    pace = nccl_turns._Pace()
    pace.add([Points("r", rank, "loss", (0, 1), (0.0, 1.0 + rank), (1.0, 1.0)) for rank in range(3)])
    assert list(pace.steps_s) == [1.0, 2.0, 3.0]
    pace.add([Points("r", rank, "loss", (1, 3, 4), (1.0, 5.0, 5.5), (1.0, 1.0, 1.0)) for rank in range(3)])
    assert list(pace.steps_s) == [0.5, 2.0, 0.5, 2.0, 0.5]
    pace.add([Points("r", 0, "loss", (6,), (7.5,), (1.0,)), Points("r", 0, "loss", (7,), (10.5,), (1.0,))])
    assert list(pace.steps_s) == [0.5, 2.0, 0.5, 1.0, 3.0]


def test_the_pace_of_a_run_that_has_ended_is_forgotten(ras: Ras) -> None:
    machine = Machine(ras)
    machine.seconds(5, trains=True)
    pace = machine.turns._paces[RUN]
    assert len(pace.steps_s) == 4
    machine.states = ["finished", "failed"]
    machine.seconds(2, trains=True)
    assert (len(pace.steps_s), pace.last) == (0, {})
    machine.states = ["running", "finished"]
    machine.seconds(3, trains=True)
    assert list(pace.steps_s) == [1.0, 1.0]
