"""Scenes of launch and placement (catalogue A, H01): faults, and look-alikes in which nothing is wrong.

``FAULTS`` holds (rule, name, scene, seconds), ``HEALTHY`` (name, scene, seconds), for whoever plays them all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gputop.snapshot import Ancestor, Device, DeviceUse, LaunchEnvironment, LogMatch, Process, Run, Snapshot
from tests import samples
from tests.doctor.scenes.base import (
    SHELL,
    Scene,
    gpus,
    journal,
    one_rank,
    rank,
    scene,
    single,
    use,
    uuid,
    virtual,
    virtual_rank,
    virtual_run,
)
from tests.samples import EPOCH, GIB

UNEQUAL = ("NVIDIA GeForce RTX 3090", "NVIDIA TITAN V", "NVIDIA RTX A6000", "NVIDIA RTX A6000")


def said(pattern: str, line: str, run_id: str | None = "run-1", **changes: Any) -> LogMatch:
    """A known error text in the run's log."""
    return replace(LogMatch(pattern, None, line, run_id, file="rank0.log", line_number=41), **changes)


def tracked(second: int, facts: dict[str, Any], process: Process, devices: tuple[Device, ...] | None = None) -> Snapshot:
    """One process with a journal that says ``facts``; on four GPUs of which GPU 0 works."""
    run = replace(journal(1, second), world_size=1, command=None, ranks=(one_rank(step=100 + second, facts=facts),))
    return scene(second, devices or gpus([0], 4), (replace(process, run_id="run-1", rank=0),), (run,))


def failed(second: int, run: Run, *matches: LogMatch, devices: tuple[Device, ...] | None = None) -> Snapshot:
    """A machine of four GPUs after a run failed and said something known."""
    ended = replace(run, state="failed", ranks=tuple(replace(r, state="failed", exit_code=1) for r in run.ranks))
    return replace(scene(second, devices or gpus([], 4), (), (ended,)), logs=matches)


