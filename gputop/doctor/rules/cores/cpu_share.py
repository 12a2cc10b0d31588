"""CPU cores for training: too few for its processes (D02), one or two for all workers or ranks (D03), one thread (D04)."""

from __future__ import annotations

from gputop.doctor.evidence import data_waits
from gputop.doctor.evidence.data_waits import WARN_SHARE, share_of_data
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.cores.thread_share import TIMES_CORES, TIMES_CORES_COUNTED, USED_UP_PERCENT, too_many_threads
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import SELDOM_S, Judgement, Rule, Suspicion
from gputop.doctor.rules.support.shared import host_of, with_workers
from gputop.snapshot import Process

THROTTLED_SHARE = 0.1
FELT_SHARE = WARN_SHARE / 2
"""Below this share, the GPUs do not wait for data, even if the processes wait for something (our choice)."""
WORKING_PERCENT = 90.0
"""Without times of waiting: from this utilization on, the GPUs never idle (our choice)."""
PRESSURE_PERCENT = 40.0
D02_HOLD_S = 10.0
D03_HOLD_S = 8.0
D03_RANKS_HOLD_S = 2.5
"""Ranks that may use one core stay there; how busy workers are changes from reading to reading (our choice)."""
PINNED_BUSY = 0.7
"""Workers, or ranks, that share few cores use at least this fraction of them."""
CORES_PER_RANK = 4
"""With fewer cores per rank, more threads gain little (our choice)."""
MAIN_BUSY_PERCENT = 90.0
"""Share of a core from which the main thread is always busy (our choice)."""
_PROC = ("/proc", "cgroup")


def _cores_of(process: Process) -> int | None:
    """Return how many cores the workers may use: a rank bound to one core may have released its workers."""
    own = process.workers.cores_allowed if process.workers is not None and process.workers.count else None
    return own or process.cores_allowed


def oversubscribed(evidence: Evidence, group: RankGroup) -> Judgement:
    """D02: more loader processes or threads than cores, so they wait for each other, or a quota that throttles them."""
    return _too_many_workers(evidence, group) or too_many_threads(evidence, group)


