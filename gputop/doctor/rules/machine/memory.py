"""Memory: ranks with a second, small context on another rank's GPU (H01), a GPU that ran out of memory (H02), and a machine
that ran out of memory (H05).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.evidence.visible import devices_behind, mask_of, same_uuid
from gputop.doctor.facts import model as model_facts
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Abstained, Fact, Finding
from gputop.doctor.rules.support.outputs import Output, foreign_memory, outputs_of, quoted, soften
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion
from gputop.doctor.rules.support.shared import main_device
from gputop.facts.memory_text import memory_lines
from gputop.snapshot import FAILED_STATES, Device, LogMatch, Process
from gputop.units import bytes_text

GHOST_BYTES_MAX = 1.5e9
"""A CUDA context with the libraries' handles takes 0.15 to 1.2 GB (docs/rules.md#h01)."""
GHOST_RATIO_MIN = 2.0
HOLD_S = 5.0
HELD_LINES = 3
"""The finding names this many lines of the script: those that hold the most memory."""
ROOM_SHARE_MIN = 0.3
"""Another GPU has free memory if this share of its memory stayed free over the last minute (docs/rules.md#h02)."""
HOST_FREE_SHARE_MIN = 0.05
H05_HOLD_S = 10.0
"""MemAvailable below 5% (docs/rules.md#h05); pages dropped under pressure become available within seconds."""
_ORDINAL = re.compile(r"\bGPU (\d{1,2})\b")
_ASKED = re.compile(r"Tried to allocate ([\d.]+ [KMGT]i?B)")
_KILLED_CODES = (-9, 137)
_KILLED_PATTERNS = ("worker_killed", "sigkill", "slurm_oom", "killed")

_FIX = """\
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)  # the first CUDA call of the script
checkpoint = torch.load(path, map_location=f"cuda:{local_rank}")  # or map_location="cpu\""""
_SMALLER = """# a smaller batch with the same result: accumulate gradients
loss = model(x) / steps; loss.backward()  # optimizer.step() every `steps` batches
# or less memory for activations
model.gradient_checkpointing_enable()  # or torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
with torch.autocast("cuda", dtype=torch.bfloat16): ..."""
_ONE_GPU_FIX = (
    _FIX
    + """
# with nn.DataParallel: outputs and loss are gathered on the first GPU; use DDP, or return the loss from forward"""
)
_FEWER_WORKERS = """loader = DataLoader(dataset, num_workers={workers}, prefetch_factor=2, ...)
# in the dataset: numpy arrays or tensors (or np.memmap) in place of lists and dicts of Python objects
free -h; dmesg --ctime | grep -i "out of memory" | tail"""


def ghost_contexts(evidence: Evidence, group: RankGroup) -> Judgement:
    """H01: ranks other than local rank 0 have a small second context on the GPU of local rank 0."""
    host = next((member for member in group.members if member.local_rank == 0 and member.main is not None), None)
    others = [m for m in group.members if m.local_rank not in (None, 0) and m.main is not None]
    if group.virtual or host is None or not others:
        return None
    device = next((item for item in group.pool if item.uuid == host.main), None)
    if device is None:
        return None
    ghosts = [(member, size) for member in others if (size := _ghost_bytes(member, device.uuid)) is not None]
    if not ghosts:
        return _unmeasured(group, others, device)
    return Suspicion(_finding(group, device, ghosts), HOLD_S)


H01 = Rule(
    id="H01",
    order=2100,
    family="memory",
    title="Second contexts on rank 0's GPU",
    severities=("warning",),
    confidences=("certain",),
    needs=("NVML memory per process", "LOCAL_RANK"),
    window_s=HOLD_S,
    threshold=(
        "a rank with LOCAL_RANK above 0 holds less than 1.5 GB on rank 0's GPU, and more than twice that on its own, for "
        f"{HOLD_S:.0f} s"
    ),
    hides=("H02",),
    mechanism=(
        "A CUDA call ran before the rank chose its GPU: torch.load without map_location, .cuda(), a pin-memory thread or a "
        "barrier. The call opens a context on the first GPU, and the context stays."
    ),
    signature="Ranks have a small second context on the GPU of local rank 0, and hold far more memory on their own.",
    look_alike="A07 (their largest context is there); A19 (large contexts everywhere); CUDA tensors shared on purpose.",
    fix="Call torch.cuda.set_device(local_rank) first, and pass map_location to torch.load.",
    judge=ghost_contexts,
)


