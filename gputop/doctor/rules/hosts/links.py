"""Hosts of one run whose network interfaces differ (K07), and networks that are full while ranks wait (K08)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.facts.ddp import communication_share
from gputop.doctor.findings.commands import filled
from gputop.doctor.findings.finding import Confidence, Fact, Finding
from gputop.doctor.rules.hosts.traffic import (
    RDMA_USED_MBIT_PER_S,
    WINDOW_MIN_S,
    Exchange,
    exchanges,
    interfaces_in_use,
    interfaces_of,
    paths_between,
)
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion
from gputop.network.records import Interface
from gputop.network.words import mbit_per_s, rate_text, speed_text
from gputop.snapshot import Rank

SLOWER_SHARE = 0.75
"""Speeds of interfaces differ by a factor of 2 or more; bonds that lost one of four members by this."""
BUSY_SHARE = 0.5
"""An interface that is less busy than this, on average over computing and communicating, hardly delays anything (our
choice)."""
DOWN_STATES = ("down", "init", "armed", "gone")
FULL_SHARE, SENDING_SHARE = 0.8, 0.8
"""Of a minute in which ranks also compute: with both, the network works nearly all the time (our choice)."""
OWN_SHARE_MIN = 0.5
EXPOSED_MIN, EXPOSED_LIKELY = 0.1, 0.2
"""The second is the limit of E06. Below the first, computing hides the communication."""
STEPS = 20
"""The step time of a rank is the median of this many newest steps."""
HOLD_S = 15.0
"""How long either rule must hold (our choice)."""
STEP = "step_s"

Links = Mapping[str, Sequence[Interface]]


def unequal_links(evidence: Evidence) -> Mapping[str, Judgement]:
    """K07: the interface that carries the run's traffic is slower on one host than on the others, or an RDMA port is down."""
    return {
        each.id: _missing(evidence, each) or _unequal(each.id, _links(evidence, each.hosts)) for each in exchanges(evidence)
    }


def _links(evidence: Evidence, hosts: Mapping[str, Sequence[Rank]]) -> Links:
    return {host: interfaces_in_use(evidence, host) for host in hosts}


def slower_link(links: Links) -> tuple[str, Interface, int] | None:
    """Return the host whose interface is slower than that of most others, that interface, and their speed; None if none is."""
    for kinds in (("rdma",), ("ethernet", "bond", "vlan", "infiniband")):
        own = {host: next((each for each in used if each.kind in kinds), None) for host, used in links.items()}
        speeds = {host: each.speed_mbit_per_s for host, each in own.items() if each is not None}
        known = [speed for speed in speeds.values() if speed is not None and speed > 0]
        if len(known) < len(links) or len(known) < 2:
            continue
        host = min(speeds, key=lambda name: speeds[name] or 0)
        slow, usual, interface = min(known), max(known), own[host]
        if slow < SLOWER_SHARE * usual and 2 * known.count(usual) >= len(known) and interface is not None:
            return host, interface, usual
    return None


def _missing(evidence: Evidence, exchange: Exchange) -> Judgement:
    """Return that an RDMA port is down on one host, and carries traffic on all others."""
    used = {
        host: {each.name for each in links if each.kind == "rdma"} for host, links in _links(evidence, exchange.hosts).items()
    }
    for host in exchange.hosts:
        others = [names for name, names in used.items() if name != host]
        down = [each for each in interfaces_of(evidence, host) if each.kind == "rdma" and each.state in DOWN_STATES]
        port = next((each for each in down if others and all(each.name in names for names in others)), None)
        if port is None:
            continue
        where = "/sys/class/infiniband"
        finding = Finding(
            id="K07",
            severity="warning",
            confidence="likely",
            title=f"RDMA port {port.name} of {host} is {port.state}; on the other hosts it carries traffic",
            evidence=(
                Fact(f"{host}: {port.name} is {port.state}", port.state, where),
                *(Fact(f"{name}: {port.name} carries traffic", port.name, where) for name in used if name != host),
            )[:8],
            cause="The ranks of this host share the remaining ports, or fall back to TCP, and all others wait for them.",
            fix=filled(_PORT_FIX, {"host": host, "adapter": port.name.partition("/")[0]}),
            refuted_by="The port is meant for something else on this host.",
            run=exchange.id,
        )
        return Suspicion(finding, HOLD_S)
    return None


