"""Machines as other people's work leaves them, one snapshot per second: each is played with its journal, and without one.

Built with the helpers of the tests' scenes, but with different situations.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from accuracy.cases import Answer, Case, is_alarm, judge
from accuracy.healthy_scenes import HEALTHY
from accuracy.machines import CASES as MACHINE_CASES
from accuracy.machines import JOURNAL_ONLY, MACHINES
from gputop.doctor.diagnosis import Doctor
from gputop.doctor.findings.finding import Finding
from gputop.snapshot import Ancestor, Device, Points, Process, Snapshot, Workers

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests import samples
from tests.doctor import tracked
from tests.doctor.scenes.base import Scene, gpus, journal, not_tracked, rank, scene, single, use
from tests.samples import EPOCH

SECONDS = 120


def play(scene_of: Scene, case: Case) -> tuple[Answer, int | None, list[Finding]]:
    """Return the answer, when the right verdict was first shown (seconds; the fault begins at 0), and what was said."""
    doctor = Doctor()
    first_s = None
    alarms = []
    for second in range(SECONDS):
        found = doctor.observe(scene_of(second))
        alarms += [item for item in found if is_alarm(item)]
        if first_s is None and found and found[0].id in case.right:
            first_s = second
    told = found if case.right else alarms
    answer = judge(case, told, suspected=bool(doctor.undecided))
    return answer, first_s, list(told)


def both(build: Scene, journal_only: bool) -> Iterator[tuple[str, Scene]]:
    """Yield a scene as seen from outside and, if it has a journal, as ``gputop run`` tracks it.

    A fault that only the journal shows cannot be seen from outside: such a scene is played only with its journal.
    """
    if not journal_only:
        yield "attached", not_tracked(build)
    if build(0).runs:
        yield "tracked", build


def _alone(pid: int, index: int, second: int, gib: float = 30.0, **changes: Any) -> Process:
    base = single(pid, use(index, gib), second=second, visible=1, mask=str(index))
    return replace(base, **changes)


def _calm_journal(second: int, world: int, **facts: Any) -> Snapshot:
    return tracked.ddp(second, world, each=lambda number, step: facts)


# ---- faults


def yaml_device_zero(second: int) -> Snapshot:
    """``device: cuda:0`` stands in the configuration of all six ranks."""
    ranks = tuple(rank(n, use(0, 9.5, 16.0), world=6, second=second) for n in range(6))
    return scene(second, gpus([0]), ranks, (journal(6, second),))


def wrapper_script_forgot_torchrun(second: int) -> Snapshot:
    """run.sh starts python directly on a machine with eight GPUs."""
    shell = (Ancestor(2990, "run.sh"), Ancestor(3000, "bash"), Ancestor(1, "systemd"))
    process = replace(single(4100, use(0, 61.0), second=second), command=("python", "-u", "main_pretrain.py"), ancestors=shell)
    return scene(second, gpus([0]), (process,))


def colleague_on_gpu_two(second: int) -> Snapshot:
    """A server of somebody else computes on one of the run's GPUs."""
    other = replace(single(9000, use(2, 21.0, 44.0), second=second), uid=1007, user="lin", command=("python", "serve.py"))
    base = _calm_journal(second, 4)
    return replace(base, processes=(*base.processes, other))


def one_rank_asleep(second: int) -> Snapshot:
    """Steps stand; three GPUs spin at the power of an idle card, the fourth idles, and its rank sleeps on a lock."""
    devices = tuple(
        samples.device(n, utilization_percent=100.0, power_w=128.0, sm_activity_percent=3.0)
        if n != 2
        else samples.idle_device(n, memory_used_bytes=40 * 2**30)
        for n in range(4)
    )
    base = tracked.ddp(second, 4, frozen=True, devices=devices)
    asleep: dict[str, Any] = {"cpu_percent": 0.0, "state": "S", "waits_in": "futex_wait_queue", "main_thread_cpu_percent": 0.0}
    return replace(base, processes=tuple(replace(p, **asleep) if p.rank == 2 else p for p in base.processes))


def sixteen_workers_on_one_core(second: int) -> Snapshot:
    """A batch job with --cpus-per-task=1."""
    workers = Workers(16, cpu_percent=99.0, cores_allowed=1)
    process = replace(single(4000, use(0, 20.0), second=second, visible=1), workers=workers, cores_allowed=1)
    return scene(second, gpus([0], 1, utilization_percent=7.0 + 50.0 * (second % 6 == 0)), (process,))


