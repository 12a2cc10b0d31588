"""Placement: which devices the ranks use (A07), and which devices the visibility mask leaves visible (A03)."""

from __future__ import annotations

from collections import Counter

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.evidence.visible import parse_mask
from gputop.doctor.facts import model as model_facts
from gputop.doctor.facts import stated
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.commands import filled
from gputop.doctor.findings.finding import Abstained, Fact, Finding
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion
from gputop.doctor.rules.support.shared import siblings, utilization
from gputop.snapshot import Device
from gputop.units import bytes_text

A07_HOLD_S = 10.0
"""Contexts come and go while ranks start (docs/rules.md#a07)."""
A07_STATED_HOLD_S = 3.0
"""If a rank reports its own device, only the other ranks remain to wait for."""
A03_HOLD_S = 5.0
A03_ASKED_HOLD_S = 1.5
"""Processes come and go while a run starts (our choice)."""

_SET_DEVICE = """\
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)  # before any other CUDA call
model = DDP(model.to(local_rank), device_ids=[local_rank])"""
_MASK_PER_RANK = """\
srun --gpus-per-task=1 …  # gives each rank its own GPU; or start the ranks with torchrun:
{torchrun}"""
_NO_MASK = "# remove from the script the line that sets {variable} to {mask}\n"
_SPLITS = "DataParallel"
_COUNT_OPTIONS = ("--num_gpus", "--num-gpus", "--n_gpus", "--ngpus", "--n_gpu")
_LIST_OPTIONS = ("--gpus", "--gpu-ids", "--gpu_ids", "--device", "--devices", "device", "devices")


def ranks_on_one_gpu(evidence: Evidence, group: RankGroup) -> Judgement:
    """A07: two or more ranks work mainly on one device while another device that they may use has no rank."""
    ranks = [member for member in group.members if member.rank is not None]
    if len(ranks) < 2 or len(group.pool) < 2:
        return None
    located = [member for member in ranks if member.main is not None]
    if len(located) < 2:
        return _cannot_locate(evidence, group)
    pool = {device.uuid: device for device in group.pool}
    crowds = Counter(member.main for member in located if member.main in pool)
    uuid, size = crowds.most_common(1)[0] if crowds else ("", 0)
    places = group.visible_count if group.visible_count is not None else len(group.pool)
    if uuid is None or size < 2 or len(crowds) >= min(len(ranks), places):
        return None
    if not group.virtual and evidence.works(group) is False:
        return None
    crowd = [member for member in located if member.main == uuid]
    empty = [device for device in (group.visible or group.pool) if device.uuid not in group.used]
    reported = group.virtual or all(member.main_source == "journal" for member in crowd)
    finding = Finding(
        id="A07",
        severity="error",
        confidence="certain" if group.visible_count is not None or reported else "likely",
        title=_crowd_title(evidence, pool[uuid], len(crowd), len(ranks), empty),
        evidence=_crowd_evidence(evidence, pool[uuid], crowd, empty),
        cause=_crowd_cause(crowd),
        fix=_crowd_fix(group, crowd),
        refuted_by="The ranks compute on different UUIDs, or sharing one GPU is intentional (MPS, a communication test).",
        devices=(uuid, *(device.uuid for device in empty)),
        pids=tuple(member.pid for member in crowd if member.pid is not None),
        run=group.run_id,
    )
    return Suspicion(finding, A07_STATED_HOLD_S if reported else A07_HOLD_S)


A07 = Rule(
    id="A07",
    order=500,
    family="placement",
    title="Several ranks share one GPU",
    severities=("error",),
    confidences=("certain", "likely"),
    needs=("NVML contexts or the journal's devices", "RANK, LOCAL_RANK"),
    window_s=A07_HOLD_S,
    every_s=EVERY_SNAPSHOT,
    threshold=(f"two ranks have their largest context on one UUID, and a visible device has none, for {A07_HOLD_S:.0f} s"),
    hides=("A01", "A02", "H01", "H02", "B07", "E02", "F02"),
    mechanism=(
        "The ranks never choose their own GPU: the code has no set_device(LOCAL_RANK), uses a fixed cuda:0, or expects an "
        "argument --local_rank that torchrun does not pass."
    ),
    signature=("Two or more ranks have their largest context on the same GPU, while a GPU that they may use has none."),
    look_alike=(
        "Ranks that each see their GPU as cuda:0 because each has its own mask; more ranks than GPUs; H01 (small second "
        "contexts)."
    ),
    fix='Call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before any other CUDA call.',
    judge=ranks_on_one_gpu,
)


