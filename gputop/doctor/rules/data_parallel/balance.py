"""How nn.DataParallel uses the GPUs: one does more (B07), all wait for one process (B08), the cards are unequal (B11)."""

from __future__ import annotations

import statistics

from gputop.doctor.evidence import windows
from gputop.doctor.evidence.device_loads import BUSY_PERCENT
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.facts import stated
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.data_parallel.batches import wrapped_devices
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.outputs import first_logged, quoted
from gputop.doctor.rules.support.rule import SELDOM_S, Judgement, Rule, Suspicion
from gputop.snapshot import Device
from gputop.units import bytes_text

MEMORY_RATIO_MIN = 1.3
MEMORY_EXCESS_MIN_BYTES = 2**30
LOAD_EXCESS_MIN_PERCENT = 15.0
"""The first GPU's memory over the median of the others, and its excess utilization (docs/rules.md#b07, an estimate)."""
OVERHEAD_LOAD_MAX_PERCENT = 60.0
OVERHEAD_DATA_SHARE_MAX = 0.15
"""Mean utilization, and the share of time waiting for data (docs/rules.md#b08, an estimate)."""
PAUSE_SHARE_MAX = 0.1
UNEQUAL_RATIO = 0.75
"""torch's own balance check warns below this ratio of memory (docs/rules.md#b11)."""
_DDP_WRAP = """\
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
model = DDP(net.to(local_rank), device_ids=[local_rank])"""


def _wrapper(evidence: Evidence, group: RankGroup) -> tuple[Member, tuple[Device, ...], bool] | None:
    """Return the process that drives several GPUs by nn.DataParallel, those GPUs in order, and whether it reports this."""
    if len(group.members) != 1 or group.virtual:
        return None
    member = group.members[0]
    fact = stated.data_parallel(member.journal)
    if fact is not None:
        devices = wrapped_devices(group, fact)
        return (member, tuple(devices), True) if len(devices) >= 2 else None
    if stated.model_inspected(member.journal) or member.process is None:
        return None
    # Backward threads that advance on several devices at once: replicas, or layers spread over devices.
    if len(evidence.history.backward_seconds(member.process)) < 2:
        return None
    devices = [device for device in group.pool if device.uuid in group.used]
    return (member, tuple(devices), False) if len(devices) >= 2 else None


def first_is_full(evidence: Evidence, group: RankGroup) -> Judgement:
    """B07: the GPU on which nn.DataParallel gathers holds far more and works far more than the others."""
    found = _wrapper(evidence, group)
    if found is None or not evidence.trains(group):
        return None
    member, devices, reported = found
    loads = [windows.mean_utilization(evidence, device.uuid) for device in devices]
    sizes = [_held(member, device) for device in devices]
    known_loads = [load for load in loads if load is not None]
    known = [size for size in sizes if size is not None]
    if len(known_loads) < len(devices) or len(known) < len(devices):
        return None
    ids = stated.data_parallel(member.journal)
    output = ids.output_device if ids is not None else None
    first = ids.device_ids.index(output) if ids is not None and output in ids.device_ids and output is not None else 0
    if not reported:
        first = known.index(max(known))
    rest = [position for position in range(len(devices)) if position != first]
    usual = statistics.median([known[position] for position in rest])
    usual_load = statistics.median([known_loads[position] for position in rest])
    if known[first] < MEMORY_RATIO_MIN * usual or known[first] - usual < MEMORY_EXCESS_MIN_BYTES:
        return None
    if known_loads[first] - usual_load < LOAD_EXCESS_MIN_PERCENT or usual_load < BUSY_PERCENT:
        return None
    name = words.gpu(devices[first])
    facts = [
        Fact(f"{name} holds {bytes_text(known[first])}, the others {bytes_text(int(usual))} (median)", known, "NVML"),
        Fact(f"{name} is busy {known_loads[first]:.0f}% of the time, the others {usual_load:.0f}%", known_loads, "NVML"),
        _driven(member, devices, reported),
    ]
    finding = tracked.about(
        group,
        "B07",
        "warning",
        "likely",
        f"{name} does more than the others: DataParallel gathers there",
        facts,
        "nn.DataParallel gathers the outputs of all replicas on one GPU, where the loss is computed and the optimizer "
        "keeps its state. That GPU fills up first, and the others wait for it.",
        "# return the loss from forward: one number per GPU is gathered, not all outputs\n"
        "return loss.unsqueeze(0)  # and loss = model(x, y).mean() in the loop\n"
        f"# better, one process for each GPU:\n{_DDP_WRAP}\n# {fixes.launch_line(group, len(devices))}",
        "Another program holds the memory on that GPU.",
        devices,
    )
    return Suspicion(finding)


