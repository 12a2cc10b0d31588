"""GPUs at full utilization with low power: NCCL kernels poll for missing ranks (G02, and G01 from outside)."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.doctor.evidence import windows
from gputop.doctor.evidence.device_loads import IDLE_PERCENT
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.group_past import uses_no_processor
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.standstill.progress import STOOD_MIN_S, standing
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion
from gputop.doctor.rules.support.shared import utilization
from gputop.snapshot import Device

SPIN_PERCENT = 95.0
SPIN_POWER_SHARE = 0.35
FALLEN_SHARE = 0.6
"""So do GPUs with a low limit, of which polling takes a larger share, if the power has fallen to this share of what the same
ranks drew at work, and no data moves (our choice)."""
SPIN_MEMORY_PERCENT = 3.0
SPIN_SM_PERCENT = 10.0
"""A polling kernel occupies only a few SMs. So do the tiny kernels of some models, so this counts only next to a rank that
rests.
"""
SPIN_HOLD_S = 60.0
STOOD_HOLD_S = 5.0
RESTS_HOLD_S = 15.0
"""The hold time if no rank has run backward for ``SPIN_HOLD_S`` either: that minute need not pass twice."""
FIRST_CALLS = 5
FIRST_HOLD_S = 60.0
"""NCCL's kernels poll: 100% utilization at low power (docs/rules.md#g01, estimates)."""
HANG_SYMPTOMS = (
    "D01",
    "D02",
    "D04",
    "D05",
    "D07",
    "E01",
    "E02",
    "E03",
    "E06",
    "I01",
    "I02",
    "I07",
    "A01",
    "A02",
    "H03",
    "B08",
    "C08",
)


