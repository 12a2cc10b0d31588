"""Data that comes late (catalogue D) and data that comes in time: epochs, disks, quotas, and jobs seen from outside.

``FAULTS`` holds (rule, name, scene, seconds), ``HEALTHY`` (name, scene, seconds), as in the other rooms.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gputop.snapshot import Snapshot, Workers
from tests import samples
from tests.doctor.scenes.base import Scene, not_tracked, rank, use
from tests.doctor.scenes.base import single as untracked
from tests.doctor.scenes.pace import MS, even, loader_bound, many_workers_calm, timed, with_host, with_workers
from tests.doctor.tracked import ddp, merged, single

EPOCH_STEPS = 60


def epochs(first: float, wait: float, quick: int = 0, **loader: Any) -> Scene:
    """Epochs of 60 steps: a first batch of ``first`` seconds, ``quick`` batches that are there, then a wait at each."""

    def data(number: int, step: int) -> float:
        place = step % EPOCH_STEPS
        return first if place == 0 else 0.1 * MS if place <= quick else wait

    metrics = {
        **timed(data, lambda r, s: 10 * MS, lambda r, s: 20 * MS),
        "step_s": lambda r, s: 31 * MS + data(r, s),
        "epoch": lambda r, s: float(s // EPOCH_STEPS),
    }
    return lambda second: single(second, {"loader": {"num_workers": 4, "persistent_workers": False, **loader}}, metrics=metrics)


slow_and_restarting = epochs(0.4, 30 * MS)
prefetched_and_slow = epochs(0.02, 9 * MS, quick=16, num_workers=8, persistent_workers=True)
first_batch_alone = epochs(0.12, 0.5 * MS, persistent_workers=True)


def pressed_by_another(second: int) -> Snapshot:
    """The loader has no workers and is bound by its processor; the disk is busy with something else."""
    return with_host(loader_bound(second), io_pressure_percent=60.0)


def reads_itself_from_a_slow_disk(second: int) -> Snapshot:
    """num_workers=0: the training process itself is in state D half of the time."""
    base = with_host(loader_bound(second), io_pressure_percent=60.0)
    return replace(base, processes=tuple(replace(p, state="D" if second % 2 else "R") for p in base.processes))


def waits_for_a_network(second: int) -> Snapshot:
    """Four workers that sleep: no processor, no disk of this machine."""
    slow = timed(lambda r, s: 30 * MS, lambda r, s: 10 * MS, lambda r, s: 20 * MS)
    base = ddp(second, each=lambda n, s: {"loader": {"num_workers": 4}}, metrics=slow)
    return with_workers(base, count=4, cpu_percent=12.0)


def quota_that_nobody_feels(second: int) -> Snapshot:
    """A sixth of the periods are throttled; the GPUs work all the time, and no batch is late."""
    return with_host(even(second), cpu_quota=8.0, cpu_throttled_share=0.17)


def quota_that_hurts(second: int) -> Snapshot:
    return with_host(loader_bound(second), cpu_quota=4.0, cpu_throttled_share=0.6)


def pressed_and_in_time(second: int) -> Snapshot:
    """More workers than cores, which take turns; every batch is there in time."""
    return with_host(many_workers_calm(second), cpu_pressure_percent=70.0)


def one_thread(second: int, main: float = 99.0) -> Snapshot:
    base = with_host(loader_bound(second), cpu_count=64)

    def limited(process: Any) -> Any:
        environment = replace(process.environment, settings=(("OMP_NUM_THREADS", "1"),))
        return replace(process, environment=environment, main_thread_cpu_percent=main)

    return replace(base, processes=tuple(map(limited, base.processes)))


def far_from_its_gpu(second: int) -> Snapshot:
    base = loader_bound(second)
    devices = tuple(replace(d, cpu_affinity=tuple(range(32)), numa_node=0) for d in base.devices)
    processes = tuple(replace(p, cores_used=(40, 41)) for p in base.processes)
    return replace(base, devices=devices, processes=processes)


def outside(idle_every: int, **process: Any) -> Scene:
    """One process without a journal; its GPU rests in every ``idle_every``-th second."""

    def scene(second: int) -> Snapshot:
        load = 0.0 if idle_every and second % idle_every == 0 else 60.0
        devices = (samples.device(0, utilization_percent=load),)
        own = replace(untracked(4000, use(0), second=second, visible=1), **process)
        return samples.snapshot(second, devices=devices, processes=(own,), runs=(), points=())

    return scene


bursts_without_workers = outside(3, main_thread_cpu_percent=100.0)
bursts_with_tired_workers = outside(3, main_thread_cpu_percent=30.0, workers=Workers(4, 398.0, 0, 64))
bursts_and_nothing_busy = outside(3, main_thread_cpu_percent=30.0)
steady_and_busy = outside(0, main_thread_cpu_percent=100.0)


def beside_its_gpu(second: int, load: float = 12.0, backward_share: float = 0.02, **process: Any) -> Snapshot:
    """One process without a journal or loader workers, whose main thread is busy; its GPU works now and then."""
    backward = ((0, 5.0 + backward_share * second),)
    changes = {"autograd_threads": backward, "main_thread_cpu_percent": 99.0, **process}
    own = replace(untracked(4000, use(0), second=second, visible=1), **changes)
    devices = (samples.device(0, utilization_percent=load),)
    return samples.snapshot(second, devices=devices, processes=(own,), runs=(), points=())


def untracked_ranks(second: int) -> Snapshot:
    processes = tuple(replace(rank(n, use(n), world=4, second=second), run_id=None, rank=n) for n in range(4))
    devices = tuple(samples.device(n) for n in range(4))
    return samples.snapshot(second, devices=devices, processes=processes, runs=(), points=())


def garbled(second: int) -> Snapshot:
    """Facts of another shape than the contract's."""
    base = loader_bound(second)
    (run,) = base.runs
    broken = {"loader": {"num_workers": "many", "prefetch_factor": -3, "persistent_workers": 1}, "transfers": [1, 2]}
    ranks = tuple(replace(r, facts=merged(r.facts, broken)) for r in run.ranks)
    return replace(base, runs=(replace(run, ranks=ranks),))