B07 = Rule(
    id="B07",
    order=2600,
    family="data parallel",
    title="DataParallel overloads the first GPU",
    severities=("warning",),
    confidences=("likely",),
    needs=("NVML memory per process", "NVML utilization", "journal: data_parallel, else pt_autograd threads"),
    window_s=windows.POWER_SPAN_MIN_S,
    every_s=SELDOM_S,
    threshold=(
        f"memory of the gathering GPU over {MEMORY_RATIO_MIN} times the others' median and at least 1 GiB more, utilization "
        f"{LOAD_EXCESS_MIN_PERCENT:.0f} points above theirs, over 30 to 60 s"
    ),
    estimated=True,
    hides=("H02",),
    mechanism=(
        "nn.DataParallel gathers the outputs of all replicas on one GPU, where the loss is computed and the "
        "optimizer keeps its state."
    ),
    signature="The gathering GPU holds far more memory and is far busier than the others.",
    look_alike="H01 (several processes); another program that holds memory on that GPU.",
    fix="Return the loss from forward, so that little is gathered; better, use DDP.",
    judge=first_is_full,
)


def _held(member: Member, device: Device) -> int | None:
    return next((use.memory_used_bytes for use in member.uses if use.device_uuid == device.uuid), None)


def _driven(member: Member, devices: tuple[Device, ...], reported: bool) -> Fact:
    if reported:
        return Fact(f"nn.DataParallel drives {words.gpus(devices)} from one process", len(devices), "journal")
    text = f"process {member.pid} runs backward on {words.count(len(devices), 'device')}"
    return Fact(text, len(devices), "pt_autograd threads (/proc/<pid>/task)")


def overhead(evidence: Evidence, group: RankGroup) -> Judgement:
    """B08: all GPUs of nn.DataParallel idle for much of the time although data is ready."""
    found = _wrapper(evidence, group)
    if found is None or not evidence.trains(group) or not evidence.is_warm(group):
        return None
    member, devices, reported = found
    loads = [windows.mean_utilization(evidence, device.uuid) for device in devices]
    known = [load for load in loads if load is not None]
    if not reported or len(known) < len(devices):
        return None
    mean = sum(known) / len(known)
    if mean >= OVERHEAD_LOAD_MAX_PERCENT or min(known) < BUSY_PERCENT:
        return None
    data = windows.data_share(evidence, group)
    if data is None:
        why = f"nn.DataParallel keeps its GPUs at {mean:.0f}%; whether it waits for data is unknown."
        return tracked.untracked("B08", group, why)
    if data >= OVERHEAD_DATA_SHARE_MAX or windows.pause_share(evidence, group) >= PAUSE_SHARE_MAX:
        return None
    facts = [
        Fact(f"mean utilization of {words.gpus(devices)} over the last minute: {mean:.0f}%", known, "NVML"),
        Fact(f"the loop waits for data {data:.0%} of the time", data, "journal"),
        _driven(member, devices, reported),
    ]
    if member.process is not None and member.process.cpu_percent is not None:
        text = f"the process uses {member.process.cpu_percent:.0f}% of a core"
        facts.append(Fact(text, member.process.cpu_percent, f"/proc/{member.pid}/stat"))
    finding = tracked.about(
        group,
        "B08",
        "warning",
        "likely",
        f"DataParallel keeps {len(devices)} GPUs at {mean:.0f}%: one process is the bottleneck",
        facts,
        "In every step nn.DataParallel copies all weights from the first GPU to the others, runs one Python thread per GPU "
        "under the same interpreter lock, and sums the gradients on the first GPU.",
        f"# one process for each GPU\n{_DDP_WRAP}\n# {fixes.launch_line(group, len(devices))}",
        "The batch per GPU is so small that the GPUs would also idle under DDP.",
        devices,
    )
    return Suspicion(finding)