def alternate(second: int, *indices: int, count: int = 4) -> tuple[Device, ...]:
    """GPUs of which one works at a time, a few seconds each."""
    turn = indices[second // 3 % len(indices)]
    return tuple(
        samples.device(n, utilization_percent=95.0 if n == turn else 2.0) if n in indices else samples.idle_device(n)
        for n in range(count)
    )


def unequal(busy: tuple[int, ...]) -> tuple[Device, ...]:
    return tuple(replace(device, name=UNEQUAL[device.index]) for device in gpus(busy, 4))


# ---- A01, A02, A03, A07, A12, H01


def ranks_on_gpu_0(second: int) -> Snapshot:
    processes = tuple(rank(number, use(0, 15, 24), world=4, second=second) for number in range(4))
    return scene(second, gpus([0]), processes, (journal(4, second),))


def plain(second: int, **changes: Any) -> Snapshot:
    return scene(second, gpus([0], 4), (single(4000, use(0), second=second, visible=4, **changes),))


def two_of_eight(second: int) -> Snapshot:
    run = replace(journal(2, second), command=("torchrun", "--nproc-per-node=2", "train.py", "--epochs", "3"))
    processes = tuple(rank(n, use(n), world=2, second=second) for n in range(2))
    return scene(second, gpus([0, 1]), processes, (run,))


def accelerated_alone(second: int, launcher: str = "accelerate") -> Snapshot:
    """Accelerate's configuration says one process: it gets no rank."""
    return plain(second, launcher=Ancestor(3999, launcher))


def four_on_one(second: int) -> Snapshot:
    processes = tuple(rank(n, use(0, 15), world=4, second=second, cuda_visible_devices="0") for n in range(4))
    return scene(second, gpus([0]), processes, (journal(4, second),))


def both_on_one(second: int) -> Snapshot:
    """A shell script set RANK and WORLD_SIZE itself, and the mask of one GPU for both."""
    shot = scene(second, gpus([0], 2), tuple(rank(n, use(0, 15), world=2, second=second) for n in range(2)))
    environments = (LaunchEnvironment(rank=n, world_size=2, cuda_visible_devices="0") for n in range(2))
    processes = tuple(
        replace(process, environment=environment, launcher=None, ancestors=SHELL, run_id=None)
        for process, environment in zip(shot.processes, environments, strict=True)
    )
    return replace(shot, processes=processes)


def both_on_one_virtual(second: int) -> Snapshot:
    """The same with virtual GPUs, which nobody chose in gputop."""
    environments = (LaunchEnvironment(rank=n, world_size=2, virtual_devices="0") for n in range(2))
    processes = tuple(
        replace(virtual_rank(n, 0), environment=e, run_id=None, launcher=None) for n, e in enumerate(environments)
    )
    return virtual(second, {0: 95.0}, processes, (), count=2)


def on_cpu(second: int, facts: dict[str, Any] | None = None, **changes: Any) -> Snapshot:
    process = single(4000, nvidia_open=False, torch_cuda_mapped=False, autograd_threads=(), **changes)
    runs: tuple[Run, ...] = ()
    if facts is not None:
        process = replace(process, run_id="run-1", rank=0)
        runs = (replace(journal(1, second), command=None, ranks=(one_rank(step=second, facts=facts),)),)
    return scene(second, gpus([], 8), (process,), runs)


def tracked_on_cpu(second: int) -> Snapshot:
    return on_cpu(second, {"model": {"parameter_device": "cpu"}, "torch": {"cuda_available": False}})


def ghosts(second: int, ghost_gib: float = 0.5, own_gib: float = 40) -> Snapshot:
    uses = [(use(0, 40),), *((use(n, own_gib), use(0, ghost_gib, 0)) for n in range(1, 4))]
    processes = tuple(rank(n, *uses[n], world=4, second=second) for n in range(4))
    return scene(second, gpus(range(4), 4), processes, (journal(4, second),))


# ---- A04


def set_late(second: int, now: str = "2,3", seen: tuple[int, ...] = (0, 1, 2, 3), **changes: Any) -> Snapshot:
    """Four GPUs were visible at launch; the script assigns the mask after torch.cuda.is_available()."""
    facts = {
        "environment": {
            "cuda_visible_devices_launch": None,
            "cuda_visible_devices_now": now,
            "device_order": None,
            "visible_uuids": [uuid(n).removeprefix("GPU-") for n in seen],
        },
        "torch": {"device_count": len(seen), "cuda_available": True},
        "model": {"parameter_device": "cuda:0"},
    }
    process = single(4000, use(seen[0]), second=second, visible=len(seen), **changes)
    return tracked(second, facts, process, gpus([seen[0]], 4))


def set_in_time(second: int) -> Snapshot:
    return set_late(second, "2", (2,), environment=LaunchEnvironment(gputop_job_id="job-1"))


# ---- A05


def malformed(second: int, mask: str = "0;1") -> Snapshot:
    taken = mask[0].isdigit() and mask != "0,0"
    process = single(4000, *([use(0)] if taken else []), second=second, visible=1, mask=mask)
    return scene(second, gpus([0] if taken else [], 4), (process,))


def malformed_virtual(second: int) -> Snapshot:
    """As the demo mask_with_a_repeat: the script falls back to the CPU, and claims no device."""
    environment = LaunchEnvironment(virtual_devices="0,0", gputop_job_id="job-1")
    process = replace(virtual_rank(0, 0, 1), environment=environment, launcher=None)
    return virtual(second, {0: 95.0}, (process,), (virtual_run(second, [0]),))


def spaced_mask(second: int) -> Snapshot:
    ranks = tuple(rank(n, use(n), world=2, second=second, cuda_visible_devices="0, 1") for n in range(2))
    return scene(second, gpus([0, 1], 2), ranks, (journal(2, second),))


# ---- A06


def other_order(second: int, order: str | None = None, place: int = 2) -> Snapshot:
    """The mask says 0; CUDA's fastest card is nvidia-smi's GPU 2."""
    environment = LaunchEnvironment(cuda_visible_devices="0", cuda_device_order=order)
    process = single(4000, use(place, 20), second=second, visible=1, environment=environment)
    return scene(second, unequal((place,)), (process,))


def pci_order(second: int) -> Snapshot:
    environment = LaunchEnvironment(cuda_visible_devices="0", cuda_device_order="PCI_BUS_ID", gputop_job_id="job-1")
    process = single(4000, use(0, 20), second=second, visible=1, environment=environment)
    return scene(second, unequal((0,)), (process,))


# ---- A08, A13, A15, A17: what a run said as it failed


def second_machine(second: int) -> Snapshot:
    """Ranks 4 to 7 of eight run here, each with set_device(RANK)."""
    ranks = tuple(replace(r, rank=r.rank + 4, world_size=8) for r in samples.run(4).ranks)
    line = "torch.AcceleratorError: CUDA error: invalid device ordinal"
    return failed(second, replace(samples.run(4), ranks=ranks), said("invalid_ordinal", line, rank=5))


def one_machine(second: int) -> Snapshot:
    """Rank and local rank agree: the ordinal came from elsewhere."""
    return failed(second, samples.run(4), said("invalid_ordinal", "CUDA error: invalid device ordinal", rank=3))


def two_devices(second: int) -> Snapshot:
    line = "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    return failed(second, samples.run(1), said("two_devices", line))


def two_devices_in_the_journal(second: int) -> Snapshot:
    """Nobody captured the output; the tracking caught the exception."""
    message = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    facts = {"error": {"type": "RuntimeError", "message": message, "where": "train.py:41"}}
    run = samples.run(1)
    return failed(second, replace(run, ranks=(replace(run.ranks[0], facts=facts),)))


def model_left_on_cpu(second: int) -> Snapshot:
    facts = {"model": {"parameter_device": "cpu", "parameter_devices": {"cpu": 1000}}, "torch": {"cuda_available": True}}
    process = single(4000, use(0, 0.4, 0), second=second, visible=4, autograd_threads=())
    return tracked(second, facts, process, gpus([], 4))


def offloaded(second: int) -> Snapshot:
    """ZeRO-Offload keeps its parameters on the CPU."""
    facts = {"model": {"parameter_device": "cpu"}, "frameworks": ["deepspeed"], "torch": {"cuda_available": True}}
    process = single(4000, use(0), second=second, visible=1, mask="0", autograd_threads=())
    return tracked(second, facts, process, gpus([0], 1))


def exclusive(second: int, mode: str = "exclusive_process") -> Snapshot:
    line = "torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"
    return failed(second, samples.run(4), said("devices_busy", line, rank=1), devices=gpus([], 4, compute_mode=mode))


def local_rank_refused(second: int) -> Snapshot:
    command = ("python", "-m", "torch.distributed.launch", "--nproc_per_node=4", "train.py", "--lr", "1")
    line = "train.py: error: unrecognized arguments: --local-rank=0"
    return failed(second, replace(samples.run(4), command=command), said("local_rank_dash", line))


# ---- A09, A10, A11, A16


def trainer(second: int, frameworks: tuple[str, ...] = ("transformers", "transformers.trainer")) -> Snapshot:
    facts = {
        "data_parallel": {"device_ids": [0, 1, 2, 3], "calls": 10 * second, "batch_rows": 32, "rows_per_device": [8, 8, 8, 8]},
        "model": {"wrapper": "DataParallel", "parameter_device": "cuda:0"},
        "frameworks": list(frameworks),
    }
    process = single(4000, *(use(n, 20) for n in range(4)), second=second, visible=4)
    return tracked(second, facts, process, gpus(range(4), 4))


def device_map(second: int) -> Snapshot:
    facts = {"model": {"hf_device_map": 4, "parameter_device": "cuda:0"}, "frameworks": ["transformers", "accelerate"]}
    process = single(4000, *(use(n, 20) for n in range(4)), second=second, visible=4)
    return tracked(second, facts, process, alternate(second, 0, 1, 2, 3))


def turns_seen_from_outside(second: int) -> Snapshot:
    process = single(4000, use(0, 20), use(1, 20), second=second, visible=4)
    return scene(second, alternate(second, 0, 1), (process,))


def pipeline(second: int) -> Snapshot:
    """Two stages with micro-batches: both work."""
    return scene(second, gpus([0, 1], 2), (single(4000, use(0, 20), use(1, 20), second=second, visible=2),))


def notebook(second: int, frameworks: tuple[str, ...] = ("accelerate",)) -> Snapshot:
    facts = {"frameworks": list(frameworks), "model": {"parameter_device": "cuda:0"}}
    command = ("python", "-m", "ipykernel_launcher", "-f", "kernel.json")
    return tracked(second, facts, single(4000, use(0), second=second, visible=4, command=command))


def notebook_on_one_gpu(second: int) -> Snapshot:
    command = ("python", "-m", "ipykernel_launcher", "-f", "kernel.json")
    return scene(second, gpus([0], 1), (single(4000, use(0), second=second, visible=1, command=command),))


def yolo(second: int) -> Snapshot:
    return plain(second, command=("/opt/venv/bin/python", "/opt/venv/bin/yolo", "train", "data=coco.yaml", "device=0"))


def yolo_on_two(second: int) -> Snapshot:
    """Ultralytics starts its ranks itself."""
    ranks = tuple(rank(n, use(n), world=2, second=second) for n in range(2))
    parent = single(3998, second=second, command=("yolo", "train", "device=0,1"), autograd_threads=(), torch_mapped=True)
    return scene(second, gpus([0, 1], 2), (parent, *ranks), (journal(2, second),))


def deepspeed_ignores(second: int) -> Snapshot:
    ranks = tuple(
        replace(rank(n, use(n), world=2, second=second, cuda_visible_devices="2,3"), launcher=Ancestor(3999, "deepspeed"))
        for n in range(2)
    )
    line = "Detected CUDA_VISIBLE_DEVICES=2,3 but ignoring it because one or several of --include/--num_gpus cl args were used."
    return replace(scene(second, gpus([0, 1], 4), ranks, (journal(2, second),)), logs=(said("ds_cvd_ignored", line),))


# ---- A14


def mig_devices(instances: int = 4) -> tuple[Device, ...]:
    parent = samples.device(0, mig_enabled=True, utilization_percent=None)
    parts = tuple(
        Device(n + 1, f"MIG-{n}", "MIG 1g.10gb", "mig", parent.uuid, memory_used_bytes=GIB, utilization_percent=None)
        for n in range(instances)
    )
    return (parent, *parts)


def ranks_on_one_instance(second: int) -> Snapshot:
    ranks = tuple(rank(n, DeviceUse("MIG-0", 4 * GIB, None, "C"), world=2, second=second) for n in range(2))
    return scene(second, mig_devices(), ranks, (journal(2, second),))


def data_parallel_on_mig(second: int) -> Snapshot:
    process = single(
        4000,
        DeviceUse("MIG-0", 4 * GIB, None, "C"),
        second=second,
        visible=1,
        command=("python", "train.py", "--num-gpus", "4"),
    )
    return scene(second, mig_devices(), (process,))


def one_run_on_an_instance(second: int) -> Snapshot:
    process = single(4000, DeviceUse("MIG-0", 4 * GIB, None, "C"), second=second, visible=1, mask="MIG-0")
    return scene(second, mig_devices(), (process,))


# ---- A18


def independent(second: int, threads: tuple[tuple[str, int], ...] = ()) -> Snapshot:
    """mpirun started four tasks; nothing gave them a rank, and all take cuda:0."""
    processes = tuple(
        single(
            4000 + n,
            use(0, 15, 24),
            second=second,
            visible=4,
            launcher=Ancestor(3999, "mpirun"),
            ancestors=(Ancestor(3999, "mpirun"),),
            started_at=EPOCH - 600 + n,
            threads=threads,
        )
        for n in range(4)
    )
    return scene(second, gpus([0], 4), processes)


def worlds_of_one(second: int) -> Snapshot:
    """As the demo independent_worlds: a loop started two processes, and each made a process group of its own."""
    processes = []
    runs = []
    for n in range(2):
        process = replace(virtual_rank(0, 0, 1), pid=4000 + n, run_id=f"run-{n}", launcher=None, ppid=3000)
        processes.append(
            replace(process, environment=LaunchEnvironment(virtual_devices="0,1"), threads=(("pt_gloo_runloop", 2),))
        )
        run = virtual_run(second, [0], {"process_group": {"backend": "gloo", "world_size": 1, "rank": 0}})
        runs.append(replace(run, run_id=f"run-{n}", ranks=(replace(run.ranks[0], pid=4000 + n),)))
    return virtual(second, {0: 98.0}, tuple(processes), tuple(runs))


def told_that_it_is_alone(second: int) -> Snapshot:
    """A wrapper numbered its processes for the GPUs and left WORLD_SIZE at 1: each makes a gloo group of its own."""
    processes = tuple(
        single(
            4000 + n,
            use(n, 15, 90),
            second=second,
            visible=2,
            environment=LaunchEnvironment(rank=0, local_rank=n, world_size=1),
            threads=(("pt_gloo_runloop", 2),),
            autograd_threads=(),
        )
        for n in range(2)
    )
    return scene(second, gpus(range(2), 2), processes)


def srun_that_meets(second: int) -> Snapshot:
    """Lightning reads SLURM_PROCID: no RANK at launch, and yet one world."""
    processes = tuple(
        single(
            4000 + n,
            use(n),
            second=second,
            visible=4,
            launcher=Ancestor(3999, "srun"),
            ancestors=(Ancestor(3999, "srun"),),
            threads=(("pt_nccl_watchdg", 1), ("NCCL Service", 1)),
        )
        for n in range(4)
    )
    return scene(second, gpus(range(4), 4), processes)


# ---- A19


def doubled(second: int) -> Snapshot:
    """torchrun starts four ranks, and each wraps the model in DataParallel over all four GPUs."""
    ranks = tuple(rank(n, *(use(m, 9) for m in range(4)), world=4, second=second) for n in range(4))
    return scene(second, gpus(range(4), 4), ranks, (journal(4, second),))


def doubled_by_its_word(second: int) -> Snapshot:
    fact = {"device_ids": [0, 1], "calls": 10 * second, "batch_rows": 32, "rows_per_device": [16, 16]}
    ranks = tuple(rank(n, use(0, 9), use(1, 9), world=2, second=second) for n in range(2))
    return scene(second, gpus(range(2), 2), ranks, (journal(2, second, {"data_parallel": fact}),))


def two_gpus_for_each_rank(second: int) -> Snapshot:
    """A model in two parts, copied twice: GPUs 0 and 1 for rank 0, 2 and 3 for rank 1."""
    ranks = tuple(rank(n, use(2 * n, 30), use(2 * n + 1, 30), world=2, second=second) for n in range(2))
    return scene(second, gpus(range(4), 4), ranks, (journal(2, second),))


FAULTS: tuple[tuple[str, str, Scene, int], ...] = (
    ("A01", "plain python", plain, 20),
    ("A02", "two ranks for eight GPUs", two_of_eight, 20),
    ("A02", "one process of Accelerate", accelerated_alone, 20),
    ("A03", "four ranks, a mask of one GPU", four_on_one, 20),
    ("A03", "two ranks of a shell script, a mask of one GPU", both_on_one, 20),
    ("A03", "two ranks of a shell script, a mask of one virtual GPU", both_on_one_virtual, 20),
    ("A04", "mask assigned after CUDA started", set_late, 10),
    ("A05", "mask with a semicolon", malformed, 10),
    ("A05", "mask that names a GPU twice", lambda second: malformed(second, "0,0"), 10),
    ("A05", "mask of virtual GPUs that names one twice", malformed_virtual, 10),
    ("A06", "CUDA's order on unequal cards", other_order, 10),
    ("A07", "every rank on GPU 0", ranks_on_gpu_0, 20),
    ("A08", "set_device(RANK) on the second machine", second_machine, 10),
    ("A09", "the Trainer's DataParallel", trainer, 20),
    ("A10", "device_map in training", device_map, 20),
    ("A10", "GPUs that take turns", turns_seen_from_outside, 60),
    ("A11", "a notebook with accelerate", notebook, 20),
    ("A12", "parameters on the CPU", tracked_on_cpu, 10),
    ("A13", "a batch that was not moved", two_devices, 10),
    ("A13", "an exception that the tracking caught", two_devices_in_the_journal, 10),
    ("A13", "a model that was not moved", model_left_on_cpu, 20),
    ("A14", "ranks on one MIG instance", ranks_on_one_instance, 20),
    ("A14", "four GPUs asked for on MIG", data_parallel_on_mig, 20),
    ("A15", "exclusive compute mode", exclusive, 10),
    ("A16", "yolo's default", yolo, 20),
    ("A16", "DeepSpeed passes over the mask", deepspeed_ignores, 20),
    ("A17", "--local-rank refused", local_rank_refused, 10),
    ("A18", "tasks of mpirun that know nothing of each other", independent, 20),
    ("A18", "two process groups of one", worlds_of_one, 20),
    ("A18", "a wrapper that numbers the GPUs alone", told_that_it_is_alone, 20),
    ("A19", "DataParallel in every rank", doubled, 40),
    ("A19", "DataParallel in every rank, tracked", doubled_by_its_word, 20),
    ("H01", "ghost contexts", ghosts, 15),
)
HEALTHY: tuple[tuple[str, Scene, int], ...] = (
    ("a process below mpirun that is no rank", lambda second: accelerated_alone(second, "mpirun"), 20),
    ("mask assigned in time", set_in_time, 60),
    ("mask with a space after the comma", spaced_mask, 60),
    ("unequal cards in PCI order", pci_order, 60),
    ("a parameter server on the CPU by DeepSpeed", offloaded, 60),
    ("a notebook on a machine with one GPU", notebook_on_one_gpu, 60),
    ("ranks that Ultralytics started", yolo_on_two, 60),
    ("one run on a MIG instance", one_run_on_an_instance, 60),
    ("tasks of srun that have met", srun_that_meets, 60),
    ("two GPUs for each rank", two_gpus_for_each_rank, 60),
    ("a pipeline on two GPUs", pipeline, 90),
)
