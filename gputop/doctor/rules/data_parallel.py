"""nn.DataParallel: a batch smaller than the devices (B01), or one that does not divide among them (B02)."""

from __future__ import annotations

import shlex

from gputop.doctor import fixes, stated, words
from gputop.doctor.evidence import Evidence
from gputop.doctor.finding import Abstained, Fact, Finding
from gputop.doctor.jobs import Job, Member
from gputop.doctor.rules.rule import Judgement, Rule, Suspicion
from gputop.doctor.rules.shared import utilization
from gputop.snapshot import Device

CALLS_MIN = 20
SHARE_MIN = 0.8
"""Only the last batch of an epoch may be small: 80 % of 20 calls (catalogue, B01)."""
ROWS_PER_DEVICE = 32
"""The batch per device that a fix proposes: a start, not a rule."""
_BATCH_OPTIONS = ("--batch-size", "--batch_size", "--bs", "--batch")


def split_rows(batch: int, devices: int) -> tuple[int, ...]:
    """Return the rows that each device gets of a batch, as ``torch.chunk`` cuts it: fewer pieces when they run out."""
    if batch <= 0 or devices <= 0:
        return ()
    piece = -(-batch // devices)
    pieces = -(-batch // piece)
    return (*[piece] * (pieces - 1), batch - piece * (pieces - 1))


def good_batch(batch: int, devices: int) -> int:
    """Return the multiple of ``devices`` that lies nearest to ``batch``, at least one row for each."""
    return max(devices, (batch + devices // 2) // devices * devices)


def batch_too_small(evidence: Evidence, job: Job) -> Judgement:
    """B01: most calls have fewer rows than there are devices."""
    return _judge(evidence, job, "B01")


def batch_does_not_divide(evidence: Evidence, job: Job) -> Judgement:
    """B02: most calls have rows enough, but leave a device without any or with far fewer than the others."""
    return _judge(evidence, job, "B02")


def _judge(evidence: Evidence, job: Job, rule: str) -> Judgement:
    for member in job.members:
        fact = stated.data_parallel(member.journal)
        if fact is None or fact.devices < 2:
            continue
        calls, underused, uneven = evidence.recent_calls(job, member, CALLS_MIN)
        batch = fact.batch_rows if fact.batch_rows is not None else sum(fact.rows)
        small = 0 < batch < fact.devices
        if calls < CALLS_MIN or batch <= 0 or small != (rule == "B01"):
            continue
        bad = underused if small else max(underused, uneven)
        if bad >= SHARE_MIN * calls:
            return Suspicion(_finding(evidence, job, member, fact, (calls, bad), batch, underused >= SHARE_MIN * calls))
    return _unseen(job, rule)


def _unseen(job: Job, rule: str) -> Judgement:
    """One process on several GPUs may be DataParallel; only the tracking sees the batch."""
    wraps = any(stated.data_parallel(member.journal) is not None for member in job.members)
    if rule == "B01" and len(job.members) == 1 and len(job.used) > 1 and not wraps:
        why = "One process works on several GPUs; how it divides a batch cannot be seen from outside."
        return Abstained(rule, why, "start it with gputop run, or import gputop in the script", job.run_id)
    return None


def _finding(
    evidence: Evidence,
    job: Job,
    member: Member,
    fact: stated.DataParallelFact,
    counted: tuple[int, int],
    batch: int,
    underused: bool,
) -> Finding:
    number = fact.devices
    rows = fact.rows or split_rows(batch, number)
    used = sum(row > 0 for row in rows)
    devices = _devices(job, fact)
    small = batch < number
    good = good_batch(batch, number)
    shown = " / ".join(str(row) for row in (*rows, *[0] * (number - len(rows))))
    calls, bad = counted
    facts = [
        Fact(f"batch of {words.count(batch, 'row')} over {number} devices: {shown} rows", list(rows), "journal"),
        Fact(f"so in {bad} of the last {calls} calls", bad, "journal"),
    ]
    if fact.module:
        facts.append(Fact(f"DataParallel wraps {fact.module}", fact.module, "journal"))
    facts += utilization(evidence, devices)
    if small or underused:
        title = f"DataParallel: batch of {batch} feeds {used} of {number} GPUs"
    else:
        title = f"DataParallel: {batch} rows split unevenly, {max(rows)} to {min(rows)}"
    return Finding(
        id="B01" if small else "B02",
        severity="error" if small else "warning",
        confidence="certain",
        title=title,
        evidence=tuple(facts),
        cause="nn.DataParallel cuts each batch into pieces of ceil(batch / devices) rows until the rows run out; "
        + ("devices without a piece do nothing." if used < number else "the device with most rows sets the pace."),
        fix=_fix(job, number, good, small),
        refuted_by=f"{(1 - SHARE_MIN) * 100:.0f} % or more of the calls give every device an equal share.",
        devices=tuple(device.uuid for device in devices),
        pids=(member.pid,) if member.pid is not None else (),
        run=job.run_id,
    )


def _devices(job: Job, fact: stated.DataParallelFact) -> list[Device]:
    """Return the devices behind the wrapper's ids: indices into what the process sees; its used devices if that is unknown."""
    seen = job.visible or ()
    chosen = [seen[position] for position in fact.device_ids if position < len(seen)]
    if len(chosen) == fact.devices:
        return chosen
    return [device for device in job.pool if device.uuid in job.used]


def _fix(job: Job, number: int, good: int, small: bool) -> str:
    size = number * ROWS_PER_DEVICE if small else good
    reason = f"{ROWS_PER_DEVICE} for each of {number} GPUs" if small else f"a multiple of {number}, nearest to yours"
    lines = [f"loader = DataLoader(dataset, batch_size={size}, shuffle=True, drop_last=True)  # {reason}"]
    process = job.main_process
    command = process.command if process is not None and process.command else ()
    if fixes.option(command, _BATCH_OPTIONS) is not None:
        script = fixes.script_of(fixes.with_option(command, _BATCH_OPTIONS, str(size)))
        lines = [shlex.join(("python", *script)) + f"  # {reason}"]
    lines.append(f"# better still, one process for each GPU (DistributedDataParallel): {fixes.launch_line(job, number)}")
    return "\n".join(lines)


_COUNTED = f"in {SHARE_MIN:.0%} of at least {CALLS_MIN} calls within two minutes (catalogue B01, B02)"
RULES = (
    Rule("B01", "data_parallel", ("journal: data_parallel",), 0.0, f"rows < devices {_COUNTED}", batch_too_small),
    Rule(
        "B02",
        "data_parallel",
        ("journal: data_parallel",),
        0.0,
        f"a device without rows, or least/most rows below 0.75, {_COUNTED}",
        batch_does_not_divide,
    ),
)
