"""What lies near to faults of memory of the machine (H05) and of the hardware (catalogue I): readings just below a limit,
and those that have an innocent reason.

``PAIRS`` holds each with the fault that it differs from in one thing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gputop.snapshot import LogMatch, Problem, Snapshot
from tests import samples
from tests.doctor.scenes import hardware, placement
from tests.doctor.scenes.base import Scene, gpus, scene, use
from tests.doctor.scenes.hardware import host, training
from tests.doctor.scenes.near.pairs import Pair, look_alikes
from tests.samples import EPOCH, GIB


def changed(fault: Scene, index: int, **changes: Any) -> Scene:
    """The same, one GPU of it with these readings."""

    def scene_of(second: int) -> Snapshot:
        shot = fault(second)
        return replace(shot, devices=tuple(replace(d, **changes) if d.index == index else d for d in shot.devices))

    return scene_of


def at_rest(fault: Scene) -> Scene:
    """The same GPUs with the same settings, on which nothing computes."""

    def scene_of(second: int) -> Snapshot:
        shot = fault(second)
        devices = tuple(
            replace(d, utilization_percent=0.0, power_w=70.0, sm_clock_mhz=345.0, memory_used_bytes=GIB // 2)
            for d in shot.devices
        )
        return replace(shot, devices=devices, processes=(), runs=())

    return scene_of


# ---- H05


def killed_without_a_word(second: int) -> Snapshot:
    """A run fails, and says nothing known; the kernel's count tells of a kill."""
    return replace(hardware.killed_for_memory(second), logs=())


def killed_before(second: int) -> Snapshot:
    """The kernel's count is as it was when gputop began to watch."""
    return host(killed_without_a_word(second), oom_kills=4)


def fills_the_page_cache(second: int) -> Snapshot:
    """Nearly everything is in use, and what is cached can be had back."""
    return host(hardware.hardly_any_memory(second), memory_used_bytes=960 * GIB, memory_available_bytes=300 * GIB)


def just_enough_memory(second: int) -> Snapshot:
    """6% are left."""
    return host(hardware.hardly_any_memory(second), memory_available_bytes=60 * GIB)


def worker_that_crashed(second: int) -> Snapshot:
    """A worker ended by its own fault: a signal as well, and no memory."""
    line = "RuntimeError: DataLoader worker (pid 4100) is killed by signal: Segmentation fault."
    shot = host(hardware.killed_for_memory(second), oom_kills=3)
    return replace(shot, logs=tuple(replace(match, pattern="worker_crashed", line=line) for match in shot.logs))


# ---- I01


def hot_now_and_then(second: int) -> Snapshot:
    """4% of the time, the driver holds the clocks down."""
    return changed(hardware.hot, 2, throttle_thermal_sw_ns=int(second * 0.04e9))(second)


def was_hot(second: int) -> Snapshot:
    """The counter stands where a former job left it."""
    return changed(hardware.hot, 2, throttle_thermal_sw_ns=int(3600e9), sm_clock_mhz=1980.0)(second)


def hot_at_full_clock(second: int) -> Snapshot:
    """The driver counts, and the clocks are the highest."""
    return changed(hardware.hot, 2, throttle_thermal_sw_ns=int(second * 0.2e9), sm_clock_mhz=1960.0, temperature_c=86.0)(second)


# ---- I02


def lowered_a_little(second: int) -> Snapshot:
    return changed(hardware.limited, 1, power_limit_w=640.0, power_w=638.0)(second)


def another_model(second: int) -> Snapshot:
    """A card that takes less by nature: its limit is its default."""
    return changed(hardware.limited, 1, name="NVIDIA L40S", power_default_limit_w=400.0)(second)


def braked_for_a_moment(second: int) -> Snapshot:
    return changed(hardware.braked, 3, throttle_power_brake_ns=int(min(second, 1) * 0.5e9))(second)


def capped_near_the_limit(second: int) -> Snapshot:
    """The cap at 580 of 700 W: what a GPU at full load shows."""
    return changed(hardware.capped_far_below, 1, power_w=580.0)(second)


