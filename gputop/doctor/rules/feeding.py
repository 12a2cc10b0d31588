"""The way of the data to the GPU: waiting for batches (D01), copies (D05), workers that start anew (D06), the disk (D07)."""

from __future__ import annotations

import itertools
import statistics

from gputop.doctor import windows, words
from gputop.doctor.evidence import Evidence
from gputop.doctor.finding import Fact
from gputop.doctor.jobs import Job
from gputop.doctor.rules import tracked
from gputop.doctor.rules.rule import RARELY_S, SELDOM_S, Judgement, Rule, Suspicion
from gputop.doctor.rules.shared import utilization
from gputop.doctor.stated_input import feeding, transfers
from gputop.units import bytes_text

WARN_SHARE = 0.15
SEVERE_SHARE = 0.30
"""Sum of waiting over sum of step times (catalogue D01)."""
WAIT_MIN_S = 0.002
"""A shorter wait a step is nobody's bottleneck (ours)."""
STEPS_MIN = 30
WORKER_BUSY_PERCENT = 90.0
COPY_SHARE = 0.10
RESTART_FACTOR = 5.0
RESTART_SHARE = 0.05
"""The first batch of an epoch takes 5 times a mean step, and 5 % of the time (catalogue D06)."""
RESTARTS_MIN = 2
IO_PRESSURE_PERCENT = 20.0


