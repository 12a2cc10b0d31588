"""Work spread over GPUs that then wait for each other: for gradients (E06), in turns (E08), for one of them (E09)."""

from __future__ import annotations

from gputop.doctor.evidence import windows
from gputop.doctor.evidence.device_loads import LOAD_SPAN_MIN_S
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.facts import model as model_facts
from gputop.doctor.facts import stated
from gputop.doctor.facts.calls import wrapped_by
from gputop.doctor.facts.ddp import communication_share
from gputop.doctor.facts.model import parameters_by_device
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.pace.as_objects import SURE_SHARE, passes_objects
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.at_a_call import LOOKS_MIN, SEEN_SHARE, SPAN_S, TOGETHER_SHARE, in_collectives
from gputop.doctor.rules.support.rule import SELDOM_S, Judgement, Rule, Suspicion
from gputop.snapshot import Device

COMMUNICATION_SHARE_MIN = 0.2
"""Exposed communication as a share of the step, on the rank with the least (docs/rules.md#e06)."""
PIPELINE_MIN_PERCENT = 150.0
TURNS_MAX_PERCENT = 130.0
"""GPUs that take turns are together as busy as one; GPUs in a pipeline are busier (docs/rules.md#a10, an estimate)."""
UNBALANCED_RATIO = 2.0
"""From this ratio on, the evidence says that the layers are divided unevenly (our choice)."""
E08_HOLD_S = 3.0
"""How long E08 and E09 must hold (our choice)."""


def communication(evidence: Evidence, group: RankGroup) -> Judgement:
    """E06: every rank spends a large part of its step waiting for gradients to be averaged."""
    ranks = tracked.ranks_of(group)
    if not any(facts_of(rank).ddp is not None for rank in ranks):
        return _communicate_by_stack(evidence, group)
    size = tracked.world(group)
    if size < 2 or not tracked.all_speak(group) or not evidence.is_warm(group):
        return None
    places = {stated.parameter_device(rank) or "" for rank in ranks}
    if places == {"cpu"}:
        return None  # The ranks share the cores: the time of an exchange includes waiting for one, also in a healthy run.
    shares = []
    for rank in ranks:
        share = communication_share(rank, windows.step_s(evidence, group, rank.rank))
        if share is None:
            return None
        shares.append(share)
    least = min(shares)
    if least < COMMUNICATION_SHARE_MIN:
        return None
    backend = next((fact.backend for rank in ranks if (fact := facts_of(rank).ddp) is not None and fact.backend), None)
    facts = [
        Fact(
            f"averaging gradients takes {least:.0%} of a step on the rank with the least, {max(shares):.0%} on the rank "
            "with the most",
            least,
            "DDP's counters (journal: ddp)",
        )
    ]
    if backend is not None:
        facts.append(Fact(f"the backend is {backend}", backend, "journal: ddp"))
    links = [device.nvlinks_active for device in tracked.used_devices(group) if device.nvlinks_active is not None]
    if links:
        facts.append(Fact(f"active NVLinks of these GPUs: {min(links)} to {max(links)}", links, "NVML"))
    finding = tracked.about(
        group,
        "E06",
        "warning",
        "likely" if any(place.startswith("cuda") for place in places) else "possible",
        f"Communication takes {least:.0%} of every step",
        facts,
        "During each backward pass, the ranks exchange all gradients. With little work per step, or a slow path between "
        "the GPUs, this takes longer than the backward pass can hide.",
        _communication_fix(),
        "One rank is late and the others wait for it. Then its own share is small.",
    )
    return Suspicion(finding, 3.0)


