"""What rules that judge each GPU by itself share.

gputop has not measured their thresholds on a GPU: the findings are at most "likely".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.findings.finding import Fact, Finding, Severity
from gputop.doctor.rules.support.rule import Judgement
from gputop.snapshot import Device


def each_card(evidence: Evidence, judge: Callable[[Evidence, Device], Judgement]) -> dict[str, Judgement]:
    """Return what ``judge`` says about each physical GPU that answers, by UUID."""
    return {device.uuid: judge(evidence, device) for device in cards(evidence) if device.state == "ok"}


def cards(evidence: Evidence) -> tuple[Device, ...]:
    """Return the physical GPUs of the newest snapshot."""
    return tuple(device for device in evidence.snapshot.devices if device.kind == "gpu") if evidence.snapshot else ()


def _runs_on(evidence: Evidence, device: Device) -> tuple[tuple[int, ...], str | None]:
    """Return the PIDs and the run id of the first run on the device."""
    group = next((group for group in evidence.groups if device.uuid in group.used), None)
    if group is None:
        return (), None
    pids = tuple(m.pid for m in group.members if m.pid is not None and any(u.device_uuid == device.uuid for u in m.uses))
    return pids, group.run_id


def finding_on(
    evidence: Evidence,
    device: Device,
    rule: str,
    severity: Severity,
    title: str,
    facts: Iterable[Fact],
    texts: tuple[str, str, str],
) -> Finding:
    """Return a finding about one GPU and the first run on it. ``texts``: its cause, its fix, and what would refute it."""
    cause, fix, refuted_by = texts
    pids, run = _runs_on(evidence, device)
    return Finding(rule, severity, "likely", title, tuple(facts), cause, fix, refuted_by, (device.uuid,), pids, run)