_PORT_FIX = (
    "ssh {host} ibstat {adapter}; ssh {host} sminfo  # state, physical state; the subnet manager\n"
    "# cable, transceiver, port of the switch. Until then, the same ports on all hosts: NCCL_IB_HCA=^{adapter}"
)
_RDMA_LINK = "ssh {host} ibstat {adapter}  # rate, state, physical state"
_LINK = "ssh {host} ethtool {interface}  # speed, duplex, what the other end offers"
_LINK_FIX = (
    "\n# another cable, transceiver or port of the switch; for a bond: cat /proc/net/bonding/{interface}\n"
    "# if it is the wrong interface: NCCL_SOCKET_IFNAME=eth1 (gloo: GLOO_SOCKET_IFNAME), NCCL_IB_HCA=mlx5_0"
)


def _unequal(run_id: str, links: Links) -> Judgement:
    found = slower_link(links)
    if found is None:
        return None
    host, interface, usual = found
    speed = speed_text(interface.speed_mbit_per_s)
    others = {name: used for name, used in links.items() if name != host}
    facts = [
        Fact(f"{host}: {interface.name} runs at {speed}", interface.speed_mbit_per_s, "/sys/class/net, /sys/class/infiniband"),
        *(
            Fact(f"{name}: {each.name} runs at {speed_text(each.speed_mbit_per_s)}", each.speed_mbit_per_s, "/sys/class/net")
            for name, used in others.items()
            for each in used
            if (each.kind == "rdma") == (interface.kind == "rdma")
        ),
    ][:8]
    busy = busy_share(interface)
    if busy is not None:
        facts.append(Fact(f"{interface.name} of {host} is {busy:.0%} busy on average", round(busy, 3), "counters"))
    matters = busy is not None and busy >= BUSY_SHARE
    values = {"host": host, "interface": interface.name, "adapter": interface.name.partition("/")[0]}
    finding = Finding(
        id="K07",
        severity="warning" if matters else "info",
        confidence="likely" if matters else "certain",
        title=f"Slow link: {interface.name} of {host} runs at {speed}, those of the other hosts at {speed_text(usual)}",
        evidence=tuple(facts),
        cause=_UNEQUAL_CAUSE,
        fix=filled((_RDMA_LINK if interface.kind == "rdma" else _LINK) + _LINK_FIX, values),
        refuted_by="The hosts are meant to have unequal networks, or the run exchanges too little for that to matter.",
        run=run_id,
    )
    return Suspicion(finding, HOLD_S)


def busy_share(interface: Interface) -> float | None:
    """Return the share of its speed that an interface carries, in the busier direction; None if it is not known."""
    rates = [mbit_per_s(count, interface.window_s) for count in (interface.received_bytes, interface.sent_bytes)]
    known = [rate for rate in rates if rate is not None]
    if not known or not interface.speed_mbit_per_s or (interface.window_s or 0.0) < WINDOW_MIN_S:
        return None
    return max(known) / interface.speed_mbit_per_s


_UNEQUAL_CAUSE = (
    "In each step, every host sends as much as the others, so the slowest link sets the pace for all. An interface agrees on a "
    "lower speed if a cable, a transceiver or a port is damaged or of another kind, or if a member of a bond is down."
)

K07 = Rule(
    id="K07",
    order=2944,
    family="hosts",
    title="The network interface of one host is slower",
    severities=("warning", "info"),
    confidences=("certain", "likely"),
    needs=("speed and traffic of the interfaces of all hosts",),
    window_s=WINDOW_MIN_S + HOLD_S,
    every_s=RARELY_S,
    estimated=True,
    threshold=(
        f"the interface that carries the ranks' connections, or an RDMA port with at least {RDMA_USED_MBIT_PER_S:.0f} Mb/s in "
        f"both directions, has less than {SLOWER_SHARE} of the speed that at least half of the hosts have, and is "
        f"{BUSY_SHARE:.0%} busy on average (likely); if it is less busy: certain, information; or an RDMA port is down "
        "that all other hosts use (likely)"
    ),
    hides=("K05", "K06", "K08", "E06"),
    hides_if=lambda finding: finding.severity == "warning",
    hides_when="the interface is busy, or down",
    mechanism=_UNEQUAL_CAUSE,
    signature="The hosts' interfaces have different speeds, and the slower one is busy.",
    look_alike="Another, slower interface of the host, which carries none of the ranks' traffic; virtual machines and "
    "containers, whose interfaces have no speed; bonds, whose members have less than the bond.",
    fix="Compare ethtool or ibstat on the hosts, and replace what made the link agree on less.",
    judge_machine=unequal_links,
)


def full_network(evidence: Evidence) -> Mapping[str, Judgement]:
    """K08: the network works nearly all the time, and the ranks wait for it."""
    return {each.id: _full(evidence, each) for each in exchanges(evidence)}


