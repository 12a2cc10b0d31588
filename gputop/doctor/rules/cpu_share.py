"""The cores that a training gets: too many processes for them (D02), all workers on one (D03), one thread (D04), shared
memory that runs out (D08), the wrong socket (D10)."""

from __future__ import annotations

from gputop.doctor import fixes, words
from gputop.doctor.evidence import Evidence
from gputop.doctor.finding import Fact
from gputop.doctor.jobs import Job
from gputop.doctor.rules import tracked
from gputop.doctor.rules.feeding import WARN_SHARE, share_of_data
from gputop.doctor.rules.rule import SELDOM_S, Judgement, Rule, Suspicion
from gputop.doctor.stated_input import feeding
from gputop.snapshot import Host, Process
from gputop.units import bytes_text

THROTTLED_SHARE = 0.1
PRESSURE_PERCENT = 40.0
D02_HOLD_S = 10.0
D03_HOLD_S = 8.0
PINNED_BUSY = 0.7
"""Workers that share few cores use at least this much of them."""
CORES_PER_RANK = 4
SHM_FULL = 0.85
SHM_SMALL_BYTES = 1_000_000_000
D10_HOLD_S = 60.0
D10_SHARE = 0.1


def _host(evidence: Evidence) -> Host | None:
    return evidence.snapshot.host if evidence.snapshot is not None else None


def _with_workers(job: Job) -> list[Process]:
    return [process for process in job.processes if process.workers is not None and process.workers.count]


def _cores_of(process: Process) -> int | None:
    """Return on how many cores the workers may run: a rank that is bound to one may have let them go."""
    own = process.workers.cores_allowed if process.workers is not None and process.workers.count else None
    return own or process.cores_allowed