def cpu_build_of_torch(second: int) -> Snapshot:
    """The environment holds torch+cpu, and the script falls back without a word."""
    process = single(4000, nvidia_open=False, torch_cuda_mapped=False, autograd_threads=(), cpu_percent=1540.0)
    return scene(second, gpus([], 4), (replace(process, command=("python", "-m", "mylab.fit", "cfg=base")),))


def hot_third_card(second: int) -> Snapshot:
    """One card of four slows down by heat for most of the time."""
    hot: dict[str, Any] = {
        "temperature_c": 91.0,
        "throttle_reasons": ("hw_thermal_slowdown", "sw_thermal_slowdown"),
        "sm_clock_mhz": 870.0,
    }
    devices = tuple(replace(d, **_known(d, hot)) if d.index == 2 else d for d in gpus(range(4), 4))
    return tracked.ddp(second, 4, devices=devices)


def slow_images(second: int) -> Snapshot:
    """Three quarters of each step go to the loader."""
    metrics: tracked.Metrics = {**tracked.CALM, "step_s": lambda r, s: 0.8, "phase/data": lambda r, s: 0.6}
    bursts = gpus([0], 1, utilization_percent=92.0 if second % 4 == 0 else 1.0)
    workers = Workers(2, cpu_percent=198.0, cores_allowed=64)
    process = tracked.one_process(second, 0, visible=1, workers=workers)
    return tracked.single(second, {"loader": {"num_workers": 2}}, devices=bursts, process=process, metrics=metrics)


def prints_its_data_time(second: int) -> Snapshot:
    """A script of another framework logs time and data_time itself; nothing of torch's loader is seen."""
    metrics: dict[str, Callable[[int, int], float | None]] = {
        "loss": lambda r, s: 3.0 - 0.001 * s,
        "time": lambda r, s: 0.52,
        "data_time": lambda r, s: 0.31,
    }
    base = tracked.single(second, {}, metrics=metrics, devices=gpus([0], 1, utilization_percent=38.0))
    newest = {points.metric: points.values[-1] for points in base.points}
    ranks = tuple(replace(r, metrics=newest, facts={"source": "log"}) for r in base.runs[0].ranks)
    return replace(base, runs=(replace(base.runs[0], ranks=ranks),))


def slower_by_the_hour(second: int) -> Snapshot:
    """Two hours of a run in one look: its steps take twice as long at the end as at the beginning."""
    base = tracked.single(second, {}, metrics={**tracked.CALM, "step_s": lambda r, s: 0.44})
    if second:
        return base
    steps = tuple(range(-24_000, 0, 20))
    times = tuple(EPOCH + 0.3 * step for step in steps)
    values = tuple(0.2 * (1.0 + (step + 24_000) / 20_000) for step in steps)
    return replace(base, points=(Points("run-1", 0, "step_s", steps, times, values), *base.points))


# ---- healthy


def sweep_of_eight(second: int) -> Snapshot:
    """A grid search: the same script eight times, each on its own GPU by a mask."""
    runs = tuple(_alone(4000 + n, n, second, command=("python", "fit.py", "--lr", f"{n}e-4")) for n in range(8))
    return scene(second, gpus(range(8)), runs)


def server_at_night(second: int) -> Snapshot:
    """An inference server holds its memory and waits for requests."""
    devices = gpus([0], 1, utilization_percent=float(second % 37 == 0) * 60.0, power_w=90.0)
    server = replace(single(4000, use(0, 70.0, 0.0), second=0, visible=1), command=("python", "-m", "vllm.entrypoints.api"))
    return scene(second, devices, (replace(server, cpu_percent=2.0, state="S"),))


def actors_and_a_learner(second: int) -> Snapshot:
    """Reinforcement learning: a learner on the GPU, and twelve actors that run small networks on the CPU."""
    learner = replace(single(4000, use(0, 6.0, 30.0), second=second, visible=1), command=("python", "impala.py"))
    no_gpu: dict[str, Any] = {"nvidia_open": False, "torch_cuda_mapped": False, "autograd_threads": (), "cpu_percent": 99.0}
    actors = tuple(replace(learner, pid=4100 + n, ppid=4000, devices=(), **no_gpu) for n in range(12))
    return scene(second, gpus([0], 1, utilization_percent=34.0), (learner, *actors))


