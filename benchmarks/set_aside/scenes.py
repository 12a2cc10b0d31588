"""Set aside: machines as other people's work leaves them, one snapshot a second. See the package for who may read this."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from accuracy.cases import Case

from gputop.snapshot import Ancestor, DeviceUse, LaunchEnvironment, Snapshot, Workers

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from tests import samples
from tests.doctor import tracked
from tests.doctor.scenes.base import Scene, gpus, journal, rank, scene, single, use
from tests.samples import EPOCH, GIB

_case = partial(Case, half="set aside")


# ---- faults


def host_memory_nearly_gone(second: int) -> Snapshot:
    """A data set that is kept in memory, once in each of four ranks."""
    base = tracked.ddp(second, 4)
    fat = tuple(replace(process, memory_rss_bytes=61 * GIB) for process in base.processes)
    full: dict[str, Any] = {"memory_used_bytes": 252 * GIB, "memory_available_bytes": 3 * GIB, "memory_pressure_percent": 31.0}
    return replace(base, processes=fat, host=replace(base.host, memory_total_bytes=256 * GIB, **full))


def container_with_docker_s_shm(second: int) -> Snapshot:
    """docker run without --shm-size: 64 MiB, and eight workers that fill them."""
    workers = Workers(8, cpu_percent=240.0, cores_allowed=32)
    process = replace(single(4000, use(0, 20.0), second=second, visible=1), workers=workers, container="docker")
    base = scene(second, gpus([0], 1, utilization_percent=57.0 + second % 9), (process,))
    return replace(base, host=replace(base.host, shm_total_bytes=64 * 2**20, shm_used_bytes=61 * 2**20))


def second_node_never_came(second: int) -> Snapshot:
    """Eight ranks of sixteen sleep in the rendezvous: the other node is still in the queue."""
    quiet: dict[str, Any] = {
        "state": "S",
        "cpu_percent": 0.4,
        "main_thread_cpu_percent": 0.2,
        "nvidia_open": False,
        "waits_in": "do_sys_poll",
        "autograd_threads": (),
        "run_id": None,
    }
    ranks = tuple(replace(rank(n, world=16, second=0, local_world_size=8), started_at=EPOCH - 45, **quiet) for n in range(8))
    return scene(second, gpus([]), ranks)


def slow_card_in_the_row(second: int) -> Snapshot:
    """Three H100 and a replacement from the old machine."""
    old: dict[str, Any] = {"name": "NVIDIA A100-PCIE-40GB", "memory_total_bytes": 40 * GIB, "memory_used_bytes": 36 * GIB}
    old |= {"power_limit_w": 250.0, "power_default_limit_w": 250.0, "power_w": 241.0, "sm_clock_max_mhz": 1410.0}
    devices = tuple(
        samples.device(n, sm_clock_mhz=1410.0, utilization_percent=100.0, **old)
        if n == 3
        else samples.device(n, utilization_percent=58.0 + (second + n) % 7, power_w=330.0, memory_used_bytes=36 * GIB)
        for n in range(4)
    )

    def each(number: int, step: int) -> dict[str, Any]:
        slow = number == 3
        return {"ddp": {"forward_s": 0.13 if slow else 0.06, "backward_s": 0.16 if slow else 0.23}}

    processes = [rank(n, use(n, 35.0), world=4, second=second) for n in range(4)]
    return tracked.ddp(second, 4, each=each, devices=devices, processes=processes)


def trainer_without_a_launcher(second: int) -> Snapshot:
    """python run_glue.py on a machine with four GPUs."""
    process = tracked.one_process(second, 0, 1, 2, 3, gib=(31.0, 19.0, 19.0, 19.0), visible=4)
    process = replace(process, command=("python", "run_glue.py", "--model_name_or_path", "roberta-large", "--do_train"))
    facts: Mapping[str, Any] = {
        "frameworks": ["transformers", "transformers.trainer", "accelerate"],
        "model": {"class": "RobertaForSequenceClassification", "wrapper": "DataParallel", "wrappers": ["DataParallel"]},
        "data_parallel": {
            "device_ids": [0, 1, 2, 3],
            "replicas": 4,
            "batch_rows": 32,
            "rows_per_device": [8, 8, 8, 8],
            "calls": 40 + 3 * second,
            "underused_calls": 0,
            "uneven_calls": 0,
            "module": "RobertaForSequenceClassification",
            "output_device": 0,
            "dim": 0,
            "tensor_leaves": 3,
            "leaf_sizes": [32, 32, 32],
        },
        "wrapper_calls": {"wrapped": 40 + 3 * second, "bypassed": 0, "bypassed_steps": 0, "module": None, "where": None},
    }
    loads = (74.0, 46.0, 44.0, 45.0)
    sizes = (32, 20, 20, 20)
    devices = tuple(
        samples.device(n, utilization_percent=loads[n] + second % 5, memory_used_bytes=sizes[n] * GIB, power_w=310.0)
        for n in range(4)
    )
    return tracked.single(second, facts, devices=devices, process=process, numbers=(0, 1, 2, 3))


def full_precision_everywhere(second: int) -> Snapshot:
    """float32 without TF32: the tensor cores do nothing."""
    facts: Mapping[str, Any] = {
        "settings": {"float32_matmul_precision": "highest", "allow_tf32": False, "autocast": False},
        "model": {"class": "ViT", "parameter_dtypes": {"float32": 86_000_000}},
    }
    busy = gpus([0], 1, utilization_percent=97.0, tensor_activity_percent=0.0, sm_activity_percent=91.0)
    return tracked.single(second, facts, devices=busy)


def gradients_over_slow_ethernet(second: int) -> Snapshot:
    """Half of each step is an all_reduce that nothing covers."""
    ddp = {"forward_s": 0.09, "backward_s": 0.14, "communication_s": 0.31, "overlap_s": 0.05}
    metrics: tracked.Metrics = {**tracked.CALM, "step_s": lambda r, s: 0.52, "phase/data": lambda r, s: 0.004}
    devices = tuple(samples.device(n, utilization_percent=99.0, power_w=290.0 + second % 9) for n in range(4))
    return tracked.ddp(second, 4, each=lambda number, step: {"ddp": ddp}, metrics=metrics, devices=devices)


def four_ranks_that_never_met(second: int) -> Snapshot:
    """srun -n 4 python train.py, and the script knows only torchrun's variables: four times the same training."""
    step = Ancestor(3900, "slurmstepd")
    ranks = tuple(
        replace(
            single(4000 + n, use(0, 17.5, 24.0), second=second, visible=4),
            ppid=3900,
            ancestors=(step, Ancestor(1, "systemd")),
            started_at=EPOCH - 300 + 0.2 * n,
            command=("python", "train.py", "--config", "base.yaml"),
            environment=LaunchEnvironment(),
        )
        for n in range(4)
    )
    return scene(second, gpus([0], 4, memory_used_bytes=71 * GIB), ranks)


