"""Too few ranks for the GPUs, because there is no launcher (A01) or it started too few (A02)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gputop.command_line import is_notebook_kernel
from gputop.doctor.evidence.device_loads import LOAD_WINDOW_S
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts import stated
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Abstained, Fact, Finding
from gputop.doctor.rules.support.rule import EVERY_SNAPSHOT, Judgement, Rule, Suspicion
from gputop.doctor.rules.support.shared import is_twin, only_updates, sees, siblings, utilization
from gputop.frameworks import FRAMEWORKS
from gputop.snapshot import Device, Process

_WRAP = """\
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))
model = DDP(model.to(local_rank), device_ids=[local_rank])"""


CALLS_MIN = 20
"""As in the rules on nn.DataParallel."""
_SPLITS = "DataParallel"
"""The wrapper that spreads one process over several GPUs. A rule that explains why it does not hides A01."""
_FREE = "while visible GPUs have no process and are below 1 GiB and 3% in 95% of the samples"


def plain_python(evidence: Evidence, group: RankGroup) -> Judgement:
    """A01: one process without a launcher trains on one GPU while other GPUs that it sees are free."""
    found = lone_process(evidence, group)
    # A notebook (A11) and a framework with its own launch command (A16) use more GPUs in their own way.
    return None if found is None or is_notebook(group) or framework_of(group) is not None else found


A01 = Rule(
    id="A01",
    order=1900,
    family="launching",
    title="Started without a launcher",
    severities=("warning",),
    confidences=("certain", "likely"),
    needs=("RANK and WORLD_SIZE at launch", "parent processes", "NVML", "signs of training"),
    window_s=LOAD_WINDOW_S,
    every_s=EVERY_SNAPSHOT,
    threshold=(
        f"one process without a rank on one busy GPU (10% on average) {_FREE}, for 12 s, after a warm-up of 30 s; or a "
        "process in nn.DataParallel with memory on several GPUs, if one is busy and all others idle"
    ),
    hides=("A02", "E02"),
    mechanism="Without a launcher, there is one process with world size 1, and one process trains on one GPU.",
    signature="One process without RANK and WORLD_SIZE keeps one GPU busy, and other GPUs that it sees are free.",
    look_alike="A03 (it sees only one GPU); a sweep with a run on each GPU; B03 (DataParallel is bypassed).",
    fix="Start with `torchrun --standalone --nproc-per-node=gpu train.py`, and wrap the model in DDP.",
    judge=plain_python,
)


def is_notebook(group: RankGroup) -> bool:
    """Return whether the run is in a notebook kernel."""
    process = group.main_process
    return process is not None and is_notebook_kernel(process.command)


def framework_of(group: RankGroup) -> str | None:
    """Return the framework that starts its own ranks ("ultralytics", "mmengine"), by the command line, then by the journal."""
    process = group.main_process
    script = fixes.script_of(process.command if process is not None else None)
    if script[0].rpartition("/")[2] == "yolo" or script[:2] == ("-m", "ultralytics"):
        return "ultralytics"
    if script[0].endswith("tools/train.py") and (len(script) > 1 and "config" in script[1]):
        return "mmengine"
    reported = {name for member in group.members for name in facts_of(member.journal).frameworks}
    return next((name for name, known in FRAMEWORKS.items() if known.own_command and name in reported), None)


def lone_process(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge whether one process without ranks trains on one GPU while others are free: A01. A11 and A16 reuse it."""
    process = group.main_process
    wrapper = stated.wrapper(group.members[0].journal) if group.members else None
    if process is None or len(group.members) != 1 or group.launcher is not None or not group.used:
        return None
    if len(group.used) != 1 and wrapper != _SPLITS:
        return None  # its use of the other devices is unknown
    if process.environment is None:
        if not evidence.free(group.pool):
            return None  # it could not use more devices than it uses
        return _abstain("A01", group, "its environment is hidden (another user's process)", "run gputop as that user")
    if _has_ranks(process) or (group.virtual and not group.masks):
        return None
    free = _free_beside(evidence, group, "A01") if len(group.used) == 1 else _idle_within(evidence, group)
    if not isinstance(free, tuple):
        return free
    if only_updates(evidence, process):
        return None
    idle = {device.uuid for device in free}
    device = next((device for device in group.pool if device.uuid in group.used - idle), None)
    if device is None:
        return None
    everything = [device, *free]
    journal = group.members[0].journal
    inspected = journal is not None and group.run is not None and group.run.world_size == 1 and stated.model_inspected(journal)
    facts = [
        Fact("no RANK and no WORLD_SIZE in its environment", None, f"/proc/{process.pid}/environ"),
        Fact(f"no launcher above it: {_ancestry(process)}", _ancestry(process), f"/proc/{process.pid}/stat"),
        sees("it sees", group),
        *utilization(evidence, everything),
    ]
    finding = Finding(
        id="A01",
        severity="warning",
        confidence="certain" if inspected and wrapper is None else "likely",
        title=f"Only GPU {device.index} {'is used' if len(group.used) == 1 else 'works'}: "
        + ("started without a launcher" if wrapper is None else f"{wrapper} runs in one process"),
        evidence=tuple(facts),
        cause="Without a launcher, there is one process with world size 1, and one process trains on one GPU. "
        f"{words.gpus(free)} {'is' if len(free) == 1 else 'are'} free, in case you meant to use more than one.",
        fix=_launcher_fix(group, everything),
        refuted_by=f"You want one GPU. Then say so: {_declare(group, [device])}",
        devices=tuple(item.uuid for item in everything),
        pids=group.pids,
        run=group.run_id,
    )
    calls = stated.data_parallel(group.members[0].journal)
    # A more specific rule says why DataParallel uses only one GPU, once it has seen enough calls.
    return Suspicion(finding, 0.0 if calls is None or calls.calls >= CALLS_MIN else math.inf)


