"""Findings on several ranks or devices are one row; those of a run that is gone are dropped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.doctor.findings.finding import Fact, Finding
from gputop.snapshot import LogMatch
from gputop.tui.drawing.doctor.pane import doctor_title, draw_doctor
from gputop.tui.drawing.line import plain
from gputop.tui.state.grouping import listed
from tests import samples
from tests.tui.kit import text_of, view_of, whole_app

SNAPSHOT = samples.snapshot()


def dead(rank: int, **changes: object) -> Finding:
    pid = 9000 + 2 * rank
    found = Finding(
        "I03",
        "warning",
        "certain",
        f"Rank {rank} of a dead job still holds GPU {rank} (process {pid})",
        (Fact(f"process {pid} holds 10 GiB", pid, "NVML"), Fact("its launcher has ended", True, "/proc")),
        "Its launcher was killed.",
        f"kill {pid}",
        devices=(SNAPSHOT.devices[rank].uuid,),
        pids=(pid,),
        began_at=100.0 + rank,
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def test_one_fault_of_many_ranks_is_one_row_with_the_evidence_of_each() -> None:
    other = Finding("H01", "warning", "likely", "GPU 3 is held at its power limit", (), "", "raise it")
    found = listed([dead(0), other, *(dead(rank) for rank in (1, 2, 3))], SNAPSHOT)
    assert [finding.id for finding in found] == ["I03", "H01"]
    group = found[0]
    assert group.title == "Ranks 0-3 of a dead job still hold GPUs 0-3 (processes 9000, 9002, 9004, 9006)"
    assert [fact.text for fact in group.evidence] == [
        "GPU 0: process 9000 holds 10 GiB",
        "its launcher has ended",
        "GPU 1: process 9002 holds 10 GiB",
        "GPU 2: process 9004 holds 10 GiB",
        "GPU 3: process 9006 holds 10 GiB",
    ]
    assert group.fix.splitlines() == [f"kill {9000 + 2 * rank}" for rank in range(4)]
    assert group.cause == "Its launcher was killed."
    assert (len(group.devices), len(group.pids), group.began_at) == (4, 4, 100.0)
    assert found[1] is other


def test_what_a_live_run_has_comes_before_what_ended_another_run() -> None:
    live, ended = samples.run(), samples.run(run_id="run-0", state="killed")
    snapshot = replace(SNAPSHOT, runs=(live, ended))
    lost = Finding("G04", "error", "certain", "Rank 1 was killed", (), "", "look", run="run-0")
    nan = Finding("J01", "error", "certain", "The loss is NaN", (), "", "lower it", run="run-1")
    hot = Finding("I01", "warning", "likely", "GPU 6 is hot", (), "", "cool it")
    assert [finding.id for finding in listed([lost, hot, nan], snapshot)] == ["I01", "J01", "G04"]
    assert [finding.id for finding in listed([lost, hot], snapshot)] == ["G04", "I01"], "the newest end is the news"
    noted = replace(nan, severity="info")
    assert [finding.id for finding in listed([lost, noted], snapshot)] == ["G04", "J01"]


@pytest.mark.parametrize(
    ("titles", "joined"),
    [
        (("GPU 3 is lost", "GPU 5 is lost"), "GPUs 3, 5 are lost"),
        (("GPU 3: fell off the bus", "GPU 4: fell off the bus"), "GPUs 3, 4: fell off the bus"),
        (("2.0 GiB on GPU 0 belong to nobody", "3.0 GiB on GPU 1 belong to nobody"), "… GiB on GPUs 0, 1 belong to nobody"),
        (("GPU 1 is shared with a job of ada", "GPU 2 is shared with a job of bob"), "GPUs 1, 2 are shared with a job of …"),
        (("Same words", "Same words"), "Same words"),
    ],
)
def test_titles_become_one(titles: tuple[str, str], joined: str) -> None:
    found = listed([Finding("H09", "error", "certain", title, (), "", "") for title in titles], SNAPSHOT)
    assert [finding.title for finding in found] == [joined]


def test_what_differs_in_kind_stays_apart() -> None:
    apart = [
        dead(0),
        dead(1, run="run-1"),
        dead(2, severity="error"),
        dead(3, confidence="likely"),
        dead(4, title="Rank 4 left"),
    ]
    assert listed(apart, SNAPSHOT) == tuple(apart)


def test_a_finding_disappears_with_its_run() -> None:
    of_run = dead(0, run="run-1", pids=(1,))
    assert listed([of_run], SNAPSHOT) == (of_run,)
    gone = replace(SNAPSHOT, runs=())
    assert listed([of_run], gone) == ()
    explained = replace(gone, logs=(LogMatch("exception", None, "KeyError: 'x'", run_id="run-1"),))
    assert listed([of_run], explained) == (of_run,), "what it printed is still there"
    alive = replace(of_run, pids=(SNAPSHOT.processes[0].pid,))
    assert listed([alive], gone) == (alive,), "its processes are still there"


def test_ranks_are_named_by_their_processes() -> None:
    ranks = [process for process in SNAPSHOT.processes if process.rank is not None][:2]
    slow = [
        Finding("F01", "warning", "likely", "A rank is slow", (Fact("91 ms", 91, "journal"),), "", "", pids=(one.pid,))
        for one in ranks
    ]
    slow[1] = replace(slow[1], evidence=(Fact("95 ms", 95, "journal"),))
    (group,) = listed(slow, SNAPSHOT)
    assert [fact.text for fact in group.evidence] == [f"rank {ranks[0].rank}: 91 ms", f"rank {ranks[1].rank}: 95 ms"]


def test_the_pane_counts_groups() -> None:
    found = listed([dead(rank) for rank in range(8)], SNAPSHOT)
    assert plain(doctor_title(found)) == "Doctor: 1 problem"
    lines = [plain(line) for line in draw_doctor(view_of(findings=found), 120, 10).lines]
    assert "Ranks 0-7 of a dead job" in lines[0]


def test_the_pane_counts_what_is_only_possible_apart() -> None:
    sure = Finding("F01", "warning", "likely", "A rank is slow", (), "", "", "")
    unsure, note = replace(sure, severity="error", confidence="possible"), replace(sure, severity="info")
    assert plain(doctor_title([sure, sure, unsure, note])) == "Doctor: 2 problems, 1 possible"
    assert plain(doctor_title([unsure, note])) == "Doctor: 1 possible problem"
    assert plain(doctor_title([note])) == "Doctor: 1 note"


def test_a_finding_names_its_run_where_there_are_several() -> None:
    of_run = dead(0, run="run-1")
    several = replace(SNAPSHOT, runs=(*SNAPSHOT.runs, samples.run(run_id="run-2", name="second")))
    for snapshot, named in ((SNAPSHOT, False), (several, True)):
        lines = draw_doctor(view_of(snapshot, findings=(of_run,)), 120, 10).lines
        assert (" · resnet18-ddp" in plain(lines[0])) == named
        assert all(len(plain(line)) <= 120 for line in lines)


async def test_the_app_groups_what_the_doctor_finds() -> None:
    app = whole_app()
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()

        class Found:
            findings = tuple(dead(rank) for rank in range(4))
            abstained = undecided = ()
            doctor = None

        app.machine.doctor = Found()  # type: ignore[assignment]
        app.refresh_view()
        await pilot.pause()
        assert "Ranks 0-3 of a dead job" in text_of(app)