def notebook_with_three_cards_to_spare(second: int) -> Snapshot:
    """A kernel that trains for real, on the first of four cards that it sees."""
    command = ("/opt/conda/bin/python", "-m", "ipykernel_launcher", "-f", "/home/eva/.local/share/jupyter/kernel-7.json")
    kernel = replace(single(8100, use(0, 34.0), second=second, visible=4), command=command, ppid=8000)
    kernel = replace(kernel, ancestors=(Ancestor(8000, "jupyter-lab"), Ancestor(1, "systemd")))
    return scene(second, gpus([0], 4), (kernel,))


def debug_switches_from_last_week(second: int) -> Snapshot:
    """CUDA_LAUNCH_BLOCKING=1 and detect_anomaly are still there since a hunt for a NaN."""
    process = tracked.one_process(second, 0, visible=1)
    environment = LaunchEnvironment(settings=(("CUDA_LAUNCH_BLOCKING", "1"), ("OMP_NUM_THREADS", "16")))
    process = replace(process, environment=environment)
    devices = gpus([0], 1, utilization_percent=61.0 + second % 5)
    return tracked.single(second, {"settings": {"anomaly_detection": True}}, process=process, devices=devices)


def stranger_on_two_of_my_cards(second: int) -> Snapshot:
    """Another user's job computes on two cards of mine; of its processes the system hides nearly all."""
    hidden: dict[str, Any] = {"command": None, "environment": None, "state": "R", "hidden": ("command", "environment")}
    hidden |= {"torch_mapped": None, "torch_cuda_mapped": None, "nvidia_open": None, "autograd_threads": (), "ancestors": ()}
    mine = tuple(rank(n, use(n, 38.0, 52.0 if n < 2 else 96.0), world=4, second=second) for n in range(4))
    others = tuple(
        replace(single(9100 + n, use(n, 29.0, 47.0), second=0), uid=1044, user="rt", name="python3", **hidden) for n in range(2)
    )
    return scene(second, gpus(range(4), 4), (*mine, *others), (journal(4, second),))