def _ghost_bytes(member: Member, uuid: str) -> int | None:
    """Return the size of the rank's context on ``uuid`` if it is a ghost: small, with far more on the rank's own GPU."""
    if member.main == uuid:
        return None
    sizes = {use.device_uuid: use.memory_used_bytes for use in member.uses if use.memory_used_bytes is not None}
    ghost, own = sizes.get(uuid), sizes.get(member.main or "")
    if ghost is None or own is None or ghost >= GHOST_BYTES_MAX or own <= GHOST_RATIO_MIN * ghost:
        return None
    return ghost


def _unmeasured(group: RankGroup, others: list[Member], device: Device) -> Judgement:
    second = [use for m in others if m.main != device.uuid for use in m.uses if use.device_uuid == device.uuid]
    if any(use.memory_used_bytes is None for use in second):
        why = f"Ranks have a second context on GPU {device.index}, but memory per process is N/A."
        return Abstained("H01", why, "a driver that reports memory per process", group.run_id)
    return None


def _finding(group: RankGroup, device: Device, ghosts: list[tuple[Member, int]]) -> Finding:
    numbers = [member.rank if member.rank is not None else member.local_rank or 0 for member, _ in ghosts]
    total = sum(size for _, size in ghosts)
    verb = "holds" if len(numbers) == 1 else "hold"
    who = words.ranks(numbers)
    contexts = "a second context" if len(ghosts) == 1 else f"{len(ghosts)} more contexts"
    return Finding(
        id="H01",
        severity="warning",
        confidence="certain",
        title=f"{who[0].upper()}{who[1:]} {verb} memory on GPU {device.index} too",
        evidence=(
            Fact(f"{contexts} on {words.gpu_with_uuid(device, device.uuid)}, {bytes_text(total)} together", total, "NVML"),
            *(_context_fact(group, member, size) for member, size in ghosts[:2]),
        ),
        cause="A CUDA call ran in these ranks before they chose their own GPU, so each opened a context on GPU "
        f"{device.index} and keeps it: torch.load without map_location, .cuda(), a pin-memory thread, or a barrier.",
        fix=_FIX,
        refuted_by="The ranks share CUDA tensors with each other on purpose (CUDA IPC).",
        devices=(device.uuid, *dict.fromkeys(member.main for member, _ in ghosts if member.main is not None)),
        pids=tuple(member.pid for member, _ in ghosts if member.pid is not None),
        run=group.run_id,
    )


def _context_fact(group: RankGroup, member: Member, size: int) -> Fact:
    own = main_device(group, member)
    held = next((use.memory_used_bytes for use in member.uses if use.device_uuid == member.main), None)
    text = f"process {member.pid}: {bytes_text(size)} there, {bytes_text(held)} on its own {words.gpu(own, member.main or '')}"
    return Fact(text, size, "NVML")


def out_of_memory(evidence: Evidence) -> dict[str, Judgement]:
    """H02: a rank ran out of GPU memory; if other GPUs had free memory, the model or its copies pile up on one."""
    judged: dict[str, Judgement] = {}
    for output in outputs_of(evidence):
        match = output.first("oom")
        if match is not None and foreign_memory(output) is None:
            judged[output.subject] = Suspicion(soften(output, _out_of_memory(evidence, output, match)))
    return judged


H02 = Rule(
    id="H02",
    order=2101,
    family="memory",
    title="Out of GPU memory",
    severities=("error", "warning"),
    confidences=("certain", "likely", "possible"),
    needs=("the run's output or exception", "NVML memory"),
    every_s=EVERY_SNAPSHOT,
    threshold=(
        f"an out-of-memory text; it counts as one GPU only if every other GPU of the run kept over {ROOM_SHARE_MIN:.0%} "
        "free for a minute"
    ),
    hides=("G01", "G04"),
    mechanism=(
        "The step needs more memory than is left. If the other GPUs have free memory, gathered outputs, ranks or contexts "
        "pile up on one."
    ),
    signature='"CUDA out of memory" in the run\'s output or exception.',
    look_alike="H03 (another job holds the memory); a script that catches the error and continues.",
    fix=(
        "Correct whatever piles up on one GPU; otherwise use a smaller batch, gradient accumulation, checkpointing or autocast."
    ),
    judge_machine=out_of_memory,
)


