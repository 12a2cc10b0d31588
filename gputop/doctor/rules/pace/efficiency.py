"""A GPU below its potential: it waits in each step (E01), has too little work (E02), or does not use its tensor cores (E03)."""

from __future__ import annotations

import re

from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.facts.calls import parameter_dtypes
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import words
from gputop.doctor.findings.commands import filled
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion
from gputop.doctor.rules.support.shared import real_gpu
from gputop.facts.measured import Synchronizations
from gputop.units import bytes_text

SYNCS_MIN = 1.0
SAMPLED_MIN = 3
WAITS_SHARE_MIN = 0.1
IDLE_SHARE_MIN = 0.15
DATA_SHARE_MAX = 0.1
PAUSE_SHARE_MAX = 0.1
"""Synchronizations per step, how many steps they were counted in (one in a few seconds), how much of a step the loop is in
them, the share of time the GPU idles, and limits on other waits (docs/rules.md#e01, estimates)."""
_SUM_FIRST = """\
total += loss.detach()  # {line}: keep the tensor, without item()
if step % 50 == 0:
    print(total.item() / 50); total.zero_()  # one wait every 50 steps"""
LOAD_MIN_PERCENT = 20.0
"""Below this utilization, something other than the size of the kernels is the problem (docs/rules.md#e02, an estimate)."""
POWER_SHARE_MAX = 0.35
MEMORY_SHARE_MAX = 0.3
OCCUPANCY_MAX_PERCENT = 20.0
STEP_MAX_S = 0.03
MAIN_THREAD_MIN_PERCENT = 90.0
"""A GPU with too little work, and a thread that does nothing but launch kernels (docs/rules.md#e02, an estimate)."""
TENSOR_MAX_PERCENT = 2.0
SM_MIN_PERCENT = 50.0
COMPUTE_LOAD_MIN_PERCENT = 70.0
"""A GPU that computes, but not on its tensor cores (docs/rules.md#e03, an estimate)."""
_SCALER = ("grad_scaler.py", "clip_grad.py")
"""Gradient scaling checks once per step whether gradients are finite; clipping may do so too."""
_NO_TENSOR_CORES = re.compile(r"\b(P100|P40|P4|K80|M60|GTX|TITAN X)", re.I)
_NO_TF32 = re.compile(r"\b(V100|T4|TITAN V|TITAN RTX|RTX 20\d\d|Quadro)", re.I)


def _is_undisturbed(evidence: Evidence, group: RankGroup, without_loader: bool = False) -> bool:
    """Return whether the loop neither waits for data nor pauses for evaluation and checkpoints, as far as that is known.

    ``without_loader``: what to say of a loop that has no loader, whose data may come from anywhere.
    """
    data = windows.data_share(evidence, group)
    ready = without_loader if data is None else data < DATA_SHARE_MAX
    return ready and windows.pause_share(evidence, group) < PAUSE_SHARE_MAX


def waits_in_each_step(evidence: Evidence, group: RankGroup) -> Judgement:
    """E01: the loop reads values from the GPU in each step, and the GPU idles while the CPU prepares the next work."""
    for member in group.members:
        fact, device = facts_of(member.journal).synchronizations, real_gpu(group, member)
        if fact is None or device is None or fact.per_step < SYNCS_MIN or not evidence.is_warm(group):
            continue
        if (fact.steps is not None and fact.steps < SAMPLED_MIN) or _by_the_optimizer(fact):
            continue
        load, waits = windows.mean_utilization(evidence, device.uuid), _share_of_waits(evidence, group, member, fact)
        counts = waits is not None and waits >= WAITS_SHARE_MIN
        if load is None or 1 - load / 100 < IDLE_SHARE_MIN or not _is_undisturbed(evidence, group, without_loader=counts):
            continue
        where = tracked.at(fact.where)
        data = windows.data_share(evidence, group)
        finding = tracked.about(
            group,
            "E01",
            "warning",
            "likely",
            f"The loop waits for the GPU {fact.per_step:.0f} times in each step{where}",
            [
                Fact(
                    f"{fact.per_step:.1f} calls per step wait for the GPU{where}",
                    fact.per_step,
                    "journal: synchronizations",
                ),
                *(
                    [Fact(f"it is in these calls {waits:.0%} of the time", waits, "journal: synchronizations")]
                    if waits is not None
                    else []
                ),
                Fact(f"{words.gpu(device)} idles {100 - load:.0f}% of the time", 100 - load, "NVML"),
                *([Fact(f"the loop waits for data {data:.0%} of the time", data, "journal")] if data is not None else []),
            ],
            "item(), cpu(), tolist(), print(tensor) and `if tensor:` wait until the GPU has finished all queued work. "
            "Meanwhile nothing new is queued, so the GPU idles afterwards.",
            _sync_fix(fact.where),
            "The GPU idles even without these calls.",
            [device],
        )
        return Suspicion(finding, 3.0)
    return None


