"""No step comes any more, and nothing says why: a collective that one rank never enters (G01), or the first one that never
completes (G02)."""

from __future__ import annotations

from collections import Counter

from gputop.doctor import stated_ddp, windows, words
from gputop.doctor.evidence import Evidence
from gputop.doctor.finding import Fact
from gputop.doctor.jobs import Job, Member
from gputop.doctor.rules import tracked
from gputop.doctor.rules.rule import Judgement, Rule, Suspicion
from gputop.doctor.rules.shared import utilization
from gputop.doctor.stated_ddp import Stall

PAUSES = ("evaluation", "checkpoint")
SPIN_PERCENT = 95.0
SPIN_POWER_SHARE = 0.35
SPIN_MEMORY_PERCENT = 3.0
SPIN_HOLD_S = 60.0
FIRST_CALLS = 5
FIRST_HOLD_S = 60.0
"""NCCL's kernels poll: 100 % utilisation at little power (catalogue G01; all of it [H], not measured)."""
STACK_SHOWN = 2


def _stalls(job: Job) -> dict[int, tuple[Member, Stall]]:
    found = {}
    for member in job.members:
        stall = stated_ddp.stall(member.journal)
        if member.journal is not None and stall is not None:
            found[member.journal.rank] = (member, stall)
    return found


def _stands(stall: Stall) -> str:
    frames = " < ".join(stall.stack[:STACK_SHOWN])
    phase = stall.phase or "an unknown phase"
    return f"in {phase}" + (f", at {frames}" if frames else "")


def hang(evidence: Evidence, job: Job) -> Judgement:
    """G01: ranks live and make no step."""
    stopped = [member for member in job.members if member.process is not None and member.process.state == "T"]
    stalls = _stalls(job)
    if not stalls:
        return _spins(evidence, job)
    if any(stall.phase in PAUSES for _, stall in stalls.values()) and not stopped:
        return None
    ranks = tracked.ranks_of(job)
    if len(ranks) > 1 and len(stalls) < len(ranks) and evidence.progressing(job):
        return None
    odd = _odd(stalls) if len(stalls) > 1 else None
    step = min((stall.step for _, stall in stalls.values() if stall.step is not None), default=None)
    facts = [Fact(f"no step since step {step}" if step is not None else "no step comes", step, "journal: stalled")]
    facts += [
        Fact(f"rank {rank} stands {_stands(stall)}", list(stall.stack), "journal: stalled")
        for rank, (_, stall) in stalls.items()
    ]
    facts += [
        Fact(f"process {m.process.pid} is stopped (state T)", m.process.pid, "/proc/<pid>/stat") for m in stopped if m.process
    ]
    facts += utilization(evidence, tracked.used_devices(job))
    culprit = stopped[0] if stopped else odd
    pid = culprit.pid if culprit is not None and culprit.pid is not None else (job.pids[0] if job.pids else "PID")
    if stopped:
        title = f"{_name(stopped[0])} is stopped: the training stands still"
        cause = "A stop signal (Ctrl-Z, a debugger, kill -STOP) holds it; ranks that wait for it wait as long."
        fix = f"kill -CONT {pid}"
    elif odd is not None and odd.journal is not None:
        title = f"The training hangs: all ranks wait for rank {odd.journal.rank}"
        cause = (
            "The others are in a collective operation (backward, all_reduce, barrier) that this rank has not entered: it waits "
            "for something else, or takes another way through the code."
        )
        fix = f"py-spy dump --pid {pid}  # where it is now\n# every rank has to come to the same collective operations"
    elif len(ranks) > 1:
        title = "The training hangs: no rank makes a step"
        cause = "All ranks stand at the same place: a collective operation that never completes, a lock, or missing input."
        fix = f"py-spy dump --pid {pid}\nTORCH_DISTRIBUTED_DEBUG=DETAIL TORCH_FR_BUFFER_SIZE=2000 torchrun ..."
    else:
        title = "The training stands still"
        cause = "Its process lives and makes no step; the stack says where it waits."
        fix = f"py-spy dump --pid {pid}"
    finding = tracked.about(
        job,
        "G01",
        "error",
        "certain" if stopped else "likely",
        title,
        facts,
        cause,
        fix,
        "A step comes; or it is compiling, evaluating or writing a checkpoint.",
        pids=[pid] if isinstance(pid, int) and culprit is not None else None,
    )
    return Suspicion(finding, 3.0)


def _name(member: Member) -> str:
    return f"Rank {member.rank}" if member.rank is not None else f"Process {member.pid}"


