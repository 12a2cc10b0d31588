"""What makes one GPU, or the exchange between GPUs, slow is named first; look-alikes and healthy runs are left alone."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.history.points import PointSeries
from gputop.snapshot import Snapshot
from tests.doctor.rules.judged import assert_first, assert_silent
from tests.doctor.scenes import efficiency
from tests.doctor.scenes.base import ids, play
from tests.doctor.scenes.efficiency import FAULTS, HEALTHY, LOOK_ALIKES, POSSIBLE, item_in_each_step

TOLD = {
    "item() in each step": ("warning", "likely", "GPU 0 idles 30% of the time", "total += loss.detach()  # train.py:64"),
    "item() in each step without a loader": ("warning", "likely", "it is in these calls 67% of the time", "loss.detach()"),
    "steps of 12 ms": ("warning", "likely", "a step takes 12.0 ms", "batch_size=256"),
    "float32 without tensor cores": (
        "info",
        "likely",
        "its tensor cores are busy 0% of the time",
        'set_float32_matmul_precision("high")',
    ),
    "allocations that are tried again": ("warning", "certain", "allocations failed at first", "expandable_segments:True"),
    "empty_cache in the loop": ("warning", "certain", "of empty_cache()", "remove torch.cuda.empty_cache()"),
    "memory that grows": ("warning", "likely", "at this rate, the GPU is full in about", "total += loss.detach()"),
    "switches of a search": (
        "warning",
        "certain",
        "CUDA_LAUNCH_BLOCKING=1",
        "unset CUDA_LAUNCH_BLOCKING TORCH_DISTRIBUTED_DEBUG; ",
    ),
    "anomaly detection": ("warning", "certain", "every forward pass records its stack", "set_detect_anomaly(False)"),
    "a trace function of Python": ("warning", "certain", "Python calls __main__.tracer for each line", "sys.settrace(None)"),
    "a profiler of Python's calls": ("warning", "certain", "for each call of a function", "sys.setprofile(None)"),
    "a profiler runs the script": ("warning", "certain", "cProfile runs the script", "without cProfile"),
    "P2P switched off": ("info", "certain", "NCCL_P2P_DISABLE=1", "unset NCCL_P2P_DISABLE; "),
    "communication": (
        "warning",
        "likely",
        "takes 37% of a step on the rank with the least, 47% on the rank with the most",
        "bf16_compress",
    ),
    "a checkpoint in every step": ("warning", "likely", "every step", "step % 1000 == 0"),
    "slow checkpoints": ("warning", "likely", "every 50 steps", "async_save"),
    "uploads after each save": ("warning", "likely", "every 25 steps", "look at the loop's work"),
    "evaluation in whole batches": ("warning", "possible", "every 20 steps", "evaluate less often"),
    "evaluations that change no loss": ("warning", "possible", "every 20 steps", "evaluate less often"),
    "long evaluations": ("warning", "possible", "every 20 steps", "evaluate less often"),
    "long pauses": ("warning", "likely", "every 20 steps", "look at the loop's work"),
    "garbage collection": ("warning", "likely", "every 70 steps", "gc.freeze()"),
    "two halves of a model": ("warning", "certain", "cuda:0 9.0 M, cuda:1 2.0 M", "fully_shard"),
    "copies averaged by hand": ("warning", "likely", "2 GPUs hold 11.0 M parameters each", "DDP(net.to(local_rank)"),
}


@pytest.mark.parametrize(("rule", "name", "scene", "seconds"), FAULTS, ids=[fault[1] for fault in FAULTS])
def test_fault_is_the_first_verdict(rule, name, scene, seconds):
    assert assert_first(scene, seconds, rule, TOLD[name]).run == "run-1"


@pytest.mark.parametrize(("rule", "name", "scene", "seconds"), POSSIBLE, ids=[item[1] for item in POSSIBLE])
def test_weak_evidence_is_only_possible(rule, name, scene, seconds):
    assert [(item.id, item.confidence) for item in play(scene, seconds)[-1]] == [(rule, "possible")]


@pytest.mark.parametrize(
    ("rule", "name", "scene", "seconds"), LOOK_ALIKES, ids=[f"{item[0]} {item[1]}" for item in LOOK_ALIKES]
)
def test_a_look_alike_is_not_reported(rule, name, scene, seconds):
    assert all(rule not in ids(said) for said in play(scene, seconds))


@pytest.mark.parametrize(("name", "scene", "seconds"), HEALTHY, ids=[item[0] for item in HEALTHY])
def test_healthy_run_is_left_alone(name, scene, seconds):
    assert_silent(scene, seconds)


def test_every_rule_of_the_family_has_a_fault_and_a_look_alike():
    family = {f"E{number:02}" for number in range(1, 10)}
    assert {item[0] for item in FAULTS} == family
    assert {item[0] for item in LOOK_ALIKES} == family


def test_warm_up_is_not_reported():
    """The first half minute of a run, whatever it shows."""
    assert all(said == () for said in play(item_in_each_step, 25))


# ---- statistics over series


def observed(scene, seconds):
    evidence = Evidence()
    for second in range(seconds):
        evidence.observe(scene(second))
    return evidence, evidence.groups[0]


def test_shares_are_of_sums():
    evidence, group = observed(item_in_each_step, 30)
    assert windows.share(evidence, group, 0, "phase/data") == pytest.approx(0.01 / 0.3)
    assert windows.step_s(evidence, group, 0) == pytest.approx(0.3)
    assert windows.share(evidence, group, 0, "phase/nothing") is None
    assert windows.share(evidence, group, 7, "phase/data") is None


def test_only_the_newest_stretch_of_steps_that_follow_each_other_counts():
    """The past that a stream begins with holds the extremes of each stretch alone."""
    evidence, group = observed(item_in_each_step, 20)
    known = evidence.series(group.run_id, 0, "step_s")
    past = PointSeries((20, 31, 47), (0.0,) * 3, (9.0,) * 3)
    past.extend(known.steps, known.times, known.values)
    kept = evidence.memory.series("run-1", 0, "step_s")
    assert kept is not None
    kept.newest = past
    found = windows.newest(evidence, group, 0, "step_s")
    assert len(found) == 60
    assert {point.value for point in found} == {0.3}


def test_a_trend_needs_growth_and_a_straight_line():
    steps = range(100)
    straight = windows.trend(PointSeries(steps, [0.0] * 100, [5.0 + 2.0 * step for step in steps]))
    assert straight is not None
    assert straight[0] == pytest.approx(198.0)
    assert straight[1] == pytest.approx(1.0)
    assert windows.trend(PointSeries(steps, [0.0] * 100, [5.0] * 100)) == (0.0, 0.0)
    assert windows.trend(PointSeries([0], [0.0], [5.0])) is None


def test_stalls_are_regular_by_their_distances():
    assert windows.regular((50, 100, 150, 201), 0.1)
    assert not windows.regular((50, 61, 150, 201), 0.1)
    assert not windows.regular((50, 100), 0.1)


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("/usr/bin/python3.11 /home/ada/.venv/bin/coverage run train.py", True),
        ("/home/ada/.venv/bin/kernprof -l train.py", True),
        ("python -m pdb -c continue train.py", True),
        ("python -m scalene train.py", False),
        ("python profile.py --trace", False),
        ("python -m train trace", False),
        ("python -c 'import cProfile'", False),
    ],
)
def test_what_runs_the_script_is_known_by_its_command(command: str, found: bool) -> None:
    def scene(second: int) -> Snapshot:
        shot = efficiency.single(second, {})
        words = tuple(shlex.split(command))
        return replace(shot, processes=tuple(replace(process, command=words) for process in shot.processes))

    assert ("E05" in ids(play(scene, 12)[-1])) is found
