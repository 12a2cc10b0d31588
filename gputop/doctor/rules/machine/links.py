"""Links between GPUs that are down (I11)."""

from __future__ import annotations

from collections import Counter

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion
from gputop.snapshot import Device

HOLD_S = 10.0
PEERS_MIN, PEERS_MIN_BESIDE_NONE = 2, 3
"""Number of other cards of the same model that must have the same number of links. A card without any link needs more of them:
two bridged cards next to a third card are a common setup.
"""


def links_down(evidence: Evidence) -> dict[str, Judgement]:
    """I11: a GPU has fewer active NVLinks than all other GPUs of its model."""
    devices = evidence.snapshot.devices if evidence.snapshot is not None else ()
    cards = [device for device in devices if device.kind == "gpu" and device.state == "ok" and not device.mig_enabled]
    return {device.uuid: _judged(evidence, device, cards) for device in cards if device.nvlinks_active is not None}


def _judged(evidence: Evidence, device: Device, cards: list[Device]) -> Judgement:
    peers = [card for card in cards if card.uuid != device.uuid and card.name == device.name]
    links = Counter(card.nvlinks_active for card in peers)
    active = device.nvlinks_active or 0
    if len(peers) < (PEERS_MIN if active else PEERS_MIN_BESIDE_NONE) or len(links) != 1 or None in links:
        return None
    (usual,) = links
    if usual is None or active >= usual:
        return None
    groups = [group for group in evidence.groups if device.uuid in group.used and len(group.used) > 1]
    run = groups[0].run_id if groups else None
    facts = [
        Fact(f"{words.gpu(device)} has {words.count(active, 'active NVLink')}", active, "NVML"),
        Fact(f"each of {len(peers)} other GPUs of its model has {usual}", usual, "NVML"),
    ]
    if groups:
        facts.append(Fact(f"a run uses it with {len(groups[0].used) - 1} others", len(groups[0].used), "NVML"))
    finding = Finding(
        id="I11",
        severity="warning" if groups else "info",
        # A card without any link may have no bridge, or the cloud instance may have only some of the links.
        confidence="likely" if active else "possible",
        title=f"{words.gpu(device)} has {active} of {usual} NVLinks: communication between the GPUs waits for it",
        evidence=tuple(facts),
        cause="A link failed its training or was switched off after errors. NCCL then has less bandwidth on the remaining "
        "links, or falls back to PCIe, and every rank waits for the slowest path in each step.",
        fix=f"nvidia-smi nvlink --status -i {device.index}; nvidia-smi nvlink -e -i {device.index}  # its links and their "
        "errors\nsudo dmesg --ctime | grep -i -E 'nvlink|fabric|xid'; systemctl status nvidia-fabricmanager\n# end the "
        f"jobs on it, then: sudo nvidia-smi --gpu-reset -i {device.index}; if the link fails again: leave the GPU out "
        "(CUDA_VISIBLE_DEVICES) and have it repaired",
        refuted_by="nvidia-smi topo -m shows the same links for all of these GPUs.",
        devices=(device.uuid,),
        run=run,
    )
    return Suspicion(finding, HOLD_S)


I11 = Rule(
    id="I11",
    order=2205,
    family="hardware",
    title="NVLinks of a GPU are down",
    severities=("warning", "info"),
    confidences=("likely", "possible"),
    needs=("NVML NVLink state of all GPUs",),
    window_s=HOLD_S,
    every_s=RARELY_S,
    threshold=(
        f"fewer active NVLinks than each of at least {PEERS_MIN} other GPUs of its model, which all have the same number, "
        f"for {HOLD_S:.0f} s (possible if it has none and {PEERS_MIN_BESIDE_NONE} others have links; information if no run "
        "uses it together with others)"
    ),
    estimated=True,
    hides=("E06",),
    mechanism="NCCL leaves out a link that failed its training. Communication in each step waits for the slowest path.",
    signature="One GPU reports fewer active links than the others of its model.",
    look_alike="GPUs in bridged pairs; a link that is down on all of them alike; cards without NVLink.",
    fix="Check the link's errors, reset the GPU, and check the fabric manager. If the link fails again, have it repaired.",
    judge_machine=links_down,
)