def _odd(stalls: dict[int, tuple[Member, Stall]]) -> Member | None:
    """Return the rank that stands elsewhere than the others, which agree: in another phase, or at another place."""
    phases: dict[int, object] = {rank: stall.phase for rank, (_, stall) in stalls.items()}
    tops: dict[int, object] = {rank: stall.stack[:1] for rank, (_, stall) in stalls.items()}
    for places in (phases, tops):
        counted = Counter(places.values())
        if len(counted) == 2 and len(stalls) > 2:
            (_, most), (rare, few) = counted.most_common(2)
            if few == 1 and most > 1:
                return next(stalls[rank][0] for rank, place in places.items() if place == rare)
        if len(counted) == 2 and len(stalls) == 2:
            # Of two, the one in backward waits for the other: the gradients meet there.
            waiting = [rank for rank, (_, stall) in stalls.items() if stall.phase == "backward"]
            if len(waiting) == 1:
                return next(member for rank, (member, _) in stalls.items() if rank != waiting[0])
    return None


def _spins(evidence: Evidence, job: Job) -> Judgement:
    """From outside: every GPU of the job at 100 %, drawing little, for a minute, and no step known."""
    devices = tracked.used_devices(job)
    if job.virtual or len(job.members) < 2 or len(devices) < 2 or job.run is not None:
        return None
    for device in devices:
        use, power = windows.mean_utilization(evidence, device.uuid), windows.power_share_at_most(evidence, device.uuid)
        memory = device.memory_activity_percent
        if use is None or power is None or use < SPIN_PERCENT or power > SPIN_POWER_SHARE:
            return None
        if memory is not None and memory > SPIN_MEMORY_PERCENT:
            return None
    facts = [*utilization(evidence, devices)]
    for device in devices:
        power = windows.power_share_at_most(evidence, device.uuid)
        facts.append(Fact(f"{words.gpu(device)} draws {power or 0.0:.0%} of its limit", power, "NVML"))
    finding = tracked.about(
        job,
        "G01",
        "error",
        "possible",
        "The GPUs may spin in a collective operation that does not complete",
        facts,
        "NCCL's kernels poll for the other ranks: full utilisation at little power and no traffic.",
        f"py-spy dump --pid {job.pids[0] if job.pids else 'PID'}  # of each rank: who stands elsewhere?",
        "Steps come (start it under gputop run to know); or its kernels are very small.",
    )
    return Suspicion(finding, SPIN_HOLD_S)


def first_collective(evidence: Evidence, job: Job) -> Judgement:
    """G02: all ranks are in their first collective operation, and it does not complete."""
    if job.virtual or evidence.progressing(job) or any(rank.step for rank in tracked.ranks_of(job)):
        return None
    found = [item for item in evidence.communicators(job) if len(item.ranks) > 1]
    if not found:
        return None
    totals = [sum(rank.counts.values()) for item in found for rank in item.ranks]
    if not totals or len(set(totals)) != 1 or not 0 < totals[0] <= FIRST_CALLS:
        return None
    devices = tracked.used_devices(job)
    loads = [windows.mean_utilization(evidence, device.uuid) for device in devices]
    if not devices or any(load is None or load < SPIN_PERCENT for load in loads):
        return None
    if any(device.nvlinks_active for device in devices):
        return None
    iommu = evidence.snapshot is not None and evidence.snapshot.host.iommu_enabled
    facts = [
        Fact(
            f"all {len(totals)} ranks have begun {totals[0]} collective operations, and no step was made", totals[0], "NCCL RAS"
        ),
        *utilization(evidence, devices),
        Fact("no NVLink between these GPUs: they exchange over PCIe", 0, "NVML"),
    ]
    if iommu:
        facts.append(Fact("an IOMMU is on", True, "/sys/class/iommu"))
    finding = tracked.about(
        job,
        "G02",
        "error",
        "likely",
        "The first collective operation never completes: GPUs do not reach each other",
        facts,
        "Peer-to-peer copies over PCIe get lost: ACS or an IOMMU redirects them, or the driver is older than 550.40.07.",
        "NCCL_P2P_DISABLE=1 torchrun ...  # if this runs, it is the peer-to-peer path\n"
        "# then: newer driver; iommu=pt on the kernel's command line; ACS off in the BIOS",
        "Steps come, or the ranks' counts differ (then one rank is missing).",
    )
    return Suspicion(finding, FIRST_HOLD_S)


RULES = (
    Rule(
        "G01",
        "hangs",
        ("journal: stalled of every rank", "/proc", "NVML"),
        3.0,
        "a rank says that no step came for 30 s or ten usual steps, outside of evaluation and checkpoints; from outside: "
        f"{SPIN_PERCENT:.0f} % used at {SPIN_POWER_SHARE:.0%} of the power, {SPIN_HOLD_S:.0f} s: possible (catalogue G01)",
        hang,
    ),
    Rule(
        "G02",
        "hangs",
        ("NCCL RAS", "NVML"),
        FIRST_HOLD_S,
        f"equal counts of at most {FIRST_CALLS} collective operations, GPUs at {SPIN_PERCENT:.0f} %, no step, no NVLink, "
        f"{FIRST_HOLD_S:.0f} s (catalogue G02)",
        first_collective,
    ),
)

_STANDING = (
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
HIDES = {"G01": _STANDING, "G02": ("G01", *_STANDING)}