def _share_of_waits(evidence: Evidence, group: RankGroup, member: Member, fact: Synchronizations) -> float | None:
    """Return which share of a step the loop is in calls that wait for the GPU; None if that is not known."""
    step = windows.step_s(evidence, group, member.journal.rank) if member.journal is not None else None
    return min(1.0, fact.seconds_per_step / step) if step and fact.seconds_per_step is not None else None


E01 = Rule(
    id="E01",
    order=2900,
    family="efficiency",
    title="The loop waits for the GPU in every step",
    severities=("warning",),
    confidences=("likely",),
    needs=("journal: synchronizations, phase/data", "NVML utilization"),
    window_s=windows.POWER_SPAN_MIN_S,
    every_s=RARELY_S,
    threshold=(
        f"{SYNCS_MIN:.0f} wait per step, a GPU that idles {IDLE_SHARE_MIN:.0%} of the time, and less than "
        f"{DATA_SHARE_MAX:.0%} of the time waiting for data, over 30 to 60 s; without a loader, at least "
        f"{WAITS_SHARE_MIN:.0%} of the time in these calls"
    ),
    estimated=True,
    hides=("E02",),
    mechanism=(
        "item(), cpu(), tolist(), print(tensor) and `if tensor:` wait until the GPU has finished all queued work. "
        "Meanwhile nothing new is queued."
    ),
    signature="At least one wait per step, and a GPU that idles 15% of the time although data is ready.",
    look_alike="D01 (data is late); the check of a gradient scaler or of gradient clipping, once per step.",
    fix="Sum loss.detach() on the GPU and call item() every 50 steps.",
    judge=waits_in_each_step,
)


def _by_the_optimizer(fact: Synchronizations) -> bool:
    return fact.where is not None and fact.where.startswith(_SCALER) and fact.per_step <= 2 * SYNCS_MIN


def _sync_fix(where: str | None) -> str:
    return filled(_SUM_FIRST, {"line": where}) if where is not None else _SUM_FIRST.replace("{line}: ", "")


def too_little_work(evidence: Evidence, group: RankGroup) -> Judgement:
    """E02: the steps are so short that launching kernels takes longer than running them."""
    if group.virtual or not group.used or not evidence.is_warm(group):
        return None
    devices = tracked.used_devices(group)
    for device in devices:
        load, power = windows.mean_utilization(evidence, device.uuid), windows.power_share_at_most(evidence, device.uuid)
        if load is None or power is None or load < LOAD_MIN_PERCENT or power >= POWER_SHARE_MAX:
            return None
        used, total = device.memory_used_bytes, device.memory_total_bytes
        if used is None or not total or used / total >= MEMORY_SHARE_MAX:
            return None
        if device.sm_occupancy_percent is not None and device.sm_occupancy_percent >= OCCUPANCY_MAX_PERCENT:
            return None
    if not devices or any(not _launches(member) for member in group.members) or not evidence.trains(group):
        return None
    step = windows.median_step_s(evidence, group)
    if step is None:
        why = "The GPU has little to do and one thread is busy, but the step time is unknown."
        return tracked.untracked("E02", group, why)
    if step >= STEP_MAX_S or not _is_undisturbed(evidence, group):
        return None
    first = devices[0]
    load, power = windows.mean_utilization(evidence, first.uuid), windows.power_share_at_most(evidence, first.uuid)
    loader = next((facts_of(m.journal).loader for m in group.members if m.journal is not None), None)
    batch = loader.batch_size if loader is not None else None
    facts = [
        Fact(f"a step takes {step * 1000:.1f} ms", step, "journal: step_s"),
        Fact(
            f"{words.gpu(first)} runs kernels {load or 0:.0f}% of the time at {power or 0:.0%} of its power limit",
            power,
            "NVML",
        ),
        Fact(f"it holds {bytes_text(first.memory_used_bytes)} of {bytes_text(first.memory_total_bytes)}", None, "NVML"),
        Fact("the main thread is always busy", _main_thread(group.members[0]), "/proc/<pid>/task"),
    ]
    grown = f"batch_size={batch * 4}" if batch is not None else "batch_size=4 * batch_size"
    finding = tracked.about(
        group,
        "E02",
        "warning",
        "likely",
        f"Too little work in a step: {step * 1000:.1f} ms, {power or 0:.0%} of the power",
        facts,
        "Each kernel is so short that Python cannot start the next one in time. A larger batch, or fewer and longer "
        "kernels, would take hardly more time.",
        f"loader = DataLoader(dataset, {grown}, ...)  # until memory is 80 to 90% full\n"
        'model = torch.compile(model, mode="reduce-overhead")  # CUDA graphs: one launch for many kernels',
        "A larger batch makes the step longer in proportion.",
    )
    return Suspicion(finding, 3.0)


