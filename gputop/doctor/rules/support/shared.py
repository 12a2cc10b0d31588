"""Queries and facts that several rules share."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact
from gputop.snapshot import Device


def siblings(evidence: Evidence, group: RankGroup) -> bool:
    """Return whether the same user has another run on other devices: a sweep in which each run has its share on purpose."""
    pool = {device.uuid for device in group.pool}
    return any(
        other.key != group.key and other.uids & group.uids and (other.used - group.used) & pool for other in evidence.groups
    )


def sees(who: str, group: RankGroup) -> Fact:
    """Return how many devices the group sees, and through which mask."""
    masks = ", ".join(dict.fromkeys(group.masks))
    unmasked = "at launch" in group.visible_source and not masks
    text = f"{who} {words.count(group.visible_count or 0, 'GPU')}"
    name = "GPUTOP_VIRTUAL_DEVICES" if group.virtual else "CUDA_VISIBLE_DEVICES"
    how = f": {name}={masks}" if masks else f": {name} is not set" if unmasked else ""
    return Fact(text + how, group.visible_count, group.visible_source.removeprefix(f"{name} at launch ").strip("()"))


def utilization(evidence: Evidence, devices: Sequence[Device]) -> list[Fact]:
    """Return one fact with the mean utilization of each device; none while it is unknown."""
    loads = [(device, evidence.load(device.uuid)) for device in devices]
    known = [(device, load) for device, load in loads if load is not None]
    if not known:
        return []
    span = max(load.span_s for _, load in known)
    values = [round(load.mean_percent, 1) for _, load in known]
    text = " / ".join(f"{value:.0f}" for value in values)
    names = words.gpus([device for device, _ in known])
    source = "virtual GPU readings" if known[0][0].kind == "virtual" else "NVML"
    return [Fact(f"mean utilization of {names} over {span:.0f} s: {text}%", values, source)]