def _idle_within(evidence: Evidence, group: RankGroup) -> tuple[Device, ...] | None:
    """Return the devices on which the process holds memory but does nothing, if exactly one of its devices works."""
    loads = {uuid: evidence.load(uuid) for uuid in group.used}
    idle = {uuid for uuid, load in loads.items() if load is not None and load.idle}
    busy = [uuid for uuid, load in loads.items() if load is not None and load.busy]
    if len(busy) != 1 or len(idle) != len(loads) - 1 or not evidence.trains(group) or not evidence.is_warm(group):
        return None
    return tuple(device for device in group.pool if device.uuid in idle and len(evidence.owners(device.uuid)) == 1)


def _has_ranks(process: Process) -> bool:
    environment = process.environment
    return process.stated is not None or (
        environment is not None
        and any(value is not None for value in (environment.rank, environment.world_size, environment.local_world_size))
    )


def _ancestry(process: Process) -> str:
    return " < ".join(ancestor.name for ancestor in process.ancestors[:4]) or "N/A"


def _free_beside(evidence: Evidence, group: RankGroup, rule: str) -> tuple[Device, ...] | Abstained | None:
    """Return the visible devices that are free while the run is in progress; None if the rule does not apply."""
    if group.visible_count is None:
        return _abstain(rule, group, "how many GPUs the process sees is unknown", "import gputop in the script")
    if group.visible_count < 2:
        return None
    if not evidence.trains(group):
        if not any(process.torch_mapped for process in group.processes):
            return None
        why = "no sign of training yet (no steps in a journal, no active backward threads)"
        return _abstain(rule, group, why, "steps that advance" if group.run is not None else "import gputop in the script")
    loads = [evidence.load(uuid) for uuid in group.used]
    if any(load is None for load in loads):
        return _abstain(rule, group, "its GPU's utilization is N/A", "a GPU that reports utilization")
    if not evidence.is_warm(group) or not all(load is not None and load.busy for load in loads) or siblings(evidence, group):
        return None
    if any(is_twin(group, process) for uuid in group.used for process in evidence.owners(uuid)):
        return None  # a sweep whose runs could have a GPU each: H03 names it
    others = [device for device in (group.visible or group.pool) if device.uuid not in group.used]
    return evidence.free(others) or None


