"""Findings of several untracked runs: each names its run, on screen and in the text, and none is merged with another's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from gputop.doctor.diagnosis import Doctor
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.findings.subjects import add_process_runs
from gputop.doctor.report import text_report
from gputop.doctor.watch import changed, standing, watch
from gputop.snapshot import ProcessRank, ProcessRun, Snapshot
from gputop.tui.drawing.doctor.pane import draw_doctor, headline, undecided_items
from gputop.tui.state.grouping import listed
from tests import samples
from tests.doctor.scenes import outside as scenes
from tests.tui.kit import view_of


def hang(*pids: int) -> Finding:
    title = "The training may hang: rank 0 waits for rank 1"
    return Finding(
        "G01", "warning", "possible", title, (Fact("rank 1 sleeps", 1, "/proc"),), "why", "fix it", "wrong", pids=pids
    )


def machine(*names: str) -> Snapshot:
    """Untracked runs of two ranks each: processes 11 and 12, 21 and 22 …"""
    runs = tuple(
        ProcessRun(f"launcher:{10 * place}", name, (ProcessRank(10 * place + 1, 0), ProcessRank(10 * place + 2, 1)))
        for place, name in enumerate(names, 1)
    )
    return replace(samples.snapshot(), runs=(), points=(), process_runs=runs)


def named(snapshot: Snapshot, findings: Iterable[Finding]) -> list[str]:
    drawn = draw_doctor(replace(view_of(snapshot), findings=listed(tuple(findings), snapshot)), 140, 20)
    return [text for text in ("".join(span.text for span in line) for line in drawn.lines) if "G01" in text]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("pretrain.py", "tune.py"), ("pretrain.py", "tune.py")),
        (("train.py", "train.py"), ("train.py, process 11", "train.py, process 21")),
    ],
)
def test_each_finding_names_its_untracked_run(names: tuple[str, ...], told: tuple[str, str]) -> None:
    snapshot, findings = machine(*names), (hang(12, 11), hang(22, 21))
    rows = named(snapshot, findings)
    assert [any(f"· {name}" in row for row in rows) for name in told] == [True, True]
    assert len(rows) == 2
    text = text_report(findings, (), snapshot)
    assert [f"G01 · warning, possible · {name}\n" in text for name in told] == [True, True]


def test_the_json_of_a_finding_names_its_untracked_run() -> None:
    snapshot = machine("pretrain.py", "tune.py")
    of_both, of_none, tracked = hang(11, 21), hang(), replace(hang(11), run="run-1")
    findings = (hang(22, 21), of_both, of_none, tracked)
    rows: list[dict[str, object]] = [{} for _ in findings]
    add_process_runs(rows, findings, snapshot)
    assert rows == [{"process_run": "launcher:20"}, *[{"process_run": None}] * 3]
    add_process_runs(rows, findings, None)
    assert rows[0] == {"process_run": None}


@pytest.mark.parametrize("width", [48, 66, 80, 140])
def test_the_name_of_a_run_stays_where_the_title_has_no_room(width: int) -> None:
    drawn = headline(hang(12, 11), width, run="pretrain.py")
    text = "".join(span.text for span in drawn)
    assert len(text) == width
    assert "· pretrain.py" in text
    assert text.endswith("possible")


def test_the_only_run_needs_no_name_and_a_finding_about_two_has_none() -> None:
    only, both = machine("train.py"), machine("pretrain.py", "tune.py")
    for snapshot, finding in ((only, hang(12, 11)), (both, hang(12, 22)), (both, hang())):
        assert "G01 · warning, possible\n" in text_report((finding,), (), snapshot)
        (row,) = named(snapshot, (finding,))
        assert ".py" not in row


def test_the_findings_of_one_untracked_run_can_be_asked_for_by_its_name() -> None:
    shots = [scenes.one_left(second) for second in range(90)]
    assert [item.id for item in watch(Doctor(), shots, "train.py", whole=True).findings] == ["G01"]
    assert watch(Doctor(), shots, "other.py", whole=True).findings == ()


def test_a_suspicion_about_an_untracked_run_that_is_asked_for_is_waited_for() -> None:
    doctor = Doctor()
    for second in range(61):
        outcome = standing(doctor, scenes.one_left(second), "train.py")
    assert (outcome.findings, [item.rule for item in outcome.undecided]) == ((), ["G01"])
    assert standing(doctor, scenes.one_left(62), "other.py").undecided == ()


def both_left(second: int) -> Snapshot:
    """Two untracked runs of one script, in each of which one rank has left: its suspicion has the same words in both."""
    shot = scenes.one_left(second)
    (run,) = shot.process_runs
    moved = {process.pid: process.pid + 5000 for process in shot.processes}
    others = [
        replace(
            process,
            pid=moved[process.pid],
            ppid=moved.get(process.ppid or 0, (process.ppid or 0) + 5000),
            launcher=replace(process.launcher, pid=process.launcher.pid + 5000) if process.launcher is not None else None,
        )
        for process in shot.processes
    ]
    ranks = tuple(replace(rank, pid=moved[rank.pid]) for rank in run.ranks)
    again = replace(run, key=f"{run.key}5", ranks=ranks, curves=())
    return replace(shot, processes=(*shot.processes, *others), process_runs=(run, again))


def test_equal_suspicions_about_two_untracked_runs_are_two() -> None:
    doctor = Doctor()
    for second in range(61):
        outcome = standing(doctor, both_left(second))
    assert [item.rule for item in outcome.undecided] == ["G01", "G01"]
    title, snapshot = outcome.undecided[0].title, outcome.snapshot
    assert snapshot is not None
    told = [f"{title} · train.py, process {run.ranks[0].pid}" for run in snapshot.process_runs]
    report = " ".join(text_report((), (), snapshot, (), outcome.undecided).split())
    drawn = undecided_items(replace(view_of(snapshot), undecided=outcome.undecided), 200)
    rows = ["".join(span.text for span in row) for row in drawn]
    assert [text in report for text in told] == [True, True]
    (row,) = rows  # on the screen, one line with both runs
    assert row.startswith(f"· watching for: {title} · ")
    assert all(f"process {run.ranks[0].pid}" in row for run in snapshot.process_runs)
    one = replace(outcome, undecided=outcome.undecided[:1])
    assert changed(one, outcome)