def spins(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge G01 from outside: some of the run's GPUs are at 100% with low power for a minute, the others idle, and no step
    completes. If the other ranks are on other machines, this machine's GPUs may all poll for them.
    """
    devices = tracked.used_devices(group)
    if group.virtual or tracked.world(group) < 2 or not group.members or len(devices) < min(2, len(group.members)):
        return None
    stood = [evidence.stood_s(group.run.run_id, rank.rank) for rank in group.run.ranks] if group.run is not None else []
    if stood and min(stood) < SPIN_HOLD_S:
        return None
    run = logged.run_id(group) if group.run is None else None
    if run is not None and evidence.has_moved(run, STOOD_MIN_S):
        return None  # its files or its output show steps
    idle = [device for device in devices if _idles(evidence, device)]
    since_s = min((evidence.age_s(process) for process in group.processes), default=0.0)
    polling = [
        device for device in devices if device not in idle and polls(evidence, device, beside_idle=bool(idle), since_s=since_s)
    ]
    if not polling or len(polling) + len(idle) < len(devices) or len(idle) > len(polling) or (stood and not idle):
        return None
    facts = [*utilization(evidence, devices), *(_power_fact(evidence, device, since_s) for device in devices)]
    stands = standing(evidence, group)
    if stood:
        facts.append(Fact(f"no step has completed for {min(stood):.0f} s", round(min(stood)), "journal: step"))
    elif stands is not None:
        facts.append(stands.fact)
    elif run is None:
        facts.append(Fact("steps are unknown, because the run is not tracked", None, "no journal"))
    return _some_wait(evidence, group, idle, facts) if idle else _all_poll(evidence, group, facts, stands is not None)


def _power_fact(evidence: Evidence, device: Device, since_s: float) -> Fact:
    power, before = windows.power_share_at_most(evidence, device.uuid), evidence.history.most_power_w(device.uuid, since_s)
    text = f"{words.gpu(device)} draws {power or 0.0:.0%} of its limit"
    if before is not None and power is not None and device.power_limit_w:
        share = before / device.power_limit_w
        text += f", after {share:.0%} at work" if power <= FALLEN_SHARE * share else ""
    return Fact(text, power, "NVML")


def polls(evidence: Evidence, device: Device, beside_idle: bool = False, since_s: float = 0.0) -> bool:
    """Return whether a GPU does nothing but poll for other ranks: full utilization at low power, and no data moves.

    Args:
        evidence: The evidence.
        device: The GPU.
        beside_idle: A GPU of the same group idles, so a kernel on few SMs is not a tiny kernel of the model.
        since_s: For how many seconds the same ranks have used it: their power at work is known for as long.
    """
    use = windows.mean_utilization(evidence, device.uuid)
    if use is None or use < SPIN_PERCENT:
        return False
    power = windows.power_share_at_most(evidence, device.uuid)
    memory, cores = device.memory_activity_percent, device.sm_activity_percent
    if power is None:
        return False
    if power > SPIN_POWER_SHARE:
        before = evidence.history.most_power_w(device.uuid, since_s)
        fallen = before is not None and power * (device.power_limit_w or 0.0) <= FALLEN_SHARE * before
        return fallen and memory is not None and memory <= SPIN_MEMORY_PERCENT
    return memory is None or memory <= SPIN_MEMORY_PERCENT or (beside_idle and cores is not None and cores <= SPIN_SM_PERCENT)


def _idles(evidence: Evidence, device: Device) -> bool:
    use = windows.mean_utilization(evidence, device.uuid)
    return use is not None and use < IDLE_PERCENT


def _all_poll(evidence: Evidence, group: RankGroup, facts: Sequence[Fact], stands: bool) -> Judgement:
    """Judge ranks that all poll: likely a hang if none of them has run backward meanwhile, or if their output or files stand
    still (``stands``); possible if both are unknown."""
    stood = [evidence.no_backward_s(member.process) if member.process is not None else None for member in group.members]
    known = [seconds for seconds in stood if seconds is not None]
    rests = len(known) == len(stood) and min(known) >= SPIN_HOLD_S
    calm = {m.process.pid: m.rank for m in group.members if m.process is not None and uses_no_processor(m.process)}
    odd = next(iter(calm.items())) if len(calm) == 1 and len(group.members) > 2 else None
    if rests:
        text = f"no rank's backward threads have used a CPU for {min(known):.0f} s"
        facts = [*facts, Fact(text, round(min(known)), "pt_autograd threads (/proc/<pid>/task)")]
    if odd is not None:
        text = f"only process {odd[0]}{f' (rank {odd[1]})' if odd[1] is not None else ''} uses no CPU"
        facts = [*facts, Fact(text, odd[0], f"/proc/{odd[0]}/stat")]
    first = odd[0] if odd is not None else group.pids[0] if group.pids else "PID"
    sure = rests or stands
    whose = "all GPUs spin" if len(group.members) == tracked.world(group) else "all GPUs of this machine spin"
    finding = tracked.about(
        group,
        "G01",
        "error",
        "likely" if sure else "possible",
        f"The training {'seems to hang' if sure else 'may hang'}: {whose} at low power, and none moves data",
        facts,
        "NCCL's kernels poll for the other ranks: full utilization at low power and no traffic. The ranks may be in "
        "different operations, or one may wait elsewhere.",
        f"py-spy dump --pid {first}  # for each rank: which one is somewhere else?",
        "Steps complete (start it with gputop run to see them), or its kernels are very small.",
    )
    return Suspicion(finding, RESTS_HOLD_S if sure else SPIN_HOLD_S)


def _some_wait(evidence: Evidence, group: RankGroup, idle: Sequence[Device], facts: Sequence[Fact]) -> Judgement:
    """Judge ranks that poll for others whose GPUs idle: likely a hang if those rest, possible if they use the CPU."""
    uuids = {device.uuid for device in idle}
    behind = [member for member in group.members if member.main in uuids and member.process is not None]
    processes = [member.process for member in behind if member.process is not None]
    if not processes or any(evidence.still.disks_s(process) < SPIN_HOLD_S / 2 for process in processes):
        return None  # They may write a checkpoint or prepare data while the others wait.
    rests = all(map(uses_no_processor, processes))
    if group.run is not None and not rests:
        return None
    numbers = [member.rank for member in behind]
    others = [member.rank for member in group.members if member not in behind]
    late = words.ranks([number for number in numbers if number is not None]) if None not in numbers else "another rank"
    early = words.ranks([number for number in others if number is not None]) if None not in others else "ranks"
    wait = "waits" if len(others) == 1 and None not in others else "wait"
    for process in processes:
        share = process.cpu_percent
        text = f"process {process.pid} uses {'an unknown share' if share is None else f'{share:.0f}%'} of a core"
        facts = [*facts, Fact(text, share, f"/proc/{process.pid}/stat")]
    seems = "seems to hang" if rests else "may hang"
    finding = tracked.about(
        group,
        "G01",
        "error" if rests else "warning",
        "likely" if rests else "possible",
        f"The training {seems}: {early} {wait} for {late}, whose GPU{'s idle' if len(idle) > 1 else ' idles'}",
        facts,
        "NCCL's kernels poll for ranks that have not entered the collective operation: these GPUs show full utilization at "
        "low power and no traffic, and the others do nothing.",
        f"py-spy dump --pid {processes[0].pid} --native  # where it is now",
        "It evaluates, or waits for something that the others must wait for too.",
        idle,
        [process.pid for process in processes],
    )
    # A tracked run has already stood still for that long.
    return Suspicion(finding, SPIN_HOLD_S if group.run is None else STOOD_HOLD_S)


def first_collective(evidence: Evidence, group: RankGroup) -> Judgement:
    """G02: all ranks are in their first collective operation, and it does not complete."""
    if group.virtual or evidence.progressing(group) or any(rank.step for rank in tracked.ranks_of(group)):
        return None
    found = [item for item in evidence.communicators(group) if len(item.ranks) > 1]
    if not found:
        return None
    totals = [sum(rank.counts.values()) for item in found for rank in item.ranks]
    if not totals or len(set(totals)) != 1 or not 0 < totals[0] <= FIRST_CALLS:
        return None
    devices = tracked.used_devices(group)
    loads = [windows.mean_utilization(evidence, device.uuid) for device in devices]
    if not devices or any(load is None or load < SPIN_PERCENT for load in loads):
        return None
    if any(device.nvlinks_active for device in devices):
        return None
    iommu = evidence.snapshot is not None and evidence.snapshot.host.iommu_enabled
    facts = [
        Fact(
            f"all {len(totals)} ranks have begun {totals[0]} collective operations, and no step has completed",
            totals[0],
            "NCCL RAS",
        ),
        *utilization(evidence, devices),
    ]
    unlinked = all(device.nvlinks_active is not None for device in devices)
    if unlinked:
        facts.append(Fact("no NVLink between these GPUs: they communicate over PCIe", 0, "NVML"))
    if iommu:
        facts.append(Fact("an IOMMU is on", True, "/sys/class/iommu"))
    finding = tracked.about(
        group,
        "G02",
        "error",
        "likely" if unlinked else "possible",
        "The first collective operation never completes: the GPUs cannot reach each other",
        facts,
        "Peer-to-peer copies over PCIe get lost: ACS or an IOMMU redirects them, or the driver is older than 550.40.07.",
        f"NCCL_P2P_DISABLE=1 {fixes.own_command(group)}  # if this works, the peer-to-peer path is at fault\n"
        "# then: a newer driver; iommu=pt on the kernel command line; ACS off in the BIOS",
        "Steps complete, or the ranks' counts differ (then one rank is missing).",
    )
    return Suspicion(finding, FIRST_HOLD_S)


G02 = Rule(
    id="G02",
    order=1500,
    family="hangs",
    title="The first collective never completes",
    severities=("error",),
    confidences=("likely", "possible"),
    needs=("NCCL RAS", "NVML"),
    window_s=FIRST_HOLD_S,
    every_s=EVERY_SNAPSHOT,
    threshold=(
        f"equal counts of at most {FIRST_CALLS} collectives, GPUs at {SPIN_PERCENT:.0f}%, no step and no NVLink (possible "
        f"if that is unknown), for {FIRST_HOLD_S:.0f} s"
    ),
    estimated=True,
    hides=("G01", *HANG_SYMPTOMS),
    mechanism=(
        "Peer-to-peer copies over PCIe get lost: ACS or an IOMMU redirects them, or the driver has a known fault "
        "(before 550.40.07 on RTX 40 cards)."
    ),
    signature="All ranks have begun the same few collectives, the GPUs are at 100%, and no step has completed.",
    look_alike="C08 and G01 (the ranks' counts differ).",
    fix="Test with NCCL_P2P_DISABLE=1; then update the driver, set iommu=pt, or turn ACS off.",
    judge=first_collective,
)
