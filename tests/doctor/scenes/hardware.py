"""Scenes of memory and hardware (catalogue H and I): faults, and look-alikes in which nothing is wrong.

``FAULTS`` holds (rule, name, scene, seconds), ``HEALTHY`` (name, scene, seconds), for whoever plays them all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gputop.snapshot import Ancestor, Device, DeviceUse, Host, LaunchEnvironment, Points, Problem, Process, Snapshot, Workers
from tests import samples
from tests.doctor.scenes.base import Scene, gpus, journal, rank, scene, single, use, uuid
from tests.doctor.scenes.placement import failed, said
from tests.samples import EPOCH, GIB

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB "
    "of which 1.02 GiB is free."
)


def training(second: int, changed: Device, ranks: int = 4) -> Snapshot:
    """DDP on four GPUs, one of which is not as it should be."""
    devices = tuple(changed if device.index == changed.index else device for device in gpus(range(ranks), ranks))
    processes = tuple(rank(n, use(n), world=ranks, second=second) for n in range(ranks))
    return scene(second, devices, processes, (journal(ranks, second),))


def host(shot: Snapshot, **changes: Any) -> Snapshot:
    return replace(shot, host=replace(shot.host, **changes))


# ---- H02


def out_of_memory(second: int) -> Snapshot:
    """For ten seconds all on GPU 0, then the run dies of it."""
    if second < 10:
        devices = (
            samples.device(0, memory_used_bytes=79 * GIB),
            *(samples.device(n, memory_used_bytes=20 * GIB) for n in (1, 2, 3)),
        )
        return scene(second, devices, tuple(rank(n, use(n), world=4, second=second) for n in range(4)), (journal(4, second),))
    return failed(second, samples.run(4), said("oom", OOM, rank=0))


def out_of_memory_everywhere(second: int) -> Snapshot:
    if second < 10:
        return training(second, samples.device(0))
    other = OOM.replace("GPU 0", "GPU 1")
    return failed(second, samples.run(4), said("oom", OOM, rank=0), said("oom", other, rank=1))


# ---- H03


def neighbour(second: int, sm: float | None = 45.0, gib: float | None = 20.0, contexts: str = "C", **changes: Any) -> Snapshot:
    other = single(7000, uid=1001, user="bob", environment=None, autograd_threads=(), hidden=("environment",))
    other = replace(other, devices=(DeviceUse(uuid(1), None if gib is None else int(gib * GIB), sm, contexts),), **changes)
    shot = training(second, samples.device(1))
    return replace(shot, processes=(*shot.processes, other))


def desktop_beside(second: int) -> Snapshot:
    return neighbour(second, 2.0, 0.3, "CG", name="gnome-shell")


def two_seeds(second: int, mask: str | None = None, free: bool = True, **changes: Any) -> Snapshot:
    """A loop of a shell starts a script twice, with another seed each time: both are on GPU 0."""
    runs = tuple(
        single(4000 + n, use(0, 20, 45), second=second, visible=2, mask=mask, command=("python", "train.py", "--seed", str(n)))
        for n in range(2)
    )
    devices = (samples.device(0), samples.idle_device(1) if free else samples.device(1))
    return scene(second, devices, tuple(replace(process, **changes) for process in runs))


# ---- H04


def orphan(second: int) -> Snapshot:
    """torchrun was killed; rank 2 still holds its GPU."""
    left = rank(2, use(2, 40, 0), world=4)
    left = replace(
        left, ppid=1, launcher=None, ancestors=(Ancestor(1, "systemd"),), run_id=None, autograd_threads=(), state="S",
        cpu_percent=0.0,
    )  # fmt: skip
    return scene(
        second, tuple(samples.idle_device(n, memory_used_bytes=(40 if n == 2 else 0.5) * GIB) for n in range(4)), (left,)
    )


def unexplained(second: int) -> Snapshot:
    return scene(second, (samples.idle_device(0, memory_used_bytes=12 * GIB), samples.idle_device(1)))


def detached(second: int) -> Snapshot:
    """nohup, and the shell is gone: no launcher, and no worker."""
    process = single(4000, use(0), second=second, visible=1, ppid=1, ancestors=(Ancestor(1, "systemd"),))
    return scene(second, gpus([0], 1), (process,))


def hidden_in_a_container(second: int) -> Snapshot:
    """Memory is in use, and the driver tells PIDs of the host."""
    foreign = Process(90_000, (DeviceUse(uuid(0), None, None, "C"),), in_namespace=False)
    return scene(second, (samples.idle_device(0, memory_used_bytes=12 * GIB),), (foreign,))


# ---- H05


def killed_for_memory(second: int) -> Snapshot:
    if second < 5:
        return host(training(second, samples.device(0)), oom_kills=3, memory_available_bytes=20 * GIB)
    line = "RuntimeError: DataLoader worker (pid 4100) is killed by signal: Killed."
    return host(failed(second, samples.run(4), said("worker_killed", line)), oom_kills=4, memory_available_bytes=700 * GIB)


def hardly_any_memory(second: int) -> Snapshot:
    shot = host(training(second, samples.device(0)), memory_available_bytes=20 * GIB, memory_total_bytes=1007 * GIB)
    processes = tuple(replace(p, workers=Workers(16), memory_rss_bytes=120 * GIB) for p in shot.processes)
    return replace(shot, processes=processes)


def killed_long_ago(second: int) -> Snapshot:
    """Counted since boot, and none was added."""
    return host(training(second, samples.device(0)), oom_kills=17, memory_available_bytes=400 * GIB)


# ---- I01


def hot(second: int) -> Snapshot:
    """A third of the time, the driver holds the clocks of GPU 2 down."""
    changes = {"temperature_c": 88.0, "sm_clock_mhz": 1500.0, "throttle_reasons": ("sw_thermal_slowdown",)}
    return training(second, samples.device(2, throttle_thermal_sw_ns=int(second * 0.35e9), throttle_thermal_hw_ns=0, **changes))


def hot_without_counters(second: int) -> Snapshot:
    changes = {"temperature_c": 88.0, "sm_clock_mhz": 1500.0, "throttle_reasons": ("hw_thermal_slowdown",)}
    return training(second, samples.device(2, **changes))


def warm(second: int) -> Snapshot:
    """One short throttle in a minute."""
    return training(second, samples.device(2, throttle_thermal_sw_ns=int(1e9 * (second >= 20)), temperature_c=84.0))


# ---- I02


def limited(second: int) -> Snapshot:
    return training(second, samples.device(1, power_limit_w=400.0, power_w=399.0, sm_clock_mhz=1400.0))


def limited_on_purpose(second: int) -> Snapshot:
    shot = training(second, samples.device(1))
    return replace(shot, devices=tuple(replace(d, power_limit_w=500.0, power_w=499.0) for d in shot.devices))


def braked(second: int) -> Snapshot:
    changed = samples.device(3, throttle_power_brake_ns=int(second * 0.5e9), sm_clock_mhz=990.0, power_w=300.0)
    return training(second, changed)


def capped_far_below(second: int) -> Snapshot:
    return training(second, samples.device(1, throttle_reasons=("sw_power_cap",), power_w=320.0, sm_clock_mhz=1100.0))


def capped_at_full_power(second: int) -> Snapshot:
    """What every GPU at full load shows."""
    shot = training(second, samples.device(1))
    return replace(
        shot,
        devices=tuple(
            replace(d, throttle_reasons=("sw_power_cap",), power_w=698.0, throttle_power_ns=second * 10**9, sm_clock_mhz=1755.0)
            for d in shot.devices
        ),
    )


# ---- I03


def narrow(second: int) -> Snapshot:
    return training(second, samples.device(2, pcie_width=4))


def narrow_at_rest(second: int) -> Snapshot:
    """Idle GPUs let their links rest."""
    return scene(second, tuple(samples.idle_device(n, pcie_generation=1, pcie_width=8) for n in range(4)))


# ---- I04, I05


def fallen_off(second: int) -> Snapshot:
    """Xid 79, and the GPU is lost."""
    if second < 5:
        return training(second, samples.device(3))
    problem = Problem("gpu_lost", "GPU 3 is lost: it has fallen off the bus.", "Look for Xid 79 in dmesg; then reboot.")
    gone = samples.idle_device(3, state="lost", problem=problem, xid_errors=((EPOCH + 5, 79),), utilization_percent=None)
    return training(second, gone)


def vanished(second: int) -> Snapshot:
    shot = training(second, samples.device(0))
    return shot if second < 5 else replace(shot, devices=shot.devices[:3])


def memory_error(second: int) -> Snapshot:
    return training(second, samples.device(1, xid_errors=((EPOCH + 4, 94), (EPOCH + 4, 45)) if second >= 4 else ()))


def uncorrected(second: int) -> Snapshot:
    return training(second, samples.device(1, ecc_uncorrected=2 if second < 5 else 4))


def illegal_access(second: int) -> Snapshot:
    return training(second, samples.device(1, xid_errors=((EPOCH + 4, 31),) if second >= 4 else ()))


def illegal_access_of_one_of_several(second: int) -> Snapshot:
    """Two jobs share a GPU: the error may be of either."""
    shot = illegal_access(second)
    return replace(shot, processes=(*shot.processes, single(5000, use(1, 2.0), second=second)))


def old_errors(second: int) -> Snapshot:
    """Counts from before, and the teardown of a job that was killed."""
    return training(second, samples.device(1, ecc_uncorrected=2, xid_errors=((EPOCH, 45), (EPOCH - 4000, 31))))


# ---- I06


def mixed(second: int) -> Snapshot:
    """Three H100 and an A100, on which the forward takes longer."""
    shot = training(second, samples.device(3, name="NVIDIA A100-SXM4-80GB"))
    points = tuple(
        Points("run-1", n, "cuda/forward_s", (second,), (EPOCH + second,), (0.020 if n < 3 else 0.031,)) for n in range(4)
    )
    return replace(shot, points=points)


def alike(second: int) -> Snapshot:
    """Equal cards; another model in the box is not in use."""
    ranks = tuple(rank(n, use(n), world=2, second=second, cuda_visible_devices="0,1", gputop_job_id="job-1") for n in range(2))
    devices = (*gpus([0, 1], 2), samples.idle_device(2, name="NVIDIA T400 4GB", memory_total_bytes=4 * GIB))
    return scene(second, devices, ranks, (journal(2, second),))


# ---- I07


def locked(second: int) -> Snapshot:
    return training(second, samples.device(0, sm_clock_mhz=1200.0, throttle_reasons=("applications_clocks_setting",)))


def slow_at_rest(second: int) -> Snapshot:
    return scene(
        second, tuple(samples.idle_device(n, throttle_reasons=("gpu_idle", "applications_clocks_setting")) for n in range(2))
    )


# ---- I08, I09, I10


def mps(second: int) -> Snapshot:
    return host(training(second, samples.device(0)), mps_server_pid=812)


def without_persistence(second: int) -> Snapshot:
    process = single(4000, second=second, started_at=EPOCH, autograd_threads=(), nvidia_open=True)
    return scene(second, gpus([], 2, persistence_enabled=False), (process,))


def idle_without_persistence(second: int) -> Snapshot:
    return scene(second, gpus([], 2, persistence_enabled=False))


def mismatch(second: int) -> Snapshot:
    message = "The NVIDIA library and the loaded kernel module are of different versions."
    problem = Problem("driver_mismatch", message, "The driver was upgraded while it was loaded: reboot.")
    return samples.snapshot(second, host=Host("node7", problem=problem), devices=(), processes=(), runs=(), points=())


def laptop(second: int) -> Snapshot:
    problem = Problem("library_not_found", "There is no NVIDIA driver here.", "Install the NVIDIA driver.")
    return samples.snapshot(second, host=Host("laptop", problem=problem), devices=(), processes=(), runs=(), points=())


def nothing_to_compute(second: int) -> Snapshot:
    """A job that sees its own mask, on an otherwise idle machine."""
    environment = LaunchEnvironment(cuda_visible_devices=uuid(0), gputop_job_id="job-1")
    process = single(4000, use(0), second=second, visible=1, environment=environment)
    return host(scene(second, gpus([0], 2), (process,)), memory_available_bytes=500 * GIB, oom_kills=0)


FAULTS: tuple[tuple[str, str, Scene, int], ...] = (
    ("H02", "GPU 0 out of memory, the others with room", out_of_memory, 20),
    ("H02", "every GPU out of memory", out_of_memory_everywhere, 20),
    ("H03", "another user's job on GPU 1", neighbour, 15),
    ("H04", "a rank of a dead torchrun", orphan, 20),
    ("H04", "memory that nobody has", unexplained, 30),
    ("H05", "a worker killed by the kernel", killed_for_memory, 15),
    ("H05", "hardly any memory left", hardly_any_memory, 20),
    ("I01", "heat, counted by the driver", hot, 25),
    ("I01", "heat, by its reasons", hot_without_counters, 25),
    ("I02", "one limit below its peers", limited, 15),
    ("I02", "the power brake", braked, 25),
    ("I02", "capped far below the limit", capped_far_below, 25),
    ("I03", "a link of x4", narrow, 40),
    ("I04", "Xid 94", memory_error, 10),
    ("I04", "uncorrected memory errors", uncorrected, 10),
    ("I04", "an illegal access", illegal_access, 10),
    ("I05", "fallen off the bus", fallen_off, 15),
    ("I05", "no longer listed", vanished, 20),
    ("I06", "an A100 among H100s", mixed, 40),
    ("I07", "locked clocks", locked, 25),
    ("I08", "MPS", mps, 10),
    ("I09", "no persistence mode", without_persistence, 20),
    ("I10", "driver and library differ", mismatch, 5),
)
HEALTHY: tuple[tuple[str, Scene, int], ...] = (
    ("a desktop on a rank's GPU", desktop_beside, 60),
    ("a process that was detached", detached, 60),
    ("memory of processes that a container hides", hidden_in_a_container, 60),
    ("kills for memory before", killed_long_ago, 60),
    ("one short throttle", warm, 90),
    ("a cap at full power", capped_at_full_power, 90),
    ("links at rest", narrow_at_rest, 60),
    ("errors from before", old_errors, 60),
    ("an unequal card that is not in use", alike, 60),
    ("clocks at rest", slow_at_rest, 60),
    ("no persistence mode, nothing runs", idle_without_persistence, 60),
    ("a laptop without a GPU", laptop, 20),
    ("a job on the GPU that was chosen for it", nothing_to_compute, 60),
)
