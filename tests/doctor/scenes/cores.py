"""Where the ranks' own threads run: one thread that prepares the data (D04), cores of the other socket (D10).

``FAULTS`` and ``LOOK_ALIKES`` hold (rule, name, scene, seconds), ``BESIDE`` too: faults that another finding stands before,
``HEALTHY`` (name, scene, seconds).
"""

from __future__ import annotations

from dataclasses import replace

from gputop.snapshot import Snapshot
from tests.doctor.scenes.base import Scene
from tests.doctor.scenes.pace import MS, even, loader, loader_bound, timed, with_host
from tests.doctor.tracked import ddp

NEAR, FAR = tuple(range(32)), tuple(range(32, 64))


def threads(scene: Scene, number: str | None, main: float | None = 99.0, cores: int = 64) -> Scene:
    """Ranks that were started with this OMP_NUM_THREADS; their main threads use so much of a core."""

    def changed(second: int) -> Snapshot:
        base = scene(second)
        settings = (("OMP_NUM_THREADS", number),) if number is not None else ()
        processes = tuple(
            replace(p, environment=replace(p.environment, settings=settings), main_thread_cpu_percent=main)
            for p in base.processes
            if p.environment is not None
        )
        return with_host(replace(base, processes=processes), cpu_count=cores)

    return changed


def waits_a_little(second: int) -> Snapshot:
    """A seventh of the time goes to data: less than the loader's own rule asks for."""
    metrics = timed(lambda r, s: 9 * MS, lambda r, s: 20 * MS, lambda r, s: 30 * MS)
    return ddp(second, each=loader(num_workers=8), metrics=metrics)


def on_cores(scene: Scene, used: tuple[int, ...], numa: int | None = 0) -> Scene:
    """Every GPU is near cores 0-31; every rank runs on ``used``."""

    def changed(second: int) -> Snapshot:
        base = scene(second)
        devices = tuple(replace(device, cpu_affinity=NEAR, numa_node=numa) for device in base.devices)
        return replace(base, devices=devices, processes=tuple(replace(p, cores_used=used) for p in base.processes))

    return changed


one_thread = threads(loader_bound, "1")
many_threads = threads(loader_bound, "8")
one_thread_that_sleeps = threads(loader_bound, "1", main=40.0)
one_thread_and_few_cores = threads(loader_bound, "1", cores=8)
one_thread_and_no_wait = threads(even, "1")
far_socket = on_cores(waits_a_little, FAR)
near_socket = on_cores(waits_a_little, NEAR[:4])
both_sockets = on_cores(waits_a_little, (31, 32))
far_and_no_wait = on_cores(even, FAR)

FAULTS: tuple[tuple[str, str, Scene, int], ...] = (("D10", "ranks on the other socket", far_socket, 90),)
BESIDE: tuple[tuple[str, str, Scene, int], ...] = (("D04", "one thread prepares the data", one_thread, 40),)
LOOK_ALIKES: tuple[tuple[str, str, Scene, int], ...] = (
    ("D04", "eight threads prepare it", many_threads, 40),
    ("D04", "one thread that sleeps", one_thread_that_sleeps, 40),
    ("D04", "one thread, and no more cores", one_thread_and_few_cores, 40),
    ("D10", "ranks near their GPUs", near_socket, 90),
    ("D10", "ranks on both sockets", both_sockets, 90),
)
HEALTHY: tuple[tuple[str, Scene, int], ...] = (
    ("OMP_NUM_THREADS=1, and nobody waits", one_thread_and_no_wait, 60),
    ("the other socket, and nobody waits", far_and_no_wait, 90),
)
