"""How many GPUs work, and the verdict about them: values worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.snapshot import Device, DeviceUse, LaunchEnvironment, Points, Problem, Process, ProcessRank, ProcessRun, RunState
from gputop.tui.drawing.energy import energy_words
from gputop.tui.drawing.gpus.balance import balance
from gputop.tui.drawing.gpus.verdict import verdict_line
from gputop.tui.drawing.line import plain
from gputop.tui.state.view import View
from tests import samples
from tests.tui import dashboards


def busy_box(*changed: Device) -> View:
    """Eight GPUs at work without a run; ``changed`` replace those of their indices."""
    devices = [samples.device(index) for index in range(8)]
    for device in changed:
        devices[device.index] = device
    quiet = [samples.snapshot(tick, devices=tuple(devices), runs=(), processes=(), points=()) for tick in range(12)]
    return dashboards.view_of(quiet)


def chip(view: View) -> str:
    """The style of the verdict's first words."""
    return verdict_line(view, 120)[0].style


def test_a_reason_that_begins_with_its_gpu_says_more_than_the_gpu() -> None:
    """Seen on an H200: "1 of 1 GPU works  GPU 0 (+1)"."""
    found = Finding("I04", "error", "certain", "GPU 0: Xid 43, the GPU stopped processing", (), "", "", "")
    assert "GPU 0: Xid 43, the GPU stopped processing" in plain(verdict_line(replace(busy_box(), findings=(found,)), 120))


def test_a_reason_that_begins_with_its_topic_says_more_than_the_topic() -> None:
    """It was "2 of 2 GPUs work  DDP (+1)"."""
    found = Finding("C09", "error", "likely", "DDP: parameters got no gradient", (), "", "", "")
    assert "DDP: parameters got no gradient" in plain(verdict_line(replace(busy_box(), findings=(found,)), 120))


def test_a_reason_that_is_only_possible_says_so_and_is_no_error() -> None:
    """Seen beside other work: "All ranks wait for rank 1" in red, then "rank 0", then nothing."""
    found = Finding("F02", "error", "possible", "All ranks wait for rank 1, which computes longer", (), "", "", "")
    view = replace(busy_box(), findings=(found,))
    assert " possible: All ranks wait for rank 1" in plain(verdict_line(view, 120))
    assert chip(view) == "chip warn"
    likely = replace(view, findings=(replace(found, confidence="likely"),))
    assert "work  All ranks wait" in plain(verdict_line(likely, 120))
    assert chip(likely) == "chip bad"


def test_balance_counts_devices_that_the_run_could_use() -> None:
    found = balance(dashboards.one_gpu())
    assert (found.working, len(found.devices)) == (1, 8)
    assert found.evenness == pytest.approx(1 / 8)
    assert "1 of 8 GPUs work" in plain(verdict_line(dashboards.one_gpu(), 80))
    assert "load balance 13%" in plain(verdict_line(dashboards.one_gpu(), 160))


def test_balance_of_a_run_on_half_of_the_machine_is_full() -> None:
    shown = plain(verdict_line(dashboards.healthy(), 120))
    assert shown.startswith(" 4 of the run's 4 GPUs work well ")
    assert "load balance 100%" in shown


def test_balance_keeps_to_the_devices_that_the_launch_named() -> None:
    masked = LaunchEnvironment(rank=0, cuda_visible_devices="0,1")
    snapshots = []
    for tick in range(20):
        snapshot = samples.ranks_on_one_gpu(tick)
        processes = tuple(replace(process, environment=masked) for process in snapshot.processes)
        snapshots.append(replace(snapshot, processes=processes))
    shown = plain(verdict_line(dashboards.view_of(snapshots), 120))
    assert "1 of the run's 2 GPUs work" in shown
    assert "load balance 50%" in shown


def test_balance_is_unknown_where_nothing_can_be_read() -> None:
    devices = tuple(samples.device(index, utilization_percent=None) for index in range(2))
    view = dashboards.view_of([samples.snapshot(devices=devices, runs=(), processes=())])
    assert plain(verdict_line(view, 80)).startswith(" 2 GPUs: use unknown ")


