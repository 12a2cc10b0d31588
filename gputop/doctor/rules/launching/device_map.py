"""Layers that a device_map spreads over GPUs, which then work one after the other (A10)."""

from __future__ import annotations

from gputop import units
from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts import model as model_facts
from gputop.doctor.facts import stated
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Abstained, Confidence, Fact, Finding
from gputop.doctor.rules.support.outputs import first_logged, quoted
from gputop.doctor.rules.support.rule import Judgement, Rule, Suspicion

TURNS_S = 60.0
TURNS_ROWS_MIN = 30
TURNS_CORRELATION = -0.2
TURNS_SUM_PERCENT = (70.0, 130.0)
"""GPUs that take turns: each pair correlates below -0.2, and together they are as busy as one (docs/rules.md#a10)."""
SPREAD_BYTES_MIN = 1e9
"""A GPU with less of the process's memory holds no layers: it may hold only a context (our choice)."""

_DEVICE_MAP_FIX = """\
# if the model fits on one GPU: no device_map, and a copy on each GPU
model = AutoModelForCausalLM.from_pretrained(name)
{launch}

# quantized: the whole model on the rank's own GPU
device_map={{"": int(os.environ["LOCAL_RANK"])}}
# too large for one GPU: FSDP or ZeRO-3 (accelerate config)"""


def layers_take_turns(evidence: Evidence, group: RankGroup) -> Judgement:
    """A10: a device_map spreads the layers over GPUs, which then work one after the other."""
    for member in group.members:
        places = model_facts.device_map_places(member.journal)
        if places is not None and places > 1 and evidence.trains(group):
            fact = Fact(f"model.hf_device_map spreads the layers over {places} devices", places, "journal")
            return Suspicion(_turns(group, places, [fact], "certain"))
    match = first_logged(evidence, group, "hf_devicemap_dist")
    if match is not None and len(group.members) > 1:
        # Accelerate stops with this text; a job that is still alive may have caught it. The output of an ended job is
        # judged elsewhere.
        return Suspicion(_turns(group, len(group.used), [quoted(match)], "possible"))
    return _seen_turns(evidence, group)


A10 = Rule(
    id="A10",
    order=1801,
    family="frameworks",
    title="device_map spreads the layers over GPUs",
    severities=("warning",),
    confidences=("certain", "likely", "possible"),
    needs=("journal: hf_device_map", "NVML memory per process and utilization"),
    window_s=TURNS_S,
    threshold=(
        "hf_device_map with two devices in training (certain); or one process with over 1 GB on several GPUs whose "
        f"utilization correlates below {TURNS_CORRELATION} and sums to {TURNS_SUM_PERCENT[0]:.0f} to "
        f"{TURNS_SUM_PERCENT[1]:.0f}% over {TURNS_S:.0f} s (likely)"
    ),
    estimated=True,
    hides=("B07", "E02", "E08", "F02"),
    mechanism=(
        "device_map puts consecutive layers on different GPUs. A batch passes through them one after the other, so all but "
        "one wait at any moment."
    ),
    signature="One process holds memory on several GPUs that work in turns; together they are as busy as one.",
    look_alike=(
        "DataParallel (equal memory, GPUs busy at the same time); a pipeline of micro-batches (together busier than one GPU)."
    ),
    fix="Remove device_map and use DDP if the model fits on one GPU; otherwise use FSDP or ZeRO-3.",
    judge=layers_take_turns,
)


def _seen_turns(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge from outside: one process, memory on several GPUs, and alternating utilization."""
    if len(group.members) != 1 or group.virtual or not evidence.trains(group):
        return None
    member = group.members[0]
    heavy = [use.device_uuid for use in member.uses if (use.memory_used_bytes or 0) >= SPREAD_BYTES_MIN]
    if len(heavy) < 2 or stated.model_inspected(member.journal) or stated.data_parallel(member.journal) is not None:
        return None
    rows = evidence.history.utilizations(heavy)
    if len(rows) < TURNS_ROWS_MIN:
        return None
    total = sum(map(sum, rows)) / len(rows)
    if not TURNS_SUM_PERCENT[0] <= total <= TURNS_SUM_PERCENT[1]:
        return None
    columns = list(zip(*rows, strict=True))
    pairs = [_correlation(one, other) for place, one in enumerate(columns) for other in columns[place + 1 :]]
    worst = max((value for value in pairs if value is not None), default=None)
    if worst is None:
        why = "One process holds memory on several GPUs that are together as busy as one; whether they take turns is unknown."
        return Abstained("A10", why, f"gputop run -- {fixes.own_command(group)}", group.run_id)
    if worst >= TURNS_CORRELATION:
        return None
    facts = [
        Fact(f"their utilization alternates: correlation {worst:.2f} or less over {len(rows)} readings", worst, "NVML"),
        Fact(f"together they are as busy as one GPU: {total:.0f}%", total, "NVML"),
    ]
    return Suspicion(_turns(group, len(heavy), facts, "likely"), 3.0)


def _correlation(one: tuple[float, ...], other: tuple[float, ...]) -> float | None:
    """Return Pearson's correlation; None if a column does not vary."""
    mean_one, mean_other = units.mean(one), units.mean(other)
    spread_one, spread_other = windows.squares(one, mean_one), windows.squares(other, mean_other)
    if spread_one <= 0 or spread_other <= 0:
        return None
    product = sum((a - mean_one) * (b - mean_other) for a, b in zip(one, other, strict=True))
    return float(product / (spread_one * spread_other) ** 0.5)


def _turns(group: RankGroup, places: int, facts: list[Fact], confidence: Confidence) -> Finding:
    devices = [device for device in group.pool if device.uuid in group.used]
    used = Fact(f"one process holds memory on {words.gpus(devices)}", [device.index for device in devices], "NVML, journal")
    return Finding(
        id="A10",
        severity="warning",
        confidence=confidence,
        title=f"Layers are spread over {places} GPUs, which work one at a time",
        evidence=(*facts, *((used,) if devices else ())),
        cause="device_map puts consecutive layers on different GPUs. A batch passes through them one after the other, so "
        "all but one wait at any moment: the memory of many GPUs, the speed of one.",
        fix=_DEVICE_MAP_FIX.format(launch=fixes.launch_line(group, max(2, len(group.visible or group.pool)))),
        refuted_by="The model does not fit on one GPU and the speed is acceptable, or micro-batches keep all GPUs busy.",
        devices=tuple(device.uuid for device in devices),
        pids=group.pids,
        run=group.run_id,
    )