def small_box_in_a_warm_room(second: int) -> Snapshot:
    """A desktop card at 89 degrees, at half of its clock."""
    process = replace(single(4000, use(0, 18.0), second=second, visible=1), command=("python", "train_unet.py"))
    hot = samples.device(
        0,
        name="NVIDIA GeForce RTX 3090",
        memory_total_bytes=24 * GIB,
        memory_used_bytes=19 * GIB,
        sm_activity_percent=None,
        tensor_activity_percent=None,
        temperature_c=89.0,
        sm_clock_mhz=1005.0,
        power_w=221.0,
        power_limit_w=350.0,
        power_default_limit_w=350.0,
        throttle_reasons=("sw_thermal_slowdown",),
    )
    return scene(second, (hot,), (process,))


def two_processes_on_six_cards(second: int) -> Snapshot:
    """accelerate's default_config.yaml was written on another machine: num_processes: 2."""
    accelerate = Ancestor(3999, "accelerate")
    ranks = tuple(
        replace(rank(n, use(n, 40.0), world=2, second=second), launcher=accelerate, run_id=None, ancestors=(accelerate,))
        for n in range(2)
    )
    return scene(second, gpus(range(2), 6), ranks)


# ---- healthy


def queue_of_short_jobs(second: int) -> Snapshot:
    """A bash loop over settings: a new process every 40 s, and half a minute of each on the card."""
    number, into = second // 40, second % 40
    busy = 8 <= into < 38
    base = single(4000 + 10 * number, *((use(0, 12.0),) if busy else ()), second=into, visible=1, mask="0")
    job = replace(base, started_at=EPOCH + 40 * number, command=("python", "fit.py", "--c", str(number)), nvidia_open=busy)
    device = samples.device(0, utilization_percent=93.0) if busy else samples.idle_device(0)
    return scene(second, (device,), (job,))


def coordinator_without_a_gpu(second: int) -> Snapshot:
    """Five ranks: four learn, and rank 0 hands out work and holds the weights on the CPU."""
    learners = tuple(replace(rank(n, use(n - 1, 30.0), world=5, second=second), pid=4000 + n, run_id=None) for n in range(1, 5))
    head = replace(rank(0, world=5, second=0), nvidia_open=False, autograd_threads=(), cpu_percent=140.0, run_id=None)
    devices = tuple(samples.device(n, utilization_percent=83.0 + (second * (n + 3)) % 11) for n in range(4))
    return scene(second, devices, (head, *learners))


def clients_of_a_federation(second: int) -> Snapshot:
    """Four simulated sites on four cards: each trains for ten seconds, and waits for the round of the others."""
    turn = second // 10 % 4
    clients = tuple(
        replace(
            single(4000 + n, use(n, 9.0, 60.0 if n == turn else 0.0), second=second, visible=1, mask=str(n)),
            command=("python", "client.py", "--site", f"hospital-{n}", "--server", "127.0.0.1:8080"),
            ppid=3950,
            cpu_percent=101.0 if n == turn else 0.3,
            state="R" if n == turn else "S",
        )
        for n in range(4)
    )
    devices = tuple(
        samples.device(n, utilization_percent=88.0) if n == turn else samples.idle_device(n, memory_used_bytes=9 * GIB)
        for n in range(4)
    )
    return scene(second, devices, clients)