def test_old_readings_do_not_count_in_the_balance() -> None:
    busy = [samples.snapshot(tick, runs=()) for tick in range(5)]
    idle = tuple(samples.idle_device(index) for index in range(8))
    later = [samples.snapshot(tick, devices=idle, runs=()) for tick in range(20, 40)]
    assert plain(verdict_line(dashboards.view_of([*busy, *later]), 80)).startswith(" 8 GPUs idle ")


def test_a_count_that_the_newest_readings_contradict_says_what_it_is_the_mean_of() -> None:
    busy = tuple(samples.device(index) for index in range(8))
    idle = tuple(samples.idle_device(index) for index in range(8))

    def verdict(*devices: tuple[Device, ...]) -> str:
        seen = [samples.snapshot(tick, devices=held, runs=(), points=()) for tick, held in enumerate(devices)]
        return plain(verdict_line(dashboards.view_of(seen), 120))

    assert verdict(*[busy] * 9, *[idle] * 2).startswith(" 8 of 8 GPUs work well  mean of 10 s · load balance 100%")
    assert verdict(*[idle] * 11, busy).startswith(" 8 GPUs idle  mean of 10 s")
    assert verdict(*[busy] * 9, *[idle] * 12).startswith(" 8 GPUs idle  ")
    for steady in (busy, idle):
        assert "mean of" not in verdict(*[steady] * 12)
    assert "mean of" not in verdict(*[busy] * 9, *[idle] * 12)


@pytest.mark.parametrize("state", ["finished", "failed", "killed"])
def test_after_the_last_run_nothing_works(state: RunState) -> None:
    """For ten seconds it was "8 of 8 GPUs work well  mean of 10 s"."""
    idle = tuple(samples.idle_device(index) for index in range(8))
    busy = [samples.snapshot(tick) for tick in range(9)]
    run = replace(samples.run(9), state=state)
    ended = samples.snapshot(9, devices=idle, runs=(run,), processes=())
    shown = plain(verdict_line(dashboards.view_of([*busy, ended]), 120))
    assert shown.startswith(" 8 GPUs idle  nothing runs  ")
    assert "mean" not in shown
    others = replace(ended, processes=samples.snapshot(9).processes)
    assert "4 of the run's 4 GPUs work" in plain(verdict_line(dashboards.view_of([*busy, others]), 120))
    dying = replace(ended, devices=(samples.device(0), *idle[1:]))
    assert "8 GPUs idle" not in plain(verdict_line(dashboards.view_of([*busy, dying]), 120))


def test_idle_gpus_of_a_live_run_do_not_work() -> None:
    """Without a live run, "0 of 8 GPUs work" reads like a defect."""
    idle = tuple(samples.idle_device(index) for index in range(8))
    live = dashboards.view_of([samples.snapshot(tick, devices=idle) for tick in range(12)])
    assert plain(verdict_line(live, 80)).startswith(" 0 of the run's 4 GPUs work ")
    assert chip(live) == "chip dim"
    ended = replace(samples.run(), state="finished")
    past = dashboards.view_of([samples.snapshot(tick, devices=idle, runs=(ended,), processes=()) for tick in range(12)])
    assert plain(verdict_line(past, 80)).startswith(" 8 GPUs idle ")


def test_only_a_machine_without_any_trouble_is_green() -> None:
    assert chip(busy_box()) == "chip ok"
    assert chip(replace(busy_box(), loading=True)) == "chip dim", "nobody has looked for problems yet"

    lost = samples.device(1, state="lost", problem=Problem("gpu_lost", "GPU 1 is gone.", "Restart."))
    view = busy_box(lost)
    assert plain(verdict_line(view, 120)).startswith(" 7 of 8 GPUs work well  GPU 1 is lost · ")
    assert chip(view) == "chip bad"

    slow = samples.device(3, sm_clock_mhz=870.0)
    view = busy_box(slow)
    assert plain(verdict_line(view, 120)).startswith(" 7 of 8 GPUs work well  GPU 3 is at 44% of its clock · ")
    assert chip(view) == "chip warn"

    hot = samples.device(3, throttle_reasons=("hw_thermal_slowdown",))
    assert "GPU 3 is slowed by heat" in plain(verdict_line(busy_box(hot), 120))
    assert chip(busy_box(hot)) == "chip warn"
    at_its_limit = samples.device(3, throttle_reasons=("sw_power_cap",), sm_clock_mhz=1600.0)
    assert chip(busy_box(at_its_limit)) == "chip ok"


