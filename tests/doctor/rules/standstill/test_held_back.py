"""Processes that stand still until another one acts: output that nobody reads, and a file lock that a waiting rank holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.snapshot import Snapshot
from tests.doctor.scenes.base import Scene, play
from tests.doctor.scenes.outside import Doing, always, outside, stops_and, taking_turns, then

_WORK = taking_turns("runs", "runs", "lock")


def hangs(scene: Scene, seconds: int = 90) -> list[Finding]:
    return [item for item in play(scene, seconds)[-1] if item.id == "G01"]


def prints(doing: Doing) -> Scene:
    """One process whose losses nobody sees, as they go into a pipe: it trains for 20 s and then does this."""
    return outside(then(always("runs"), 20, doing), stops=20, printed=False)


def test_a_process_that_waits_until_its_output_is_read_stands_still() -> None:
    (finding,) = hangs(prints(always("output")))
    assert (finding.severity, finding.confidence) == ("error", "likely")
    assert finding.title == "The training stands still: nobody reads what process 4000 prints"
    assert "stdout=PIPE" in finding.cause


@pytest.mark.parametrize(
    "scene",
    [
        prints(taking_turns("output", "runs")),
        prints(lambda second: "output" if second % 30 < 12 else "runs"),
        prints(always("pipe")),
        outside(taking_turns("output", "output", "runs"), printed=False),
    ],
    ids=["slow reader", "reader that pauses", "another pipe", "prints a lot"],
)
def test_a_slow_reader_of_the_output_is_no_hang(scene: Scene) -> None:
    assert hangs(scene, 120) == []


def test_a_session_whose_terminal_is_stopped_is_left_alone() -> None:
    def session(second: int) -> Snapshot:
        shot = prints(always("output"))(second)
        return replace(shot, processes=tuple(replace(item, command=("python", "-i")) for item in shot.processes))

    assert hangs(session) == []


def behind_a_lock(holds: Doing, holder: int | None, percent: float = 1.0) -> Scene:
    """Rank 1 waits for the lock of a file from the start, and rank 0 does this."""
    base = outside(holds, always("file lock"), printed=False, percent=lambda number, second: 1.0 if number else percent)

    def scene(second: int) -> Snapshot:
        first, waiting = base(second).processes
        return replace(base(second), processes=(first, replace(waiting, lock_held_by=holder)))

    return scene


def test_a_rank_behind_a_lock_that_a_rank_in_a_collective_holds_hangs() -> None:
    (finding,) = hangs(behind_a_lock(always("lock"), 4000), 60)
    assert (finding.severity, finding.confidence) == ("error", "likely")
    assert finding.title == ("The training hangs: rank 1 waits for a file lock that rank 0 holds, which waits for the others")
    assert finding.pids == (4001, 4000)


@pytest.mark.parametrize(
    "scene",
    [
        behind_a_lock(always("runs"), 4000, 95.0),
        behind_a_lock(always("socket"), 4000, 3.0),
        behind_a_lock(always("lock"), 4000, 40.0),
        behind_a_lock(always("lock"), 9000),
        behind_a_lock(always("lock"), None),
    ],
    ids=["prepares the data", "downloads", "prepares in threads", "another program's lock", "of another machine"],
)
def test_a_rank_that_waits_for_its_turn_is_left_alone(scene: Scene) -> None:
    assert [item for item in hangs(scene) if item.confidence != "possible"] == []


def test_a_single_process_behind_a_lock_is_told_who_holds_it() -> None:
    def scene(second: int) -> Snapshot:
        shot = stops_and(always("file lock"))(second)
        return replace(shot, processes=tuple(replace(item, lock_held_by=9000) for item in shot.processes))

    (finding,) = hangs(scene)
    assert finding.title == "The training may hang: process 4000 waits for the lock of a file"
    assert "process 9000 holds the lock" in [fact.text for fact in finding.evidence]
