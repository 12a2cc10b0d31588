"""D01 from outside: GPUs that work in bursts, while whatever prepares their data is always busy."""

from __future__ import annotations

from gputop.doctor.evidence.device_loads import IDLE_PERCENT
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings import fixes
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.pace.disk import DISK_SHARE, waits_for_disk
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.doctor.rules.support.shared import cores_per_rank, utilization

WORKER_BUSY_PERCENT = 90.0
"""Share of a core from which a worker is always busy (our choice)."""
SAW_MEAN_PERCENT = (20.0, 70.0)
SAW_IDLE_SHARE = 0.2
SAW_SPAN_S = 50.0
SAW_HOLD_S = 15.0
MAIN_BUSY_PERCENT = 90.0
"""Estimates (docs/rules.md#d01): medium utilization, a fifth of the readings at 0, and the likely cause."""


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