def _communicate_by_stack(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge E06 without DDP: the ranks are often seen in a collective, all of them at the same time."""
    found = in_collectives(evidence, group)
    if found is None:
        return None
    share, looks = found
    ranks = "both ranks" if len(group.members) == 2 else f"all {len(group.members)} ranks"
    facts = [
        Fact(
            f"the main threads of {ranks} were in a collective at the same time in {share:.0%} of "
            f"{words.count(looks, 'look')} at their stacks",
            round(share, 2),
            "/proc/<pid>/mem",
        )
    ]
    member = group.members[0]
    at = evidence.doings.seen(member.process, SPAN_S).mostly_at("collective") if member.process is not None else None
    if at is not None:
        facts.append(Fact(f"mostly at {at[0].place}", at[0].line, "as above"))
    finding = tracked.about(
        group,
        "E06",
        "warning",
        "possible",
        f"Communication takes {share:.0%} of the time",
        facts,
        "The ranks exchange more than the network, or the cores that copy it, can pass on while they compute: large gradients "
        "for little work in each step. None of them is late, as all wait at the same time.",
        _SMALLER_EXCHANGE,
        "The ranks wait there for another process, or for cores that other programs use.",
    )
    return Suspicion(finding, 3.0)


_SMALLER_EXCHANGE = (
    "# less often: a larger batch, or several backward passes for each exchange\n"
    "# half the bytes:\n"
    "flat = flat.bfloat16(); dist.all_reduce(flat)\n"
    "# while backward still runs, in buckets:\n"
    "model = DistributedDataParallel(model)\n"
    "# only the rows of an embedding that a batch used: torch.nn.Embedding(..., sparse=True)"
)


E06 = Rule(
    id="E06",
    order=2700,
    family="spread",
    title="Communication takes much of the step",
    severities=("warning",),
    confidences=("likely", "possible"),
    needs=("journal: ddp, step_s", "/proc/<pid>/mem"),
    window_s=3.0,
    every_s=SELDOM_S,
    threshold=(
        f"exposed communication takes {COMMUNICATION_SHARE_MIN:.0%} of a step on the rank with the least; likely on "
        "CUDA devices, possible if the device is unknown, and never on the CPU",
        f"without DDP, by stacks: in {SPAN_S:.0f} s, all ranks are in a collective at the same time in "
        f"{TOGETHER_SHARE:.0%} of {LOOKS_MIN} looks or more (possible)",
    ),
    mechanism=(
        "During each backward pass, the ranks exchange all gradients. With little work per step, or a slow path between "
        "the GPUs, this takes longer than the backward pass can hide."
    ),
    signature="Exposed communication takes 20% of a step or more on every rank; or all ranks are often in a collective at the "
    "same time.",
    look_alike="A straggler (F01 to F05), where the late rank's own share is small; ranks on a CPU, which share its cores.",
    fix="Use a larger batch or no_sync, a bf16 compression hook, or GPUs with NVLink.",
    judge=communication,
)


def _communication_fix() -> str:
    return (
        "# more work per exchange: a larger batch, or several backward passes\n"
        "with model.no_sync(): ...  # all but the last backward pass of a step\n"
        "# half the bytes\n"
        "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
        "model.register_comm_hook(None, default_hooks.bf16_compress_hook)\n"
        "# the path between the GPUs: nvidia-smi topo -m"
    )


def _on_gpus(member: Member) -> dict[int, int]:
    """Return the number of parameter elements of the model by CUDA index."""
    found = {}
    for name, number in parameters_by_device(member.journal).items():
        kind, _, index = name.partition(":")
        if kind == "cuda" and index.isdigit():
            found[int(index)] = number
    return found


def _spread(group: RankGroup) -> tuple[Member, dict[int, int]] | None:
    for member in group.members:
        places = _on_gpus(member)
        if len(places) < 2 or wrapped_by(member.journal) is not None or stated.wrapper(member.journal) is not None:
            continue
        if (model_facts.device_map_places(member.journal) or 0) > 1 or "deepspeed" in facts_of(member.journal).frameworks:
            continue
        return member, places
    return None


def _loads(evidence: Evidence, devices: tuple[Device, ...]) -> list[float] | None:
    """Return the mean utilization of each device; empty if one does not report it, None if not yet observed for long enough."""
    loads = [evidence.load(device.uuid) for device in devices]
    known = [load for load in loads if load is not None]
    if any(load.span_s < LOAD_SPAN_MIN_S for load in known):
        return None
    return [load.mean_percent for load in known] if len(known) == len(devices) else []


def _equal_sets(places: dict[int, int]) -> bool:
    return len(set(places.values())) == 1


def layers_take_turns(evidence: Evidence, group: RankGroup) -> Judgement:
    """E08: the layers of one model are on several GPUs, and only one of them works at a time."""
    found = _spread(group)
    if found is None or group.virtual or not evidence.trains(group):
        return None
    member, places = found
    devices = tracked.used_devices(group)
    loads = _loads(evidence, devices)
    if loads is None:
        return None
    total = sum(loads)
    if loads and total >= PIPELINE_MIN_PERCENT:
        return None
    same = _equal_sets(places)
    if same and (not loads or total > TURNS_MAX_PERCENT):
        return None
    parts = ", ".join(f"cuda:{index} {number / 1e6:.1f} M" for index, number in sorted(places.items()))
    facts = [
        Fact(f"one model, its parameters on several GPUs: {parts}", dict(places), "journal: model"),
        Fact("no wrapper and no device_map", None, "journal: model"),
    ]
    if loads:
        each = " / ".join(f"{load:.0f}" for load in loads)
        facts.append(Fact(f"utilization of {words.gpus(devices)}: {each}%, {total:.0f}% in total", loads, "NVML"))
    busy = [load for load in loads if load > 0]
    if len(busy) > 1 and max(busy) > UNBALANCED_RATIO * min(busy):
        facts.append(
            Fact("the split is unbalanced: one part is busy over twice as long as another", max(busy) / min(busy), "NVML")
        )
    finding = tracked.about(
        group,
        "E08",
        "warning",
        "likely" if same else "certain",
        f"{words.gpus(devices)} take turns: the model is split by layers",
        facts,
        "A batch passes through one GPU after the other, and back. While one works, the others wait, so together they are "
        "no faster than one.",
        "# if the model fits on one GPU: a copy on each\n"
        f"model = DDP(model.to(local_rank), device_ids=[local_rank])  # {fixes.launch_line(group, max(2, len(places)))}\n"
        "# if it does not: shard it\nfrom torch.distributed.fsdp import fully_shard\nfully_shard(model)\n"
        "# or a pipeline of micro-batches: torch.distributed.pipelining",
        "Several micro-batches are in flight at once, so all GPUs work.",
        devices,
        [member.pid] if member.pid is not None else None,
    )
    return Suspicion(finding, E08_HOLD_S)


E08 = Rule(
    id="E08",
    order=2701,
    family="spread",
    title="Layers on several GPUs take turns",
    severities=("warning",),
    confidences=("certain", "likely"),
    needs=("journal: model", "NVML utilization"),
    window_s=E08_HOLD_S,
    every_s=SELDOM_S,
    threshold=(
        f"parameters on two or more GPUs, no wrapper, no device_map, and a total utilization below {PIPELINE_MIN_PERCENT:.0f}%"
    ),
    hides=("A01", "B07", "E02", "F02"),
    mechanism="A batch passes through one GPU after the other, and back. While one works, the others wait.",
    signature=(
        "Parameters are on several GPUs without a wrapper or device_map, and together the GPUs are hardly busier than one."
    ),
    look_alike="A10 (a device_map did it); a pipeline of micro-batches, which keeps all GPUs busy.",
    fix="Use DDP if the model fits on one GPU; otherwise FSDP or torch.distributed.pipelining.",
    judge=layers_take_turns,
)


def averaged_by_hand(evidence: Evidence, group: RankGroup) -> Judgement:
    """E09: the script averages gradients itself: those of copies in one process, or as objects that ranks pass on."""
    if group.run is None:
        return passes_objects(evidence, group)
    found = _spread(group)
    if found is None or group.virtual or len(group.members) != 1 or not evidence.trains(group):
        return None
    _, places = found
    devices = tracked.used_devices(group)
    loads = _loads(evidence, devices)
    if loads is None or not _equal_sets(places) or (loads and sum(loads) <= TURNS_MAX_PERCENT):
        return None
    each = next(iter(places.values()))
    facts = [
        Fact(f"{len(places)} GPUs hold {each / 1e6:.1f} M parameters each", dict(places), "journal: model"),
        Fact("one process, no wrapper", None, "journal: model"),
    ]
    if loads:
        shown = " / ".join(f"{load:.0f}" for load in loads)
        facts.append(Fact(f"utilization of {words.gpus(devices)}: {shown}%", loads, "NVML"))
    finding = tracked.about(
        group,
        "E09",
        "warning",
        "likely",
        f"Gradients of {len(places)} copies are averaged by hand, through one GPU",
        facts,
        "A Python loop copies the gradients to one GPU, one parameter at a time, adds them, and copies them back. DDP "
        "exchanges them in large buckets between all GPUs at once, while the backward pass still runs.",
        f"model = DDP(net.to(local_rank), device_ids=[local_rank])\n# {fixes.launch_line(group, len(places))}",
        "The copies are different models, as in an ensemble.",
        devices,
    )
    return Suspicion(finding, E08_HOLD_S)


E09 = Rule(
    id="E09",
    order=2702,
    family="spread",
    title="Gradients are averaged by hand",
    severities=("warning",),
    confidences=("likely", "possible"),
    needs=("journal: model", "NVML utilization", "/proc/<pid>/mem"),
    window_s=E08_HOLD_S,
    every_s=SELDOM_S,
    threshold=(
        "one process, equal sets of parameters on two or more GPUs, no wrapper, and GPUs that work at the same time",
        f"from outside, by stacks: in {SPAN_S:.0f} s, the main thread of each rank is seen in {SEEN_SHARE:.0%} of {LOOKS_MIN} "
        "looks or more at a call that passes gradients or weights on as Python objects, such as all_gather_object (possible; "
        f"likely from {SURE_SHARE:.0%} at collectives)",
    ),
    hides=("A01", "B07", "B08", "E01", "E06"),
    mechanism=(
        "A Python loop copies the gradients to one GPU, one parameter at a time, adds them, and copies them back. Or each rank "
        "pickles them for all others."
    ),
    signature=(
        "One process holds an equal set of parameters on each GPU, without a wrapper, and the GPUs work at the same time; or "
        "ranks are mostly at a call that pickles."
    ),
    look_alike="An ensemble, whose copies are different models; metrics or predictions that are gathered as objects.",
    fix="Use DDP.",
    judge=averaged_by_hand,
)