def oversubscribed(evidence: Evidence, job: Job) -> Judgement:
    """D02: more loader processes than cores, and they wait for each other; or a quota that holds them back."""
    host = _host(evidence)
    if host is None:
        return None
    workers = sum(process.workers.count for process in _with_workers(job) if process.workers is not None)
    own = [found for process in job.processes if (found := _cores_of(process))]
    allowed = max(own, default=host.cpu_count or 0)
    cores = min(allowed, host.cpu_quota) if host.cpu_quota is not None else allowed
    throttled = host.cpu_throttled_share if not job.virtual else None
    facts = []
    if throttled is not None and host.cpu_quota is not None and throttled > THROTTLED_SHARE:
        facts.append(
            Fact(
                f"the CPU quota of {host.cpu_quota:g} cores held processes back in {throttled:.0%} of its periods",
                round(throttled, 3),
                "cgroup cpu.stat",
            )
        )
    too_many = workers > cores > 0
    pressed = host.cpu_pressure_percent is not None and host.cpu_pressure_percent > PRESSURE_PERCENT
    if not facts and not (too_many and pressed):
        return None
    if too_many:
        facts.append(Fact(f"{workers} loader workers for {cores:g} cores", workers, "/proc"))
    if pressed:
        text = f"in {host.cpu_pressure_percent:.0f} % of the last 10 s something waited for a core"
        facts.append(Fact(text, host.cpu_pressure_percent, "/proc/pressure/cpu"))
    quota_alone = not too_many
    fair = max(1, int(cores) // max(1, len(job.members)))
    finding = tracked.about(
        job,
        "D02",
        "warning",
        "certain" if throttled is not None and throttled > THROTTLED_SHARE else "likely",
        f"{workers} loader workers share {cores:g} cores" if too_many else "The container's CPU quota slows the training",
        facts,
        "A quota (docker --cpus, a Kubernetes limit) stops all processes of the container once it is used up."
        if quota_alone
        else "Each rank starts its own workers; more of them than cores only take turns.",
        "docker run --cpus=16 ...  # or a higher limit" if quota_alone else f"DataLoader(..., num_workers={fair})",
        "The workers mostly sleep.",
    )
    return Suspicion(finding, D02_HOLD_S)


def pinned(evidence: Evidence, job: Job) -> Judgement:
    """D03: the workers may use one or two cores alone."""
    host = _host(evidence)
    if host is None or not host.cpu_count:
        return None
    for process in _with_workers(job):
        workers = process.workers
        assert workers is not None
        allowed, used = workers.cores_allowed, workers.cpu_percent
        if allowed is None or used is None or workers.count < 3 or allowed > 2 or allowed >= min(workers.count, host.cpu_count):
            continue
        if not 100 * PINNED_BUSY * allowed <= used <= 105 * allowed:
            continue
        share = share_of_data(evidence, job)
        if share is not None and share < WARN_SHARE / 2:
            continue
        facts = [
            Fact(f"they may run on {words.count(allowed, 'core')} of {host.cpu_count}", allowed, "/proc/<pid>/status"),
            Fact(f"together they use {used:.0f} % of a core: no more is to be had there", used, "/proc/<pid>/stat"),
        ]
        if share is not None:
            facts.append(Fact(f"{share:.0%} of the time goes to waiting for data", round(share, 3), "journal: phase/data"))
        finding = tracked.about(
            job,
            "D03",
            "error",
            "certain",
            f"All {workers.count} loader workers share {words.count(allowed, 'core')}",
            facts,
            "Something pinned the process before the workers were started: a library at import (OpenBLAS), taskset, a batch "
            "system's --cpus-per-task=1; workers inherit it.",
            "DataLoader(..., worker_init_fn=lambda i: os.sched_setaffinity(0, range(os.cpu_count())))\n"
            f"taskset -pc {process.pid}  # shows it; #SBATCH --cpus-per-task=8",
            "The workers may use more cores than there are workers.",
            pids=(process.pid,),
        )
        return Suspicion(finding, D03_HOLD_S)
    return None


def one_thread(evidence: Evidence, job: Job) -> Judgement:
    """D04: OMP_NUM_THREADS=1, where the training process prepares its data itself."""
    host = _host(evidence)
    share = share_of_data(evidence, job)
    if host is None or not host.cpu_count or job.virtual or share is None or share < WARN_SHARE:
        return None
    ranks = max(1, len(job.members))
    if host.cpu_count < CORES_PER_RANK * ranks:
        return None
    single = [
        p for p in job.processes if p.environment is not None and dict(p.environment.settings).get("OMP_NUM_THREADS") == "1"
    ]
    loader = next((found for rank in tracked.ranks_of(job) if (found := feeding(rank)) is not None), None)
    if not single or loader is None or loader.workers != 0:
        return None
    threads = host.cpu_count // ranks
    finding = tracked.about(
        job,
        "D04",
        "info",
        "possible",
        "The data is prepared by one thread of each rank",
        [
            Fact("OMP_NUM_THREADS=1: torchrun sets it where it is not set", "1", "/proc/<pid>/environ"),
            Fact(f"{share:.0%} of the time goes to waiting for data, with num_workers=0", round(share, 3), "journal"),
        ],
        "torchrun gives each rank one thread, so that ranks do not fight for cores; here there are more.",
        f"OMP_NUM_THREADS={threads} {fixes.own_command(job)}",
        "The data is prepared without parallel operations of torch or numpy.",
    )
    return Suspicion(finding, 5.0)


def shared_memory(evidence: Evidence, job: Job) -> Judgement:
    """D08: /dev/shm fills up, or is small, while workers hand batches over through it."""
    host = _host(evidence)
    if host is None or not host.shm_total_bytes or not _with_workers(job):
        return None
    used = host.shm_used_bytes
    full = used is not None and used >= SHM_FULL * host.shm_total_bytes
    if not full and host.shm_total_bytes >= SHM_SMALL_BYTES:
        return None
    text = f"/dev/shm has {bytes_text(host.shm_total_bytes)}" + (f", {bytes_text(used)} used" if used is not None else "")
    finding = tracked.about(
        job,
        "D08",
        "warning" if full else "info",
        "likely" if full else "possible",
        "/dev/shm is nearly full" if full else "/dev/shm is small for loader workers",
        [Fact(text, used, "statvfs")],
        "Loader workers hand batches over through it; when it is full they die of a bus error.",
        "docker run --shm-size=8g ...  # or --ipc=host\n"
        'torch.multiprocessing.set_sharing_strategy("file_system")  # where that cannot be changed',
        "The batches are small.",
    )
    return Suspicion(finding, 3.0)


def far_socket(evidence: Evidence, job: Job) -> Judgement:
    """D10: a rank runs on cores of the other socket."""
    share = share_of_data(evidence, job)
    if job.virtual or share is None or share < D10_SHARE:
        return None
    for member in job.members:
        process = member.process
        device = next((device for device in job.pool if device.uuid == member.main), None)
        if process is None or device is None or not device.cpu_affinity or not process.cores_used:
            continue
        if set(process.cores_used) & set(device.cpu_affinity):
            continue
        finding = tracked.about(
            job,
            "D10",
            "info",
            "possible",
            f"Process {process.pid} runs far from {words.gpu(device)}",
            [
                Fact(f"it runs on cores {words.span(process.cores_used)}", list(process.cores_used), "/proc/<pid>/stat"),
                Fact(f"near the GPU are cores {words.span(device.cpu_affinity)}", list(device.cpu_affinity), "NVML"),
            ],
            "What it hands to the GPU goes through the link between the sockets.",
            f"torchrun --numa-binding=node ...  # newer torch; or: numactl --cpunodebind={device.numa_node or 0} python ...",
            "Its copies to the GPU are small.",
            [device],
            (process.pid,),
        )
        return Suspicion(finding, D10_HOLD_S)
    return None


_PROC = ("/proc", "cgroup")
RULES = (
    Rule("D03", "cpu", _PROC, D03_HOLD_S, "3 workers or more on 1 or 2 cores, which they use up (catalogue D03)", pinned),
    Rule(
        "D02",
        "cpu",
        _PROC,
        D02_HOLD_S,
        f"more workers than cores and cpu pressure above {PRESSURE_PERCENT:.0f} %; or a quota that throttles over "
        f"{THROTTLED_SHARE:.0%} of the time (catalogue D02)",
        oversubscribed,
    ),
    Rule("D08", "cpu", ("statvfs",), 3.0, "/dev/shm at 85 %, or below 1 GB, with workers (catalogue D08)", shared_memory),
    Rule(
        "D04",
        "cpu",
        ("/proc/<pid>/environ", "journal"),
        5.0,
        f"OMP_NUM_THREADS=1, num_workers=0, {CORES_PER_RANK} cores a rank, data share {WARN_SHARE:.0%} (catalogue D04)",
        one_thread,
        every_s=SELDOM_S,
    ),
    Rule(
        "D10",
        "cpu",
        ("NVML", "/proc"),
        D10_HOLD_S,
        "a rank's threads on none of its GPU's cores for a minute (catalogue D10)",
        far_socket,
        every_s=SELDOM_S,
    ),
)

HIDES = {"D02": ("D01", "E02", "F04"), "D03": ("D01", "D02", "E02"), "D04": (), "D08": ()}