def desktop_beside_the_training(second: int) -> Snapshot:
    """A workstation: Xorg and a browser draw on both cards on which somebody trains."""
    graphics = tuple(DeviceUse(use(n).device_uuid, 300 * 2**20, 1.0, "G") for n in range(2))
    plain: dict[str, Any] = {"torch_mapped": False, "torch_cuda_mapped": False, "autograd_threads": ()}
    xorg = replace(single(1500, *graphics, second=0), uid=0, user="root", name="Xorg", command=("/usr/lib/xorg/Xorg",), **plain)
    browser = replace(single(2500, graphics[0], second=0), name="firefox", command=("firefox",), **plain)
    ranks = tuple(rank(n, use(n, 18.0), world=2, second=second) for n in range(2))
    return scene(second, gpus([0, 1], 2), (xorg, browser, *ranks), (journal(2, second),))


def goes_on_after_a_jump(second: int) -> Snapshot:
    """A checkpoint without its optimizer's state: the loss jumps, and falls again within a minute."""

    def loss(number: int, step: int) -> float:
        if step < 150:
            return 1.3 - step * 0.001
        return 1.15 + 3.0 * math.exp(-(step - 150) / 40) + (step % 5) * 0.004

    return tracked.ddp(second, 4, metrics={**tracked.CALM, "loss": loss})


SCENES: dict[str, Scene] = {
    build.__name__.replace("_", "-"): build
    for build in (
        host_memory_nearly_gone,
        container_with_docker_s_shm,
        second_node_never_came,
        slow_card_in_the_row,
        trainer_without_a_launcher,
        full_precision_everywhere,
        gradients_over_slow_ethernet,
        four_ranks_that_never_met,
        notebook_with_three_cards_to_spare,
        debug_switches_from_last_week,
        stranger_on_two_of_my_cards,
        small_box_in_a_warm_room,
        two_processes_on_six_cards,
        queue_of_short_jobs,
        coordinator_without_a_gpu,
        clients_of_a_federation,
        desktop_beside_the_training,
        goes_on_after_a_jump,
    )
}
IN_THE_JOURNAL = ("full-precision-everywhere", "gradients-over-slow-ethernet")
CASES: tuple[Case, ...] = (
    # 3 of 256 GiB are left.
    _case("host-memory-nearly-gone", ("H05",)),
    # 61 of 64 MiB are taken.
    _case("container-with-docker-s-shm", ("D08",), acceptable=("G05",)),
    # World size 16, eight on this machine, and none of them has done anything.
    _case("second-node-never-came", ("G03",), acceptable=("G02",)),
    # Another card, with half the memory; the others wait for it.
    _case("slow-card-in-the-row", ("I06",), acceptable=("F02",)),
    # One process on four cards, and the first holds more.
    _case("trainer-without-a-launcher", ("A09",), acceptable=("B07", "B08")),
    # A card at 97 % whose tensor cores count 0.
    _case("full-precision-everywhere", ("E03",)),
    # 0.26 s of 0.52 s.
    _case("gradients-over-slow-ethernet", ("E06",)),
    # Four equal commands of one parent, without ranks, on one card.
    _case("four-ranks-that-never-met", ("A18",), acceptable=("A07", "A01")),
    # ipykernel on one busy card beside three that it sees.
    _case("notebook-with-three-cards-to-spare", ("A11",), acceptable=("A01",)),
    # Two switches that are made for hunting faults.
    _case("debug-switches-from-last-week", ("E05",)),
    # A compute context of 29 GiB that is none of the run's, on two of its cards.
    _case("stranger-on-two-of-my-cards", ("H03",)),
    # The driver names heat as its reason.
    _case("small-box-in-a-warm-room", ("I01",)),
    # Two ranks, and four cards that they see and nobody uses.
    _case("two-processes-on-six-cards", ("A02",)),
    # Pauses between jobs are no fault of a job.
    _case("queue-of-short-jobs"),
    # Rank 0 needs no card.
    _case("coordinator-without-a-gpu"),
    # Sites that wait for their round; each has settings of its own.
    _case("clients-of-a-federation"),
    # What draws the screen is no other job.
    _case("desktop-beside-the-training"),
    # A jump that passes.
    _case("goes-on-after-a-jump"),
)
