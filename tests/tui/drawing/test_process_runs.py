"""The training pane while only untracked runs are alive."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.cli.output.once import process_run_lines
from gputop.snapshot import Ancestor, ProcessCurve, ProcessRank, ProcessRun, RunState
from gputop.tui.drawing.doctor.pane import draw_doctor
from gputop.tui.drawing.line import plain
from gputop.tui.drawing.loss import LossChart
from gputop.tui.drawing.untracked.ended import draw_ended_runs
from gputop.tui.drawing.untracked.pane import draw_its_curve, draw_process_runs, tracking_command, untracked_run
from gputop.tui.state.view import is_outlived, newest_run
from tests import samples
from tests.tui import dashboards
from tests.tui.dashboards import view_of

SNAPSHOT = samples.snapshot(runs=(), points=())
RUN = ProcessRun(
    key="launcher:3999",
    name="train.py",
    ranks=tuple(ProcessRank(4000 + rank, rank, rank, (SNAPSHOT.devices[rank].uuid,)) for rank in range(4)),
    launcher=Ancestor(3999, "torchrun"),
    world_size=4,
    local_world_size=4,
    user="ada",
    started_at=samples.EPOCH - 93_785,
    command=("/home/ada/train.py", "--epochs", "90"),
)
OTHER = ProcessRun("pid:7", "infer.py", (ProcessRank(7, devices=(SNAPSHOT.devices[6].uuid,)),))


def drawn(*runs: ProcessRun, width: int = 78, height: int = 12) -> list[str]:
    drawing = draw_process_runs(view_of([replace(SNAPSHOT, process_runs=runs)]), width, height)
    assert len(drawing.lines) <= height
    return [plain(drawing.title), *(plain(row).rstrip() for row in drawing.lines)]


def test_a_whole_run_fits_into_a_few_lines() -> None:
    assert drawn(RUN) == [
        "Training · 1 run not tracked",
        "train.py  torchrun, 4 ranks  up 1d02h  ada",
        "GPU 0-3  mean 98%",
        "Not tracked. For its loss, start it the next time with:",
        "  gputop run -- torchrun … train.py …",
    ]


def test_a_run_that_gputop_started_waits_for_its_first_step() -> None:
    starting = replace(RUN, starting=True)
    assert drawn(starting) == [
        "Training · 1 run starting",
        "train.py  torchrun, 4 ranks  up 1d02h  ada",
        "GPU 0-3  mean 98%",
        "gputop tracks it and has seen no training step yet. The loss comes with the",
        "first one.",
    ]
    lines = process_run_lines(replace(SNAPSHOT, process_runs=(OTHER, starting)))
    heads = [row.split("  ")[0] for row in lines]
    assert heads == ["STARTING", "train.py", "", "NOT TRACKED", "infer.py"]
    assert drawn(starting, OTHER)[0] == "Training · 1 run starting · 1 run not tracked"


def test_what_is_missing_is_named() -> None:
    waiting = replace(RUN, ranks=(*RUN.ranks[:2], replace(RUN.ranks[3], devices=())), world_size=16, local_world_size=8)
    assert drawn(waiting)[1:6] == [
        "train.py  torchrun, 3 ranks  world size 16  up 1d02h  ada",
        "GPU 0, 1  mean 98%",
        "local ranks 2, 4-7 not seen on this machine",
        "8 ranks on other machines",
        "rank 3 without a GPU",
    ]
    hidden = replace(RUN, ranks=tuple(replace(rank, devices=None) for rank in RUN.ranks))
    assert drawn(hidden)[1:4] == ["train.py  torchrun, 4 ranks  up 1d02h  ada", "GPU N/A", drawn(RUN)[3]]
    nothing_known = ProcessRun("pid:9", "process 9", (ProcessRank(9),))
    assert drawn(nothing_known)[1:3] == ["process 9  1 process  up N/A  N/A", "no GPU"]


def test_further_runs_have_a_line_each_as_far_as_they_fit() -> None:
    others = [replace(OTHER, key=f"pid:{number}") for number in range(5)]
    assert drawn(RUN, *others)[5:] == ["", *["infer.py  1 process  GPU 6  up N/A  N/A"] * 5]
    assert drawn(RUN, *others, height=8)[5:] == ["", *["infer.py  1 process  GPU 6  up N/A  N/A"] * 2, "3 more"]
    assert drawn(RUN, *others, height=2)[1:] == ["train.py  torchrun, 4 ranks  up 1d02h  ada", "GPU 0-3  mean 98%"]


def test_a_curve_from_the_output_is_shown_with_its_source_and_what_the_processes_show() -> None:
    ranks = tuple(replace(rank, facts={"source": "log"}) for rank in samples.run(world_size=1).ranks)
    curve = samples.run(run_id="pid-3999-1", ranks=ranks)
    known = replace(RUN, run_id="pid-3999-1", outputs=("/data/a/nohup.out", "/data/b/err.log"), world_size=8)
    base = replace(SNAPSHOT, runs=(curve,), points=samples.loss_points(1, run_id="pid-3999-1"), process_runs=(known,))
    view = view_of([replace(base, process_runs=(replace(known, local_world_size=5),))])
    run = untracked_run(view)
    assert run is not None
    drawing = draw_its_curve(view, run, LossChart(), 78, 12)
    assert plain(drawing.title) == "Training: train.py · step 1 240 · not tracked, from nohup.out, err.log"
    first, second, *chart = (plain(row) for row in drawing.lines)
    assert first.rstrip() == "torchrun, 4 ranks  GPU 0-3  up 1d02h  local rank 4 not seen on this machine  …"
    assert second.startswith("loss 0.431")
    assert len(chart) == 10
    assert untracked_run(view_of([replace(base, process_runs=())])) is None


def test_a_curve_from_files_names_what_wrote_them_and_whose_they_may_be() -> None:
    events = "/home/ada/exp/runs/exp1/events.out.tfevents.1700000000.node.3999.0"
    sure = ProcessCurve("pid-3999-1-aa", "TensorBoard", (events,))
    either = ProcessCurve("file-bb", "CSV", ("/home/ada/exp/lightning_logs/version_0/metrics\x1b[2J.csv",), shared=True)
    known = replace(RUN, run_id=sure.run_id, outputs=sure.files, curves=(sure, either))
    runs = tuple(samples.run(run_id=run_id, ranks=samples.run(world_size=1).ranks) for run_id in (sure.run_id, either.run_id))
    titles = []
    for others in ((), (replace(OTHER, curves=(either,)),)):
        base = replace(SNAPSHOT, runs=runs, process_runs=(known, *others))
        for curve in (sure, either):
            view = replace(view_of([base]), run_id=curve.run_id)
            run = untracked_run(view)
            assert run is not None
            titles.append(plain(draw_its_curve(view, run, LossChart(), 78, 12).title))
    assert (
        titles[0]
        == titles[2]
        == "Training: train.py · step 1 240 · not tracked, from TensorBoard, runs/exp1/events.out.tfevents.170…"
    )
    first, other = RUN.ranks[0].pid, OTHER.ranks[0].pid
    assert [title.partition("perhaps from ")[2] for title in (titles[1], titles[3])] == [
        f"CSV, lightning_logs/version_0/metrics?[2J.csv (PID {first} or another)",
        f"CSV, lightning_logs/version_0/metrics?[2J.csv (PID {first} or {other})",
    ]


def test_the_doctor_does_not_ask_for_a_run_that_is_there() -> None:
    words = " ".join(plain(row) for row in draw_doctor(view_of([replace(SNAPSHOT, process_runs=(RUN, OTHER))]), 78, 20).lines)
    assert "Looked at 8 GPUs, 4 processes, 0 live runs and 2 runs not tracked." in words
    assert "Start a training run" not in words
    assert "gputop run -- …" in words
    # A gputop job without a journal yet is not an untracked run, and no reason to ask for one.
    words = " ".join(plain(row) for row in draw_doctor(view_of([SNAPSHOT]), 78, 20).lines)
    assert "4 processes and 0 live runs." in words
    assert "Start a training run" not in words
    words = " ".join(plain(row) for row in draw_doctor(view_of([replace(SNAPSHOT, processes=())]), 78, 20).lines)
    assert "Start a training run" in words


@pytest.mark.parametrize(
    ("launcher", "command", "advice"),
    [
        (None, ("train.py",), "gputop run -- python train.py"),
        ("multiprocessing", ("spawn.py", "2"), "gputop run -- python spawn.py …"),
        ("accelerate", ("-m", "pkg.train"), "gputop run -- accelerate launch … -m pkg.train"),
        ("srun", ("/data/train.py",), "gputop run -- srun … train.py"),
        (None, (), "gputop run -- …"),
        ("mpirun", ("/opt/bin/lmp", "-in", "x"), None),
    ],
)
def test_the_command_that_would_track_it(launcher: str | None, command: tuple[str, ...], advice: str | None) -> None:
    run = replace(RUN, launcher=Ancestor(1, launcher) if launcher else None, command=command)
    assert tracking_command(run) == advice


@pytest.mark.parametrize(
    ("state", "began_before_s", "outlived"),
    [("running", 99_999, False), ("finished", 99_999, True), ("failed", 10, False)],
)
def test_an_ended_run_gives_way_to_a_later_one(state: RunState, began_before_s: float, outlived: bool) -> None:
    ended = replace(samples.run(state=state), created_at=samples.EPOCH - began_before_s)
    assert is_outlived(ended, (RUN,)) is outlived


def test_a_run_that_lost_a_rank_is_shown_while_others_work() -> None:
    """Its state is that of the worst rank, but its curve goes on."""
    whole = samples.run(state="killed")
    first, *others = whole.ranks
    ranks = (replace(first, state="killed"), *(replace(rank, state="running") for rank in others))
    left = replace(whole, created_at=samples.EPOCH - 99_999, ranks=ranks)
    later = samples.run(run_id="later", created_at=samples.EPOCH)
    assert not is_outlived(left, (RUN,))
    assert newest_run((left, later), {left.run_id}) == left
    ended = replace(left, ranks=tuple(replace(rank, state="killed") for rank in ranks))
    assert is_outlived(ended, (RUN,))
    assert newest_run((ended, later), {left.run_id}) == later


def test_among_several_runs_a_finding_names_the_untracked_one_of_its_processes() -> None:
    view = dashboards.healthy()
    job = ProcessRun("launcher:990", "old_job.py", ranks=(ProcessRank(991, 0), ProcessRank(992, 1)))
    gloo = replace(dashboards.ONE_GPU, run=None, title="Gradients travel through gloo", pids=(991,))
    beside = replace(view, snapshot=replace(view.snapshot, process_runs=(job,)), findings=(gloo,))
    assert "Gradients travel through gloo · old_job.py" in plain(draw_doctor(beside, 100, 1).lines[0])
    alone = replace(beside, run_id=None, snapshot=replace(beside.snapshot, runs=()))
    assert "old_job.py" not in plain(draw_doctor(alone, 100, 1).lines[0])
    curve = replace(
        beside, snapshot=replace(beside.snapshot, process_runs=(replace(job, run_id=view.snapshot.runs[0].run_id),))
    )
    assert "old_job.py" not in plain(draw_doctor(curve, 100, 1).lines[0]), "the tracked run is its curve: there is no other"


def test_a_run_that_has_ended_says_when_it_did_and_where_its_output_is() -> None:
    ended = replace(RUN, ended_at=samples.EPOCH - 73, outputs=("/home/ada/nohup.out",))
    failed = replace(OTHER, name="crash.py", started_at=samples.EPOCH - 4000, ended_at=samples.EPOCH - 3700, failed=True)
    drawing = draw_ended_runs(view_of([replace(SNAPSHOT, ended_runs=(ended, failed))]), 90, 12)
    assert [plain(drawing.title), *(plain(row).rstrip() for row in drawing.lines)] == [
        "Training · 2 ended",
        "train.py  torchrun, 4 ranks  ended 1m13s ago, after 1d02h  ada",
        "GPU 0-3  exit code unknown",
        "It printed to /home/ada/nohup.out.",
        "Not tracked. For its loss, start it the next time with:",
        "  gputop run -- torchrun … train.py …",
        "",
        "crash.py  1 process  ended 1h01m ago, after 5m  its output shows that it failed",
    ]
    unknown = draw_ended_runs(view_of([replace(SNAPSHOT, ended_runs=(replace(ended, outputs=()),))]), 90, 12)
    assert plain(unknown.lines[2]) == "No file with its output or its loss is known."


def test_the_curve_of_a_run_that_has_ended_stays_with_the_command_that_keeps_it() -> None:
    shown = samples.snapshot()
    (run,) = shown.runs
    curve = ProcessCurve(run.run_id, "TensorBoard", ("/home/ada/my runs/events.out.tfevents.1.node7.4000.0",))
    ended = replace(RUN, run_id=run.run_id, curves=(curve,), ended_at=shown.time - 5)
    ranks = tuple(replace(rank, state="ended") for rank in run.ranks)
    over = replace(shown, runs=(replace(run, state="ended", ranks=ranks),), ended_runs=(ended,), processes=())
    view = replace(view_of([over]), run_id=run.run_id)
    found = untracked_run(view)
    assert found is ended
    lines = [plain(row).rstrip() for row in draw_its_curve(view, found, LossChart(), 120, 20).lines]
    assert "ended 5s ago, after 1d02h  exit code unknown" in lines[0]
    assert lines[1] == "keep its curve: gputop runs import '/home/ada/my runs/events.out.tfevents.1.node7.4000.0'"
    assert "loss" in lines[2]


def test_a_run_that_has_ended_without_a_curve_is_shown_before_older_runs() -> None:
    (run,) = samples.snapshot().runs
    old = replace(run, state="finished", created_at=samples.EPOCH - 5000, ranks=())
    later = replace(OTHER, started_at=samples.EPOCH - 4000, ended_at=samples.EPOCH)
    assert is_outlived(old, [later])
    assert not is_outlived(replace(old, created_at=samples.EPOCH - 3000), [later])
