"""Jobs one after another: each begins when the one before it has ended, whoever still watches."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gputop.errors import UsageError
from gputop.jobs import series, stopping, store
from gputop.recipes.catalogue import Launch
from tests.tracking.kit import Home, eventually, home

assert home

NOTE = "import sys, time; open(sys.argv[1], 'a').write(sys.argv[2] + ' begins\\n'); time.sleep(float(sys.argv[3]));"
NOTE += "open(sys.argv[1], 'a').write(sys.argv[2] + ' ends\\n'); sys.exit(int(sys.argv[4]))"


def launch(path: Path, name: str, seconds: float = 0.3, code: int = 0) -> Launch:
    return Launch((sys.executable, "-S", "-c", NOTE, str(path), name, str(seconds), str(code)), {}, str(path.parent), name)


def ended(job_id: str) -> store.Job:
    return eventually(lambda: found if not (found := store.find(job_id)).active else None, f"{job_id} ends")


def test_each_waits_for_the_one_before_it_and_a_failure_does_not_end_the_series(home: Home, tmp_path: Path) -> None:
    log = tmp_path / "log"
    first, second, third = series.start([launch(log, "a", code=3), launch(log, "b"), launch(log, "c")])
    assert eventually(lambda: store.find(third.id).state == "waiting", "the third waits")
    assert [ended(job.id).state for job in (first, second, third)] == ["failed", "finished", "finished"]
    assert log.read_text().split("\n")[:-1] == ["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]


def test_a_waiting_job_can_be_stopped_and_the_next_one_starts(home: Home, tmp_path: Path) -> None:
    log = tmp_path / "log"
    first, second, third = series.start([launch(log, "a", seconds=2.0), launch(log, "b"), launch(log, "c", seconds=0.0)])
    eventually(lambda: store.find(second.id).state == "waiting", "the second waits")
    assert stopping.stop(second.id, grace_s=1.0).state == "stopped"
    assert ended(third.id).state == "finished"
    assert ended(first.id).state == "finished"
    assert log.read_text().splitlines() == ["a begins", "a ends", "c begins", "c ends"]


def test_nothing_to_start() -> None:
    with pytest.raises(UsageError):
        series.start([])
