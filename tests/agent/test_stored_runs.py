"""Questions about stored runs: the real agent answers them from the disk, beside its snapshots."""

from __future__ import annotations

import json
import math

import pytest

from gputop.agent import stored_runs
from gputop.agent.stored_runs import answer_to
from gputop.filters.runs import last_value
from gputop.process import ProcessAnswer
from gputop.run_questions import GpuPast, GpusAnswer, GpusQuestion, RunsAnswer, RunsQuestion
from gputop.snapshot import FormatError, Points, Rank, Run, Snapshot
from gputop.wire import encode
from tests.agent.test_sampler import Agent
from tests.tracking.kit import Home, home

assert home

RUNS = """
import gputop
for number in range(25):
    with gputop.init(name=f"run {number}", id=f"r{number:02}", config={"lr": 0.1 * number}, tags=["even"][number % 2:]) as run:
        for step in range(30):
            run.log(step=step, loss=number - step / 30)
"""


@pytest.fixture
def many(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("GPUTOP_DIR", str(home.state))
    assert home.run(RUNS)[0] == 0
    return home


def answer_of(agent: Agent, *run_ids: str) -> RunsAnswer:
    agent.send(runs={"run_ids": list(run_ids)})
    for _ in range(1000):
        line = agent.process.stdout.readline()
        if RunsAnswer.is_in(line):
            return RunsAnswer.from_json(line)
        Snapshot.from_json(line)
    raise AssertionError("no answer came")


def test_the_agent_lists_all_runs_and_reads_one_whole(many: Home) -> None:
    with Agent("-i", "100ms", "--virtual", "1") as agent:
        runs = Snapshot.from_json(agent.process.stdout.readline()).runs
        assert len([run for run in runs if run.run_id.startswith("r")]) == 20, "others on this machine may have curves, too"
        listed = answer_of(agent)
        found = {run.run_id: run for run in listed.runs}
        assert sorted(found) == [f"r{number:02}" for number in range(25)]
        run = found["r04"]
        assert (run.name, run.state, run.step, run.tags, run.config) == ("run 4", "finished", 29, ("even",), {"lr": 0.4})
        assert [(rank.metrics["loss"], rank.facts) for rank in run.ranks] == [(pytest.approx(4 - 29 / 30), {})]
        assert listed.points == ()
        whole = answer_of(agent, "r00", "r01", "gone")
        assert {run.run_id for run in whole.runs} == {"r00", "r01"}
        assert all(rank.facts for run in whole.runs for rank in run.ranks)
        losses = {points.run_id: points for points in whole.points if points.metric == "loss"}
        assert losses["r01"].steps == tuple(range(30))
        assert losses["r01"].values[:2] == (1.0, pytest.approx(1 - 1 / 30))


def test_an_answer_survives_its_line_and_damage_is_reported(many: Home) -> None:
    (many.runs / "r03" / "rank-00000.gpr").write_bytes(b"no journal")
    answer = answer_to(RunsQuestion(("r02", "r03")))
    assert [run.run_id for run in answer.runs] == ["r02"]
    line = answer.to_json()
    assert RunsAnswer.is_in(line.encode())
    assert not ProcessAnswer.is_in(line.encode())
    assert RunsAnswer.from_json(line) == answer
    for wrong in ("{}", "[]", '{"runs_answer":7}', "x"):
        with pytest.raises(FormatError, match="not an answer about runs"):
            RunsAnswer.from_json(wrong)


FIVE = (0.5, 1.5, 2.5, 3.5, 4.5)
PASTS = (
    GpuPast("r", "GPU-1", 3, FIVE, FIVE, (1, 2, 3, 4, 2**62), FIVE),
    GpuPast("r", "GPU-2", None, FIVE, (None, *FIVE[1:]), (None,) * 5, (700, None, 1.5, 2, 3)),
    GpuPast("r", "GPU-3"),
)


def test_readings_survive_their_line_whatever_is_unknown() -> None:
    answer = GpusAnswer(GpusQuestion(("r",)), PASTS)
    line = answer.to_json()
    assert GpusAnswer.from_json(line) == answer
    assert GpusAnswer.from_json(json.dumps({"gpus_answer": encode(answer)})) == answer, "an older sampler sends numbers"
    for wrong in ("{}", "[]", '{"gpus_answer":7}', line.replace(line[line.index('"times":"') + 9 :][:8], "x")):
        with pytest.raises(FormatError, match="not an answer about gpus"):
            GpusAnswer.from_json(wrong)


def test_points_survive_their_line_and_an_older_sampler_sends_numbers() -> None:
    values = (1.5, math.inf, -math.inf, *map(float, range(20)))
    points = tuple(
        Points("r", 0, name, tuple(range(len(part))), tuple(map(float, range(len(part)))), part)
        for name, part in (("loss", values), ("lr", values), ("short", values[:3]), ("none", ()))
    )
    answer = RunsAnswer(RunsQuestion(("r",)), (), points)
    assert RunsAnswer.from_json(answer.to_json()) == answer
    assert RunsAnswer.from_json(json.dumps({"runs_answer": encode(answer)})) == answer
    with pytest.raises(FormatError, match="not an answer about runs"):
        RunsAnswer.from_json('{"runs_answer":{"question":{},"points":[{"steps":"x"}]}}')


def test_an_answer_stays_small_enough_for_one_line(many: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_runs, "ANSWERED_POINTS", 100)
    answer = answer_to(RunsQuestion(tuple(f"r{number:02}" for number in range(10))))
    assert 0 < sum(len(points.steps) for points in answer.points) <= 100
    loss = next(points for points in answer.points if (points.run_id, points.metric) == ("r05", "loss"))
    assert (loss.values[0], loss.values[-1]) == (5.0, pytest.approx(5 - 29 / 30)), "the largest and the smallest are kept"


def test_a_list_carries_the_means_of_the_ranks() -> None:
    ranks = tuple(Rank(rank, metrics={"loss": 1.0 + rank, "own": 7.0} if rank else {"loss": 1.0}) for rank in range(4))
    short = stored_runs._short(Run("r", "r", ranks=ranks))
    assert [dict(rank.metrics) for rank in short.ranks] == [{"loss": 2.5, "own": 7.0}, {}, {}, {}]
    assert last_value(short, "loss") == last_value(Run("r", "r", ranks=ranks), "loss")
