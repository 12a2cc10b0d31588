"""Builders of scenes whose ranks are tracked: facts as in docs/facts.md, and points of their metrics, three steps a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from gputop.snapshot import Ancestor, Communicator, Device, LaunchEnvironment, LogMatch, Points, Process, Run, Snapshot
from tests import samples
from tests.doctor.scenes.base import gpus, journal, play, rank, use
from tests.samples import EPOCH

SHELL = (Ancestor(3000, "bash"), Ancestor(1, "systemd"))
Metrics = Mapping[str, Callable[[int, int], float | None]]
Facts = Mapping[str, Any]

PLAIN: Facts = {
    "model": {
        "class": "ResNet",
        "wrapper": None,
        "wrappers": [],
        "parameter_device": "cuda:0",
        "parameter_devices": {"cuda:0": 11_000_000},
        "parameter_dtypes": {"float32": 11_000_000},
        "batch_norm": {"layers": 20, "synced": 0, "frozen": 0},
        "mesh": [],
    },
    "torch": {"version": "2.13.0", "cuda_built": True, "cuda_available": True, "device_count": 4},
    "settings": {
        "float32_matmul_precision": "highest",
        "allow_tf32": False,
        "anomaly_detection": False,
        "deterministic": False,
        "autocast": True,
        "profiler": None,
    },
    "loader": {
        "type": "DataLoader",
        "dataset": "ImageFolder",
        "batch_size": 64,
        "num_workers": 8,
        "drop_last": False,
        "length": 782,
        "dataset_length": 50_000,
        "iterable": False,
        "iterations": 1,
        "exhausted": False,
        "batches": 120,
    },
}
CALM: Metrics = {
    "step_s": lambda rank, step: 0.3,
    "phase/data": lambda rank, step: 0.01,
    "loss": lambda rank, step: _loss(rank, step),
}


def _loss(rank: int, step: int) -> float:
    return 2.0 - step * 0.001 + ((step * 7 + rank * 13) % 11) * 0.01


def merged(*parts: Facts) -> dict[str, Any]:
    """Facts over facts, key by key."""
    found: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            found[name] = {**found.get(name, {}), **value} if isinstance(value, Mapping) else value
    return found


def ddp_facts(number: int, world: int, step: int, **changes: Facts) -> dict[str, Any]:
    """A rank of DDP that is in order, but for these facts."""
    return merged(_ddp_facts(number, world, step), changes)


@lru_cache(4096)  # many scenes have the same ranks at the same step
def _ddp_facts(number: int, world: int, step: int) -> dict[str, Any]:
    steps = range(step - 15, step + 1)
    return merged(
        PLAIN,
        {
            "model": {"wrapper": "DistributedDataParallel", "wrappers": ["DistributedDataParallel"]},
            "loader": {"length": -(-50_000 // (64 * world))},
            "sampler": {"type": "DistributedSampler", "shuffle": True, "set_epoch": True, "replicas": world, "rank": number},
            "wrapper_calls": {"wrapped": step, "bypassed": 0, "bypassed_steps": 0, "module": None, "where": None},
            "ddp": {
                "backend": "nccl",
                "world_size": world,
                "device_ids": [number],
                "find_unused_parameters": False,
                "unused_parameter_bytes": 0,
                "has_sync_bn": False,
                "static_graph": False,
                "iteration": step,
                "forward_s": 0.1,
                "backward_s": 0.18,
                "communication_s": 0.05,
                "overlap_s": 0.045,
                "replaced_parameters": 0,
                "parameter_device": "cuda:0",
                "parameter_dtype": "float32",
            },
            "gradients": {
                "steps": step,
                "backwards": step,
                "synced_backwards": step,
                "unsynced_steps": 0,
                "accumulation": 1,
            },
            "process_group": {
                "backend": "nccl",
                "world_size": world,
                "rank": number,
                "groups": 1,
                "mesh": [],
                "collectives": {"barrier": 1},
            },
            "batches": {
                "recent": [[at, 10_000 * (number + 1) + at] for at in steps],
                "epochs": [[0, 77 + number]],
                "rows": 64,
                "elements": 64 * 3 * 224 * 224,
            },
            "parameters": {"recent": [[at, 5_000 + at, 1.5] for at in range(step - step % 10 - 30, step + 1, 10)]},
        },
    )


def points(second: int, world: int, metrics: Metrics) -> tuple[Points, ...]:
    """Three steps of each metric of each rank."""
    steps = tuple(range(98 + 3 * second, 101 + 3 * second))
    times = tuple(EPOCH + second + (place - 2) / 3 for place in range(3))
    found = []
    for number in range(world):
        for name, value_of in metrics.items():
            values = [(step, time, value_of(number, step)) for step, time in zip(steps, times, strict=True)]
            known = [(step, time, value) for step, time, value in values if value is not None]
            if known:
                columns = tuple(zip(*known, strict=True))
                found.append(Points("run-1", number, name, columns[0], columns[1], columns[2]))
    return tuple(found)


def ddp(
    second: int,
    world: int = 4,
    each: Callable[[int, int], Facts] | None = None,
    *,
    metrics: Metrics = CALM,
    devices: tuple[Device, ...] | None = None,
    processes: Sequence[Process] | None = None,
    logs: tuple[LogMatch, ...] = (),
    communicators: tuple[Communicator, ...] = (),
    frozen: bool = False,
    run: Run | None = None,
) -> Snapshot:
    """A DDP run, a GPU for each rank; ``each`` gives what facts of (rank, step) differ; ``frozen``: its steps do not move."""
    base = run if run is not None else journal(world, 0 if frozen else second)
    step = base.ranks[0].step or 0
    ranks = tuple(
        replace(item, facts=merged(_ddp_facts(item.rank, world, step), each(item.rank, step) if each is not None else {}))
        for item in base.ranks
    )
    own = (
        [rank(n, use(n), world=world, second=0 if frozen else second) for n in range(world)] if processes is None else processes
    )
    return samples.snapshot(
        second,
        devices=gpus(range(world), world) if devices is None else devices,
        processes=tuple(own),
        runs=(replace(base, ranks=ranks),),
        points=() if frozen else points(second, world, metrics),
        logs=logs,
        communicators=communicators,
    )


def one_process(second: int, *numbers: int, gib: Sequence[float] = (), visible: int = 4, **changes: Any) -> Process:
    """A tracked process from a shell that computes on these GPUs."""
    sizes = gib or [40.0] * len(numbers)
    base = samples.rank_process(0, tuple(use(n, size) for n, size in zip(numbers, sizes, strict=True)), 1)
    threads = tuple((index, 5.0 + (second if index in numbers else 0)) for index in range(visible))
    base = replace(
        base,
        environment=LaunchEnvironment(),
        launcher=None,
        ancestors=SHELL,
        autograd_threads=threads,
        main_thread_cpu_percent=60.0,
    )
    return replace(base, **changes)


def single(
    second: int,
    facts: Facts,
    *,
    devices: tuple[Device, ...] | None = None,
    process: Process | None = None,
    metrics: Metrics = CALM,
    logs: tuple[LogMatch, ...] = (),
    numbers: Sequence[int] = (0,),
) -> Snapshot:
    """A tracked run of one process on a machine with four GPUs (with one, where it uses only that)."""
    base = journal(1, second)
    count = 1 if tuple(numbers) == (0,) else 4
    run = replace(base, ranks=(replace(base.ranks[0], facts=merged(PLAIN, {"torch": {"device_count": count}}, facts)),))
    return samples.snapshot(
        second,
        devices=gpus(numbers, count) if devices is None else devices,
        processes=(one_process(second, *numbers, visible=count) if process is None else process,),
        runs=(run,),
        points=points(second, 1, metrics),
        logs=logs,
    )


def one_step_in_three_seconds(shot: Snapshot, second: int) -> Snapshot:
    """The same run, a step of which ends in every third second only."""
    at = second // 3
    points = tuple(
        replace(item, steps=(at,), times=item.times[-1:], values=item.values[-1:]) for item in shot.points if second % 3 == 2
    )
    runs = tuple(replace(run, ranks=tuple(replace(rank, step=at) for rank in run.ranks)) for run in shot.runs)
    return replace(shot, points=points, runs=runs)


def failed(second: int, world: int, *lines: tuple[str, str]) -> Snapshot:
    """A run that has ended with these texts (pattern, line) in its output."""
    run = journal(world, 5, state="failed")
    logs = tuple(
        LogMatch(pattern, None, line, "run-1", None, 0, "run-1.log", 40 + n) for n, (pattern, line) in enumerate(lines)
    )
    return samples.snapshot(second, devices=gpus([], world), processes=(), runs=(run,), points=(), logs=logs)


__all__ = ["CALM", "PLAIN", "ddp", "ddp_facts", "failed", "merged", "one_process", "play", "points", "single"]
