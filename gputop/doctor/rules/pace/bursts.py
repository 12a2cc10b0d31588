"""D01 from outside: GPUs that work in bursts or rarely, while whatever prepares their data is always busy."""

from __future__ import annotations

from gputop.doctor.evidence import windows
from gputop.doctor.evidence.device_loads import IDLE_PERCENT
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings import fixes
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.pace.disk import DISK_SHARE, waits_for_disk
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.policies import learns_policy
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.doctor.rules.support.shared import cores_per_rank, utilization
from gputop.snapshot import Process

WORKER_BUSY_PERCENT = 90.0
"""Share of a core from which a worker is always busy (our choice)."""
SAW_MEAN_PERCENT = (20.0, 70.0)
SAW_IDLE_SHARE = 0.2
SAW_SPAN_S = 50.0
SAW_HOLD_S = 15.0
MAIN_BUSY_PERCENT = 90.0
"""Estimates (docs/rules.md#d01): medium utilization, a fifth of the readings at 0, and the likely cause."""

ALONE_SPAN_S, ALONE_PARTS = 45.0, 3
BACKWARD_SHARE = 0.1
"""A main thread that launches kernels waits while its backward thread does so, which takes about as long (our choice)."""
GPU_MOST_PERCENT = 30.0
"""Small kernels that follow each other without a pause keep a GPU busier than this (our choice)."""
ALONE_HOLD_S = 5.0
ALONE_TEXT = (
    f"for {ALONE_SPAN_S:.0f} s: GPUs below {GPU_MOST_PERCENT:.0f}%, no loader workers, a main thread at "
    f"{MAIN_BUSY_PERCENT:.0f}% of a core, and backward threads that run, at {BACKWARD_SHARE:.0%} or less (possible)"
)


def computes_beside(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge D01 for an untracked run whose main threads always compute, but hardly for a backward pass, while its GPUs idle."""
    if group.run is not None or group.virtual or not evidence.trains(group) or not evidence.is_warm(group):
        return None
    devices = tracked.used_devices(group)
    if not devices or not all(_is_rarely_used(evidence, device.uuid) for device in devices):
        return None
    known = [_alone(evidence, member.process) for member in group.members if member.process is not None]
    if not known or not all(known) or learns_policy(logged.ranks_of(group)):
        return None
    facts = [fact for each in known[:2] for fact in each]
    cores = cores_per_rank(evidence, group)
    finding = tracked.about(
        group,
        "D01",
        "warning",
        "possible",
        "The GPUs may wait for data: the training process computes something else most of the time",
        [*facts, Fact("it has no loader workers", 0, "/proc"), *utilization(evidence, devices)],
        "The main thread is always busy, but hardly with training: it seems to prepare batches itself (decoding, tokenizing, "
        "augmentation, features) or to compute metrics in Python while the GPU waits.",
        f"DataLoader(..., num_workers={min(8, cores)}, pin_memory=True, persistent_workers=True)  # or prepare the data once, "
        f"before the training\npy-spy top --pid {group.processes[0].pid}  # which functions?\n"
        f"gputop run -- {fixes.own_command(group)}  # shows how long each step waits, and for what",
        "The process simulates, searches or evaluates there on purpose.",
    )
    return Suspicion(finding, ALONE_HOLD_S)


def _alone(evidence: Evidence, process: Process) -> list[Fact]:
    """Return the evidence that a process always computes, but hardly for a backward pass; empty without any."""
    main, shares = process.main_thread_cpu_percent, evidence.backward_shares(process, ALONE_SPAN_S, ALONE_PARTS)
    if process.workers is not None or main is None or main < MAIN_BUSY_PERCENT:
        return []
    if shares is None or min(shares) <= 0.0 or max(shares) > BACKWARD_SHARE:
        return []
    where = f"/proc/{process.pid}/task"
    return [
        Fact(f"the main thread of process {process.pid} uses {main:.0f}% of a core", main, where),
        Fact(f"its backward threads use {max(shares):.0%} at most", round(max(shares), 3), where),
    ]


def _is_rarely_used(evidence: Evidence, uuid: str) -> bool:
    load = windows.mean_utilization(evidence, uuid)
    return load is not None and load < GPU_MOST_PERCENT


def from_outside(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge D01 without a journal: utilization goes up and down, and whatever prepares the data is always busy."""
    if group.virtual or not evidence.trains(group):
        return None
    workers = [p.workers for p in group.processes if p.workers is not None and p.workers.count]
    tired = [item for item in workers if (item.cpu_percent or 0.0) >= WORKER_BUSY_PERCENT * item.count]
    devices = tracked.used_devices(group)
    why = "All loader workers are busy, but how long the GPUs wait for them is unknown."
    if not devices or not all(_is_sawtooth(evidence, device.uuid) for device in devices):
        return tracked.untracked("D01", group, why) if tired else None
    main = [m.process.main_thread_cpu_percent for m in group.members if m.process is not None and m.process.workers is None]
    disk = waits_for_disk(evidence, group)
    facts = utilization(evidence, devices)
    if tired:
        item = tired[0]
        facts.append(Fact(f"{item.count} loader workers use {item.cpu_percent:.0f}% of a core", item.cpu_percent, "/proc"))
        cause = "The workers do not prepare batches as fast as the GPU uses them."
    elif disk is not None and disk >= DISK_SHARE:
        facts.append(Fact(f"its loader waited for a disk in {disk:.0%} of the last minute", round(disk, 3), "/proc/<pid>/stat"))
        cause = "The processes that read the data wait for a disk, and the GPU waits for the data."
    elif main and not workers and all(value is not None and value >= MAIN_BUSY_PERCENT for value in main):
        facts.append(Fact(f"no loader workers, and the main thread uses {main[0]:.0f}% of a core", main[0], "/proc/<pid>/task"))
        cause = "The training process prepares each batch itself while the GPU waits."
    else:
        return tracked.untracked(
            "D01", group, "The GPUs work in bursts, but whether they wait for data is not visible from outside."
        )
    cores = cores_per_rank(evidence, group)
    finding = tracked.about(
        group,
        "D01",
        "warning",
        "likely",
        "The GPUs seem to wait for data: they work in bursts",
        facts,
        cause,
        f"DataLoader(..., num_workers={min(8, cores)}, pin_memory=True, persistent_workers=True, prefetch_factor=4)"
        f"  # {cores} cores for each rank\ngputop run -- {fixes.own_command(group)}  # shows how long they wait",
        "With gputop run, the share of phase/data in step_s is below 15%.",
    )
    return Suspicion(finding, SAW_HOLD_S)


def _is_sawtooth(evidence: Evidence, uuid: str) -> bool:
    values = [r.utilization_percent for r in evidence.history.readings(uuid) if r.utilization_percent is not None]
    if not values or not evidence.spans(uuid, SAW_SPAN_S):
        return False
    idle = sum(value < IDLE_PERCENT for value in values) / len(values)
    least, most = SAW_MEAN_PERCENT
    return least <= sum(values) / len(values) <= most and idle >= SAW_IDLE_SHARE
