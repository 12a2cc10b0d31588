"""A PCIe link that is narrower or slower than the card and the slot allow (I03)."""

from __future__ import annotations

from gputop.doctor.evidence.device_history import WORKING_PERCENT
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.machine.cards import cards, each_card, finding_on
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion
from gputop.snapshot import Device

HOLD_S = 30.0
"""A link that has saved power takes a moment to speed up (an estimate)."""


def narrow_link(evidence: Evidence) -> dict[str, Judgement]:
    """I03: while a GPU works, its PCIe link is narrower or slower than the card and the slot allow."""
    return each_card(evidence, _narrow_link)


I03 = Rule(
    id="I03",
    order=2202,
    family="hardware",
    title="The PCIe link is narrow or slow",
    severities=("warning", "info"),
    confidences=("likely",),
    needs=("NVML PCIe link", "utilization"),
    window_s=HOLD_S,
    every_s=RARELY_S,
    threshold=(f"width or generation below the possible maximum for {HOLD_S:.0f} s at {WORKING_PERCENT:.0f}% utilization"),
    estimated=True,
    mechanism="The card is not seated well, the slot has fewer lanes, a riser is worn, or the BIOS limits the link.",
    signature="While the GPU works, the link's width or generation is below what the card and the slot support.",
    look_alike="A link that drops to a low generation while the GPU idles; boards that divide their lanes among all slots.",
    fix="Reseat the card, try another slot, and check the BIOS settings.",
    judge_machine=narrow_link,
)


def _narrow_link(evidence: Evidence, device: Device) -> Judgement:
    load = evidence.load(device.uuid)
    if load is None or load.mean_percent < WORKING_PERCENT or not device.pcie_width_max:
        return None
    width, widest = device.pcie_width, device.pcie_width_max
    generation, newest = device.pcie_generation, device.pcie_generation_max
    narrow = width is not None and 0 < width < widest
    slow = generation is not None and newest is not None and 0 < generation < newest
    if not narrow and not slow:
        return None
    peers = [d for d in cards(evidence) if d.uuid != device.uuid and d.name == device.name and d.pcie_width]
    # If all are alike, the board divides its lanes among the slots: report only one.
    usual = bool(peers) and not slow and all(peer.pcie_width == width for peer in peers)
    if usual and any(peer.index < device.index for peer in peers):
        return None
    is_now = f"x{width}" if narrow else f"generation {generation}"
    should = f"x{widest}" if narrow else f"generation {newest}"
    facts = [
        Fact(f"PCIe link under load: generation {generation or 'N/A'}, x{width or 'N/A'}", [generation, width], "NVML"),
        Fact(f"possible: generation {newest or 'N/A'}, x{widest}", [newest, widest], "NVML"),
        Fact(f"mean utilization over {load.span_s:.0f} s: {load.mean_percent:.0f}%", round(load.mean_percent), "NVML"),
    ]
    if narrow and peers and not usual:
        facts.append(Fact(f"its peers: x{max(peer.pcie_width or 0 for peer in peers)}", len(peers), "NVML"))
    texts = (
        "The board gives every slot fewer lanes than the cards have."
        if usual
        else "The card is not seated well, the slot has fewer lanes, a riser is worn, or the BIOS limits the link.",
        f"nvidia-smi -q -i {device.index} | grep -A 12 'GPU Link Info'\n"
        + (f"sudo lspci -vv -s {_slot(device)} | grep -E 'LnkCap|LnkSta'\n" if device.pci_bus_id else "")
        + "# power off, reseat the card or try another slot; BIOS: PCIe generation and bifurcation",
        "The link widens under load. It matters only if batches or gradients saturate it.",
    )
    title = f"{words.gpu(device)} has a PCIe link of {is_now}; {should} is possible"
    finding = finding_on(evidence, device, "I03", "info" if usual else "warning", title, facts, texts)
    return Suspicion(finding, HOLD_S)


def _slot(device: Device) -> str:
    domain, _, rest = (device.pci_bus_id or "").partition(":")
    return f"{domain[-4:]}:{rest}".lower()