def capped_without_a_loss(second: int) -> Snapshot:
    """A cap in every reading, and the clocks are nearly the highest: kernels that wait for memory draw little."""
    return changed(hardware.capped_far_below, 1, sm_clock_mhz=1900.0)(second)


# ---- I03


def slow_generation(second: int) -> Snapshot:
    return training(second, samples.device(2, pcie_generation=3))


def every_slot(second: int) -> Snapshot:
    """All GPUs have x4: the board divides its lanes."""
    shot = hardware.narrow(second)
    return replace(shot, devices=tuple(replace(device, pcie_width=4) for device in shot.devices))


# ---- I04, I05


def torn_down(second: int) -> Snapshot:
    """Xid 45 alone: a job that was killed leaves one."""
    return changed(hardware.memory_error, 1, xid_errors=((EPOCH + 4, 45),) if second >= 4 else ())(second)


def long_ago(second: int) -> Snapshot:
    """Another job's illegal access, an hour ago."""
    return changed(hardware.illegal_access, 1, xid_errors=((EPOCH - 3600, 31),))(second)


def corrected(second: int) -> Snapshot:
    """What the memory corrects by itself."""
    return changed(hardware.uncorrected, 1, ecc_uncorrected=2, ecc_corrected=40 + second)(second)


def rows_remapped(second: int) -> Snapshot:
    """Rows that were remapped, long since."""
    return training(second, samples.device(1, remapped_rows_correctable=2, remapped_rows_pending=False))


def rows_pending(second: int) -> Snapshot:
    return training(second, samples.device(1, remapped_rows_correctable=2, remapped_rows_pending=True))


def missed_for_moments(second: int) -> Snapshot:
    """A GPU that is not listed for 8 s, as while the driver resets it."""
    return training(second, samples.device(0)) if second >= 13 else hardware.vanished(second)


def does_not_answer(second: int) -> Snapshot:
    """Readings of a GPU are old: it hangs, and is not lost."""
    if second < 5:
        return hardware.fallen_off(second)
    problem = Problem("hung", "GPU 3 has not answered for 12 s: a driver call hangs.", "Look for Xid lines in dmesg.")
    return training(second, samples.device(3, state="stale", age_s=12.0, problem=problem))


def taken_down(second: int) -> Snapshot:
    """Two of four MIG instances are no longer listed: somebody divides the GPU anew."""
    return scene(second, placement.mig_devices(4 if second < 5 else 2))


# ---- I06


def a_little_less_memory(second: int) -> Snapshot:
    """The same model with ECC on: 75 of 80 GiB."""
    return changed(hardware.mixed, 3, name="NVIDIA H100 80GB HBM3", memory_total_bytes=75 * GIB)(second)


def unequal_and_not_used(second: int) -> Snapshot:
    """The odd card is not the run's."""
    shot = hardware.mixed(second)
    processes = tuple(p for p in shot.processes if p.rank != 3)
    runs = tuple(replace(run, ranks=run.ranks[:3]) for run in shot.runs)
    return replace(
        shot,
        processes=(*processes, replace(shot.processes[3], run_id=None, rank=None, launcher=None, environment=None, uid=1001)),
        runs=runs,
    )


def unequal_and_even(second: int) -> Snapshot:
    """An A100 among H100s, which takes as long for its forward: it was given fewer rows."""
    shot = hardware.mixed(second)
    return replace(shot, points=tuple(replace(points, values=(0.020,)) for points in shot.points))


# ---- I07


def a_little_below(second: int) -> Snapshot:
    """Set to 88% of the highest clock."""
    return changed(hardware.locked, 0, sm_clock_mhz=1750.0)(second)


def held_by_power(second: int) -> Snapshot:
    """As low, by the power limit that every GPU meets at full load."""
    return changed(hardware.locked, 0, throttle_reasons=("sw_power_cap",), power_w=690.0)(second)


def held_by_heat(second: int) -> Snapshot:
    """As low, and by heat."""
    return changed(hardware.locked, 0, throttle_reasons=("hw_thermal_slowdown",), temperature_c=89.0)(second)


# ---- I08, I09, I10


def mps_without_a_job(second: int) -> Snapshot:
    return host(scene(second, gpus([], 4)), mps_server_pid=812)


