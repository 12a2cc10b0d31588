"""GPUs that other processes use: another job on a run's GPU (H03), and memory that a dead job still holds (H04)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gputop.command_line import script_name
from gputop.doctor.evidence.evidence import FREE_MEMORY_BYTES, Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.evidence.visible import mask_of
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Abstained, Fact, Finding, Severity
from gputop.doctor.rules.support.outputs import foreign_memory, outputs_of, quoted
from gputop.doctor.rules.support.rule import Judgement, Rule, Suspicion
from gputop.doctor.rules.support.shared import is_twin, runs_same_script
from gputop.groups import compute_uses
from gputop.process import DEAD_STATES
from gputop.snapshot import Device, DeviceUse, LogMatch, Process, Snapshot
from gputop.units import bytes_text

H03_HOLD_S = 5.0
H03_SM_PERCENT = 5.0
H03_BYTES = 1e9
"""Another process counts above 5% of the SMs or 1 GB (docs/rules.md#h03)."""
H03_WARNING_PERCENT = 20.0
"""Above this SM share a neighbor slows the run noticeably: a warning. The number is an estimate."""
H04_HOLD_S = 10.0
H04_SHARE = 0.05
"""The driver itself may hold this share on top of what the listed processes hold: page tables, a reserve, rounding (an
estimate).
"""
_INIT = ("systemd", "init", "tini", "dumb-init", "docker-init", "catatonit")
_HIDING_NOTES = ("no_permission", "other")
"""Codes of notes that report an unavailable process list."""


def other_group(evidence: Evidence) -> dict[str, Judgement]:
    """H03: a process outside the run computes, or holds memory, on a GPU that the run trains on."""
    judged: dict[str, Judgement] = {}
    refused = {output.subject: match for output in outputs_of(evidence) if (match := foreign_memory(output)) is not None}
    for group in sorted(evidence.groups, key=_reporting_order):
        if not _is_judged(evidence, group) or all(p.environment is None for p in group.processes):
            continue
        # Use only NVML's list: in a container, the driver reports PIDs that differ from the container's own.
        used = {use.device_uuid for process in group.processes for use in compute_uses(process)}
        own = {process.pid for process in group.processes} | set(group.pids)
        for device in group.pool:
            if device.uuid in judged or device.uuid not in used:
                continue
            found = _others(evidence, own, device)
            if group.virtual:
                found = [(process, use) for process, use in found if _free_for_twins(evidence, group, [process])]
            unknown = [process for process, use in found if _unmeasured(use)]
            found = [(process, use) for process, use in found if _counts(use)]
            if found:
                match = refused.get(group.run_id or group.key)
                judged[device.uuid] = Suspicion(_shared(evidence, group, device, found, match), H03_HOLD_S)
            elif unknown:
                why = f"Process {unknown[0].pid} is on {words.gpu(device)} too; its memory and its SM share are N/A."
                judged[device.uuid] = Abstained("H03", why, "a driver that reports them", group.run_id)
    return judged


H03 = Rule(
    id="H03",
    order=2001,
    family="memory",
    title="Another job uses the same GPU",
    severities=("error", "warning", "info"),
    confidences=("certain",),
    needs=("NVML memory and SM share per process", "the run's output"),
    window_s=H03_HOLD_S,
    threshold=(
        f"a compute context of another job with more than 1 GB or {H03_SM_PERCENT:.0f}% of the SMs on a run's GPU, "
        f"for {H03_HOLD_S:.0f} s; a warning from {H03_WARNING_PERCENT:.0f}% of the SMs on, unless it is another run of the "
        "same script and no GPU that both see is free",
        "of virtual GPUs, only runs of one script on the same one, while another is free",
    ),
    hides=("F02", "H02"),
    mechanism=("Processes on one GPU take turns on its cores and share its memory. In DDP every rank waits for the slowest."),
    signature="A process outside the run computes, or holds memory, on a GPU that the run trains on.",
    look_alike="A desktop's compositor; your own sweep that packs several runs on a GPU while none is free, or by one mask for "
    "all (reported as information).",
    fix="Choose free GPUs with CUDA_VISIBLE_DEVICES, or ask the owner.",
    judge_machine=other_group,
)


def _is_judged(evidence: Evidence, group: RankGroup) -> bool:
    """Return whether a group trains. Virtual GPUs are cores: only runs that could have taken one each are judged.

    CUDA_VISIBLE_DEVICES does not choose among them: who sets it has given the run a card.
    """
    if not group.virtual:
        return evidence.trains(group)
    if any(process.environment is not None and process.environment.cuda_visible_devices for process in group.processes):
        return False
    return bool(group.masks) and evidence.is_warm(group) and (evidence.trains(group) or bool(evidence.works(group)))


def _free_beside(evidence: Evidence, group: RankGroup) -> list[Device]:
    """Return the free devices that the group sees and does not use."""
    return [device for device in evidence.free(group.visible or group.pool) if device.uuid not in group.used]


def _hidden_by_one_mask(evidence: Evidence, group: RankGroup, others: Collection[Process]) -> list[Device]:
    """Return the free devices that one mask, the same for all, hides from the group and from these processes.

    A batch system's mask, or a container's, is no choice of the user's.
    """
    processes = (*group.processes, *others)
    masks = {mask_of(process, group.virtual) for process in processes}
    if len(masks) > 1 or None in masks or group.visible is None:
        return []
    if any(map(_is_given_its_gpus, processes)):
        return []
    seen = {device.uuid for device in group.visible}
    return [device for device in evidence.free(group.pool) if device.uuid not in seen]


def _is_given_its_gpus(process: Process) -> bool:
    settings = process.environment.settings if process.environment is not None else ()
    return process.container is not None or any(name == "SLURM_JOB_ID" for name, _ in settings)


def _free_for_twins(evidence: Evidence, group: RankGroup, others: Collection[Process]) -> list[Device]:
    """Return the free devices that other runs of the group's script could have used; none if another script is among them."""
    if not all(is_twin(group, process) for process in others):
        return []
    return _free_beside(evidence, group) or _hidden_by_one_mask(evidence, group, others)


def _reporting_order(group: RankGroup) -> tuple[bool, int, str]:
    return (group.run is None, -len(group.members), group.key)


def _others(evidence: Evidence, own: Collection[int], device: Device) -> list[tuple[Process, DeviceUse]]:
    found = []
    for process in evidence.owners(device.uuid):
        if process.pid in own or process.state in DEAD_STATES or (process.name or "").startswith("nvidia-cuda-mps"):
            continue
        # A desktop's compositor may compute a little; it does not compete with training.
        use = next(item for item in compute_uses(process) if item.device_uuid == device.uuid)
        if "C" in use.contexts or "M" in use.contexts:
            found.append((process, use))
    return found


def _counts(use: DeviceUse) -> bool:
    return (use.sm_utilization_percent or 0) > H03_SM_PERCENT or (use.memory_used_bytes or 0) > H03_BYTES


def _unmeasured(use: DeviceUse) -> bool:
    return use.sm_utilization_percent is None and use.memory_used_bytes is None


def _shared(
    evidence: Evidence, group: RankGroup, device: Device, found: list[tuple[Process, DeviceUse]], match: LogMatch | None
) -> Finding:
    share = sum(use.sm_utilization_percent or 0 for _, use in found)
    process = found[0][0]
    foreign = process.uid is None or process.uid not in group.uids
    who = process.user or (f"uid {process.uid}" if process.uid is not None else "another user")
    felt = share >= H03_WARNING_PERCENT
    # Several runs of one script on one GPU are a sweep. It packs its runs, unless each could have taken a GPU of its own: one
    # mask for all is a choice, or a mistake.
    packed = not foreign and runs_same_script(group, process)
    spare = _free_for_twins(evidence, group, [item for item, _ in found])
    masked = bool(spare) and not _free_beside(evidence, group)
    on_purpose = packed and (masked or not spare)
    severity: Severity = "error" if match is not None else "warning" if felt and not on_purpose else "info"
    free = spare or [other for other in evidence.free(group.pool) if other.uuid not in group.used]
    wanted = [*(other for other in group.pool if other.uuid in group.used and other.uuid != device.uuid), *free][
        : len(group.used)
    ]
    facts = [_neighbor(item, use) for item, use in found[:3]]
    if match is not None:
        facts.insert(0, quoted(match))
    return Finding(
        id="H03",
        severity=severity,
        confidence="certain",
        title=f"{len(found) + 1} runs of {_name(group)} share {words.gpu(device)}, and {words.gpus(spare)} "
        f"{words.agree(len(spare), 'is', 'are')} free"
        if spare
        else f"{words.gpu(device)} is shared with {f'a job of {who}' if foreign else 'another job of yours'}",
        evidence=tuple(facts),
        cause="Processes on one GPU take turns on its SMs and share its memory. In DDP every rank waits for the slowest, "
        "so one shared GPU slows the whole run." + _why_together(group, masked, bool(spare)),
        fix=_elsewhere(group, wanted, process) if free else _ps_command(process),
        refuted_by="The sharing is intentional (MPS, a small job next to a large one).",
        devices=(device.uuid,),
        pids=(*group.pids, *(item.pid for item, _ in found)),
        run=group.run_id,
    )


def _why_together(group: RankGroup, masked: bool, could_be_apart: bool) -> str:
    if masked:
        name = "GPUTOP_VIRTUAL_DEVICES" if group.virtual else "CUDA_VISIBLE_DEVICES"
        return f" All were started with {name}={group.masks[0]}."
    if could_be_apart:
        return " Without CUDA_VISIBLE_DEVICES or a device of its own, each run takes the first GPU that it sees."
    return ""


def _name(group: RankGroup) -> str:
    process = group.main_process
    return (script_name(process.command) if process is not None else None) or "one script"


def _neighbor(process: Process, use: DeviceUse) -> Fact:
    owner = process.user or (f"uid {process.uid}" if process.uid is not None else "an unknown user")
    share = "N/A" if use.sm_utilization_percent is None else f"{use.sm_utilization_percent:.0f}%"
    text = (
        f"process {process.pid} of {owner} ({process.name or 'N/A'}): {bytes_text(use.memory_used_bytes)}, {share} of the SMs"
    )
    return Fact(text, use.sm_utilization_percent, "NVML per process")


def _elsewhere(group: RankGroup, wanted: list[Device], process: Process) -> str:
    ranks = group.local_world_size or 1
    launched = group.launcher is not None or ranks > 1
    command = fixes.launch_line(group, len(wanted), wanted) if launched else f"{_mask(group, wanted)}{fixes.own_command(group)}"
    return f"{command}\n\n# or find out whose it is:\n{_ps_command(process)}"


def _mask(group: RankGroup, wanted: list[Device]) -> str:
    return fixes.mask_prefix(group, wanted)


def _ps_command(process: Process) -> str:
    return f"ps -o pid,user,etime,args -p {process.pid}"


def left_behind(evidence: Evidence) -> dict[str, Judgement]:
    """H04: a rank or worker whose launcher is dead holds a GPU, or no listed process accounts for memory in use."""
    snapshot = evidence.snapshot
    if snapshot is None:
        return {}
    judged: dict[str, Judgement] = {}
    orphans = [process for process in snapshot.processes if _is_orphan(process)]
    for process in orphans:
        judged[f"pid:{process.pid}"] = Suspicion(_orphan(evidence, process), H04_HOLD_S)
    if snapshot.host.source == "nvml" and not _list_has_holes(snapshot):
        for device in snapshot.devices:
            if (unaccounted := _unaccounted(evidence, device)) is not None:
                judged[device.uuid] = Suspicion(_unowned(device, unaccounted), H04_HOLD_S)
    return judged


H04 = Rule(
    id="H04",
    order=2000,
    family="memory",
    title="A dead job still holds GPU memory",
    severities=("warning",),
    confidences=("certain", "likely"),
    needs=("/proc: parent, environment at launch", "NVML memory and processes"),
    window_s=H04_HOLD_S,
    threshold=(
        "a torchrun rank or a worker whose parent is init has the GPU open (certain), or an idle GPU uses 1 GiB, and "
        f"{H04_SHARE:.0%}, more than the listed processes hold (likely), for {H04_HOLD_S:.0f} s"
    ),
    hides=("A07", "G01", "G04", "H01", "H03"),
    mechanism=(
        "A launcher was killed but its ranks were not, or a notebook but not its workers. They wait for processes that no "
        "longer exist, and keep the memory."
    ),
    signature=(
        "The parent of a rank or worker is init, and it has a GPU open; or an idle GPU uses more memory than the listed "
        "processes hold."
    ),
    look_alike="Processes that a container or MPS hides; a process that was detached on purpose and still works.",
    fix="Find it with `sudo fuser -v /dev/nvidia*` and end it with kill.",
    judge_machine=left_behind,
)


def _is_orphan(process: Process) -> bool:
    """Return whether the process is a rank or worker whose parent is init, not the launcher or rank that started it."""
    if process.launcher is not None or process.state in DEAD_STATES or not process.in_namespace:
        return False
    if not process.devices and not process.nvidia_open:
        return False
    first = process.ancestors[0].name if process.ancestors else None
    if process.ppid != 1 and first not in _INIT:
        return False
    environment = process.environment
    by_elastic = environment is not None and environment.torchelastic_run_id is not None and environment.rank is not None
    command = " ".join(process.command or ())
    return by_elastic or process.name == "pt_data_worker" or "multiprocessing.spawn import spawn_main" in command


def _orphan(evidence: Evidence, process: Process) -> Finding:
    environment = process.environment
    rank = environment.rank if environment is not None else None
    what = f"Rank {rank}" if rank is not None and process.name != "pt_data_worker" else "A worker"
    held = sum(use.memory_used_bytes or 0 for use in compute_uses(process))
    devices = [device for use in compute_uses(process) if (device := evidence.device(use.device_uuid)) is not None]
    where = words.gpus(devices) if devices else "a GPU"
    gone = "torchrun" if environment is not None and environment.torchelastic_run_id is not None else "its parent"
    return Finding(
        id="H04",
        severity="warning",
        confidence="certain",
        title=f"{what} of a dead job still holds {where} (process {process.pid})",
        evidence=(
            Fact(
                f"the parent of process {process.pid} is now init (parent {process.ppid})",
                process.ppid,
                f"/proc/{process.pid}/stat",
            ),
            Fact(f"it was started as {_started_as(process)}", rank, f"/proc/{process.pid}/environ"),
            Fact(f"it holds {bytes_text(held) if held else 'driver files'} on {where}", held, "NVML, /proc/<pid>/fd"),
        ),
        cause=f"{gone[0].upper()}{gone[1:]} ended (was killed) without its ranks. They wait for processes that no longer "
        "exist, and keep the GPU's memory.",
        fix=f"kill {process.pid}  # if it does not end: kill -9 {process.pid}",
        refuted_by="The process was detached on purpose and still works.",
        devices=tuple(device.uuid for device in devices),
        pids=(process.pid,),
        run=process.run_id,
    )


def _started_as(process: Process) -> str:
    environment = process.environment
    if environment is not None and environment.rank is not None and process.name != "pt_data_worker":
        return f"rank {environment.rank} of {environment.world_size or 'N/A'} by torchrun"
    return "a multiprocessing worker"


def _list_has_holes(snapshot: Snapshot) -> bool:
    """Return whether unlisted processes may hold memory: containers, MPS, a driver that hides them."""
    hidden = any(not process.in_namespace for process in snapshot.processes)
    without_gpu = any(process.nvidia_open and not process.devices for process in snapshot.processes)
    contained = any(process.container is not None for process in snapshot.processes)
    noted = any(note.code in _HIDING_NOTES for note in snapshot.notes)
    return hidden or without_gpu or contained or noted or snapshot.host.mps_server_pid is not None


def _unaccounted(evidence: Evidence, device: Device) -> int | None:
    """Return the memory in use on an idle GPU that no listed process accounts for."""
    used = device.memory_used_bytes
    if device.kind != "gpu" or device.state != "ok" or used is None or device.mig_enabled or device.unified_memory:
        return None
    if device.memory_version == "host" or "processes" in device.denied:
        return None
    load = evidence.load(device.uuid)
    if load is None or not load.idle:
        return None
    sizes = list(_sizes(evidence, device.uuid))
    if None in sizes:
        return None
    listed = sum(size for size in sizes if size is not None)
    left = used - listed
    return left if left >= max(FREE_MEMORY_BYTES, H04_SHARE * listed) else None


def _sizes(evidence: Evidence, uuid: str) -> Iterable[int | None]:
    for process in evidence.snapshot.processes if evidence.snapshot is not None else ():
        for use in process.devices:
            if use.device_uuid == uuid:
                yield use.memory_used_bytes


def _unowned(device: Device, left: int) -> Finding:
    return Finding(
        id="H04",
        severity="warning",
        confidence="likely",
        title=f"{bytes_text(left)} on {words.gpu(device)} belongs to no listed process",
        evidence=(
            Fact(f"{bytes_text(device.memory_used_bytes)} is in use", device.memory_used_bytes, "NVML"),
            Fact(f"{bytes_text(left)} of it belongs to no listed process, and the GPU is idle", left, "NVML"),
        ),
        cause="A process that is not in the list still has the driver's files open (a killed notebook, a worker that "
        "outlived its parent), or a process in another container holds the memory.",
        fix="sudo fuser -v /dev/nvidia*  # lists the processes that have the GPUs open; then: kill <pid>",
        refuted_by="A container or a virtual machine that hides its processes uses this GPU.",
        devices=(device.uuid,),
    )