def _out_of_memory(evidence: Evidence, output: Output, match: LogMatch) -> Finding:
    device = _failed_device(evidence, output, match)
    roomy = _with_room(evidence, output, device) if device is not None else ()
    several = {_ordinal(item) for item in output.matches if item.pattern == "oom"} - {None}
    only = bool(roomy) and len(several) == 1
    facts = [quoted(match)]
    peak = evidence.history.peak_memory_bytes(device.uuid) if device is not None else None
    if device is not None and peak is not None and device.memory_total_bytes:
        text = (
            f"{words.gpu(device)} held up to {bytes_text(peak)} of {bytes_text(device.memory_total_bytes)} in the last minute"
        )
        facts.append(Fact(text, peak, "NVML"))
    failed = output.rank(match.rank)
    held = memory_lines(failed.facts, HELD_LINES) if failed is not None else []
    facts += [Fact(text, text, "torch's allocator") for text in held]
    if only:
        text = f"{words.gpus(roomy)} kept over {ROOM_SHARE_MIN * 100:.0f}% free"
        facts.append(Fact(text, [item.index for item in roomy], "NVML"))
    name = words.gpu(device) if device is not None else "A GPU"
    asked = _ASKED.search(match.line)
    want = f" (it asked for {asked[1]})" if asked is not None else ""
    return Finding(
        id="H02",
        severity="error",
        confidence="certain",
        title=f"{name} ran out of memory{f', {words.gpus(roomy)} had free memory' if only else ''}",
        evidence=tuple(facts),
        cause=f"The step needs more memory than was left{want}."
        + (" Things that belong on all GPUs pile up on one: gathered outputs, ranks or contexts." if only else ""),
        fix=_ONE_GPU_FIX if only else _SMALLER,
        refuted_by="The script catches the error and continues with a smaller batch.",
        devices=(device.uuid,) if device is not None else output.devices,
        pids=output.pids,
        run=output.run_id,
    )


def _ordinal(match: LogMatch) -> int | None:
    found = _ORDINAL.search(match.line)
    return int(found[1]) if found is not None else None


def _failed_device(evidence: Evidence, output: Output, match: LogMatch) -> Device | None:
    """Return the device that the text names by the rank's own CUDA ordinal."""
    ordinal = _ordinal(match)
    listed = [device for device in evidence.snapshot.devices if device.kind == "gpu"] if evidence.snapshot is not None else []
    if ordinal is None:
        return None
    fact = model_facts.visibility(output.rank(match.rank))
    if fact is not None and fact.uuids is not None:
        uuid = fact.uuids[ordinal] if ordinal < len(fact.uuids) else ""
        return next((device for device in listed if same_uuid(device.uuid, uuid)), None)
    mask = fact.launch if fact is not None else None
    for member in output.group.members if output.group is not None else ():
        if member.process is not None and member.rank == match.rank:
            mask = mask_of(member.process, False)
    shown = devices_behind(mask, sorted(listed, key=lambda device: device.index))
    return shown[ordinal] if ordinal < len(shown) else None


def _with_room(evidence: Evidence, output: Output, device: Device) -> tuple[Device, ...]:
    """Return the run's other devices (all others once it has ended) if every one of them had free memory."""
    listed = evidence.snapshot.devices if evidence.snapshot is not None else ()
    used = set(output.devices)
    others = [d for d in listed if d.kind == "gpu" and d.uuid != device.uuid and (len(used) < 2 or d.uuid in used)]
    room = []
    for other in others:
        peak = evidence.history.peak_memory_bytes(other.uuid)
        if peak is None or not other.memory_total_bytes or peak > (1 - ROOM_SHARE_MIN) * other.memory_total_bytes:
            return ()
        room.append(other)
    return tuple(room)