def _cannot_locate(evidence: Evidence, group: RankGroup) -> Judgement:
    hidden = evidence.snapshot is not None and any(not process.in_namespace for process in evidence.snapshot.processes)
    if not hidden and not group.used:
        return None
    why = "the driver reports PIDs of the host that this container cannot see" if hidden else "memory per process is N/A"
    return Abstained("A07", f"Which rank is on which GPU is unknown: {why}.", "import gputop in the script", group.run_id)


def _crowd_title(evidence: Evidence, device: Device, crowd: int, ranks: int, empty: list[Device]) -> str:
    everyone = "both ranks" if ranks == 2 else f"all {ranks} ranks"
    if crowd < ranks:
        without = "1 GPU has none" if len(empty) == 1 else f"{len(empty)} GPUs have none"
        return f"{crowd} of {ranks} ranks share GPU {device.index}; {without}"
    if any(evidence.owners(other.uuid) for other in empty):
        return f"{everyone[0].upper()}{everyone[1:]} run on GPU {device.index}"
    return f"Only GPU {device.index} is used: {everyone} run on it"


def _crowd_evidence(evidence: Evidence, device: Device, crowd: list[Member], empty: list[Device]) -> tuple[Fact, ...]:
    local = [member.local_rank for member in crowd if member.local_rank is not None]
    numbers = local if len(local) == len(crowd) else [member.rank for member in crowd if member.rank is not None]
    name = "LOCAL_RANK" if numbers is local else "Rank" if len(numbers) == 1 else "Ranks"
    sits = words.gpu_with_uuid(device, device.uuid)
    where = crowd[0].main_source
    facts = [Fact(f"{name} {units.ranges(numbers)}, but every process is on {sits}", numbers, f"/proc/<pid>/environ, {where}")]
    sizes = [
        use.memory_used_bytes
        for member in crowd
        for use in member.uses
        if use.device_uuid == device.uuid and use.memory_used_bytes is not None
    ]
    if sizes:
        text = f"{len(sizes)} processes hold {bytes_text(sum(sizes))} in total on {words.gpu(device)}"
        facts.append(Fact(text, sum(sizes), where))
    if empty:
        verb = "carries" if len(empty) == 1 else "carry"
        facts.append(Fact(f"{words.gpus(empty)} {verb} no rank of this run", [other.index for other in empty], where))
        facts += utilization(evidence, [device, *empty])
    return tuple(facts)


def _same_local_rank(crowd: list[Member]) -> bool:
    local = {member.local_rank for member in crowd}
    return len(local) == 1 and None not in local


def _crowd_cause(crowd: list[Member]) -> str:
    if _same_local_rank(crowd):
        return (
            "Every rank got the same LOCAL_RANK and the same visible GPU: the launcher did not divide the GPUs among the ranks."
        )
    return (
        "The ranks never choose their own GPU: without set_device(LOCAL_RANK), with a fixed cuda:0, or with an argument "
        "--local_rank that torchrun does not pass, every rank takes the first GPU."
    )


def _crowd_fix(group: RankGroup, crowd: list[Member]) -> str:
    if _same_local_rank(crowd):
        return _MASK_PER_RANK.format(torchrun=fixes.launch_line(group, len(group.members)))
    return _SET_DEVICE