def _full(evidence: Evidence, exchange: Exchange) -> Judgement:
    hosts = exchange.hosts
    shown: list[Fact] = []
    for host in hosts:
        fact = _full_on(evidence, host, hosts)
        if fact is None:
            return None
        shown.append(fact)
    ranks = [rank for held in hosts.values() for rank in held]
    shares = [communication_share(rank, _step_s(evidence, exchange.id, rank)) for rank in ranks]
    known = [share for share in shares if share is not None]
    exposed = min(known) if known and len(known) == len(shares) else None
    if exposed is not None and exposed < EXPOSED_MIN:
        return None  # The network is full, but computing hides that.
    confidence: Confidence = "likely" if exposed is not None and exposed >= EXPOSED_LIKELY else "possible"
    facts = shown[:6]
    if exposed is not None:
        facts.append(Fact(f"each rank waits {exposed:.0%} of a step or more for gradients", round(exposed, 3), "journal: ddp"))
    finding = Finding(
        "K08",
        "warning",
        confidence,
        f"The network between the {len(hosts)} hosts sets the pace: it works nearly all the time",
        tuple(facts),
        _FULL_CAUSE,
        _FULL_FIX,
        "Steps take as long with twice the batch: then computing sets the pace.",
        run=exchange.id,
    )
    return Suspicion(finding, HOLD_S)


def _full_on(evidence: Evidence, host: str, hosts: Mapping[str, Sequence[Rank]]) -> Fact | None:
    """Return what shows that the network of a host works nearly all the time; None if it does not, or if that is unknown."""
    paths = [path for path in paths_between(evidence, hosts.keys()) if path.sender == host and path.is_observed]
    sent = sum(path.record.sent_bytes or 0 for path in paths)
    for interface in interfaces_in_use(evidence, host):
        busy = busy_share(interface)
        own = interface.kind == "rdma" or sent >= OWN_SHARE_MIN * (interface.sent_bytes or 0)
        if busy is not None and busy >= FULL_SHARE and own:
            both = [interface.received_bytes, interface.sent_bytes]
            rate = rate_text(max(count or 0 for count in both), interface.window_s)
            speed = speed_text(interface.speed_mbit_per_s)
            return Fact(f"{host}: {interface.name} carries {rate} of {speed}", round(busy, 3), "counters")
    shares = [(path.sending_share, path) for path in paths if path.receiver_share <= 0.5 and path.sending_share is not None]
    share, path = max(shares, key=lambda each: each[0] or 0.0, default=(None, None))
    if share is None or path is None or share < SENDING_SHARE:
        return None
    text = f"{host}: data for {path.receiver} waits {share:.0%} of the time, at {rate_text(sent, path.record.window_s)}"
    return Fact(text, round(share, 3), "TCP (sock_diag)")


def _step_s(evidence: Evidence, run_id: str, rank: Rank) -> float | None:
    newest = evidence.series(run_id, rank.rank, STEP)[-STEPS:]
    return median(newest.values) if len(newest) and newest.finite() else None


_FULL_CAUSE = (
    "The ranks exchange their gradients faster than they compute them, or the network is slow for this model: it works "
    "nearly all the time, and every step waits for it."
)
_FULL_FIX = (
    "# fewer exchanges: several backward passes per step\n"
    "with model.no_sync(): ...  # all but the last backward pass of a step\n"
    "# half the bytes\n"
    "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
    "model.register_comm_hook(None, default_hooks.bf16_compress_hook)\n"
    "# is it the fastest network of the hosts? NCCL_DEBUG=INFO prints the one in use: NCCL_SOCKET_IFNAME, NCCL_IB_HCA; ibstat"
)

K08 = Rule(
    id="K08",
    order=2948,
    family="hosts",
    title="The network between the hosts is full",
    severities=("warning",),
    confidences=("likely", "possible"),
    needs=("traffic of the interfaces and of the ranks' connections, on all hosts", "journal: ddp, step_s"),
    window_s=WINDOW_MIN_S + HOLD_S,
    every_s=RARELY_S,
    estimated=True,
    threshold=(
        f"on every host, the interface carries {FULL_SHARE:.0%} of its speed, most of it the ranks' own, or data waits "
        f"{SENDING_SHARE:.0%} of the time to be sent or acknowledged, over {WINDOW_MIN_S:.0f} to 60 s; likely if each rank "
        f"waits {EXPOSED_LIKELY:.0%} of a step for gradients, nothing if less than {EXPOSED_MIN:.0%}"
    ),
    hides=("E06",),
    mechanism=_FULL_CAUSE,
    signature="The interfaces of all hosts are full, or their connections never run dry.",
    look_alike="K05 and K07 (the link of one host is slow, and the others wait for it); a download or a network file system on "
    "the same interface; communication that computing hides.",
    fix="Exchange less often (no_sync), or fewer bytes (bf16_compress_hook), or use a faster network of the hosts.",
    judge_machine=full_network,
)