def host_memory(evidence: Evidence) -> dict[str, Judgement]:
    """H05: the kernel's OOM killer ended processes, or hardly any memory is available while a run is in progress."""
    snapshot = evidence.snapshot
    if snapshot is None:
        return {}
    killed = evidence.history.kills_for_memory()
    failed = [run for run in snapshot.runs if run.state in FAILED_STATES]
    killed_runs = {item.run_id: m for item in outputs_of(evidence) for m in item.matches if m.pattern in _KILLED_PATTERNS}
    match = next(iter(killed_runs.values()), None)
    # The OOM killer may have ended another user's process: a run that failed for another reason is not its victim.
    victims = [run for run in failed if run.run_id in killed_runs or any(rank.exit_code in _KILLED_CODES for rank in run.ranks)]
    host = snapshot.host
    total, available = host.memory_total_bytes, host.memory_available_bytes
    short = bool(total) and available is not None and total is not None and available < HOST_FREE_SHARE_MIN * total
    if not (killed or short) or not (evidence.groups or failed):
        return {}
    facts = []
    if killed:
        text = f"the kernel's OOM killer ended {killed} process{'' if killed == 1 else 'es'} in the last minutes"
        facts.append(Fact(text, killed, "memory.events (cgroup), else /proc/vmstat"))
    if available is not None and total is not None:
        text = f"{bytes_text(available)} of {bytes_text(total)} of the machine's memory is available"
        facts.append(Fact(text, available, "/proc/meminfo"))
    if match is not None:
        facts.append(quoted(match))
    large = _largest(snapshot.processes)
    facts += [_resident(process) for process in large]
    workers = max((process.workers.count for process in snapshot.processes if process.workers is not None), default=0)
    hit = killed and (victims or match is not None)
    finding = Finding(
        id="H05",
        severity="error" if hit else "warning",
        confidence="certain" if killed else "likely",
        title="The machine ran out of memory: processes were killed" if killed else "The machine is almost out of memory",
        evidence=tuple(facts),
        cause="Ranks and DataLoader workers need more memory than the machine (or the container) has. Even Python objects "
        "that workers only read are copied, because reference counting writes to them.",
        fix=_FEWER_WORKERS.format(workers=max(1, workers // 2)),
        refuted_by="Another program, which has ended, used the memory.",
        pids=tuple(process.pid for process in large),
        run=victims[0].run_id if hit and len(victims) == 1 else None,
    )
    return {"machine": Suspicion(finding, 0.0 if killed else H05_HOLD_S)}


H05 = Rule(
    id="H05",
    order=2102,
    family="memory",
    title="The machine runs out of memory",
    severities=("error", "warning"),
    confidences=("certain", "likely"),
    needs=("memory.events", "/proc/meminfo", "the run's output"),
    window_s=H05_HOLD_S,
    every_s=EVERY_SNAPSHOT,
    threshold=(
        f"oom_kill increased in the last 5 minutes (certain), or MemAvailable below {HOST_FREE_SHARE_MIN:.0%} for "
        f"{H05_HOLD_S:.0f} s while a run is in progress (likely)"
    ),
    hides=("D08", "G01", "G04"),
    mechanism=(
        "Ranks and DataLoader workers need more memory than the machine or container has. Even Python objects that workers "
        "only read are copied, because reference counting writes to them."
    ),
    signature="The kernel's OOM killer ended processes, or less than 5% of the memory is available while a run is in progress.",
    look_alike="Another program that used the memory and has ended.",
    fix="Use fewer workers, and arrays or memory maps in place of lists of Python objects.",
    judge_machine=host_memory,
)


def _largest(processes: Sequence[Process]) -> list[Process]:
    known = [process for process in processes if process.memory_rss_bytes is not None]
    return sorted(known, key=lambda process: -(process.memory_rss_bytes or 0))[:2]


def _resident(process: Process) -> Fact:
    text = f"process {process.pid} ({process.name or 'N/A'}) holds {bytes_text(process.memory_rss_bytes)}"
    if process.workers is not None:
        text += f", and has {words.count(process.workers.count, 'DataLoader worker')}"
    return Fact(text, process.memory_rss_bytes, f"/proc/{process.pid}/stat")