def mask_restricts(evidence: Evidence, group: RankGroup) -> Judgement:
    """A03: the run sees fewer GPUs than the machine has; a warning if it asks for more, or divides batches over one."""
    count = group.visible_count
    if count is None or not 0 < count < len(group.pool) or any(d.mig_enabled for d in group.pool):
        return None
    own = _own_mask(group)
    outside = [device for device in group.pool if group.visible is not None and device not in group.visible]
    free = evidence.free(outside)
    wish = extra_devices_wanted(group, count)
    alone = alone_in_data_parallel(group) if wish is None and count == 1 and free else None
    wish = wish or alone
    if group.virtual and own is None and (wish is None or _is_placed(group)):
        return None  # For virtual GPUs, the launch mask only records which ones were chosen.
    if wish is None and not _worth_a_remark(evidence, group, count, bool(free)):
        return None
    name = _variable(group)
    mask = " ".join(f"{name}={text}" for text in group.masks)
    facts = [Fact(mask or f"torch sees {words.count(count, 'GPU')}", count, group.visible_source)]
    facts.append(Fact(f"the machine has {words.count(len(group.pool), 'GPU')}", len(group.pool), "NVML"))
    if own is not None:
        at_launch = f"; at launch it was {group.masks[0]}" if group.masks else "; at launch it was not set"
        facts[0] = Fact(f"the script sets {name}={own}{at_launch}", own, "os.environ (journal)")
    if wish is not None:
        facts.append(wish)
    if free:
        text = f"{words.gpus(free)} {'is' if len(free) == 1 else 'are'} free"
        facts.append(Fact(text, [device.index for device in free], "NVML"))
    wanted = [*(group.visible or ()), *free]
    finding = Finding(
        id="A03",
        severity="warning" if wish is not None else "info",
        confidence="possible" if alone is not None else "certain",  # many scripts are wrapped on one GPU, too
        title=_mask_title(group, count, wish, own),
        evidence=tuple(facts),
        cause="CUDA shows a process only the GPUs in CUDA_VISIBLE_DEVICES (or in its container), as if there were no others."
        + (" Ranks beyond that number have no GPU of their own." if wish is not None else ""),
        fix=_mask_fix(group, wanted, own),
        refuted_by="The restriction is intentional: other users' jobs, or this run's share of the machine.",
        devices=tuple(device.uuid for device in wanted),
        pids=group.pids,
        run=group.run_id,
    )
    return Suspicion(finding, A03_HOLD_S if wish is None else A03_ASKED_HOLD_S)


def _asks_for_more(finding: Finding) -> bool:
    """Return whether the run asks for more GPUs than its mask leaves, which explains why ranks share a GPU."""
    return finding.severity == "warning"


A03 = Rule(
    id="A03",
    order=501,
    family="placement",
    title="The mask hides GPUs",
    severities=("warning", "info"),
    confidences=("certain", "possible"),
    needs=("CUDA_VISIBLE_DEVICES at launch", "NVML", "journal: data_parallel, else /proc: variables"),
    window_s=A03_HOLD_S,
    threshold="fewer visible GPUs than the machine has; a warning if the run asks for more than it sees, or has a model in "
    "nn.DataParallel and sees one GPU while others are free (possible)",
    hides=("A07", "A01", "A02"),
    hides_if=_asks_for_more,
    hides_when="the run asks for more GPUs than it sees",
    mechanism=("CUDA shows a process only the GPUs in CUDA_VISIBLE_DEVICES or in its container, as if there were no others."),
    signature=("The run sees fewer GPUs than the machine has; a warning if the run asks for more than it sees."),
    look_alike="A share of the machine given to the run on purpose, or GPUs that other jobs use.",
    fix="Widen or unset CUDA_VISIBLE_DEVICES, or start the container or batch job with more GPUs.",
    judge=mask_restricts,
)


def _worth_a_remark(evidence: Evidence, group: RankGroup, count: int, free: bool) -> bool:
    """Return whether a mask is worth reporting.

    It is for a training run that uses its whole mask while other GPUs are free, is not part of a sweep, and was not placed by
    gputop.
    """
    return (
        free
        and not _is_placed(group)
        and len(group.used) == count
        and evidence.trains(group)
        and evidence.is_warm(group)
        and not siblings(evidence, group)
    )


def _is_placed(group: RankGroup) -> bool:
    """Return whether its devices were chosen in gputop."""
    return any(p.environment is not None and p.environment.gputop_job_id for p in group.processes)


