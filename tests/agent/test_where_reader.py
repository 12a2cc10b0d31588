"""A screen's question where the ranks of a run are, answered from what the sampler lists."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gputop.agent.answering import Answering
from gputop.agent.sampler import Sampler
from gputop.agent.serving import apply
from gputop.process import ProcessCurve, ProcessRank, ProcessRun
from gputop.questions import Answer, command_of
from gputop.snapshot import Rank, Run
from gputop.sources.virtual import VirtualSource
from gputop.untracked.curves import Curves
from gputop.whereabouts.records import Whereabouts, WhereQuestion

WAITS = "print(flush=True)\nimport sys\nsys.stdin.read()"
ANSWER_S = 60.0


@pytest.fixture
def ranks() -> Iterator[tuple[int, ...]]:
    """The PIDs of ranks 0 and 1 of a run that gputop does not track."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WAITS],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for rank in range(2)
    ]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    yield tuple(process.pid for process in started)
    for process in started:
        process.communicate()


def test_all_ranks_of_an_untracked_run_answer_although_its_curve_has_one(
    ranks: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    curve = Run(f"pid-{ranks[0]}-1-aa", "train.py", state="running", ranks=(Rank(0, ranks[0], state="running"),))
    run = ProcessRun(
        "launcher:1",
        "train.py",
        tuple(ProcessRank(pid, rank) for rank, pid in enumerate(ranks)),
        run_id=curve.run_id,
        curves=(ProcessCurve(curve.run_id, "its output"),),
    )
    sampler, answers = Sampler(VirtualSource(1), 1.0), queue.Queue[Answer]()
    monkeypatch.setattr(sampler, "_curves", lambda found, tracked: Curves((run,), (curve,), ()))
    assert curve in sampler.take().runs
    assert not apply(sampler, Answering(answers.put), command_of(WhereQuestion(run.key, ranks)))
    answer = answers.get(timeout=ANSWER_S)
    assert isinstance(answer, Whereabouts)
    assert [(place.rank, place.pid) for place in answer.ranks] == list(enumerate(ranks))
    assert answer.run_id == run.key