def share_of_data(evidence: Evidence, job: Job) -> float | None:
    """Return the share of time that goes to waiting for data in the rank of the middle, the lower one of two.

    Where one rank alone waits it is a straggler, and not the loaders of all.
    """
    ranks = tracked.ranks_of(job)
    shares = [windows.share(evidence, job, rank.rank, "phase/data", STEPS_MIN) for rank in ranks]
    known = sorted(value for value in shares if value is not None)
    return known[(len(known) - 1) // 2] if known and len(known) == len(ranks) else None


def _waits_s(evidence: Evidence, job: Job, share: float) -> float:
    steps = [windows.step_s(evidence, job, rank.rank, STEPS_MIN) for rank in tracked.ranks_of(job)]
    return share * statistics.median([value for value in steps if value is not None] or [0.0])


def _cores_per_rank(evidence: Evidence, job: Job) -> int:
    allowed = [member.process.cores_allowed for member in job.members if member.process and member.process.cores_allowed]
    host = evidence.snapshot.host.cpu_count if evidence.snapshot is not None else None
    cores = max(allowed, default=host or 8)
    return max(1, cores // max(1, len(job.members)))


def loader_bound(evidence: Evidence, job: Job) -> Judgement:
    """D01: the GPUs wait for the loader."""
    share = share_of_data(evidence, job)
    # On the CPU a small step takes little longer than to put its batch together: that is no loader's fault.
    least = SEVERE_SHARE if job.virtual else WARN_SHARE
    if share is None or share < least or _waits_s(evidence, job, share) < WAIT_MIN_S:
        return None
    loader = next((found for rank in tracked.ranks_of(job) if (found := feeding(rank)) is not None), None)
    workers = loader.workers if loader is not None else None
    facts = [
        Fact(f"{share:.0%} of the time goes to waiting for data", round(share, 3), "journal: phase/data, step_s"),
        Fact(f"{_waits_s(evidence, job, share) * 1e3:.1f} ms a step", _waits_s(evidence, job, share), "journal: phase/data"),
    ]
    busy = [member.process.workers for member in job.members if member.process is not None and member.process.workers]
    cores = _cores_per_rank(evidence, job)
    wanted = min(8, cores)
    if workers == 0:
        facts.append(Fact("the loader has no workers: num_workers=0", 0, "journal: loader"))
        why = "The training process prepares each batch itself, while the GPU waits."
    elif workers is not None:
        facts.append(Fact(f"the loader has {words.count(workers, 'worker')}", workers, "journal: loader"))
        why = "The workers do not prepare batches as fast as the GPU takes them."
        wanted = max(wanted, 2 * workers) if cores > workers else workers
    else:
        why = "Batches come slower than the GPU takes them."
    for item in busy[:1]:
        if item.cpu_percent is not None and item.cpu_percent >= WORKER_BUSY_PERCENT * item.count:
            facts.append(Fact(f"its workers use {item.cpu_percent:.0f} % of a core", item.cpu_percent, "/proc"))
    facts += utilization(evidence, tracked.used_devices(job))
    if workers is not None and workers >= cores:
        fix = (
            "# more workers than cores do not help: decode less (smaller images, cached or packed data), or use the GPU (DALI)"
        )
    else:
        fix = (
            f"DataLoader(..., num_workers={max(1, wanted)}, pin_memory=True, persistent_workers=True, prefetch_factor=4)"
            f"  # {cores} cores for each rank"
        )
    finding = tracked.about(
        job,
        "D01",
        "error" if share >= SEVERE_SHARE else "warning",
        "certain",
        f"The GPUs wait for data: {share:.0%} of the time",
        facts,
        why,
        fix,
        "The share of phase/data in step_s is below 15 % over the newest steps.",
    )
    return Suspicion(finding, 3.0)


def copies(evidence: Evidence, job: Job) -> Judgement:
    """D05: copies from host to device take a tenth of the step."""
    for rank in tracked.ranks_of(job):
        fact, step_s = transfers(rank), windows.step_s(evidence, job, rank.rank)
        if fact is None or fact.seconds_per_step is None or not step_s or fact.seconds_per_step < COPY_SHARE * step_s:
            continue
        share = fact.seconds_per_step / step_s
        facts = [Fact(f"copies to the GPU take {share:.0%} of a step", round(share, 3), "journal: transfers")]
        for value, text in (
            (fact.per_step, "copies in a step"),
            (fact.pageable_per_step, "of them from memory that is not pinned"),
            (fact.blocking_per_step, "of them that wait"),
        ):
            if value:
                facts.append(Fact(f"{value:.0f} {text}", value, "journal: transfers"))
        if fact.bytes_per_step:
            facts.append(Fact(f"{bytes_text(int(fact.bytes_per_step))} in a step", fact.bytes_per_step, "journal: transfers"))
        finding = tracked.about(
            job,
            "D05",
            "warning",
            "likely",
            f"Copies to the GPU take {share:.0%} of a step{tracked.at(fact.where)}",
            facts,
            "A copy from pageable memory waits until it is done; many small ones cost more than one large one.",
            "loader = DataLoader(..., pin_memory=True)\nx = x.to(device, non_blocking=True)  # one tensor, once",
            "The copies run beside the computation (a profile shows them on another stream).",
        )
        return Suspicion(finding, 3.0)
    return None


def workers_restart(evidence: Evidence, job: Job) -> Judgement:
    """D06: each epoch begins with a long wait, because workers are started anew."""
    for rank in tracked.ranks_of(job):
        loader = feeding(rank)
        if loader is None or not loader.workers or loader.persistent:
            continue
        waits = {point.step: point.value for point in evidence.series(job.run_id, rank.rank, "phase/data")}
        epochs = list(evidence.series(job.run_id, rank.rank, "epoch"))
        firsts = [after.step for before, after in itertools.pairwise(epochs) if after.value > before.value]
        found = [waits[step] for step in firsts if step in waits]
        steps = [point.value for point in evidence.series(job.run_id, rank.rank, "step_s")]
        if len(found) < RESTARTS_MIN or not steps:
            continue
        mean = statistics.fmean(steps)
        total = sum(steps)
        if min(found) < RESTART_FACTOR * statistics.median(steps) or sum(found) < RESTART_SHARE * total:
            continue
        facts = [
            Fact(
                f"the first batch of {words.count(len(found), 'epoch')} took {statistics.fmean(found) * 1e3:.0f} ms, "
                f"a step takes {mean * 1e3:.0f} ms",
                round(statistics.fmean(found), 4),
                "journal: phase/data, epoch",
            ),
            Fact(f"{loader.workers} workers, persistent_workers=False", loader.workers, "journal: loader"),
        ]
        finding = tracked.about(
            job,
            "D06",
            "warning",
            "certain",
            "Each epoch begins with a wait: the loader's workers start anew",
            facts,
            "Without persistent_workers every iteration over the loader starts its worker processes again.",
            f"DataLoader(..., num_workers={loader.workers}, persistent_workers=True)  # or longer epochs",
            "The first batches of later epochs come as fast as the others.",
        )
        return Suspicion(finding)
    return None


def slow_disk(evidence: Evidence, job: Job) -> Judgement:
    """D07: processes wait for a disk while the job waits for data."""
    host = evidence.snapshot.host if evidence.snapshot is not None else None
    share = share_of_data(evidence, job)
    if host is None or host.io_pressure_percent is None or share is None or share < WARN_SHARE:
        return None
    if host.io_pressure_percent < IO_PRESSURE_PERCENT:
        return None
    blocked = sum(member.process.workers.blocked for member in job.members if member.process and member.process.workers)
    facts = [
        Fact(f"{share:.0%} of the time goes to waiting for data", round(share, 3), "journal: phase/data"),
        Fact(
            f"in {host.io_pressure_percent:.0f} % of the last 10 s something waited for a disk",
            host.io_pressure_percent,
            "/proc/pressure/io",
        ),
    ]
    if blocked:
        facts.append(Fact(f"{words.count(blocked, 'worker')} of the loader wait for a disk now", blocked, "/proc/<pid>/stat"))
    finding = tracked.about(
        job,
        "D07",
        "warning",
        "likely",
        "The disk is too slow for the loader",
        facts,
        "Many small files, a network file system, or a disk that others use too. A second epoch from the page cache is fast.",
        "iostat -x 1  # which disk\n# copy the data to a local disk, pack it in shards (WebDataset), or cache what was decoded",
        "The first epoch is no slower than the second.",
    )
    return Suspicion(finding, 5.0)


def untracked_loader(evidence: Evidence, job: Job) -> bool:
    """True where a job trains without a journal and its loader's workers are all busy: only the journal tells the wait."""
    return (
        job.run is None
        and not job.virtual
        and any(
            p.workers is not None
            and p.workers.cpu_percent is not None
            and p.workers.cpu_percent >= WORKER_BUSY_PERCENT * p.workers.count
            for p in job.processes
        )
    )


def busy_workers(evidence: Evidence, job: Job) -> Judgement:
    """D01, from outside: the rule abstains and says what would tell."""
    if untracked_loader(evidence, job) and evidence.trains(job):
        return tracked.untracked("D01", job, "All loader workers are busy; how long the GPUs wait for them cannot be seen.")
    return loader_bound(evidence, job)


RULES = (
    Rule(
        "D07",
        "input",
        ("/proc/pressure/io", "journal: phase/data"),
        5.0,
        f"io pressure from {IO_PRESSURE_PERCENT:.0f} % and {WARN_SHARE:.0%} of the time waiting for data (catalogue D07)",
        slow_disk,
        SELDOM_S,
    ),
    Rule(
        "D06",
        "input",
        ("journal: phase/data, epoch, loader",),
        0.0,
        f"first batches of {RESTARTS_MIN} epochs of {RESTART_FACTOR:.0f} steps, {RESTART_SHARE:.0%} of all (catalogue D06)",
        workers_restart,
        RARELY_S,
    ),
    Rule(
        "D01",
        "input",
        ("journal: phase/data, step_s, loader", "/proc"),
        3.0,
        f"waiting for data takes {WARN_SHARE:.0%} of the time (severe: {SEVERE_SHARE:.0%}), by sums over {STEPS_MIN} steps or "
        "more, in the rank of the middle (catalogue D01)",
        busy_workers,
        SELDOM_S,
    ),
    Rule(
        "D05",
        "input",
        ("journal: transfers",),
        3.0,
        f"copies to the device take {COPY_SHARE:.0%} of a step (catalogue D05)",
        copies,
        SELDOM_S,
    ),
)

HIDES = {
    "D01": ("E02", "E01", "E07", "D05", "B08"),
    "D06": ("D01", "E07"),
    "D07": ("D01", "E02", "E07"),
}