def extra_devices_wanted(group: RankGroup, count: int) -> Fact | None:
    """Return how the run asks for more devices than the ``count`` that it sees."""
    ranks = sum(member.rank is not None for member in group.members)
    started = group.local_world_size
    if ranks >= 2 and (started or ranks) > count:
        if started is not None:
            return Fact(f"{started} ranks were started on this machine", started, "LOCAL_WORLD_SIZE (/proc/<pid>/environ)")
        return Fact(f"{ranks} ranks run on this machine", ranks, "RANK (/proc/<pid>/environ)")
    for member in group.members:
        given, source = _given(member)
        if given is not None and given > count:
            return _was_given(given, source)
    process = group.main_process
    command = process.command if process is not None and process.command else ()
    number = fixes.option(command, _COUNT_OPTIONS)
    listed = fixes.option(command, _LIST_OPTIONS)
    asked = int(number) if number and number.isascii() and number.isdigit() and len(number) < 4 else 0
    asked = max(asked, len(listed.split(",")) if listed else 0)
    if asked > count:
        return Fact(f"the command line asks for {asked} GPUs", asked, "/proc/<pid>/cmdline")
    return None


def alone_in_data_parallel(group: RankGroup) -> Fact | None:
    """Return what shows that a process that sees a single device divides its batches over the devices that it sees."""
    for member in group.members:
        given, source = _given(member)
        if given == 1:
            return _was_given(given, source)
        if given is None and group.virtual and _splits(member):
            return Fact("the model is in nn.DataParallel", None, source)
    return None


def _was_given(devices: int, source: str) -> Fact:
    return Fact(f"nn.DataParallel was given {words.count(devices, 'device')}", devices, source)


def _given(member: Member) -> tuple[int | None, str]:
    """Return how many devices nn.DataParallel was given, and where that is known from; None without it, or without devices."""
    wrapped = stated.data_parallel(member.journal)
    if member.journal is not None or member.process is None:
        return (wrapped.devices or None if wrapped is not None else None), "journal"
    held = member.process.held
    models = held.models if held is not None else None
    return (models.devices if models is not None else None), f"/proc/{member.process.pid}/mem"


def _splits(member: Member) -> bool:
    """Return whether a model is in nn.DataParallel. Without a real GPU, it is given no devices."""
    held = member.process.held if member.process is not None else None
    read = held.models.wrapper if held is not None and held.models is not None else None
    return _SPLITS in (read, stated.wrapper(member.journal))


def _variable(group: RankGroup) -> str:
    return "GPUTOP_VIRTUAL_DEVICES" if group.virtual else "CUDA_VISIBLE_DEVICES"


def _own_mask(group: RankGroup) -> str | None:
    """Return a mask that leaves fewer devices and that the script of a single process set after it started."""
    if len(group.members) != 1:
        return None
    journal = group.members[0].journal
    now = model_facts.mask_now(journal, group.virtual)
    fact = model_facts.visibility(journal)
    if now is None or now in group.masks or (not group.virtual and (fact is None or fact.launch == now)):
        return None
    return now if len(parse_mask(now)) == group.visible_count else None


def _mask_title(group: RankGroup, count: int, wish: Fact | None, own: str | None) -> str:
    where = _variable(group) if group.masks or own is not None else "torch"
    if wish is not None and "ranks" in wish.text:
        return f"{wish.value} ranks, but {where} shows {words.count(count, 'GPU')}"
    if wish is not None and _SPLITS in wish.text and count == 1 and own is None:
        return f"DataParallel has one GPU of {len(group.pool)}: {where} hides the others"
    by = "The script hides GPUs: " if own is not None else ""
    return f"{by}{where} shows {count} of {words.count(len(group.pool), 'GPU')}"


def _mask_fix(group: RankGroup, wanted: list[Device], own: str | None) -> str:
    prefix = fixes.mask_prefix(group, wanted)
    command = fixes.own_command(group)
    if own is not None:
        return filled(_NO_MASK, {"variable": _variable(group), "mask": own}) + f"{prefix}{command}"
    if not group.masks:
        return f"Start the container with more GPUs (docker run --gpus all …), then:\n{command}"
    return f"{prefix or 'env -u CUDA_VISIBLE_DEVICES '}{command}"