def _abstain(rule: str, group: RankGroup, why: str, needs: str) -> Abstained:
    process = group.main_process
    who = f"process {process.pid}" if process is not None else "the run"
    if process is not None and process.command:
        who += f" ({fixes.script_of(process.command)[0].rpartition('/')[2]})"
    return Abstained(rule, f"{who[0].upper()}{who[1:]}: {why}.", needs, group.run_id)


def _launcher_fix(group: RankGroup, devices: Sequence[Device]) -> str:
    return f"{fixes.launch_line(group, len(devices), devices)}\n\n# and in the script:\n{_WRAP}"


def too_few_ranks(evidence: Evidence, group: RankGroup) -> Judgement:
    """A02: a launcher started fewer ranks than there are GPUs, and the other GPUs are free."""
    alone = _accelerated_alone(group)
    started = group.local_world_size
    ranks = [member for member in group.members if member.rank is not None or alone]
    by_launcher = group.launcher is not None or any(m.process is not None and _has_ranks(m.process) for m in ranks)
    if not by_launcher or not ranks or started != len(ranks) or (group.virtual and not group.masks):
        return None
    pool = {device.uuid: device for device in group.pool}
    used = [pool[uuid] for uuid in {member.main for member in ranks if member.main is not None} if uuid in pool]
    if len(used) != len(ranks) or len(group.used) != len(ranks) or (group.visible_count or started) <= started:
        return None
    free = _free_beside(evidence, group, "A02")
    if not isinstance(free, tuple):
        return free
    used.sort(key=lambda device: device.index)
    everything = [*used, *free]
    total = len(everything)
    number = "1 rank was" if started == 1 else f"{started} ranks were"
    source = "one child of accelerate launch, without RANK (/proc)" if alone else "LOCAL_WORLD_SIZE (/proc/<pid>/environ)"
    facts = [
        Fact(f"{number} started on this machine", started, source),
        sees("they see", group),
        Fact(f"no process computes on {words.gpus(free)}", [device.index for device in free], "NVML"),
        *utilization(evidence, everything),
    ]
    finding = Finding(
        id="A02",
        severity="warning",
        confidence="likely",
        title=f"Only {number} started: {started} of {total} GPUs work",
        evidence=tuple(facts),
        cause="Each rank drives one GPU, so the number of ranks limits the GPUs in use. torchrun starts one rank unless "
        "--nproc-per-node asks for more; accelerate takes the number from its saved configuration.",
        fix=fixes.launch_line(group, total, everything),
        refuted_by=f"You left the other GPUs free on purpose. Then say so: {_declare(group, used)}",
        devices=tuple(device.uuid for device in everything),
        pids=group.pids,
        run=group.run_id,
    )
    return Suspicion(finding)


def _accelerated_alone(group: RankGroup) -> bool:
    """Return whether Accelerate started a single process: it gets no rank."""
    process = group.main_process
    return (
        process is not None
        and len(group.members) == 1
        and group.launcher is not None
        and group.launcher.name == "accelerate"
        and not _has_ranks(process)
    )


A02 = Rule(
    id="A02",
    order=1901,
    family="launching",
    title="Fewer ranks than GPUs",
    severities=("warning",),
    confidences=("likely",),
    needs=("LOCAL_WORLD_SIZE", "NVML", "signs of training"),
    window_s=LOAD_WINDOW_S,
    threshold=f"ranks on distinct busy GPUs {_FREE}, for 12 s, after a warm-up of 30 s",
    hides=("E02",),
    mechanism=(
        "Each rank drives one GPU. torchrun starts one rank unless --nproc-per-node asks for more; accelerate takes "
        "the number from its saved configuration."
    ),
    signature="The ranks are on distinct busy GPUs, and other GPUs that they see are free.",
    look_alike="A07 (ranks on one GPU); GPUs left free on purpose or used by other jobs.",
    fix='Pass --nproc-per-node=gpu, --num_processes N, devices="auto" or --ntasks-per-node=N.',
    judge=too_few_ranks,
)


def _declare(group: RankGroup, used: Sequence[Device]) -> str:
    return f"{fixes.mask_prefix(group, used)}{fixes.own_command(group)}"