def tensor_parallel_by_hand(second: int) -> Snapshot:
    """Four ranks share each layer: equal batches and equal losses on purpose, without a wrapper of torch."""
    calls = {"all_reduce": 400 + 24 * second, "all_gather": 120 + 9 * second}
    group = {"backend": "nccl", "world_size": 4, "rank": 0, "groups": 2, "mesh": ["tp"], "collectives": calls}

    def each(number: int, step: int) -> dict[str, Any]:
        plain = {"wrapper": None, "wrappers": [], "mesh": ["tp"]}
        equal = {"recent": [[at, 777 + at] for at in range(step - 15, step + 1)]}
        return {"model": plain, "batches": equal, "process_group": {**group, "rank": number}, "sampler": {"set_epoch": True}}

    return tracked.ddp(second, 4, each=each, metrics={**tracked.CALM, "loss": lambda r, s: 2.0 - s * 0.001 + (s % 7) * 0.01})


def two_jobs_share_a_box(second: int) -> Snapshot:
    """Two people, four GPUs each, by their masks."""
    mine = tuple(rank(n, use(n), world=4, second=second, cuda_visible_devices="0,1,2,3") for n in range(4))
    theirs = tuple(
        replace(single(7000 + n, use(4 + n, 44.0), second=second, visible=4, mask="4,5,6,7"), uid=1007, user="lin")
        for n in range(4)
    )
    return scene(second, gpus(range(8)), (*mine, *theirs), (journal(4, second),))


def logs_data_time_in_order(second: int) -> Snapshot:
    """The look-alike of a script that logs time and data_time: data takes 2%."""
    base = prints_its_data_time(second)
    return replace(base, points=tuple(_scaled(p, 0.03) if p.metric == "data_time" else p for p in base.points))


def steady_for_hours(second: int) -> Snapshot:
    """Two hours of a run at one pace, but for a slow hour of another program in the middle."""
    base = tracked.single(second, {})
    if second:
        return base
    steps = tuple(range(-24_000, 0, 20))
    times = tuple(EPOCH + 0.3 * step for step in steps)
    values = tuple(0.45 if -14_000 < step < -11_000 else 0.3 for step in steps)
    return replace(base, points=(Points("run-1", 0, "step_s", steps, times, values), *base.points))


def _scaled(points: Points, factor: float) -> Points:
    return replace(points, values=tuple(value * factor for value in points.values))


def _known(device: Device, values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if hasattr(device, name)}


SCENES: dict[str, Scene] = {
    build.__name__.replace("_", "-"): build
    for build in (
        yaml_device_zero,
        wrapper_script_forgot_torchrun,
        colleague_on_gpu_two,
        one_rank_asleep,
        sixteen_workers_on_one_core,
        cpu_build_of_torch,
        hot_third_card,
        slow_images,
        prints_its_data_time,
        slower_by_the_hour,
        sweep_of_eight,
        server_at_night,
        actors_and_a_learner,
        tensor_parallel_by_hand,
        two_jobs_share_a_box,
        logs_data_time_in_order,
        steady_for_hours,
    )
}
IN_THE_JOURNAL = ("prints-its-data-time", "logs-data-time-in-order", "slower-by-the-hour", "steady-for-hours", *JOURNAL_ONLY)
SCENES.update(HEALTHY)
SCENES.update(MACHINES)
CASES: tuple[Case, ...] = (
    Case("yaml-device-zero", ("A07",)),
    Case("wrapper-script-forgot-torchrun", ("A01",)),
    Case("colleague-on-gpu-two", ("H03",)),
    Case("one-rank-asleep", ("G01",), acceptable=("C08",)),
    Case("sixteen-workers-on-one-core", ("D03",), acceptable=("D01", "D02")),
    Case("cpu-build-of-torch", ("A12",)),
    Case("hot-third-card", ("I01",)),
    Case("slow-images", ("D01",)),
    Case("prints-its-data-time", ("D01",)),
    Case("slower-by-the-hour", ("E10", "E11")),
    *(
        Case(name)
        for name in (
            "sweep-of-eight",
            "server-at-night",
            "actors-and-a-learner",
            "tensor-parallel-by-hand",
            "two-jobs-share-a-box",
            "logs-data-time-in-order",
            "steady-for-hours",
        )
    ),
    *(Case(name) for name in HEALTHY),
    *MACHINE_CASES,
)
