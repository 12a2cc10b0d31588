"""Memory placement: ranks that hold a second, small context on another rank's GPU (H01)."""

from __future__ import annotations

from gputop.doctor import words
from gputop.doctor.evidence import Evidence
from gputop.doctor.finding import Abstained, Fact, Finding
from gputop.doctor.jobs import Job, Member
from gputop.doctor.rules.rule import Judgement, Rule, Suspicion
from gputop.snapshot import Device
from gputop.units import bytes_text

GHOST_BYTES_MAX = 1.5e9
"""A CUDA context with the libraries' handles takes 0.15 to 1.2 GB (catalogue, H01)."""
GHOST_RATIO_MIN = 2.0
HOLD_S = 5.0

_FIX = """\
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)  # the first CUDA call of the script
checkpoint = torch.load(path, map_location=f"cuda:{local_rank}")  # or map_location="cpu\""""


def ghost_contexts(evidence: Evidence, job: Job) -> Judgement:
    """H01: ranks other than local rank 0 hold a small second context on the GPU of local rank 0."""
    host = next((member for member in job.members if member.local_rank == 0 and member.main is not None), None)
    others = [m for m in job.members if m.local_rank not in (None, 0) and m.main is not None]
    if job.virtual or host is None or not others:
        return None
    device = next((item for item in job.pool if item.uuid == host.main), None)
    if device is None:
        return None
    ghosts = [(member, size) for member in others if (size := _ghost_bytes(member, device.uuid)) is not None]
    if not ghosts:
        return _unmeasured(job, others, device)
    return Suspicion(_finding(job, device, ghosts), HOLD_S)


def _ghost_bytes(member: Member, uuid: str) -> int | None:
    """Return the size of the rank's context on ``uuid`` when it is a ghost: small, and its own GPU holds far more."""
    if member.main == uuid:
        return None
    sizes = {use.device_uuid: use.memory_used_bytes for use in member.uses if use.memory_used_bytes is not None}
    ghost, own = sizes.get(uuid), sizes.get(member.main or "")
    if ghost is None or own is None or ghost >= GHOST_BYTES_MAX or own <= GHOST_RATIO_MIN * ghost:
        return None
    return ghost


def _unmeasured(job: Job, others: list[Member], device: Device) -> Judgement:
    second = [use for m in others if m.main != device.uuid for use in m.uses if use.device_uuid == device.uuid]
    if any(use.memory_used_bytes is None for use in second):
        why = f"Ranks have a second context on GPU {device.index}, but memory per process is N/A."
        return Abstained("H01", why, "a driver that reports memory per process", job.run_id)
    return None


def _finding(job: Job, device: Device, ghosts: list[tuple[Member, int]]) -> Finding:
    numbers = [member.rank if member.rank is not None else member.local_rank or 0 for member, _ in ghosts]
    total = sum(size for _, size in ghosts)
    verb = "holds" if len(numbers) == 1 else "hold"
    who = words.ranks(numbers)
    contexts = "a second context" if len(ghosts) == 1 else f"{len(ghosts)} further contexts"
    return Finding(
        id="H01",
        severity="warning",
        confidence="certain",
        title=f"{who[0].upper()}{who[1:]} {verb} memory on GPU {device.index} too",
        evidence=(
            Fact(f"{contexts} on {words.gpu_with_uuid(device, device.uuid)}, {bytes_text(total)} together", total, "NVML"),
            *(_context_fact(job, member, size) for member, size in ghosts[:2]),
        ),
        cause="A CUDA call ran in these ranks before they chose their own GPU, so that each opened a context on GPU "
        f"{device.index} and keeps it: torch.load without map_location, .cuda(), a pin-memory thread, or a barrier.",
        fix=_FIX,
        refuted_by="The ranks share CUDA tensors with each other on purpose (CUDA IPC).",
        devices=(device.uuid, *dict.fromkeys(member.main for member, _ in ghosts if member.main is not None)),
        pids=tuple(member.pid for member, _ in ghosts if member.pid is not None),
        run=job.run_id,
    )


def _context_fact(job: Job, member: Member, size: int) -> Fact:
    own = next((device for device in job.pool if device.uuid == member.main), None)
    held = next((use.memory_used_bytes for use in member.uses if use.device_uuid == member.main), None)
    text = f"process {member.pid}: {bytes_text(size)} there, {bytes_text(held)} on its own {words.gpu(own, member.main or '')}"
    return Fact(text, size, "NVML")


RULES = (
    Rule(
        "H01",
        "memory",
        ("NVML memory per process", "LOCAL_RANK"),
        HOLD_S,
        "a rank with LOCAL_RANK above 0 holds under 1.5 GB on rank 0's GPU and over twice that on its own, 5 s (catalogue H01)",
        ghost_contexts,
    ),
)
