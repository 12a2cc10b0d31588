"""Runs that gputop did not start, judged by what their main threads are seen to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gputop.doctor.diagnosis import Doctor
from gputop.doctor.findings.finding import Finding
from gputop.snapshot import Snapshot, Workers
from gputop.whereabouts.records import Activity, Doing
from tests.doctor.scenes.base import Scene
from tests.doctor.scenes.outside import always, outside

SECONDS = 100


def running(
    *activities: Activity, line: str = "train.py:41", function: str = "read_rows", ranks: int = 1, **kept: object
) -> Scene:
    """A run whose main threads do these one after the other, again and again."""
    base = outside(*[always("runs")] * ranks, **kept)  # type: ignore[arg-type]
    return seen_to(base, lambda second: Doing(activities[second % len(activities)], line, function))


def seen_to(base: Scene, look: Callable[[int], Doing]) -> Scene:
    def scene(second: int) -> Snapshot:
        shot = base(second)
        return replace(shot, processes=tuple(replace(process, doing=look(second)) for process in shot.processes))

    return scene


def found(scene: Scene, seconds: int = SECONDS) -> list[Finding]:
    doctor = Doctor()
    doctor.raises = True
    shown: tuple[Finding, ...] = ()
    for second in range(seconds):
        shown = doctor.observe(scene(second))
    return [item for item in shown if item.id in ("D01", "E07")]


def test_a_main_thread_that_prepares_its_data_makes_the_gpu_wait() -> None:
    (finding,) = found(running("data", "forward", "data", "backward", "data"))
    assert (finding.id, finding.confidence) == ("D01", "likely")
    assert finding.title == "The GPUs wait for data: the training prepares it in 60% of the time"
    assert "60% of 40 looks at its stack, mostly at train.py:41 in read_rows" in finding.evidence[0].text
    assert "IterableDataset" in finding.fix


def nearly_always_at_data(second: int) -> Doing:
    """One look in seventeen is at the computation: of 40 looks, two or three."""
    return Doing("backward", "train.py:60", "fit") if second % 17 == 6 else Doing("data", "speech.py:50", "__getitem__")


def test_data_that_takes_nearly_all_the_time_is_named_though_few_looks_are_at_the_training() -> None:
    scene = seen_to(outside(always("runs")), nearly_always_at_data)
    shown = [[item.id for item in found(scene, seconds)] for seconds in range(60, 140, 9)]
    assert shown == [["D01"]] * len(shown), "it stays, whatever the newest 40 looks show"


def computes_at(*seconds: int) -> Callable[[int], Doing]:
    return lambda second: Doing("forward" if second in seconds else "data")


FORMERLY_AT_DATA = {
    "no longer": (lambda second: nearly_always_at_data(second) if second < 80 else Doing("forward"), 130),
    "once, for long": (computes_at(*range(40)), 130),
    "twice, for long": (computes_at(30, 31, 32, 33, 34, 75), 112),
    "never again after three steps": (computes_at(50, 52, 54), 130),
    "for long lately, and seldom before": (
        lambda second: Doing("data" if second % 30 == 7 or (second > 95 and second != 125) else "forward"),
        135,
    ),
}


@pytest.mark.parametrize("name", FORMERLY_AT_DATA)
def test_data_that_steps_do_not_wait_for_again_and_again_is_left_alone(name: str) -> None:
    look, seconds = FORMERLY_AT_DATA[name]
    assert not found(seen_to(outside(always("runs"), printed=False), look), seconds)


def test_with_workers_it_waits_for_them() -> None:
    base = running("data", "forward", "data", "backward", "data", line="", function="")

    def scene(second: int) -> Snapshot:
        shot = base(second)
        (process,) = shot.processes
        waits = replace(process, workers=Workers(2), doing=replace(process.doing, line=None, function=None))
        return replace(shot, processes=(waits,))

    (finding,) = found(scene)
    assert "waits for it" in finding.title
    assert "num_workers" in finding.fix


def test_all_ranks_must_wait() -> None:
    assert found(running("data", "forward", "data", "backward", "data", ranks=2))
    base = outside(always("runs"), always("runs"))

    def scene(second: int) -> Snapshot:
        shot = base(second)
        looks = [Doing("data"), Doing("data"), Doing("backward")], [Doing("forward"), Doing("backward"), Doing("data")]
        pairs = zip(shot.processes, looks, strict=True)
        return replace(shot, processes=tuple(replace(process, doing=each[second % 3]) for process, each in pairs))

    assert not found(scene), "that is another cause"


def test_evaluations_that_take_half_of_the_time_are_named() -> None:
    (finding,) = found(running("evaluation", "evaluation", "forward", "backward"))
    assert (finding.id, finding.confidence, finding.title) == ("E07", "possible", "Evaluations take 50% of the time")


@pytest.mark.parametrize(("bytes_each", "confidence"), [(2**14, "possible"), (2**25, "likely")])
def test_checkpoints_in_each_step_are_surely_a_fault_if_they_are_large(bytes_each: int, confidence: str) -> None:
    base = running("checkpoint", "checkpoint", "forward", "backward")

    def scene(second: int) -> Snapshot:
        shot = base(second)
        writes = [replace(process, written_bytes=second * bytes_each) for process in shot.processes]
        return replace(shot, processes=tuple(writes))

    (finding,) = [item for item in found(scene) if "Checkpoints" in item.title]
    assert (finding.id, finding.confidence, finding.title) == ("E07", confidence, "Checkpoints take 50% of the time")


def test_a_third_of_the_time_for_checkpoints_is_only_possible() -> None:
    (finding,) = found(running("checkpoint", "forward", "backward"))
    assert (finding.id, finding.confidence) == ("E07", "possible")


REWARDS = {"loss": 1.0, "mean_reward": 3.0}
SAVES: tuple[Activity, ...] = ("files", "files", "files", "files", "environment", "forward", "backward", "optimizer")


@pytest.mark.parametrize("metrics", [REWARDS, {"loss": 1.0}], ids=["it prints rewards", "it is seen in its environment"])
def test_what_a_policy_writes_is_named_and_its_environment_is_not(metrics: dict[str, float]) -> None:
    (finding,) = found(running(*SAVES, line="drone.py:33", function="save", metrics=metrics))
    assert (finding.id, finding.confidence, finding.title) == ("E07", "possible", "Writing files takes 50% of the time")
    plays: tuple[Activity, ...] = ("other", "other", "environment", "data", "report", "forward", "backward", "optimizer")
    assert not found(running(*plays, function="rollout", metrics=metrics))


def test_checkpoints_of_a_policy_are_judged_as_any_other() -> None:
    (finding,) = found(running("checkpoint", "checkpoint", "environment", "forward", "backward", "optimizer", metrics=REWARDS))
    assert (finding.id, finding.title) == ("E07", "Checkpoints take 35% of the time")


HEALTHY = {
    "learns a policy, and saves now and then": running(
        "files", *["environment", "forward", "backward", "optimizer"] * 2, metrics=REWARDS
    ),
    "computes": running("forward", "backward", "optimizer", "data"),
    "evaluates now and then": running("forward", "backward", "evaluation"),
    "saves now and then": running("forward", "backward", "optimizer", "backward", "checkpoint"),
    "is a search that evaluates": running(*["evaluation"] * 9, "backward"),
    "plays": running("data", "environment", "data", "forward", "backward", "data", "data", "data"),
    "reports a return": running("data", "forward", "data", "backward", metrics={"loss": 1.0, "mean_reward": 3.0}),
    "prepares once": seen_to(
        outside(always("runs"), printed=False), lambda second: Doing("data" if second < 85 else "forward")
    ),
    "does not train": running("data", "other"),
    "works in the function that trains": running("other", "other", "other", "forward", "backward"),
    "evaluates once, for long": seen_to(
        outside(always("runs")), lambda second: Doing("evaluation" if 60 < second < 87 else "forward")
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_what_else_main_threads_do_is_left_alone(name: str) -> None:
    assert not found(HEALTHY[name])


STEP = (
    Doing("forward", "train.py:60", "main"),
    Doing("backward", "train.py:62", "main"),
    Doing("optimizer", "train.py:63", "main"),
)
CALLS = Doing("forward", "train.py:70", "main")


def calls_for(calls: int, *trains: Doing, once: bool = False, calls_at: Doing = CALLS) -> Scene:
    """A run that calls the model ``calls`` times, and then does these, again and again; or calls it just once."""
    cycle = [calls_at] * calls + list(trains)

    def look(second: int) -> Doing:
        return cycle[second % len(cycle)] if not once or 20 < second < 60 else STEP[second % 3]

    return seen_to(outside(always("runs")), look)


def test_calls_of_the_model_between_the_steps_are_named_whatever_their_function() -> None:
    (finding,) = found(calls_for(11, *STEP * 3), 130)
    assert (finding.id, finding.confidence) == ("E07", "possible")
    assert finding.title == "Calls of the model between the steps take 55% of the time"
    assert "mostly at train.py:70 in main" in finding.evidence[0].text


CALLS_OF_STEPS = {
    "each step is as long": calls_for(6, *[STEP[1]] * 5),
    "each step is as long, and has several lines": calls_for(6, STEP[0], *[STEP[1]] * 4),
    "the frozen part takes most of a step": seen_to(
        outside(always("runs")), lambda second: CALLS if second * 7919 % 101 < 75 else STEP[second % 3]
    ),
    "once": calls_for(6, *STEP, once=True),
    "it takes less": calls_for(5, *STEP * 3),
    "it is the work itself": calls_for(45, *STEP * 3),
    "it is at the same line as the steps": calls_for(11, *STEP * 3, calls_at=STEP[0]),
}


@pytest.mark.parametrize("name", CALLS_OF_STEPS)
def test_calls_of_the_model_that_belong_to_steps_are_left_alone(name: str) -> None:
    assert not found(CALLS_OF_STEPS[name], 180)


def test_other_work_between_the_steps_may_prepare_data() -> None:
    looks = [*[Doing("other", "train.py:11", "bpe")] * 3, Doing("backward", "train.py:60", "fit"), Doing("forward")]
    (finding,) = found(seen_to(outside(always("runs")), lambda second: looks[second % 5]))
    assert (finding.id, finding.confidence) == ("D01", "possible")
    assert "in bpe in 60% of 40 looks at its stack, mostly at train.py:11" in finding.evidence[0].text


def test_a_process_that_only_updates_weights_waits_for_those_that_compute_gradients() -> None:
    looks = [*[Doing("other", "train.py:11", "collect")] * 3, Doing("optimizer", "train.py:60", "fit"), Doing("optimizer")]
    assert not found(seen_to(outside(always("runs")), lambda second: looks[second % 5]))
    computes = [*looks[:4], Doing("backward", "train.py:59", "fit")]
    assert found(seen_to(outside(always("runs")), lambda second: computes[second % 5]))


def test_busy_gpus_do_not_wait() -> None:
    base = running("data", "forward", "data", "backward", "data")

    def on_gpus(percent: float) -> Scene:
        def scene(second: int) -> Snapshot:
            shot = base(second)
            host = replace(shot.host, source="nvml")
            devices = tuple(replace(device, kind="gpu", utilization_percent=percent) for device in shot.devices)
            processes = tuple(replace(process, nvidia_open=True, torch_cuda_mapped=True) for process in shot.processes)
            return replace(shot, host=host, devices=devices, processes=processes)

        return scene

    assert found(on_gpus(30.0))
    assert not found(on_gpus(95.0)), "kernels run on after the calls that queue them"
