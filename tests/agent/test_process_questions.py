"""Questions about one process: the real agent answers them beside its snapshots, and nothing that hangs delays those."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import gputop
from gputop.agent import process_reader
from gputop.agent.newest_wins import NewestWins
from gputop.agent.process_reader import ENVIRONMENT_MAX_CHARACTERS, READERS_MAX, VALUE_MAX_CHARACTERS
from gputop.agent.sampler import Sampler
from gputop.agent.serving import serve
from gputop.agent.source import NoSource
from gputop.process import ProcessAnswer, ProcessDetails, ProcessQuestion
from gputop.questions import Misunderstood, answer_in, is_answer
from gputop.snapshot import FormatError, Problem, Snapshot
from gputop.whereabouts.records import Whereabouts
from tests.agent.test_sampler import Agent, run
from tests.patience import DEADLINE_S


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a secret and a rank in its environment."""
    environment = {**os.environ, "LOCAL_RANK": "3", "WANDB_API_KEY": "hunter2"}
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"], env=environment)
    yield process
    process.kill()
    process.wait()


def answer_of(agent: Agent, question: ProcessQuestion) -> ProcessAnswer:
    """Ask, and return the answer; every other line is a snapshot, or refuses another question."""
    agent.send(process={"pid": question.pid, "environment": question.environment})
    for _ in range(1000):
        line = agent.process.stdout.readline()
        if Misunderstood.is_in(line):
            continue
        if not ProcessAnswer.is_in(line):
            Snapshot.from_json(line)
        elif (answer := ProcessAnswer.from_json(line)).question == question:
            return answer
    raise AssertionError("no answer came")


def test_the_agent_answers_beside_its_snapshots(child: subprocess.Popen[bytes]) -> None:
    with Agent("-i", "100ms", "--virtual", "1") as agent:
        details = answer_of(agent, ProcessQuestion(child.pid))
        assert details.details is not None
        assert details.details.threads == 1
        assert details.details.working_directory == os.getcwd()
        assert details.environment is None
        found = answer_of(agent, ProcessQuestion(child.pid, environment=True))
        assert found.environment is not None
        assert found.environment["LOCAL_RANK"] == "3"
        assert "hunter2" not in found.to_json()
        assert (found.details, found.problem, found.omitted) == (None, None, 0)
        child.kill()
        child.wait()
        ended = answer_of(agent, ProcessQuestion(child.pid))
        assert (ended.details, ended.problem) == (None, None)
        assert agent.next().sequence > 0


@pytest.mark.parametrize(
    "command",
    [{"process": 3}, {"process": {}}, {"process": {"pid": "4"}}, {"process": {"pid": -1}}, {"process": {"pid": 10**400}}],
    ids=["number", "empty", "text", "negative", "huge"],
)
def test_a_damaged_question_affects_no_other(command: dict[str, Any]) -> None:
    with Agent("-i", "100ms", "--virtual", "1") as agent:
        agent.send(**command)
        assert answer_of(agent, ProcessQuestion(os.getpid())).details is not None
        assert agent.next().sequence > 0


def test_the_agent_answers_where_a_run_is() -> None:
    with Agent("-i", "100ms", "--virtual", "1") as agent:
        agent.send(where=7)
        agent.send(where={"run_id": "no such run"})
        assert agent.process.stdout is not None
        lines = iter(agent.process.stdout.readline, b"")
        found = Whereabouts.from_json(next(line for line in lines if Whereabouts.is_in(line)))
        assert (found.run_id, found.problem) == ("no such run", "This run is no longer listed")
        assert agent.next().sequence > 0


def test_the_agent_answers_where_the_processes_of_a_run_without_a_journal_are(child: subprocess.Popen[bytes]) -> None:
    with Agent("-i", "100ms", "--virtual", "1") as agent:
        assert agent.process.stdout is not None
        lines = iter(agent.process.stdout.readline, b"")
        for pids, seen, problem in (([child.pid, 2**22 + 1], [child.pid], None), ([2**22 + 1], [], "Its processes have ended")):
            agent.send(where={"run_id": "launcher:1", "pids": pids})
            found = Whereabouts.from_json(next(line for line in lines if Whereabouts.is_in(line)))
            assert (found.run_id, [place.pid for place in found.ranks], found.problem) == ("launcher:1", seen, problem)


def test_a_stream_is_not_asked() -> None:
    done = run("--stream", "-n", "2", "-i", "100ms", "--virtual", "1")
    assert [Snapshot.from_json(line).sequence for line in done.stdout.splitlines()] == [0, 1]


class Reads:
    """Stands for /proc: reads of the processes in ``hangs`` return when they are let go."""

    def __init__(self, *hangs: int) -> None:
        self.hangs = hangs
        self.go = threading.Event()
        self.begun: queue.Queue[int] = queue.Queue()

    def __call__(self, pid: int) -> ProcessDetails:
        self.begun.put(pid)
        if pid in self.hangs:
            assert self.go.wait(DEADLINE_S)
        return ProcessDetails(threads=pid)


@pytest.fixture
def proc(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Reads]]:
    """Put something in the place of /proc, and let everything go at the end."""
    made: list[Reads] = []

    def replace(*hangs: int) -> Reads:
        made.append(Reads(*hangs))
        monkeypatch.setattr(process_reader, "details_of", made[-1])
        return made[-1]

    yield replace
    for reads in made:
        reads.go.set()


