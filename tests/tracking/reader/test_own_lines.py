"""At which of its own lines a rank is seen between its phases: counted from what it reports about its place."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.facts.standing import Standing
from gputop.tracking.reader.own_lines import LINES_MAX, REPORT_EVERY, SAMPLES_MAX, SeenLines
from gputop.tracking.reader.runs import RunReader
from tests.facts.checks import assert_facts
from tests.tracking.kit import Home, eventually, home

assert home

TRAINS = """
import time, gputop
from gputop.tracking.standing import reporter
reporter.EVERY_S = 0.05
class Trainer:
    step = 0
    def trains_on(self):
        return 0
    def last_step(self):
        return self.step, time.perf_counter()
    def recent_steps_s(self):
        return []
    def phase_of(self, frame):
        return "other"
    def between_steps(self, call):
        pass
trainer = Trainer()
reporter.introduce(trainer)
run = gputop.init()
def augment():
    time.sleep(0.01)
while True:
    augment()
    trainer.step += 1
    run.log(loss=1.0)
"""


def stands(at: int, **changes: Any) -> Standing:
    said = {"at": float(at), "step": at, "phase": "other", "operation": None, "line": "train.py:41", "function": "augment"}
    return Standing.of({**said, **changes})


def seen(*places: Standing) -> dict[str, Any] | None:
    lines = SeenLines()
    return [lines.see(place) for place in places][-1]


def test_the_most_frequent_lines_come_first_and_are_reported_at_intervals() -> None:
    places = [stands(at, line="train.py:9" if at == 2 else "train.py:41") for at in range(REPORT_EVERY)]
    assert seen(*places[:-1]) is None
    told = seen(*places)
    assert told == {"samples": 5, "lines": [[4, "train.py:41", "augment"], [1, "train.py:9", "augment"]]}
    assert_facts({"own_lines": told})


@pytest.mark.parametrize("other", [{"phase": "backward"}, {"operation": "all_reduce"}, {"line": None}])
def test_phases_collectives_and_libraries_are_no_lines_of_its_own(other: dict[str, Any]) -> None:
    assert seen(*(stands(at, **other) for at in range(REPORT_EVERY))) == {"samples": 5, "lines": []}


def test_a_rank_that_makes_no_step_is_not_counted() -> None:
    assert seen(*(stands(at, step=7) for at in range(3 * REPORT_EVERY))) is None
    assert seen(*(stands(at, step=None) for at in range(3 * REPORT_EVERY))) is None
    assert seen(*(stands(at // REPORT_EVERY) for at in range(2 * REPORT_EVERY))) is None, "one report, read five times"


def test_only_the_newest_looks_and_a_few_lines_are_kept() -> None:
    told = seen(*(stands(at, line=f"train.py:{at}") for at in range(4 * SAMPLES_MAX)))
    assert told is not None
    assert told["samples"] == SAMPLES_MAX
    assert len(told["lines"]) == LINES_MAX
    assert all(int(line.rpartition(":")[2]) >= 3 * SAMPLES_MAX for _, line, _ in told["lines"])


@pytest.mark.interpreter
def test_a_rank_that_works_between_its_phases_is_seen_there(home: Home) -> None:
    process = home.start(TRAINS)
    reader = RunReader(home.runs)

    def told() -> dict[str, Any] | None:
        ranks = [rank for run in reader.poll().runs for rank in run.ranks if rank.pid == process.pid]
        return next((rank.facts.get("own_lines") for rank in ranks), None)

    found = eventually(told, "the lines are counted")
    reader.close()
    process.kill()
    process.wait()
    assert_facts({"own_lines": found})
    assert (found["lines"][0][2], found["lines"][0][1].partition(":")[0]) == ("augment", "script0.py")