B08 = Rule(
    id="B08",
    order=2601,
    family="data parallel",
    title="DataParallel is the bottleneck",
    severities=("warning",),
    confidences=("likely",),
    needs=("journal: data_parallel, phase/data", "NVML utilization"),
    window_s=windows.POWER_SPAN_MIN_S,
    every_s=SELDOM_S,
    threshold=(
        f"average utilization below {OVERHEAD_LOAD_MAX_PERCENT:.0f}% over 30 to 60 s, while the loop waits for data less "
        f"than {OVERHEAD_DATA_SHARE_MAX:.0%} of the time"
    ),
    estimated=True,
    hides=("E01", "E02"),
    mechanism=(
        "In every step nn.DataParallel copies all weights to all GPUs, runs one Python thread per GPU under the same "
        "interpreter lock, and sums the gradients on the first GPU."
    ),
    signature="All GPUs are below 60%, in phase, although the loop does not wait for data.",
    look_alike="D01 (the data is late); E02 (the batch is so small that the GPUs would also idle under DDP).",
    fix="Use DDP with one process for each GPU.",
    judge=overhead,
)


def unequal(evidence: Evidence, group: RankGroup) -> Judgement:
    """B11: nn.DataParallel gives equal shares to unequal GPUs."""
    if len(group.members) != 1 or group.virtual:
        return None
    match = first_logged(evidence, group, "dp_imbalance")
    fact = stated.data_parallel(group.members[0].journal)
    devices = wrapped_devices(group, fact) if fact is not None else [d for d in group.pool if d.uuid in group.used]
    sizes = [device.memory_total_bytes for device in devices if device.memory_total_bytes]
    ratio = min(sizes) / max(sizes) if len(sizes) == len(devices) >= 2 else None
    if match is None and (fact is None or ratio is None or ratio >= UNEQUAL_RATIO):
        return None
    facts = [
        Fact(f"{words.gpu(device)}: {device.name or 'N/A'}, {bytes_text(device.memory_total_bytes)}", device.name, "NVML")
        for device in devices[:4]
    ]
    if match is not None:
        facts.insert(0, quoted(match))
    small = min(devices, key=lambda device: device.memory_total_bytes or 0) if ratio is not None else None
    keep = [device for device in devices if device is not small]
    finding = tracked.about(
        group,
        "B11",
        "warning",
        "certain",
        f"DataParallel on unequal GPUs: {words.gpu(small)} sets the pace" if small else "DataParallel on unequal GPUs",
        facts,
        "nn.DataParallel splits the batch into equal parts: the card with the least memory limits the batch size, the "
        "slowest card the step time.",
        f"{fixes.mask_prefix(group, keep)}{fixes.own_command(group)}"
        if keep
        else "model = nn.DataParallel(net, device_ids=[0])",
        "The cards differ only in name.",
        devices,
    )
    return Suspicion(finding)


B11 = Rule(
    id="B11",
    order=2602,
    family="data parallel",
    title="DataParallel on unequal GPUs",
    severities=("warning",),
    confidences=("certain",),
    needs=("journal: data_parallel", "NVML", "the run's output"),
    threshold=f"torch's warning, or the smallest memory below {UNEQUAL_RATIO} of the largest (torch's own limit)",
    hides=("B07", "B08", "F02", "I06"),
    mechanism=(
        "nn.DataParallel splits the batch into equal parts. The card with the least memory limits the batch size, the "
        "slowest card the step time."
    ),
    signature="torch's warning about an imbalance, or cards whose memory differs by more than a quarter.",
    look_alike="Cards that differ only in name; I06 (each rank is its own process).",
    fix="Leave the small card out with CUDA_VISIBLE_DEVICES.",
    judge=unequal,
)