def no_mps(second: int) -> Snapshot:
    return host(hardware.mps(second), mps_server_pid=None)


def with_persistence(second: int) -> Snapshot:
    shot = hardware.without_persistence(second)
    return replace(shot, devices=tuple(replace(device, persistence_enabled=True) for device in shot.devices))


def has_a_client(second: int) -> Snapshot:
    """Somebody's process keeps the driver's state of each GPU alive."""
    shot = hardware.without_persistence(second)
    others = tuple(
        replace(
            shot.processes[0],
            pid=7000 + n,
            uid=1001,
            user="bob",
            started_at=EPOCH - 9000,
            devices=(use(n, 0.4, 0),),
            torch_mapped=False,
        )
        for n in range(2)
    )
    return replace(shot, processes=(*shot.processes, *others))


def running_for_long(second: int) -> Snapshot:
    shot = hardware.without_persistence(second)
    return replace(shot, processes=tuple(replace(process, started_at=EPOCH - 600) for process in shot.processes))


def not_there(second: int) -> Snapshot:
    """No driver at all: a laptop, and nothing to mend."""
    return hardware.laptop(second)


def refused_list(second: int) -> Snapshot:
    """The process list is refused, which a container does rightly."""
    note = Problem("no_permission", "The driver does not let this user list the processes on GPU 0.", "Root can list them.")
    return replace(training(second, samples.device(0)), notes=(note,))


def refused_gpu(second: int) -> Snapshot:
    problem = Problem("no_permission", "The driver does not let this user read GPU 0.", "Root can.")
    return training(second, samples.device(0, problem=problem))


def shown_in_a_log(second: int) -> Snapshot:
    """The words stand in the output of a job that trains: a script that calls nvidia-smi in another container."""
    text = LogMatch(
        "nvml_mismatch", "I10", "Failed to initialize NVML: Driver/library version mismatch", "run-1", job_state="running"
    )
    return replace(training(second, samples.device(0)), logs=(text,))


def failed_of_it(second: int) -> Snapshot:
    shot = shown_in_a_log(second)
    runs = tuple(replace(run, state="failed", ranks=tuple(replace(r, state="failed") for r in run.ranks)) for run in shot.runs)
    return replace(shot, runs=runs, processes=(), logs=tuple(replace(match, job_state="failed") for match in shot.logs))


# ---- I11


def with_links(*active: int | None) -> Scene:
    """DDP on GPUs with this many active NVLinks each."""

    def scene_of(second: int) -> Snapshot:
        shot = training(second, samples.device(0), len(active))
        devices = tuple(replace(d, nvlinks_active=number) for d, number in zip(shot.devices, active, strict=True))
        return replace(shot, devices=devices)

    return scene_of


two_links_down = with_links(18, 18, 16, 18)


def an_older_card(second: int) -> Snapshot:
    """The card with fewer links is of another model."""
    shot = two_links_down(second)
    devices = tuple(replace(d, name="NVIDIA A100-SXM4-80GB") if d.index == 2 else d for d in shot.devices)
    return replace(shot, devices=devices)