def test_a_read_that_hangs_delays_no_snapshot(proc: Callable[..., Reads]) -> None:
    reads = proc(7)
    sampler = Sampler(NoSource(Problem("no_gpu", "none", "none")), 0.05)
    commands: queue.Queue[Any] = queue.Queue()
    lines: queue.Queue[str] = queue.Queue()
    serving = threading.Thread(target=serve, args=(sampler, lines.put, commands), daemon=True)
    serving.start()
    commands.put({"process": {"pid": 7}})
    assert reads.begun.get(timeout=DEADLINE_S) == 7
    for _ in range(3):
        Snapshot.from_json(lines.get(timeout=DEADLINE_S))
    reads.go.set()
    line = lines.get(timeout=DEADLINE_S)
    while "process_answer" not in json.loads(line):
        line = lines.get(timeout=DEADLINE_S)
    assert ProcessAnswer.from_json(line).details == ProcessDetails(threads=7)
    commands.put(None)
    serving.join(DEADLINE_S)
    assert not serving.is_alive()


def test_another_process_is_answered_while_one_hangs(proc: Callable[..., Reads]) -> None:
    reads = proc(7)
    answers: queue.Queue[ProcessAnswer] = queue.Queue()
    reader = NewestWins("process", process_reader.answer_to, answers.put, READERS_MAX)
    for _ in range(20):  # a screen asks every two seconds
        reader.ask(ProcessQuestion(7))
    reader.ask(ProcessQuestion(8))
    assert answers.get(timeout=DEADLINE_S).details == ProcessDetails(threads=8)
    reads.go.set()
    assert answers.get(timeout=DEADLINE_S).details == ProcessDetails(threads=7)
    assert reads.begun.qsize() == 2, "one question is read once, however often it is asked meanwhile"


def test_the_latest_question_wins_and_few_reads_hang_at_once(proc: Callable[..., Reads]) -> None:
    hanging = range(1, READERS_MAX + 1)
    reads = proc(*hanging)
    answers: queue.Queue[ProcessAnswer] = queue.Queue()
    reader = NewestWins("process", process_reader.answer_to, answers.put, READERS_MAX)
    for pid in hanging:
        reader.ask(ProcessQuestion(pid))
        assert reads.begun.get(timeout=DEADLINE_S) == pid
    for pid in (101, 102, 103):
        reader.ask(ProcessQuestion(pid))
    reads.go.set()
    found = {answers.get(timeout=DEADLINE_S).question.pid for _ in range(READERS_MAX + 1)}
    assert found == {*hanging, 103}


def test_a_failed_read_is_reported_and_the_next_one_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(pid: int) -> None:
        raise ZeroDivisionError("nobody expected this")

    monkeypatch.setattr(process_reader, "details_of", fail)
    answers: queue.Queue[ProcessAnswer] = queue.Queue()
    reader = NewestWins("process", process_reader.answer_to, answers.put, READERS_MAX)
    for _ in range(2):
        reader.ask(ProcessQuestion(7))
        answer = answers.get(timeout=DEADLINE_S)
        assert answer.details is None
        assert "ZeroDivisionError: nobody expected this" in (answer.problem or "")


def test_an_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    huge = {f"LONG_{number}": "x" * 100_000 for number in range(200)} | {"RANK": "0"}
    monkeypatch.setattr(process_reader, "environment_of", lambda pid: huge)
    answer = process_reader.answer_to(ProcessQuestion(7, environment=True))
    assert answer.environment is not None
    assert answer.environment["RANK"] == "0", "a long variable pushes no short one out"
    assert max(map(len, answer.environment.values())) == VALUE_MAX_CHARACTERS + 1
    assert sum(len(name) + len(value) for name, value in answer.environment.items()) <= ENVIRONMENT_MAX_CHARACTERS
    assert answer.omitted == len(huge) - len(answer.environment) > 0


def test_an_answer_comes_back_equal_and_is_not_a_snapshot() -> None:
    details = ProcessDetails(threads=3, cpu_affinity=(0, 1), working_directory="/tmp/größe")
    for answer in (
        ProcessAnswer(ProcessQuestion(7), details),
        ProcessAnswer(ProcessQuestion(7, environment=True), environment={"A": "\x1b[2J\n•••"}, omitted=2),
        ProcessAnswer(ProcessQuestion(7), problem="It failed."),
    ):
        line = answer.to_json()
        assert "\n" not in line
        assert ProcessAnswer.is_in(line.encode())
        assert ProcessAnswer.from_json(line) == answer
        with pytest.raises(FormatError):
            Snapshot.from_json(line)


@pytest.mark.parametrize(
    "line",
    [
        '{"process_answer":{"question":{"pid":1}',
        '{"process_answer":3}',
        '{"process_answer":{}}',
        '{"process_answer":{"question":{"pid":"1"}}}',
        '{"process_answer":{"question":{"pid":1},"environment":["A"]}}',
        '{"process_answer":{"question":{"pid":1},"environment":{"A":1}}}',
        '{"process_answer":{"question":{"pid":1},"details":{"cpu_affinity":[0,"x"]}}}',
        '{"process_answer":' + "[" * 100_000,
        "[]",
        "{}",
        "",
    ],
    ids=lambda line: line[:60],
)
def test_a_damaged_answer_is_refused(line: str) -> None:
    with pytest.raises(FormatError):
        ProcessAnswer.from_json(line)


def test_a_question_of_a_newer_screen_is_refused_and_named() -> None:
    """It got no answer, and the screen asked again and again."""
    with Agent("-i", "200ms", "--virtual", "1", "--no-nccl-ras") as agent:
        assert agent.next().host.gputop_version == gputop.__version__
        agent.send(weather={"days": 3})
        assert agent.process.stdout is not None
        found = next(line for line in agent.process.stdout if is_answer(line))
        assert answer_in(found) == Misunderstood("weather")
        agent.send(process={"pid": "none"})
        found = next(line for line in agent.process.stdout if is_answer(line))
        assert answer_in(found) == Misunderstood("process")
