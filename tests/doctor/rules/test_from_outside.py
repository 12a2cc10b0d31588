"""What main threads wait for, and steps that are only printed: slow data, a slow rank and hangs of untracked runs."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from gputop.doctor.diagnosis import Doctor
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.patterns.pattern import HINT
from gputop.doctor.logs.patterns.table import pattern_of
from gputop.snapshot import DeviceUse, LogMatch, Snapshot, Workers
from gputop.whereabouts.activities import Doing
from tests.doctor.logs.samples import MATCHING
from tests.doctor.scenes import outside as scenes
from tests.doctor.scenes.base import Scene, only_shown, play
from tests.doctor.scenes.near import learning
from tests.doctor.scenes.outside import always, taking_turns
from tests.samples import EPOCH


def told(scene: Scene, rule: str, seconds: int) -> Finding | None:
    return next((item for item in play(scene, seconds)[-1] if item.id == rule), None)


@pytest.mark.parametrize("scene", [scenes.sleeps, scenes.reads_sockets], ids=["sleeps", "reads sockets"])
def test_a_training_process_that_waits_most_of_the_time_may_wait_for_data(scene: Scene) -> None:
    finding = told(scene, "D01", 60)
    assert finding is not None
    assert finding.confidence == "possible"
    assert finding.evidence[0].source == "/proc/4000/syscall"
    assert finding.evidence[0].value == pytest.approx(2 / 3, abs=0.05)


@pytest.mark.parametrize(
    ("pattern", "line", "found"),
    [
        ("anomaly_mode", "UserWarning: Anomaly Detection has been enabled. This mode will increase the runtime.", True),
        ("fup_useless", "find_unused_parameters=True was specified in DDP constructor, but did not find any", False),
    ],
)
def test_a_debugging_switch_that_is_printed_is_told_as_one_that_tracking_sees(pattern: str, line: str, found: bool) -> None:
    def prints_it(second: int) -> Snapshot:
        shot = scenes.computes(second)
        return replace(shot, logs=(LogMatch(pattern, "E05", line, shot.runs[0].run_id, None, 0, "train.log", 3),))

    finding = told(prints_it, "E05", 40)
    assert (finding is not None) is found
    if finding is not None:
        assert (finding.confidence, finding.severity) == ("likely", "warning")
        assert finding.title == "Left on from debugging: anomaly detection"
        assert "detect_anomaly" in finding.fix


ON_OTHER_MACHINES = ("nan_loss", "pl_notebook", "dp_imbalance", "thermal_slowdown")
"""Values say more of a NaN than one line, and the driver more of heat; the others count in a notebook or on several real GPUs,
unlike this scene."""
OF_EVERY_RUN = ("omp1", "launch_deprecated")
"""Launchers print these whatever they start: no finding of a watched run."""
WITHOUT_A_GPU = ("no_accelerator", "pin_no_accel", "cpu_build", "pl_no_gpu")
"""On virtual GPUs, as in this scene, everybody knows that there is no real one."""
REMARKS = [(name, line) for name, line, _ in MATCHING if (row := pattern_of(name, line)) is not None and row[0].kind == HINT]


@pytest.mark.parametrize(("name", "line"), [item for item in REMARKS if item[0] not in ON_OTHER_MACHINES])
@pytest.mark.parametrize("curve", ["in its output", "in its files", "unknown"])
def test_what_a_log_says_is_said_while_its_run_is_watched(name: str, line: str, curve: str) -> None:
    """Whether or not the output shows a metric that is known."""
    row = pattern_of(name, line)
    assert row is not None
    cause = row[0].cause or name

    def watched(second: int, *logs: LogMatch) -> Snapshot:
        shot = scenes.computes(second)
        (run,), (found,) = shot.runs, shot.process_runs
        other = "pid-4000-1-c0ffee" if curve == "in its files" else run.run_id
        shown = None if curve == "unknown" else other
        return replace(
            shot,
            runs=(replace(run, run_id=other),) if shown else (),
            points=tuple(replace(item, run_id=other) for item in shot.points) if shown else (),
            process_runs=(replace(found, run_id=shown, output_id="pid-4000-1"),),
            logs=logs,
        )

    match = LogMatch(name, row[0].cause, line, "pid-4000-1", None, 0, "train.log", 3, job_state="running")
    assert (cause in {item.id for item in play(lambda second: watched(second, match), 20)[-1]}) is (
        name not in (*OF_EVERY_RUN, *WITHOUT_A_GPU)
    )
    assert cause not in {item.id for item in play(watched, 20)[-1]}


@pytest.mark.parametrize("name", WITHOUT_A_GPU)
def test_on_a_machine_with_gpus_a_library_that_sees_none_is_told(name: str) -> None:
    line = next(line for found, line in REMARKS if found == name)

    def watched(second: int) -> Snapshot:
        shot = only_shown(learning.run_with(learning.falls), {"source": "log"})(second)
        match = LogMatch(name, "A12", line, shot.runs[0].run_id, None, 0, "train.log", 3, job_state="running")
        return replace(shot, logs=(match,))

    finding = told(watched, "A12", 20)
    assert finding is not None
    assert finding.confidence == "possible"


def test_files_that_are_flushed_in_each_step_hold_up_the_loop() -> None:
    finding = told(scenes.flushes_each_step, "E07", 60)
    assert finding is not None
    assert finding.confidence == "likely"
    assert finding.title.startswith("Writing files takes 4")
    assert "last.ckpt" in finding.evidence[2].text
    assert told(scenes.flushes_each_step, "D01", 60) is None, "it does not wait for data"
    assert getattr(told(scenes.flushes_often, "E07", 60), "confidence", None) == "possible"
    closed = told(scenes.flushes_files_that_are_closed_again, "E07", 60)
    assert closed is not None, "a small file is rarely open when gputop looks"
    assert not any("open for writing" in fact.text for fact in closed.evidence)


@pytest.mark.parametrize("name", scenes.UNTROUBLED_BY_FILES)
def test_files_that_are_read_or_written_now_and_then_do_not(name: str) -> None:
    assert all(item.id != "E07" for found in play(scenes.UNTROUBLED_BY_FILES[name], 100) for item in found)


@pytest.mark.parametrize("scene", [scenes.reads_the_whole_file, scenes.reads_it_on_a_crowded_machine], ids=["alone", "crowded"])
def test_a_training_process_that_reads_all_the_time_may_read_too_much(scene: Scene) -> None:
    finding = told(scene, "D01", 60)
    assert finding is not None
    assert finding.confidence == "possible"
    assert finding.title == "The training process itself reads files all the time, without loader workers"
    assert finding.evidence[0].source == "/proc/<pid>/io"
    assert finding.evidence[0].text in ("for 30 s it has read 286.1 MiB/s or more", "for 30 s it has read 38.1 MiB/s or more")


@pytest.mark.parametrize("name", scenes.READS_LITTLE)
def test_what_else_reads_is_left_alone(name: str) -> None:
    assert all(item.id != "D01" for found in play(scenes.READS_LITTLE[name], 80) for item in found)


def test_what_is_written_beside_the_loop_all_the_time_is_possible() -> None:
    finding = told(scenes.saves_beside_the_loop, "E07", 60)
    assert finding is not None
    assert (finding.confidence, finding.severity) == ("possible", "warning")
    assert "checkpoints every few steps?" in finding.title
    assert "open for writing: last.ckpt" in [fact.text for fact in finding.evidence]


@pytest.mark.parametrize("name", scenes.WRITES_LITTLE)
def test_what_else_writes_is_left_alone(name: str) -> None:
    assert all(item.id != "E07" for found in play(scenes.WRITES_LITTLE[name], 80) for item in found)


def test_pauses_before_the_results_of_evaluations_may_be_evaluations() -> None:
    finding = told(scenes.evaluates_for_longer, "E07", 100)
    assert finding is not None
    assert finding.confidence == "possible"
    assert finding.title == "Evaluation may take longer than training: 57% of the time"
    assert finding.evidence[0].source == "its output: loss, val_loss"
    quick = told(scenes.evaluates_after_quick_steps, "E07", 100)
    assert quick is not None
    assert quick.title == "Evaluation may take longer than training: 80% of the time"


@pytest.mark.parametrize("name", scenes.EVALUATES_LESS)
def test_other_pauses_are_left_alone(name: str) -> None:
    assert all(item.id != "E07" for found in play(scenes.EVALUATES_LESS[name], 100) for item in found)


def test_threads_for_a_larger_machine_share_the_cores() -> None:
    finding = told(scenes.threads_of_a_server, "D02", 60)
    assert finding is not None
    assert (finding.confidence, finding.title) == ("likely", "64 threads of 2 ranks share 2 cores")
    assert "OMP_NUM_THREADS is 32" in {fact.text for fact in finding.evidence}
    counted = told(scenes.threads_set_in_the_script, "D02", 60)
    assert counted is not None
    assert (counted.confidence, counted.title) == ("possible", "102 threads of 2 ranks share 2 cores")


def test_a_setting_for_a_larger_machine_is_only_information() -> None:
    finding = told(scenes.threads_that_do_not_exist, "D02", 60)
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("info", "possible")
    assert finding.title == "2 ranks are set to 64 threads on 2 cores"
    crowded = told(scenes.threads_beside_others, "D02", 60)
    assert crowded is not None
    assert (crowded.severity, crowded.confidence) == ("warning", "possible"), "others may be what takes the cores"


@pytest.mark.parametrize("name", scenes.FEW_THREADS)
def test_threads_are_no_burden_that_sleep_or_have_cores(name: str) -> None:
    assert told(scenes.FEW_THREADS[name], "D02", 60) is None


def test_a_lone_process_that_sleeps_in_a_lock_waits_for_others() -> None:
    finding = told(scenes.waits_for_a_pool, "D01", 60)
    assert finding is not None
    assert "a pool of processes" in finding.cause
    assert finding.evidence[0].text.startswith("the main thread of process 4000 waited for another thread or process in 6")
    two = scenes.outside(*2 * [scenes.taking_turns("lock", "lock", "runs")], percent=lambda number, second: 30.0)
    assert told(two, "D01", 60) is None, "ranks wait for each other"


def test_a_wait_for_workers_counts_only_if_there_are_some() -> None:
    assert told(scenes.waits_for_workers, "D01", 60) is None

    def with_workers(second: int) -> Snapshot:
        base = scenes.waits_for_workers(second)
        (process,) = base.processes
        return replace(base, processes=(replace(process, workers=Workers(2, 190.0)),))

    finding = told(with_workers, "D01", 60)
    assert finding is not None
    assert "workers" in finding.cause


@pytest.mark.parametrize(
    "scene",
    [
        scenes.computes,
        scenes.waits_for_threads,
        scenes.plays,
        scenes.serves,
        scenes.sleeps_and_prints_nothing,
        scenes.one_sleeps,
        scenes.pipeline,
    ],
    ids=["computes", "waits for threads", "plays", "serves", "prints nothing", "one of two", "pipeline"],
)
def test_other_main_threads_do_not_wait_for_data(scene: Scene) -> None:
    assert told(scene, "D01", 60) is None


def test_the_one_rank_that_waits_while_the_others_wait_for_it_is_named() -> None:
    finding = told(scenes.one_sleeps, "F01", 60)
    assert finding is not None
    assert (finding.confidence, finding.title) == ("possible", "All ranks may wait for rank 1, which waits for its data")
    assert told(scenes.one_sleeps, "F01", 14) is None, "too few samples"


@pytest.mark.parametrize(
    "scene",
    [scenes.both_sleep, scenes.pipeline, scenes.server_of_parameters, scenes.computes],
    ids=["both", "pipeline", "a server of parameters", "one process"],
)
def test_no_rank_is_named_if_none_waits_alone(scene: Scene) -> None:
    assert told(scene, "F01", 60) is None


def test_ranks_that_all_wait_and_log_no_step_any_more_hang() -> None:
    said = [next((item for item in found if item.id == "G01"), None) for found in play(scenes.hangs, 130)]
    first = next(second for second, item in enumerate(said) if item is not None)
    assert 40 + 15 <= first <= 40 + 25
    assert said[first].confidence == "possible"
    assert said[-1].confidence == "likely"
    assert any("no step has been logged for" in fact.text for fact in said[-1].evidence)


def test_without_steps_a_hang_takes_longer_and_stays_possible() -> None:
    said = [next((item for item in found if item.id == "G01"), None) for found in play(scenes.hangs_and_prints_nothing, 130)]
    first = next(second for second, item in enumerate(said) if item is not None)
    assert 40 + 30 <= first <= 40 + 45
    assert {item.confidence for item in said if item is not None} == {"possible"}


def test_a_process_whose_threads_all_wait_for_each_other_hangs() -> None:
    finding = told(scenes.locked(scenes.one_stops, 41), "G01", 100)
    assert finding is not None
    assert (finding.severity, finding.confidence, finding.pids) == ("error", "likely", (4000,))
    assert finding.title == "Process 4000 hangs: all of its threads wait for each other"
    assert "no step has been logged for" in finding.evidence[0].text


def test_a_wait_for_another_thread_is_no_deadlock_while_one_is_left_or_steps_end() -> None:
    assert told(scenes.one_stops, "G01", 100) is None, "a thread may upload something"
    assert told(scenes.locked(scenes.pauses_for_a_thread, 0), "G01", 100) is None, "steps end"


@pytest.mark.parametrize("word", ["socket", "pipe", "terminal", "sleep", "file", "events"])
def test_a_process_that_stops_and_waits_for_something_outside_may_hang(word: str) -> None:
    said = [next((item for item in found if item.id == "G01"), None) for found in play(scenes.stops_and(always(word)), 90)]
    first = next(second for second, item in enumerate(said) if item is not None)
    assert 40 + 25 <= first <= 40 + 35
    assert said[first].confidence == "possible"
    assert "/proc/4000/syscall" in {fact.source for fact in said[first].evidence}


def test_a_question_at_the_terminal_is_told_before_the_first_step() -> None:
    finding = told(scenes.outside(always("terminal"), printed=False, percent=lambda number, second: 0.0), "G01", 60)
    assert finding is not None
    assert finding.title == "The training has not begun: process 4000 waits for input from its terminal"
    for word in ("socket", "sleep", "lock"):
        waits = scenes.outside(always(word), printed=False, percent=lambda number, second: 0.0)
        assert told(waits, "G01", 100) is None, word


@pytest.mark.parametrize("word", ["lock", "child"])
def test_a_process_that_waits_for_its_own_thread_or_program_may_hang_after_minutes(word: str) -> None:
    said = [next((item for item in found if item.id == "G01"), None) for found in play(scenes.stops_and(always(word)), 160)]
    assert next(second for second, item in enumerate(said) if item is not None) >= 40 + 100


def with_loader(scene: Scene, workers: Workers) -> Scene:
    def scene_with(second: int) -> Snapshot:
        shot = scene(second)
        return replace(shot, processes=tuple(replace(item, workers=workers) for item in shot.processes))

    return scene_with


def standing_at(scene: Scene, *doings: Doing) -> Scene:
    """The scene, with what each main thread does."""

    def scene_with(second: int) -> Snapshot:
        shot = scene(second)
        pairs = zip(shot.processes, doings, strict=True)
        return replace(shot, processes=tuple(replace(process, doing=doing) for process, doing in pairs))

    return scene_with


POSTS = Doing("wait", "train.py:25", "post", "return s.recv(16)")
MEETS = Doing("collective", "train.py:60", "fit", "dist.barrier()")


@pytest.mark.parametrize(
    ("rule", "scene", "said"),
    [
        (
            "G01",
            standing_at(scenes.stops_and(always("socket")), POSTS),
            ["the main thread of process 4000 was at train.py:25 in post: `return s.recv(16)`"],
        ),
        ("G01", standing_at(scenes.hangs, MEETS, POSTS), ["train.py:60 in fit: `dist.barrier()`", "train.py:25 in post"]),
        ("G01", standing_at(scenes.locked(scenes.one_stops, 41), POSTS), ["train.py:25 in post"]),
        ("D01", standing_at(scenes.sleeps, POSTS), ["train.py:25 in post"]),
    ],
    ids=["one process", "all ranks", "its threads", "no step stops"],
)
def test_the_line_at_which_a_main_thread_waits_is_quoted(rule: str, scene: Scene, said: list[str]) -> None:
    finding = told(scene, rule, 130)
    assert finding is not None
    text = "\n".join(fact.text for fact in finding.evidence)
    assert [line for line in said if line not in text] == []


IDLE_WORKERS = Workers(2, 0.0, pids=(4100, 4101))
before_a_batch = scenes.outside(always("events"), printed=False, percent=lambda number, second: 0.0)


def test_a_process_that_waits_for_idle_loader_workers_is_told_so() -> None:
    finding = told(with_loader(scenes.stops_and(always("events")), IDLE_WORKERS), "G01", 90)
    assert finding is not None
    assert finding.title == "The training may hang: process 4000 waits for its loader workers, which use no CPU"
    assert "py-spy dump --pid 4100" in finding.fix
    first = told(with_loader(before_a_batch, IDLE_WORKERS), "G01", 100)
    assert first is not None
    assert first.title == "The training has not begun: process 4000 waits for its loader workers, which use no CPU"
    assert {finding.confidence, first.confidence} == {"possible"}


def test_loader_workers_that_work_or_download_for_a_minute_do_not_hang() -> None:
    assert told(with_loader(before_a_batch, IDLE_WORKERS), "G01", 60) is None, "a minute of downloading is usual"
    assert told(with_loader(before_a_batch, Workers(2, 60.0, pids=(4100, 4101))), "G01", 120) is None
    assert told(with_loader(before_a_batch, Workers(2, 0.0, blocked=1, pids=(4100, 4101))), "G01", 120) is None
    assert told(before_a_batch, "G01", 120) is None, "it may wait for anything"


def test_a_process_that_waits_on_purpose_does_not_hang() -> None:
    assert told(scenes.sleeps, "G01", 100) is None, "steps end"
    assert told(scenes.stops_and(taking_turns("socket", "runs")), "G01", 100) is None, "it works in between"

    def typed(second: int) -> Snapshot:
        shot = scenes.stops_and(always("events"))(second)
        kernel = ("python", "-m", "ipykernel_launcher", "-f", "kernel.json")
        return replace(shot, processes=tuple(replace(item, command=kernel) for item in shot.processes))

    assert told(typed, "G01", 100) is None, "the user types"

    def one_of_two(second: int) -> Snapshot:
        shot = scenes.stops_and(always("lock"))(second)
        (process,) = shot.processes
        assert process.environment is not None
        environment = replace(process.environment, rank=0, local_rank=0, world_size=2, local_world_size=1)
        return replace(shot, processes=(replace(process, environment=environment, rank=0),))

    assert told(one_of_two, "G01", 160) is None, "the other rank is on another machine"


def test_a_process_that_claims_millions_of_ranks_costs_no_memory() -> None:
    """Any user may set LOCAL_WORLD_SIZE to anything."""

    def claims(second: int) -> Snapshot:
        shot = scenes.stops_and(always("lock"))(second)
        (process,) = shot.processes
        assert process.environment is not None
        environment = replace(process.environment, rank=0, local_rank=0, world_size=3_000_000, local_world_size=3_000_000)
        return replace(shot, processes=(replace(process, environment=environment, rank=0),))

    tracemalloc.start()
    try:
        play(claims, 5)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("printed", [True, False])
def test_steps_in_the_output_show_that_a_process_without_backward_threads_trains(printed: bool) -> None:
    """A training on the CPU, or without torch, has none: A01 needs another sign of training."""
    scene = scenes.outside(always("runs"), printed=printed)

    def free_beside(second: int) -> Snapshot:
        shot = scene(second)
        (process,) = shot.processes
        assert process.environment is not None
        masked = replace(process.environment, virtual_devices="0,1")
        busy = replace(process, environment=masked, state="R", cpu_percent=95.0)
        return replace(shot, processes=(busy,), devices=(replace(shot.devices[0], utilization_percent=95.0), *shot.devices[1:]))

    finding = told(free_beside, "A01", 90)
    assert (finding is not None) == printed
    assert finding is None or finding.confidence == "likely"


def test_ranks_that_pause_again_and_again_do_not_hang() -> None:
    assert all(not found for found in play(scenes.pauses, 200))


@pytest.mark.parametrize(
    ("scene", "who", "pid"),
    [
        (scenes.one_left, "rank 0 waits, and rank 1 does something else", 4001),
        (scenes.one_of_three_left, "ranks 0, 1 wait, and rank 2 does something else", 4002),
    ],
    ids=["of two", "of three"],
)
def test_a_rank_that_does_something_else_while_the_others_wait_for_it_is_named(scene: Scene, who: str, pid: int) -> None:
    finding = told(scene, "G01", 90)
    assert finding is not None
    assert (finding.confidence, finding.title) == ("possible", f"The training may hang: {who}")
    assert finding.pids[0] == pid


def test_a_rank_that_works_between_rarely_logged_steps_is_left_alone() -> None:
    assert told(scenes.logs_seldom, "G01", 130) is None


def test_the_one_rank_that_computes_while_the_others_wait_for_it_is_named() -> None:
    finding = told(scenes.one_computes, "F05", 60)
    assert finding is not None
    assert (finding.confidence, finding.title) == ("possible", "All ranks may wait for rank 0, which does more in each step")
    for scene in (scenes.pipeline, scenes.server_of_parameters, scenes.one_sleeps, scenes.computes):
        assert told(scene, "F05", 60) is None


def in_turns(scene: Scene, *looks: str) -> Scene:
    """The scene, in which each rank is seen to do these in turns: "f" forward, "b" backward, "g" another function, "-" data."""
    doings = {
        "f": Doing("forward", "model.py:9", "encode"),
        "b": Doing("backward", "train.py:41", "fit"),
        "g": Doing("forward", "model.py:30", "discriminate"),
        "-": Doing("data", "train.py:20", "read"),
    }

    def scene_with(second: int) -> Snapshot:
        shot = scene(second)
        pairs = zip(shot.processes, looks, strict=True)
        return replace(shot, processes=tuple(replace(item, doing=doings[each[second % len(each)]]) for item, each in pairs))

    return scene_with


def test_a_rank_that_computes_for_longer_by_the_same_code_has_more_work() -> None:
    scene = in_turns(scenes.one_computes, "fffffbbbbb", "ffbbbbbbbb")
    finding = told(scene, "F03", 60)
    assert finding is not None
    assert (finding.severity, finding.confidence) == ("warning", "possible")
    assert finding.title == "All ranks may wait for rank 0, which computes for longer by the same code"
    assert finding.evidence[0].text.startswith("all ranks are seen in the same code, and rank 0 in forward in 50% of the looks")
    assert told(scene, "F05", 60) is None, "one cause, one finding"


@pytest.mark.parametrize(
    ("looks", "rule"),
    [
        (("ffffbbbbbb", "fffbbbbbbb"), "F05"),
        (("gggggggbbb", "fffbbbbbbb"), "F05"),
        (("fff----bbb", "fffbbbbbbb"), "F01"),
        (("fffffff---", "fff----bbb"), "F05"),
    ],
    ids=["hardly longer", "another part of the model", "its data", "both are often at their data"],
)
def test_a_rank_that_does_something_else_is_not_said_to_have_more_of_the_same(looks: tuple[str, str], rule: str) -> None:
    scene = in_turns(scenes.one_computes, *looks)
    assert told(scene, "F03", 60) is None
    assert told(scene, rule, 60) is not None


def test_ranks_that_do_not_wait_for_one_have_equal_work() -> None:
    for scene in (scenes.pipeline, scenes.server_of_parameters):
        assert told(in_turns(scene, "fffffffbbb", "fffbbbbbbb"), "F03", 60) is None


def test_a_rank_that_has_waited_since_it_connected_is_named_while_the_others_train() -> None:
    finding = told(scenes.idle_rank, "G01", 90)
    assert finding is not None
    assert finding.confidence == "possible"
    assert finding.title == "Rank 1 may hang: no CPU used for 40 s, while the others work"
    assert finding.pids == (4001,)
    assert told(scenes.serves_weights, "G01", 90) is None
    assert told(scenes.one_computes, "G01", 90) is None


def test_ranks_that_wait_in_a_barrier_while_rank_0_prepares_the_data_do_not_hang() -> None:
    for seconds in (60, 100):
        assert told(scenes.prepares_data, "G01", seconds) is None
    assert told(scenes.prepares_data_and_prints, "G01", 100) is None, "values of before the last minute are no progress"


@pytest.mark.parametrize("name", sorted(scenes.BUSY_FOR_ALL))
def test_a_rank_that_works_for_all_is_named_later_and_never_above_possible(name: str) -> None:
    said = [next((item for item in found if item.id == "G01"), None) for found in play(scenes.BUSY_FOR_ALL[name], 200)]
    first = next((second for second, item in enumerate(said) if item is not None), None)
    assert first is not None
    assert 40 + 45 <= first <= 40 + 60
    assert {item.confidence for item in said if item is not None} == {"possible"}


def test_a_short_sleep_of_a_rank_that_works_for_all_changes_nothing() -> None:
    assert told(scenes.evaluates_with_pauses, "G01", 40 + 40) is None


@pytest.mark.parametrize("name", sorted(scenes.ASLEEP))
def test_a_rank_that_sleeps_while_the_others_wait_for_it_is_named_at_once(name: str) -> None:
    said = [next((item for item in found if item.id == "G01"), None) for found in play(scenes.ASLEEP[name], 90)]
    assert next(second for second, item in enumerate(said) if item is not None) <= 40 + 30


def read_every(seconds: int, scene: Scene, phase: int = 0) -> Scene:
    """The same run on a machine with many processes: what main threads wait for is read every ``seconds`` seconds only."""

    def crowded(second: int) -> Snapshot:
        last = (second - phase) // seconds * seconds + phase
        then = scene(max(0, last))
        old = {process.pid: process for process in then.processes}
        base = scene(second)
        processes = (replace(p, waits_for=old[p.pid].waits_for, waits_read_s=then.monotonic_s) for p in base.processes)
        return replace(base, processes=tuple(processes))

    return crowded


def samples(scene: Scene, seconds: int) -> Counter[str]:
    """How often the first process was seen to do what, within a minute."""
    evidence = Evidence()
    for second in range(seconds):
        evidence.observe(scene(second))
    return evidence.still.samples(scene(seconds - 1).processes[0])


def test_a_reading_counts_once_however_many_snapshots_show_it() -> None:
    assert samples(scenes.sleeps, 56).total() == 56, "without the time of its reading, each snapshot is one sample"
    assert samples(read_every(1, scenes.sleeps), 56).total() == 56
    assert samples(read_every(7, scenes.sleeps), 56).total() == 8


def test_a_reading_of_a_running_thread_hides_no_later_wait() -> None:
    quarter = scenes.outside(scenes.taking_turns("runs", "lock", "lock", "lock"))
    assert samples(read_every(1, quarter), 56) == {"runs": 14, "lock": 42}
    found = samples(read_every(5, quarter), 60)
    assert found == {"runs": 3, "lock": 9}


def test_a_thread_that_runs_between_two_readings_was_not_looked_at() -> None:
    alternate = scenes.outside(scenes.taking_turns("lock", "runs"))
    assert samples(read_every(2, alternate), 56) == {"lock": 28}


def test_two_readings_do_not_show_that_ranks_only_wait_for_threads() -> None:
    answers = scenes.then(scenes.always("runs"), 40, lambda second: "lock" if (second - 5) // 7 % 3 else "events")
    scene = read_every(7, scenes.outside(answers, answers, stops=40), phase=5)
    said = [item for found in play(scene, 130) for item in found if item.id == "G01"]
    assert {item.confidence for item in said} == {"possible"}


def test_many_processes_make_a_hang_from_outside_later_and_not_silent() -> None:
    finding = told(read_every(7, scenes.hangs, phase=5), "G01", 130)
    assert finding is not None
    assert finding.confidence == "likely"
    assert told(read_every(7, scenes.ASLEEP["sleeps"], phase=5), "G01", 100) is not None


def test_a_share_of_few_readings_is_no_share() -> None:
    assert told(scenes.sleeps, "D01", 60) is not None
    assert told(read_every(7, scenes.sleeps), "D01", 60) is None


def test_ranks_that_are_seen_to_run_between_readings_do_not_wait_for_others() -> None:
    assert told(young(read_every(7, scenes.waits_for_files)), "G03", 90) is None


def young(scene: Scene) -> Scene:
    """The same run, which has just begun and is connected to nothing."""

    def begun(second: int) -> Snapshot:
        base = scene(second)
        return replace(base, processes=tuple(replace(p, started_at=EPOCH, threads=()) for p in base.processes))

    return begun


def spawned(scene: Scene) -> Scene:
    """The same run, whose script spawns its ranks and sets RANK itself; none of them computes yet."""

    def begun(second: int) -> Snapshot:
        base = young(scene)(second)
        command = ("python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(pipe_handle=7)")
        processes = tuple(
            replace(
                process,
                rank=None,
                environment=None,
                launcher=None,
                ancestors=(),
                ppid=3000,
                devices=(),
                command=command,
                in_rendezvous=True,
            )
            for process in base.processes
        )
        return replace(base, processes=processes)

    return begun


def test_spawned_ranks_that_never_meet_are_named() -> None:
    def scene(*doings: str, listens: bool = True) -> Scene:
        waits = scenes.outside(*map(scenes.always, doings), printed=False, percent=lambda number, second: 1.0)
        if listens:
            return spawned(waits)
        return lambda second: replace(
            spawned(waits)(second),
            processes=tuple(replace(process, in_rendezvous=False) for process in spawned(waits)(second).processes),
        )

    def below(scene: Scene, second: int) -> Snapshot:
        """Their parent is listed, too: it has opened a GPU."""
        base = scene(second)
        parent = replace(base.processes[0], pid=3000, ppid=1, command=("python", "train.py"), in_rendezvous=False)
        uses = (DeviceUse("virtual-0", 2**28, 0.0, "C"),)
        parent = replace(parent, devices=uses, waits_for="events")
        return replace(base, processes=(parent, *base.processes))

    early, finding = told(scene("sleep", "sleep"), "G03", 14), told(scene("sleep", "socket"), "G03", 60)
    assert early is not None
    assert early.confidence == "possible"
    assert finding is not None
    assert finding.confidence == "likely"
    assert finding.title == "The ranks wait for each other: none of them starts"
    assert "nprocs" in finding.fix
    assert "WORLD_SIZE" not in " ".join(fact.text for fact in finding.evidence)
    assert told(lambda second: below(scene("sleep", "sleep"), second), "G03", 60) is not None
    assert told(scene("sleep", "sleep", listens=False), "G03", 90) is None
    doctor = Doctor()
    for second in range(4):
        doctor.observe(scene("sleep", "sleep")(second))
    assert [item.title for item in doctor.undecided] == [
        "2 ranks of one run compute nothing; watching for ranks that wait for one another"
    ]
    for server in (("events", "lock"), ("sleep", "pipe"), ("sleep", "events")):
        assert told(scene(*server), "G03", 90) is None, server


def at_line(text: str | None, scene: Scene) -> Scene:
    """The same run, whose ranks are all at this line."""

    def looked_at(second: int) -> Snapshot:
        base = scene(second)
        doing = Doing("collective", "train.py:9", "setup", text)
        return replace(base, processes=tuple(replace(process, doing=doing) for process in base.processes))

    return looked_at


@pytest.mark.parametrize("begun", [young, spawned])
def test_ranks_that_look_for_others_in_a_file_are_named_though_they_run_at_times(begun: Callable[[Scene], Scene]) -> None:
    looks = scenes.outside(*[lambda second: "runs" if second % 6 == 1 else "sleep"] * 2, printed=False, percent=little)
    finding = told(at_line('dist.init_process_group("gloo", init_method=path)', begun(looks)), "G03", 60)
    assert finding is not None
    assert finding.confidence == "likely"
    assert "ports or files" in finding.cause
    if begun is spawned:
        assert "and are in init_process_group" in " ".join(fact.text for fact in finding.evidence)
    else:
        for text in ("dist.barrier()", None):
            assert told(at_line(text, young(looks)), "G03", 60) is None, text


def little(number: int, second: int) -> float:
    return 1.0


def test_young_ranks_that_are_seen_to_run_do_not_wait_for_others() -> None:
    assert told(young(scenes.waits_for_files), "G03", 90) is None
    never = scenes.outside(scenes.always("socket"), scenes.always("socket"), printed=False, percent=lambda number, second: 1.0)
    assert told(young(never), "G03", 90) is not None
    logs = scenes.outside(scenes.always("socket"), scenes.always("socket"), percent=lambda number, second: 1.0)
    assert told(young(logs), "G03", 90) is None, "its output shows steps"


def denied(scene: Scene) -> Scene:
    """The same where /proc/PID/syscall may not be read: Yama forbids it, or it is another user's process."""

    def hidden(second: int) -> Snapshot:
        base = scene(second)
        processes = (replace(process, waits_for=None, waits_read_s=None, hidden=("waits_for",)) for process in base.processes)
        return replace(base, processes=tuple(processes))

    return hidden


def scenes_from_outside() -> dict[str, Scene]:
    return {
        name: scene for name, scene in vars(scenes).items() if callable(scene) and getattr(scene, "__name__", "") == "scene"
    }


@pytest.mark.parametrize("name", scenes_from_outside())
def test_where_the_system_call_is_hidden_nothing_is_concluded_from_it(name: str) -> None:
    """What is unknown is neither a wait nor work: it adds no finding, and makes none surer."""
    scene = scenes_from_outside()[name]
    said, hidden_said = play(scene, 100), play(denied(scene), 100)
    seen, hidden = ({item.id: item.confidence for found in each for item in found} for each in (said, hidden_said))
    assert hidden.keys() <= seen.keys()
    assert {rule for rule in hidden if hidden[rule] != "possible"} <= {rule for rule in seen if seen[rule] != "possible"}
    facts = [fact for found in hidden_said for item in found for fact in item.evidence]
    assert not [fact for fact in facts if "syscall" in fact.source]