def test_a_lost_gpu_counts_although_no_process_is_listed_on_it() -> None:
    lost = samples.device(7, state="lost")
    snapshots = [samples.snapshot(tick, devices=(*samples.snapshot().devices[:7], lost)) for tick in range(12)]
    assert "4 of 5 GPUs work well  GPU 7 is lost" in plain(verdict_line(dashboards.view_of(snapshots), 120))


def test_instances_without_a_known_utilization_are_no_good_news() -> None:
    parent = samples.device(0, uuid="parent", mig_enabled=True)
    instances = tuple(Device(0, f"MIG-{n}", kind="mig", parent_uuid="parent", mig_label=f"0:{n} 3g.40gb") for n in range(2))
    devices = (parent, *instances, samples.device(1))
    view = dashboards.view_of([samples.snapshot(tick, devices=devices, runs=(), processes=()) for tick in range(12)])
    assert plain(verdict_line(view, 120)).rstrip() == " 1 of 3 GPUs work  2 unknown"
    assert chip(view) == "chip dim"


def test_the_verdict_names_the_first_problem_and_the_numbers_of_the_run() -> None:
    view = dashboards.one_gpu()
    shown = plain(verdict_line(view, 160))
    for part in (" 1 of 8 GPUs work  Only GPU 0 is used (+1) · ", "1 840 samples/s", "loss 0.446 ↓", "1h02m left"):
        assert part in shown, part
    assert chip(view) == "chip bad"


@pytest.mark.parametrize("cells", [100, 80])
def test_a_long_reason_is_cut_before_the_loss_is_left_out(cells: int) -> None:
    long = replace(dashboards.ONE_GPU, title="Gradients travel through the CPU, because the process group was made with gloo")
    shown = plain(verdict_line(replace(dashboards.one_gpu(), findings=(long,)), cells))
    assert "  Gradients travel through" in shown
    assert "… · loss 0.446 ↓" in shown
    assert "Gradients travel throug" in plain(verdict_line(replace(dashboards.one_gpu(), findings=(long,)), 60))


def test_a_problem_of_another_run_is_named_as_such_and_comes_after_those_of_this_one() -> None:
    view = dashboards.healthy()
    assert view.run is not None
    other = replace(view.run, run_id="other", name="sweep-3")
    stopped = replace(dashboards.ONE_GPU, run="other", title="The run was stopped from outside (15)")
    ended = replace(view, findings=(stopped,))
    assert "  another run: The run was stopped from outside (15)" in plain(verdict_line(ended, 160))
    alive = replace(ended, snapshot=replace(view.snapshot, runs=(*view.snapshot.runs, other)))
    assert "  sweep-3: The run was stopped from outside (15)" in plain(verdict_line(alive, 160))
    assert chip(alive) == "chip bad"
    gone = replace(ended, snapshot=replace(view.snapshot, runs=(*view.snapshot.runs, replace(other, state="killed"))))
    assert chip(gone) == "chip warn", "what is over does not color the verdict on what works now"
    both = replace(alive, findings=(stopped, replace(dashboards.POWER, severity="warning", run=view.run.run_id)))
    assert f"  {dashboards.POWER.title.split(':')[0]} (+1)" in plain(verdict_line(both, 160))


def test_a_problem_of_an_untracked_run_is_that_of_its_processes() -> None:
    """It has no id: the verdict showed it as the chosen run's."""
    view = dashboards.healthy()
    assert view.run is not None
    gloo = replace(dashboards.ONE_GPU, run=None, title="Gradients travel through gloo", pids=(991,))
    job = ProcessRun("launcher:990", "old_job.py", ranks=(ProcessRank(991, 0), ProcessRank(992, 1)))
    beside = replace(view, snapshot=replace(view.snapshot, process_runs=(job,)), findings=(gloo,))
    assert "  old_job.py: Gradients travel through gloo" in plain(verdict_line(beside, 160))
    own = replace(beside, findings=(replace(gloo, pids=(991, view.run.ranks[0].pid or 0)),))
    assert "old_job.py" not in plain(verdict_line(own, 160)), "it concerns the chosen run, too"
    curve = replace(beside, snapshot=replace(beside.snapshot, process_runs=(replace(job, run_id=view.run.run_id),)))
    assert "old_job.py" not in plain(verdict_line(curve, 160)), "the chosen run is its curve"
    alone = replace(beside, run_id=None, snapshot=replace(beside.snapshot, runs=()))
    assert "old_job.py" not in plain(verdict_line(alone, 160)), "there is no other run"
    other = ProcessRun("pid:7", "train.py", ranks=(ProcessRank(7),))
    several = replace(alone, snapshot=replace(alone.snapshot, process_runs=(other, job)))
    assert "  old_job.py: Gradients travel through gloo" in plain(verdict_line(several, 160))
    machine = replace(several, findings=(replace(gloo, pids=()),))
    assert "  Gradients travel through gloo" in plain(verdict_line(machine, 160))


