"""A run of last week opens as fast as a live one: what its screen asks for first, and what is read for the answer."""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest

from gputop.agent.stored_runs import answer_to
from gputop.run_questions import RunsQuestion
from gputop.tracking.reader import kept
from gputop.tracking.reader.rank_log import RankLog
from gputop.tracking.reader.runs import RunReader
from gputop.tui.screens.stored import StoredRuns
from tests.tracking.kit import Home, home
from tests.tracking.reader.test_kept import beside, journal, reads_journals
from tests.tui.kit import view_of

assert home

VALUES = 60_000
OTHERS = 30
WEEK_S = 7 * 24 * 3600.0


@pytest.fixture
def read_bytes(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Run id -> bytes of its journals that have been read."""
    found: Counter[str] = Counter()
    poll = RankLog.poll

    def counted(self: RankLog, budget: int, backlog_points: int, poll_points: int) -> int:
        read = poll(self, budget, backlog_points, poll_points)
        found[self.identity.run_id] += read
        return read

    monkeypatch.setattr(RankLog, "poll", counted)
    return found


def test_a_run_of_last_week_takes_no_more_reading_than_a_live_one(
    home: Home, monkeypatch: pytest.MonkeyPatch, read_bytes: Counter[str]
) -> None:
    monkeypatch.setenv("GPUTOP_DIR", str(home.state))
    old = journal(home, "old", VALUES)
    week_ago = time.time() - WEEK_S
    for path in (old, old.parent):
        os.utime(path, (week_ago, week_ago))
    for number in range(OTHERS):
        journal(home, f"other-{number}", 50)
    journal(home, "live", VALUES, end=False)
    reader = RunReader(home.runs, only={"live"})
    live = reader.poll().points
    assert read_bytes["live"] > VALUES, "the journal is on the disk, and was read"

    first = answer_to(RunsQuestion(("old",)))
    assert set(read_bytes) == {"live", "old"}, "of the other runs, nothing is read"
    assert read_bytes["old"] <= read_bytes["live"] * 1.01
    assert max(len(part.steps) for part in first.points) <= max(len(part.steps) for part in live) <= kept.KEPT_POINTS

    read_bytes.clear()
    opened = reads_journals(monkeypatch)
    again = answer_to(RunsQuestion(("old",)))
    assert repr(again.points) == repr(first.points)
    assert read_bytes.total() == 0
    assert old not in opened, "the second time, its journal is not even opened"
    assert beside(old).stat().st_size < old.stat().st_size / 5
    reader.close()


def test_the_run_itself_is_asked_for_before_the_list_of_all() -> None:
    view = view_of()
    stored = StoredRuns()
    assert stored.question(["old"], view) == RunsQuestion(("old",))
    assert stored.question([view.snapshot.runs[0].run_id], view) == RunsQuestion(), "a live run is known: only the list is not"
