"""A network interface that carries the traffic of a run over machines and is faulty by itself (I12)."""

from __future__ import annotations

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.findings.commands import filled
from gputop.doctor.findings.finding import Confidence, Fact, Finding, Severity
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion
from gputop.network.records import Interface
from gputop.network.words import speed_text

HOLD_S = 10.0
CHANGES_MIN = 2
"""A link that went and came back."""
ERRORS_MIN = 100
"""Per minute; a good cable has none for days (our choice)."""
RDMA_LOSS_MIN = 1e-4
"""RDMA expects a network without loss: one lost packet makes the sender repeat all packets in flight (our choice)."""
DOWN_STATES = ("down", "lowerlayerdown", "gone", "notpresent")


def faulty_interfaces(evidence: Evidence) -> dict[str, Judgement]:
    """I12: an interface of a run over machines has half duplex, an unsteady link, errors, or a bond that is incomplete."""
    if evidence.snapshot is None:
        return {}
    own = [each for each in evidence.snapshot.interfaces if each.hostname is None]
    used = {path.interface for path in evidence.snapshot.paths if path.hostname is None and path.interface is not None}
    carrying = [each for each in own if each.name in used or each.master in used or each.kind == "rdma"]
    return {each.name: _judged(each, own) for each in carrying}


_RDMA = "ibstat {adapter}; perfquery -x  # state, rate, error counters"
_LINK = "ethtool {name}; ethtool -S {name} | grep -i -E 'err|crc|drop'; sudo dmesg --ctime | grep -i {name}"
_BOND = "\ncat /proc/net/bonding/{bond}"
_CABLE = "\n# another cable, transceiver or port of the switch; duplex and speed: automatic at both ends"


def _judged(interface: Interface, own: list[Interface]) -> Judgement:
    name, where = interface.name, "/sys/class/infiniband" if interface.kind == "rdma" else "/sys/class/net"
    severity: Severity = "warning"
    confidence: Confidence = "likely"
    changes, errors, window_s = interface.link_changes, interface.errors, interface.window_s
    lost, sent = interface.lost_packets, interface.sent_packets
    members = [each for each in own if each.master == interface.master]
    if interface.state in DOWN_STATES and interface.master and any(each.state == "up" for each in members):
        title = f"Network: {name}, a member of {interface.master}, is {interface.state}"
        fact = Fact(f"{name} is {interface.state}, another member of {interface.master} is up", interface.state, where)
        cause = "A bond continues on its other members, with less bandwidth if they share the traffic."
    elif interface.duplex == "half":
        confidence = "certain"
        title = f"Network: {name} works at half duplex, {speed_text(interface.speed_mbit_per_s)}"
        fact = Fact(f"{name} works at half duplex, {speed_text(interface.speed_mbit_per_s)}", "half", where)
        cause = "It can either send or receive. Ranks do both at once, so that they wait and packets collide."
    elif changes is not None and changes >= CHANGES_MIN:
        title = f"Network: the link of {name} comes and goes"
        fact = Fact(f"the link of {name} changed {changes} times in the last ten minutes", changes, where)
        cause = "While the link is away, all ranks wait; TCP waits longer each time before it tries again."
    elif errors is not None and errors >= ERRORS_MIN and window_s:
        title = f"Network: {name} reports {errors} errors in {window_s:.0f} s"
        fact = Fact(f"{name}: {errors} packets with errors in the last {window_s:.0f} s", errors, where)
        cause = "Damaged packets are dropped and sent again, and every rank waits for them."
    elif lost is not None and sent and lost >= ERRORS_MIN and lost >= RDMA_LOSS_MIN * sent and window_s:
        title = f"Network: {name} repeats {lost / sent:.2%} of its packets"
        fact = Fact(f"{name}: {lost} repeats for {sent} packets in the last {window_s:.0f} s", lost, f"{where} hw_counters")
        cause = "Packets are lost on the way, or dropped by a full switch. RDMA repeats all that it sent since the lost one."
    else:
        return None
    values = {"name": name, "adapter": name.partition("/")[0]} | ({"bond": interface.master} if interface.master else {})
    ask = _RDMA if interface.kind == "rdma" else _LINK
    finding = Finding(
        id="I12",
        severity=severity,
        confidence=confidence,
        title=title,
        evidence=(fact,),
        cause=cause,
        fix=filled(f"{ask}{_BOND if interface.master else ''}{_CABLE}", values),
        refuted_by="Somebody changed the link on purpose in the last minutes, and it is quiet since.",
    )
    return Suspicion(finding, HOLD_S)


I12 = Rule(
    id="I12",
    order=2206,
    family="hardware",
    title="A network interface of the run is faulty",
    severities=("warning",),
    confidences=("certain", "likely"),
    needs=("/sys/class/net, /sys/class/infiniband, while a run has ranks on other machines",),
    window_s=HOLD_S,
    every_s=RARELY_S,
    estimated=True,
    threshold=(
        "an interface that carries connections of ranks to other machines, a member of its bond, or an RDMA port: half duplex "
        f"(certain), a link that changed {CHANGES_MIN} times in ten minutes, {ERRORS_MIN} errors in a minute, "
        f"{RDMA_LOSS_MIN:.2%} of an RDMA port's packets repeated, or a member of a bond that is down while another "
        f"one is up, for {HOLD_S:.0f} s"
    ),
    mechanism="Damaged or missing packets are sent again, and every rank waits for them in each step.",
    signature="The kernel counts errors or changes of the link, or reports half duplex or a missing member of a bond.",
    look_alike="An interface that carries no traffic of a run; a port that nobody has plugged in; a link that came up once.",
    fix="Check ethtool or ibstat and the kernel's log; replace the cable, transceiver or port.",
    judge_machine=faulty_interfaces,
)
