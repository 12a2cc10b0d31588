"""Batches of nn.DataParallel: smaller than the number of devices (B01), not divisible among them (B02), or with an argument
that does not divide like the batch (B05)."""

from __future__ import annotations

from dataclasses import dataclass

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.facts import stated
from gputop.doctor.findings import fixes, words
from gputop.doctor.findings.finding import Abstained, Fact, Finding
from gputop.doctor.rules.support.rule import Judgement, Rule, Suspicion
from gputop.doctor.rules.support.shared import utilization
from gputop.snapshot import Device

CALLS_MIN = 20
SHARE_MIN = 0.8
"""The last batch of an epoch may be small, so 80% of 20 calls must agree (docs/rules.md#b01)."""
EVEN_MIN = 0.75
"""Share of the largest piece that the smallest one must have (docs/rules.md#b02)."""
ROWS_PER_DEVICE = 32
"""The batch size per device that a fix proposes: a starting point, not a rule."""
_BATCH_OPTIONS = ("--batch-size", "--batch_size", "--bs", "--batch")
_COUNTED = f"in {SHARE_MIN:.0%} of at least {CALLS_MIN} calls within two minutes"
_SYMPTOMS = ("A01", "A02", "B07", "B08", "E02")


def split_rows(batch: int, devices: int) -> tuple[int, ...]:
    """Return the number of rows per device, as ``torch.chunk`` splits a batch: fewer pieces if the rows run out."""
    if batch <= 0 or devices <= 0:
        return ()
    piece = -(-batch // devices)
    pieces = -(-batch // piece)
    return (*[piece] * (pieces - 1), batch - piece * (pieces - 1))


def good_batch(batch: int, devices: int) -> int:
    """Return the multiple of ``devices`` nearest to ``batch``, with at least one row for each device."""
    return max(devices, (batch + devices // 2) // devices * devices)


@dataclass(frozen=True, slots=True)
class _Split:
    """How most calls of one wrapper divided their batch."""

    member: Member
    fact: stated.DataParallelFact
    batch: int
    rows: tuple[int, ...]
    calls: int
    bad_calls: int
    underused: bool

    @property
    def number(self) -> int:
        """Number of the wrapper's devices."""
        return self.fact.devices

    @property
    def used(self) -> int:
        """Number of devices that got rows."""
        return sum(row > 0 for row in self.rows)

    @property
    def rule(self) -> str:
        """The rule that explains the split: an argument that splits into fewer pieces than the batch, or the batch itself."""
        if self.batch < self.number:
            return "B01"
        return "B05" if self.used < len(split_rows(self.batch, self.number)) else "B02"


def batch_too_small(evidence: Evidence, group: RankGroup) -> Judgement:
    """B01: most calls have fewer rows than there are devices."""
    split = _bad_split(evidence, group)
    if split is not None:
        return _suspicion(evidence, group, split) if split.rule == "B01" else None
    if (held := _held(evidence, group)) is not None:
        return held if held.finding.id == "B01" else None
    wraps = any(stated.data_parallel(member.journal) is not None for member in group.members)
    if len(group.members) == 1 and len(group.used) > 1 and not wraps:
        # It may be DataParallel, but only tracking sees the batch.
        why = "One process works on several GPUs; how it divides a batch is not visible from outside."
        return Abstained("B01", why, "gputop.watch(model) in the script", group.run_id)
    return None


B01 = Rule(
    id="B01",
    order=800,
    family="data parallel",
    title="The batch is smaller than the number of GPUs",
    severities=("error",),
    confidences=("certain", "possible"),
    needs=("journal: data_parallel", "/proc: variables"),
    threshold=(
        f"fewer rows than devices {_COUNTED}",
        "untracked, variables hold a loader whose batch has fewer rows than nn.DataParallel has devices (possible)",
    ),
    hides=_SYMPTOMS,
    mechanism=(
        "nn.DataParallel splits a batch into pieces of ceil(batch / devices) rows until the rows run out. Devices without "
        "a piece do nothing."
    ),
    signature="Most calls have fewer rows than there are devices, so the last GPUs idle.",
    look_alike="A small last batch of an epoch; B03 (the script does not call the wrapper).",
    fix="Set the batch size to the rows per GPU times the number of GPUs, and set drop_last=True.",
    judge=batch_too_small,
)


def batch_does_not_divide(evidence: Evidence, group: RankGroup) -> Judgement:
    """B02: most calls have enough rows, but one device gets none or far fewer than the others."""
    split = _bad_split(evidence, group)
    if split is None and (held := _held(evidence, group)) is not None:
        return held if held.finding.id == "B02" else None
    return _suspicion(evidence, group, split) if split is not None and split.rule == "B02" else None


B02 = Rule(
    id="B02",
    order=801,
    family="data parallel",
    title="The batch does not divide evenly among the GPUs",
    severities=("warning",),
    confidences=("certain", "possible"),
    needs=("journal: data_parallel", "/proc: variables"),
    threshold=(
        f"a device without rows, or the smallest share below {EVEN_MIN} of the largest, {_COUNTED}",
        "untracked, variables hold a loader whose batch divides so among the devices of nn.DataParallel (possible)",
    ),
    hides=_SYMPTOMS,
    mechanism=(
        "nn.DataParallel takes pieces of equal size until the rows run out: 5 rows on 4 GPUs become 2, 2 and 1. The GPU "
        "with the most rows sets the pace."
    ),
    signature="Most calls leave a GPU without rows, or with far fewer than the others.",
    look_alike="A smaller last batch of an epoch.",
    fix="Choose a batch size that is a multiple of the number of GPUs.",
    judge=batch_does_not_divide,
)


def argument_does_not_divide(evidence: Evidence, group: RankGroup) -> Judgement:
    """B05: the batch would reach more devices, but another argument of the call splits into fewer pieces."""
    split = _bad_split(evidence, group)
    return _suspicion(evidence, group, split) if split is not None and split.rule == "B05" else None


B05 = Rule(
    id="B05",
    order=802,
    family="data parallel",
    title="An argument does not split like the batch",
    severities=("error",),
    confidences=("certain",),
    needs=("journal: data_parallel",),
    threshold=f"fewer pieces than torch.chunk makes of the batch, {_COUNTED}",
    hides=_SYMPTOMS,
    mechanism=(
        "nn.DataParallel uses only as many pieces as the tensor argument with the fewest pieces. A mask with one row "
        "leaves one piece: GPUs idle, and rows of the batch are lost."
    ),
    signature="The call reaches fewer devices than its batch would.",
    look_alike="B01 and B02 (the batch itself is the reason).",
    fix="Give every tensor argument as many rows as the batch (expand), or build it inside forward.",
    judge=argument_does_not_divide,
)


def _bad_split(evidence: Evidence, group: RankGroup) -> _Split | None:
    for member in group.members:
        fact = stated.data_parallel(member.journal)
        if fact is None or fact.devices < 2:
            continue
        calls, underused, uneven = evidence.recent_calls(group, member, CALLS_MIN)
        batch = fact.batch_rows if fact.batch_rows is not None else sum(fact.rows)
        bad = max(underused, uneven)
        if calls < CALLS_MIN or batch <= 0 or bad < SHARE_MIN * calls:
            continue
        rows = fact.rows if any(fact.rows) else split_rows(batch, fact.devices)
        split = _Split(member, fact, batch, rows, calls, bad, underused >= SHARE_MIN * calls)
        if split.rule != "B01" or split.underused:
            return split
    return None


def _held(evidence: Evidence, group: RankGroup) -> Suspicion | None:
    """Judge an untracked run by its variables: a batch that nn.DataParallel divides badly, unless the script regroups it."""
    process = group.main_process
    held = process.held if process is not None else None
    if process is None or held is None or held.models is None or held.loader is None or group.run is not None:
        return None
    number, batch = held.models.devices or 0, held.loader.batch_size or 0
    rows = split_rows(batch, number)
    if number < 2 or not rows or not evidence.trains(group) or (len(rows) == number and min(rows) >= EVEN_MIN * max(rows)):
        return None
    small = batch < number
    shown = " / ".join(str(row) for row in (*rows, *[0] * (number - len(rows))))
    source = f"/proc/{process.pid}/mem"
    finding = Finding(
        id="B01" if small else "B02",
        severity="error" if small else "warning",
        confidence="possible",
        title=f"DataParallel: batch of {batch} feeds {len(rows)} of {number} GPUs"
        if len(rows) < number
        else f"DataParallel: {batch} rows split unevenly, {max(rows)} to {min(rows)}",
        evidence=(
            Fact(f"{held.loader.name} makes batches of {words.count(batch, 'row')}", batch, source),
            Fact(f"nn.DataParallel divides them among {number} devices: {shown} rows", list(rows), source),
        ),
        cause=_SPLITS + (_IDLE if len(rows) < number else _UNEVEN),
        fix=_fix_batch(group, batch, number, small=small),
        refuted_by="The script regroups the batches that its loader yields.",
        devices=tuple(device.uuid for device in group.pool if device.uuid in group.used),
        pids=(process.pid,),
        run=group.run_id,
    )
    return Suspicion(finding, HELD_HOLD_S)


def _suspicion(evidence: Evidence, group: RankGroup, split: _Split) -> Suspicion:
    batch, number = split.batch, split.number
    devices = wrapped_devices(group, split.fact)
    shown = " / ".join(str(row) for row in (*split.rows, *[0] * (number - len(split.rows))))
    facts = [
        Fact(f"batch of {words.count(batch, 'row')} over {number} devices: {shown} rows", list(split.rows), "journal"),
        Fact(f"so in {split.bad_calls} of the last {split.calls} calls", split.bad_calls, "journal"),
    ]
    if split.fact.module:
        facts.append(Fact(f"DataParallel wraps {split.fact.module}", split.fact.module, "journal"))
    facts += utilization(evidence, devices)
    if split.underused:
        title = f"DataParallel: batch of {batch} feeds {split.used} of {number} GPUs"
    else:
        got = [row for row in split.rows if row]
        title = f"DataParallel: {batch} rows split unevenly, {max(got)} to {min(got)}"
    finding = Finding(
        id=split.rule,
        severity="warning" if split.rule == "B02" else "error",
        confidence="certain",
        title=title,
        evidence=tuple(facts),
        cause=_cause(split),
        fix=_fix(group, split),
        refuted_by=f"{(1 - SHARE_MIN) * 100:.0f}% or more of the calls give every device an equal share.",
        devices=tuple(device.uuid for device in devices),
        pids=(split.member.pid,) if split.member.pid is not None else (),
        run=group.run_id,
    )
    return Suspicion(finding)


def _cause(split: _Split) -> str:
    if split.rule == "B05":
        return (
            "nn.DataParallel uses only as many pieces as the tensor argument with the fewest pieces: a mask or another "
            "argument with fewer rows than the batch leaves devices without work, and rows of the batch are lost."
        )
    return _SPLITS + (_IDLE if split.used < split.number else _UNEVEN)


_SPLITS = "nn.DataParallel splits each batch into pieces of ceil(batch / devices) rows until the rows run out; "
_IDLE, _UNEVEN = "devices without a piece do nothing.", "the device with the most rows sets the pace."
HELD_HOLD_S = 5.0
"""An untracked run must go on training for as long."""


def wrapped_devices(group: RankGroup, fact: stated.DataParallelFact) -> list[Device]:
    """Return the devices behind the wrapper's ids, which index the visible devices; the used devices if those are unknown."""
    seen = group.visible or ()
    chosen = [seen[position] for position in fact.device_ids if position < len(seen)]
    if len(chosen) == fact.devices:
        return chosen
    return [device for device in group.pool if device.uuid in group.used]


def _fix(group: RankGroup, split: _Split) -> str:
    if split.rule == "B05":
        return "mask = mask.expand(x.size(0), *mask.shape[1:])  # every tensor argument needs as many rows as the batch"
    return _fix_batch(group, split.batch, split.number, small=split.rule == "B01")


def _fix_batch(group: RankGroup, batch: int, number: int, *, small: bool) -> str:
    size = number * ROWS_PER_DEVICE if small else good_batch(batch, number)
    reason = f"{ROWS_PER_DEVICE} for each of {number} GPUs" if small else f"the multiple of {number} nearest to yours"
    lines = [f"loader = DataLoader(dataset, batch_size={size}, shuffle=True, drop_last=True)  # {reason}"]
    process = group.main_process
    command = process.command if process is not None and process.command else ()
    if fixes.option(command, _BATCH_OPTIONS) is not None:
        script = fixes.script_of(fixes.with_option(command, _BATCH_OPTIONS, str(size)))
        lines = [fixes.shell_join(("python", *script)) + f"  # {reason}"]
    # Running a DataParallel script under torchrun would start several complete trainings: the wrapper has to change too.
    lines.append(f"# better still, one process per GPU: DistributedDataParallel, with torchrun --nproc-per-node={number}")
    return "\n".join(lines)