def _too_many_workers(evidence: Evidence, group: RankGroup) -> Judgement:
    host = host_of(evidence)
    if host is None:
        return None
    workers = sum(process.workers.count for process in with_workers(group) if process.workers is not None)
    own = [found for process in group.processes if (found := _cores_of(process))]
    allowed = max(own, default=host.cpu_count or 0)
    quota = host.cpu_quota if host.cpu_quota is not None and host.cpu_quota > 0 else None
    cores = min(allowed, quota) if quota is not None else allowed
    throttled = host.cpu_throttled_share if not group.virtual else None
    facts = []
    if throttled is not None and quota is not None and throttled > THROTTLED_SHARE:
        facts.append(
            Fact(
                f"the CPU quota of {quota:g} cores throttled processes in {throttled:.0%} of its periods",
                round(throttled, 3),
                "cgroup cpu.stat",
            )
        )
    too_many = workers > cores > 0
    pressed = host.cpu_pressure_percent is not None and host.cpu_pressure_percent > PRESSURE_PERCENT
    if not facts and not (too_many and pressed):
        return None
    share = share_of_data(evidence, group)
    if _in_time(evidence, group, share) and not facts:
        return None  # They take turns, but deliver in time.
    unfelt = share is not None and share < FELT_SHARE and _all_busy(evidence, group)
    if too_many:
        facts.append(Fact(f"{workers} loader workers for {cores:g} cores", workers, "/proc"))
    if pressed:
        text = f"processes waited for a core in {host.cpu_pressure_percent:.0f}% of the last 10 s"
        facts.append(Fact(text, host.cpu_pressure_percent, "/proc/pressure/cpu"))
    if share is not None:
        facts.append(Fact(f"{share:.0%} of the time is spent waiting for data", round(share, 3), "journal: phase/data"))
    fair = max(1, int(cores) // max(1, len(group.members)))
    if too_many:
        title = f"{workers} loader workers share {cores:g} cores"
        cause = "Each rank starts its own workers. More workers than cores only take turns."
        fix = f"DataLoader(..., num_workers={fair})"
    else:
        title = f"The container's CPU quota {'is used up' if unfelt else 'slows the training'}"
        cause = "A quota (docker --cpus, a Kubernetes limit) stops all processes of the container once it is used up."
        fix = f"docker update --cpus={2 * cores:g} CONTAINER  # Kubernetes: resources.limits.cpu"
    finding = tracked.about(
        group,
        "D02",
        "info" if unfelt else "warning",
        "certain" if throttled is not None and throttled > THROTTLED_SHARE else "likely",
        title,
        facts,
        cause,
        fix,
        "The workers mostly sleep.",
    )
    return Suspicion(finding, D02_HOLD_S)


D02 = Rule(
    id="D02",
    order=2301,
    family="cpu",
    title="Too many workers or threads, or a CPU quota",
    severities=("warning", "info"),
    confidences=("certain", "likely", "possible"),
    needs=_PROC,
    window_s=D02_HOLD_S,
    threshold=(
        f"more workers than cores and CPU pressure above {PRESSURE_PERCENT:.0f}% (likely)",
        f"a quota throttles over {THROTTLED_SHARE:.0%} of its periods (certain)",
        f"ranks set to {TIMES_CORES} threads for each core, on cores that are {USED_UP_PERCENT:.0f}% busy, while the GPUs wait "
        "(possible, info unless as many threads exist; likely if they use most of the ranks' CPU time)",
        f"ranks with {TIMES_CORES_COUNTED} such threads for each core (possible)",
    ),
    hides=("D01", "E02", "F04"),
    mechanism=(
        "Each rank starts its own workers and threads. More of them than cores only take turns. A quota stops all processes "
        "of a container once it is used up."
    ),
    signature="More workers than cores under CPU pressure, several threads for each core, or a quota that throttles over 10% "
    "of its periods.",
    look_alike="Many workers or threads that mostly sleep; ranks whose threads have a core each.",
    fix="Set num_workers and OMP_NUM_THREADS to the cores divided by the ranks, or raise the quota.",
    judge=oversubscribed,
)


def _in_time(evidence: Evidence, group: RankGroup, share: float | None) -> bool:
    """Return whether data comes in time: by the share of the time that goes to waiting, else by GPUs that never idle."""
    if share is None:
        return not group.virtual and _all_busy(evidence, group)
    return share < FELT_SHARE


def _all_busy(evidence: Evidence, group: RankGroup) -> bool:
    loads = [evidence.load(uuid) for uuid in group.used]
    return bool(loads) and all(load is not None and load.mean_percent >= WORKING_PERCENT for load in loads)


def pinned(evidence: Evidence, group: RankGroup) -> Judgement:
    """D03: the workers may use only one or two cores, or the ranks only the same one."""
    host = host_of(evidence)
    if host is None or not host.cpu_count:
        return None
    # The ranks' workers may be pinned to the same cores, so add up their load.
    shared: dict[int, float] = {}
    for process in with_workers(group):
        if process.workers is not None and process.workers.cores_allowed is not None:
            known = shared.get(process.workers.cores_allowed, 0.0)
            shared[process.workers.cores_allowed] = known + (process.workers.cpu_percent or 0.0)
    for process in with_workers(group):
        workers = process.workers
        assert workers is not None
        allowed, used = workers.cores_allowed, workers.cpu_percent
        if allowed is None or used is None or workers.count < 3 or allowed > 2 or allowed >= min(workers.count, host.cpu_count):
            continue
        if used > 105 * allowed or max(used, shared.get(allowed, 0.0)) < 100 * PINNED_BUSY * allowed:
            continue
        share = share_of_data(evidence, group)
        if _in_time(evidence, group, share):
            continue
        facts = [
            Fact(f"they may run on only {words.count(allowed, 'core')} of {host.cpu_count}", allowed, "/proc/<pid>/status"),
            Fact(f"together they use {used:.0f}% of a core, which is all that is available to them", used, "/proc/<pid>/stat"),
        ]
        if share is not None:
            facts.append(Fact(f"{share:.0%} of the time is spent waiting for data", round(share, 3), "journal: phase/data"))
        finding = tracked.about(
            group,
            "D03",
            "error",
            "certain",
            f"All {workers.count} loader workers share {words.count(allowed, 'core')}",
            facts,
            "Something pinned the process before the workers started: a library at import (OpenBLAS), taskset, or a batch "
            "system's --cpus-per-task=1. Workers inherit the pinning.",
            "DataLoader(..., worker_init_fn=lambda i: os.sched_setaffinity(0, range(os.cpu_count())))\n"
            f"taskset -pc {process.pid}  # shows the pinning; #SBATCH --cpus-per-task=8",
            "The workers may use more cores than there are workers.",
            pids=(process.pid,),
        )
        return Suspicion(finding, D03_HOLD_S)
    return _ranks_on_one_core(evidence, group, host.cpu_count)


def _ranks_on_one_core(evidence: Evidence, group: RankGroup, machine_cores: int) -> Judgement:
    """Judge ranks that may all use the same single core only, and use it up."""
    on_core: dict[int, list[Member]] = {}
    for member in group.members:
        if member.process is not None and member.process.cores_allowed == 1 and len(member.process.cores_used) == 1:
            on_core.setdefault(member.process.cores_used[0], []).append(member)
    core, there = max(on_core.items(), key=lambda item: len(item[1]), default=(0, []))
    used = sum(member.process.cpu_percent or 0.0 for member in there if member.process is not None)
    if len(there) < 2 or machine_cores < 2 or used < 100 * PINNED_BUSY or (not group.virtual and _all_busy(evidence, group)):
        return None
    names = words.ranks([member.rank for member in there if member.rank is not None]) or f"{len(there)} processes"
    pids = tuple(member.pid for member in there if member.pid is not None)
    free = max(1, machine_cores // len(there))
    finding = tracked.about(
        group,
        "D03",
        "error",
        "certain",
        f"{names[:1].upper()}{names[1:]} share one core",
        [
            Fact(
                f"each of them may run on core {core} only, of the machine's {words.count(machine_cores, 'core')}",
                core,
                "/proc/<pid>/status, /proc/<pid>/task/<tid>/stat",
            ),
            Fact(f"together they use {used:.0f}% of that core", round(used), "/proc/<pid>/stat"),
        ],
        "Something pinned all ranks to the same core: a taskset in the script that starts them, a library at import, or a "
        "batch system that counts one core for all. Only one of them can run at a time, and the others wait.",
        f"taskset -pc {pids[0]}  # shows the pinning\n"
        f"taskset -c $((LOCAL_RANK * {free}))-$((LOCAL_RANK * {free} + {free - 1})) python train.py  # or no taskset at all",
        "The ranks may use different cores.",
        pids=pids,
    )
    return Suspicion(finding, D03_RANKS_HOLD_S)


D03 = Rule(
    id="D03",
    order=2300,
    family="cpu",
    title="All workers or ranks share one or two cores",
    severities=("error",),
    confidences=("certain",),
    needs=_PROC,
    window_s=D03_HOLD_S,
    threshold=(
        "3 or more workers on 1 or 2 cores, which they use up; or 2 or more ranks that may use only the same core, and use "
        f"{PINNED_BUSY:.0%} of it, unless their GPUs are busy"
    ),
    hides=("D01", "D02", "E02", "E06", "F02", "F04"),
    mechanism=(
        "Something pinned the process before the workers started: a library at import (OpenBLAS), taskset, or a "
        "batch system's --cpus-per-task=1. Workers inherit the pinning. A script may also pin every rank to the same core."
    ),
    signature="Three or more workers, or two or more ranks, may run on only one or two cores, and use them up.",
    look_alike="Workers that keep up nevertheless; D02 (many cores, but even more workers).",
    fix="Call os.sched_setaffinity in worker_init_fn, or ask the batch system for more cores.",
    judge=pinned,
)


def one_thread(evidence: Evidence, group: RankGroup) -> Judgement:
    """D04: OMP_NUM_THREADS=1, although the training process prepares its data itself."""
    host = host_of(evidence)
    ranks = max(1, len(group.members))
    if host is None or not host.cpu_count or group.virtual or host.cpu_count < CORES_PER_RANK * ranks:
        return None
    single = [m.process for m in group.members if m.process is not None and m.process.environment is not None]
    single = [p for p in single if p.environment and dict(p.environment.settings).get("OMP_NUM_THREADS") == "1"]
    loader = data_waits.loader_of(group)
    if not single or loader is None or loader.num_workers != 0:
        return None
    share, main = share_of_data(evidence, group), single[0].main_thread_cpu_percent
    if share is None or share < WARN_SHARE or (main is not None and main < MAIN_BUSY_PERCENT):
        return None
    facts = [
        Fact("OMP_NUM_THREADS=1, which torchrun sets by default", "1", "/proc/<pid>/environ"),
        Fact(f"{share:.0%} of the time is spent waiting for data, with num_workers=0", round(share, 3), "journal"),
    ]
    if main is not None:
        facts.append(Fact(f"the main thread uses {main:.0f}% of a core", main, "/proc/<pid>/task"))
    finding = tracked.about(
        group,
        "D04",
        "info",
        "possible",
        "One thread of each rank prepares the data",
        facts,
        "torchrun gives each rank one thread so that ranks do not compete for cores. Here there are more cores.",
        f"OMP_NUM_THREADS={host.cpu_count // ranks} {fixes.own_command(group)}",
        "The script prepares its data without parallel operations of torch or numpy.",
    )
    return Suspicion(finding, 5.0)


D04 = Rule(
    id="D04",
    order=2303,
    family="cpu",
    title="OMP_NUM_THREADS=1",
    severities=("info",),
    confidences=("possible",),
    needs=("/proc/<pid>/environ", "journal"),
    window_s=5.0,
    every_s=SELDOM_S,
    threshold=(
        f"OMP_NUM_THREADS=1, num_workers=0, {CORES_PER_RANK} cores per rank, and {WARN_SHARE:.0%} of the time waiting for data"
    ),
    mechanism=(
        "torchrun gives each rank one thread so that ranks do not compete for cores. A process that prepares its data "
        "itself then uses one core of many."
    ),
    signature="OMP_NUM_THREADS=1 and num_workers=0 on a machine with cores to spare, while the loop waits for data.",
    look_alike="Data preparation without parallel operations of torch or numpy.",
    fix="Set OMP_NUM_THREADS to the cores divided by the ranks, or use loader workers.",
    judge=one_thread,
)