E02 = Rule(
    id="E02",
    order=2901,
    family="efficiency",
    title="Too little work in a step",
    severities=("warning",),
    confidences=("likely",),
    needs=("NVML", "journal: step_s, phase/data", "CPU time of the main thread"),
    window_s=windows.POWER_SPAN_MIN_S,
    every_s=RARELY_S,
    threshold=(
        f"power below {POWER_SHARE_MAX:.0%} of the limit, memory below {MEMORY_SHARE_MAX:.0%}, steps below "
        f"{STEP_MAX_S * 1000:.0f} ms and a main thread at {MAIN_THREAD_MIN_PERCENT:.0f}%, over 30 to 60 s"
    ),
    estimated=True,
    mechanism="Each kernel is so short that Python cannot start the next one in time.",
    signature="Steps below 30 ms, a main thread that is always busy, and a GPU with little power and memory in use.",
    look_alike="G01 (no step completes); E01 and D01 (the loop waits for something).",
    fix='Raise the batch size, and use torch.compile(mode="reduce-overhead").',
    judge=too_little_work,
)


def _main_thread(member: Member) -> float | None:
    process = member.process
    if process is None:
        return None
    return process.main_thread_cpu_percent if process.main_thread_cpu_percent is not None else process.cpu_percent


def _launches(member: Member) -> bool:
    busy = _main_thread(member)
    return busy is not None and busy >= MAIN_THREAD_MIN_PERCENT


def no_tensor_cores(evidence: Evidence, group: RankGroup) -> Judgement:
    """E03: float32 matrix products on a GPU with idle tensor cores."""
    for member in group.members:
        fact, device, dtypes = facts_of(member.journal).settings, real_gpu(group, member), parameter_dtypes(member.journal)
        if fact is None or device is None or set(dtypes) != {"float32"} or fact.autocast is not False:
            continue
        if fact.float32_matmul_precision != "highest" or fact.allow_tf32 is not False or fact.deterministic is True:
            continue
        if _NO_TENSOR_CORES.search(device.name or "") or _override(member):
            continue
        load, power = windows.mean_utilization(evidence, device.uuid), windows.power_share_at_most(evidence, device.uuid)
        if load is None or load < COMPUTE_LOAD_MIN_PERCENT or power is None or power < POWER_SHARE_MAX:
            continue
        tensor, sm = device.tensor_activity_percent, device.sm_activity_percent
        if tensor is not None and tensor >= TENSOR_MAX_PERCENT:
            continue
        measured = tensor is not None and sm is not None and sm >= SM_MIN_PERCENT
        facts = [
            Fact("parameters are float32, and autocast was off in the forward pass", "float32", "journal: model, settings"),
            Fact('float32_matmul_precision is "highest", so TF32 is off', "highest", "journal: settings"),
            Fact(f"{words.gpu(device)} is busy {load:.0f}% of the time", load, "NVML"),
        ]
        if tensor is not None:
            facts.append(Fact(f"its tensor cores are busy {tensor:.0f}% of the time", tensor, "GPM (NVML)"))
        tf32 = not _NO_TF32.search(device.name or "")
        finding = tracked.about(
            group,
            "E03",
            "info",
            "likely" if measured else "possible",
            "Matrix products run in full float32, not on the tensor cores",
            facts,
            "By default PyTorch multiplies float32 matrices in full precision. TF32 and bfloat16 run on the tensor cores, "
            "several times as fast but with less precision.",
            (
                'torch.set_float32_matmul_precision("high")  # TF32\n'
                'with torch.autocast("cuda", dtype=torch.bfloat16):\n    loss = model(x)'
            )
            if tf32
            else 'with torch.autocast("cuda", dtype=torch.float16):  # and torch.amp.GradScaler()\n    loss = model(x)',
            "The result needs full float32 precision.",
            [device],
        )
        return Suspicion(finding, 3.0)
    return None


E03 = Rule(
    id="E03",
    order=2902,
    family="efficiency",
    title="Tensor cores idle in float32",
    severities=("info",),
    confidences=("likely", "possible"),
    needs=("journal: settings, model", "NVML, GPM"),
    window_s=windows.POWER_SPAN_MIN_S,
    every_s=RARELY_S,
    threshold=(
        f"float32 without TF32 or autocast, utilization of at least {COMPUTE_LOAD_MIN_PERCENT:.0f}%; likely if GPM shows "
        f"tensor cores below {TENSOR_MAX_PERCENT:.0f}%"
    ),
    estimated=True,
    mechanism="Matrix products in float32 use tensor cores only with TF32 or autocast, and both are off.",
    signature='A busy GPU, float32 parameters, no autocast and float32_matmul_precision "highest".',
    look_alike="Scientific work that needs float32 or float64; cards without tensor cores.",
    fix='Call torch.set_float32_matmul_precision("high"), or use autocast with bfloat16.',
    judge=no_tensor_cores,
)


def _override(member: Member) -> bool:
    environment = member.process.environment if member.process is not None else None
    return environment is not None and dict(environment.settings).get("NVIDIA_TF32_OVERRIDE") == "0"