def test_after_an_untracked_run_has_ended_its_problem_is_not_that_of_the_next() -> None:
    view = dashboards.healthy()
    stopped = replace(dashboards.ONE_GPU, run="pid-7-1", title="The run was stopped from outside (15)")
    shot = replace(view.snapshot, runs=(), process_runs=(ProcessRun("pid:9", "train.py", run_id="pid-9-1"),))
    ended = replace(view, snapshot=shot, run_id=None, findings=(stopped,))
    assert "another run: The run was stopped" in plain(verdict_line(ended, 160))
    own = replace(ended, findings=(replace(stopped, run="pid-9-1"),))
    assert "another run" not in plain(verdict_line(own, 160))


def test_what_does_not_fit_leaves_by_its_importance() -> None:
    view = dashboards.one_gpu()
    parts = ("load balance", "samples/s", "loss", "left", "samples/J")
    lines = [plain(verdict_line(view, cells)) for cells in range(10, 161)]
    assert [len(shown) for shown in lines] == list(range(10, 161))
    kept = [tuple(part for part in parts if part in shown) for shown in lines[20:]]
    assert list(dict.fromkeys(kept)) == [(), ("loss",), ("loss", "left"), ("samples/s", "loss", "left"), parts[:4], parts]
    assert "1 of 8 GPUs work  Only GPU 0" in lines[40 - 10]


def test_a_diverged_run_is_no_good_verdict() -> None:
    base = samples.run(world_size=4)
    ranks = tuple(replace(rank, metrics={**rank.metrics, "loss": math.nan}) for rank in base.ranks)
    clock = tuple(samples.EPOCH + step for step in range(60))
    losses = tuple(2.0 if step < 30 else math.nan for step in range(60))
    points = tuple(Points("run-1", rank, "loss", tuple(range(60)), clock, losses) for rank in range(4))
    snapshots = [
        samples.snapshot(tick, runs=(replace(base, ranks=ranks),), points=points if not tick else ()) for tick in range(12)
    ]
    view = dashboards.view_of(snapshots)
    assert chip(view) == "chip bad"
    assert "loss NaN since step 30" in plain(verdict_line(view, 120))
    assert "left" not in plain(verdict_line(view, 120))


def test_the_energy_of_a_sample_is_the_power_of_the_run_s_gpus_by_its_throughput() -> None:
    view = dashboards.healthy()
    assert "1h02m left · 1.3 J/sample" in plain(verdict_line(view, 160)), "4 GPUs of 612 W, 1 840 samples/s"
    (run,) = view.snapshot.runs
    tokens = tuple(replace(rank, metrics={"tokens_per_s": 2448.0}) for rank in run.ranks)
    assert energy_words(view, replace(run, ranks=tokens)) == "4 tokens/J"


def test_energy_that_is_not_the_run_s_alone_is_unknown() -> None:
    view = dashboards.healthy()
    (run,) = view.snapshot.runs
    first, *others = run.ranks
    assert energy_words(view, replace(run, ranks=(replace(first, elsewhere=True), *others))) is None
    assert energy_words(view, replace(run, ranks=tuple(others))) is None, "a rank of which nothing is known"
    assert energy_words(view, replace(run, state="finished")) is None
    guest = Process(pid=77, devices=(DeviceUse(samples.device(0).uuid, samples.GIB),))
    shared = replace(view.snapshot, processes=(*view.snapshot.processes, guest))
    assert energy_words(replace(view, snapshot=shared), run) is None
    silent = dashboards.view_of([samples.snapshot(devices=tuple(samples.device(n, power_w=None) for n in range(8)))])
    assert energy_words(silent, run) is None