PAIRS: tuple[Pair, ...] = (
    Pair("H05", "a count from before", killed_before, killed_without_a_word, 20),
    Pair("H05", "a full page cache", fills_the_page_cache, hardware.hardly_any_memory, 30),
    Pair("H05", "just enough", just_enough_memory, hardware.hardly_any_memory, 30),
    Pair("H05", "a worker that crashed", worker_that_crashed, hardware.killed_for_memory, 20, verdict="worker_crashed"),
    Pair("I01", "4% of the time", hot_now_and_then, hardware.hot, 40),
    Pair("I01", "a count from before", was_hot, hardware.hot, 40),
    Pair("I01", "one short throttle", hardware.warm, hardware.hot, 90),
    Pair("I01", "a fifth of the time, and no clock is lost", hot_at_full_clock, hardware.hot, 40, at_most="info"),
    Pair(
        "I01",
        "warm, no reason set",
        changed(hardware.hot_without_counters, 2, throttle_reasons=()),
        hardware.hot_without_counters,
        40,
    ),
    Pair("I02", "91% of the peers", lowered_a_little, hardware.limited, 30),
    Pair("I02", "a card of another model", another_model, hardware.limited, 30),
    Pair("I02", "all lowered on purpose", hardware.limited_on_purpose, hardware.limited, 30, at_most="info"),
    Pair("I02", "nobody computes there", at_rest(hardware.limited), hardware.limited, 30),
    Pair("I02", "the brake, for half a second", braked_for_a_moment, hardware.braked, 40),
    Pair("I02", "capped near its limit", capped_near_the_limit, hardware.capped_far_below, 40),
    Pair("I02", "capped, and no clock is lost", capped_without_a_loss, hardware.capped_far_below, 40),
    Pair("I03", "at rest", at_rest(hardware.narrow), hardware.narrow, 60),
    Pair("I03", "little work", changed(hardware.narrow, 2, utilization_percent=40.0), hardware.narrow, 60),
    Pair("I03", "generation 3, at rest", at_rest(slow_generation), slow_generation, 60),
    Pair("I03", "a board that gives each slot fewer lanes", every_slot, hardware.narrow, 60, at_most="info"),
    Pair("I03", "all the width that there is", changed(hardware.narrow, 2, pcie_width_max=4), hardware.narrow, 60),
    Pair("I04", "a job that was killed", torn_down, hardware.memory_error, 15),
    Pair("I04", "an hour ago", long_ago, hardware.illegal_access, 15),
    Pair("I04", "corrected errors", corrected, hardware.uncorrected, 15),
    Pair("I04", "rows remapped long since", rows_remapped, rows_pending, 15),
    Pair("I05", "gone for 8 seconds", missed_for_moments, hardware.vanished, 30),
    Pair("I05", "a GPU that hangs", does_not_answer, hardware.fallen_off, 20, verdict="I10"),
    Pair("I05", "instances that were taken down", taken_down, hardware.vanished, 30),
    Pair("I06", "a little less memory", a_little_less_memory, hardware.mixed, 40),
    Pair("I06", "unequal, and nobody waits", unequal_and_even, hardware.mixed, 40, at_most="info"),
    Pair("I06", "not the run's", unequal_and_not_used, hardware.mixed, 40),
    Pair("I07", "88% of the maximum", a_little_below, hardware.locked, 40),
    Pair("I07", "held by power", held_by_power, hardware.locked, 40),
    Pair("I07", "held by heat", held_by_heat, hardware.locked, 40, verdict="I01"),
    Pair("I07", "at rest", at_rest(hardware.locked), hardware.locked, 40),
    Pair("I08", "no job", mps_without_a_job, hardware.mps, 20),
    Pair("I08", "no server", no_mps, hardware.mps, 20),
    Pair("I09", "persistence mode", with_persistence, hardware.without_persistence, 30),
    Pair("I09", "a client on each GPU", has_a_client, hardware.without_persistence, 30),
    Pair("I09", "the start is over", running_for_long, hardware.without_persistence, 30),
    Pair("I11", "all links up", with_links(18, 18, 18, 18), two_links_down, 40),
    Pair("I11", "a link down on all of them", with_links(17, 17, 17, 17), two_links_down, 40),
    Pair("I11", "two bridged cards and two without", with_links(4, 4, 0, 0), two_links_down, 40),
    Pair("I11", "two bridged cards and a third one", with_links(4, 4, 0), two_links_down, 40),
    Pair("I11", "one of many has no link", with_links(4, 4, 4, 0), two_links_down, 40, at_most="possible"),
    Pair("I11", "the state of one is not known", with_links(18, None, 16, 18), two_links_down, 40),
    Pair("I11", "an older card", an_older_card, two_links_down, 40, verdict="I06"),
    Pair("I11", "no job uses them together", at_rest(two_links_down), two_links_down, 40, at_most="info"),
    Pair("I10", "no driver at all", not_there, hardware.mismatch, 10),
    Pair("I10", "a list that is refused", refused_list, refused_gpu, 10, at_most="possible"),
    Pair("I10", "words of a job that trains", shown_in_a_log, failed_of_it, 10, at_most="possible"),
)
LOOK_ALIKES = look_alikes(PAIRS)