FAULTS: tuple[tuple[str, str, Scene, int], ...] = (
    ("D01", "slow workers that also start anew", slow_and_restarting, 80),
    ("D01", "quick first batches hide a slow loader", prefetched_and_slow, 80),
    ("D01", "the disk is busy with something else", pressed_by_another, 40),
    ("D01", "workers that wait for a network", waits_for_a_network, 40),
    ("D01", "bursts, and no workers (from outside)", bursts_without_workers, 90),
    ("D01", "bursts, and tired workers (from outside)", bursts_with_tired_workers, 90),
    ("D01", "facts of another shape", garbled, 40),
    ("D07", "a process that reads itself", reads_itself_from_a_slow_disk, 40),
    ("D02", "a quota that hurts", quota_that_hurts, 40),
)
POSSIBLE: tuple[tuple[str, str, Scene, int], ...] = (
    ("D01", "a main thread that prepares batches, from outside", beside_its_gpu, 90),
)
LOOK_ALIKES: tuple[tuple[str, str, Scene, int], ...] = (
    ("D01", "kernels that are launched all the time", lambda second: beside_its_gpu(second, backward_share=0.4), 90),
    ("D01", "a GPU that works most of the time", lambda second: beside_its_gpu(second, load=55.0), 90),
    ("D01", "a main thread that is not busy", lambda second: beside_its_gpu(second, main_thread_cpu_percent=40.0), 90),
    ("D01", "no backward for a while", lambda second: beside_its_gpu(second, backward_share=0.1 / max(1, second)), 90),
    ("D01", "loader workers", lambda second: beside_its_gpu(second, workers=Workers(4, 120.0, 0, 64)), 90),
)
HEALTHY: tuple[tuple[str, Scene, int], ...] = (
    ("a slow first batch of an epoch", first_batch_alone, 80),
    ("workers that take turns in time", pressed_and_in_time, 60),
    ("workers that take turns in time, not tracked", not_tracked(pressed_and_in_time), 60),
    ("bursts, and nothing that is busy", bursts_and_nothing_busy, 90),
    ("a busy main thread and a busy GPU", steady_and_busy, 90),
    ("four ranks without a journal", untracked_ranks, 90),
)
