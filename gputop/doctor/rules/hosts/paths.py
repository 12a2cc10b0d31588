"""Paths between the hosts of a run that are slow (K05) or lose packets (K06)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.findings.commands import filled
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.hosts.traffic import (
    WINDOW_MIN_S,
    Exchange,
    Path,
    common_place,
    exchanges,
    paths_between,
    slowest_paths,
)
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion
from gputop.network.words import rate_text, speed_text
from gputop.snapshot import Rank

SLOWER_TIMES = 2.5
"""Equal paths differ by up to a third. If the path back is limited, acknowledgements wait behind its data, so a path is at most
4 times as fast as the one back (measured between two network namespaces, on a busy machine).
"""
SENDING_SHARE_MIN = 0.3
"""Below this, a slow path costs too little time to be worth fixing."""
RECEIVER_SHARE_MAX = 0.5
LOSS_MIN, LOSS_COUNT_MIN = 0.01, 100
"""TCP halves its rate at every loss. In a data center, less than 0.1% is usual (our choice)."""
LOSS_TIMES = 5.0
"""A host is reported if its paths lose this many times as much as all others (our choice)."""
HOLD_S = 15.0
"""How long either rule must hold, on top of the window (our choice)."""
SHOWN_MOST = 6
"""How many paths the evidence lists."""


def slow_paths(evidence: Evidence) -> Mapping[str, Judgement]:
    """K05: what one host of a run sends or receives takes several times as long as on the paths between the others."""
    return {each.id: _slow(evidence, each) for each in exchanges(evidence)}


def slow_link(evidence: Evidence, hosts: Mapping[str, Sequence[Rank]]) -> tuple[str, str, list[Path], float] | None:
    """Return the host with slow paths, their direction, these paths, and the speed of the slowest other one."""
    found = slowest_paths(paths_between(evidence, hosts.keys()), SLOWER_TIMES)
    if found is None:
        return None
    slow, others = found
    if any((path.sending_share or 0.0) < SENDING_SHARE_MIN or path.receiver_share > RECEIVER_SHARE_MAX for path in slow):
        return None
    place = common_place(slow)
    return (*place, slow, others) if place is not None else None


def _slow(evidence: Evidence, exchange: Exchange) -> Judgement:
    found = slow_link(evidence, exchange.hosts)
    if found is None:
        return None
    host, direction, slow, others = found
    speed = max(path.speed_mbit_per_s or 0.0 for path in slow)
    facts = [
        *(
            Fact(
                f"{path.text}: {speed_text(path.speed_mbit_per_s)} while data waits, which is {path.sending_share or 0.0:.0%} "
                "of the time",
                round(path.speed_mbit_per_s or 0.0, 1),
                "TCP (sock_diag)",
            )
            for path in slow[:SHOWN_MOST]
        ),
        Fact(f"all other paths between the hosts: {speed_text(others)} or more", round(others, 1), "TCP (sock_diag)"),
    ]
    if len(slow) == 1:
        where = f"the path from {slow[0].text}"
        verb = "carries"
    else:
        where, verb = _place(host, direction), "carries" if direction in _LINKS else "passes at"
    title = f"Slow network: {where} {verb} {speed_text(speed)}, the others {speed_text(others)} or more"
    finding = Finding(
        "K05", "warning", "likely", title, tuple(facts), _SLOW_CAUSE, _fix(slow[0]), _SLOW_REFUTED, run=exchange.id
    )
    return Suspicion(finding, HOLD_S)


_LINKS = ("to and from", "between")


def _place(host: str, direction: str) -> str:
    if direction == "between":
        return f"the link between {host}"
    return (
        f"the link of {host}" if direction == "to and from" else f"what {host} {'sends' if direction == 'from' else 'receives'}"
    )


def _fix(path: Path) -> str:
    return _filled(
        path,
        "ssh {sender} ethtool {interface}  # speed and duplex; the same on {receiver}, and compare the other hosts\n"
        "ssh {sender} 'ip -s -s link show {interface}; tc -s qdisc show dev {interface}'  # drops, limits\n"
        "iperf3 -s  # on {receiver}; then, while nothing trains: ssh {sender} iperf3 -c {address}\n"
        "# another network, the same on all hosts: NCCL_SOCKET_IFNAME=eth1 (gloo: GLOO_SOCKET_IFNAME), NCCL_IB_HCA=mlx5_0",
    )


def _filled(path: Path, template: str) -> str:
    record = path.record
    values = {"interface": record.interface, "address": record.address, "sender": path.sender, "receiver": path.receiver}
    return filled(template, {name: value for name, value in values.items() if value is not None})


_SLOW_CAUSE = (
    "In each step, every host sends its gradients to others and waits for theirs: the slowest path sets the pace for all. The "
    "sender, the receiver, or a switch between them limits this one."
)
_SLOW_REFUTED = "iperf3 between these hosts, while nothing trains, is as fast as between the others."

K05 = Rule(
    id="K05",
    order=2946,
    family="hosts",
    title="The network of one host is slow",
    severities=("warning",),
    confidences=("likely",),
    needs=("the kernel's account of the ranks' TCP connections, on all hosts",),
    window_s=WINDOW_MIN_S + HOLD_S,
    every_s=RARELY_S,
    estimated=True,
    threshold=(
        f"paths from or to one host carry less than {1 / SLOWER_TIMES:.0%} of what all other paths do while data waits, it "
        f"waits {SENDING_SHARE_MIN:.0%} of the time, and the receiver reads in time, over {WINDOW_MIN_S:.0f} to 60 s, for "
        f"{HOLD_S:.0f} s"
    ),
    hides=("K08", "E06"),
    mechanism=_SLOW_CAUSE,
    signature="On one path, data waits to be sent or acknowledged for long, and less of it passes than on the others.",
    look_alike="K07 (the interface itself has a lower speed); K06 (packets are lost); K01 (a host computes slowly); a download "
    "or a network file system, whose connections are not the ranks'; a receiver that does not read; hosts on one machine, or "
    "in one rack, next to others that are farther away.",
    fix="Compare the interfaces with ethtool and the path with iperf3, or choose another network (NCCL_SOCKET_IFNAME).",
    judge_machine=slow_paths,
)


def lossy_paths(evidence: Evidence) -> Mapping[str, Judgement]:
    """K06: packets that one host of a run sends to the others, or gets from them, are lost."""
    return {each.id: _lossy(evidence, each) for each in exchanges(evidence)}


def _lossy(evidence: Evidence, exchange: Exchange) -> Judgement:
    shares = [(path, share) for path in paths_between(evidence, exchange.hosts) if (share := path.loss_share) is not None]
    lossy = [
        (path, share) for path, share in shares if share >= LOSS_MIN and (path.record.lost_segments or 0) >= LOSS_COUNT_MIN
    ]
    if not lossy:
        return None
    names = {id(path) for path, _ in lossy}
    most = max((share for path, share in shares if id(path) not in names), default=0.0)
    apart = len(lossy) < len(shares) and most * LOSS_TIMES <= min(share for _, share in lossy)
    place = common_place(path for path, _ in lossy) if apart else None
    if place is None:
        where = "between the hosts"
    elif len(lossy) == 1:
        where = f"on the way from {lossy[0][0].text}"
    else:
        where = f"{'on' if place[1] in _LINKS else 'of'} {_place(*place)}"
    least, worst = min(share for _, share in lossy), max(share for _, share in lossy)
    range_text = f"{worst:.1%}" if least == worst else f"{least:.1%} to {worst:.1%}"
    facts = [
        Fact(
            f"{path.text}: {units.count(path.record.lost_segments)} of {units.count(path.record.sent_segments)} segments lost, "
            f"{rate_text(path.record.sent_bytes, path.record.window_s)}",
            round(share, 4),
            "TCP (sock_diag)",
        )
        for path, share in lossy[:SHOWN_MOST]
    ]
    if len(lossy) < len(shares):
        facts.append(Fact(f"on the other paths between the hosts: {most:.2%} or less", round(most, 5), "TCP (sock_diag)"))
    finding = Finding(
        "K06",
        "warning",
        "likely",
        f"Packets are lost {where}: {range_text} of them",
        tuple(facts),
        _LOSS_CAUSE,
        _loss_fix(lossy[0][0]),
        _LOSS_REFUTED,
        run=exchange.id,
    )
    return Suspicion(finding, HOLD_S)


def _loss_fix(path: Path) -> str:
    return _filled(
        path,
        "ssh {sender} ethtool -S {interface} | grep -i -E 'err|drop|crc|discard|pause'  # on {receiver}, too\n"
        "ssh {sender} 'ip -s -s link show {interface}; tc -s qdisc show dev {interface}'\n"
        "# errors or CRC: cable, transceiver, port. Drops without errors: a full queue, at the host or in a switch, or an MTU "
        "that is not the same everywhere: ssh {sender} ping -M do -s 1472 {address}",
    )


_LOSS_CAUSE = (
    "TCP takes a lost packet for congestion: it sends again, and less. All ranks wait in each step for the host whose packets "
    "are lost. Causes are a damaged cable or transceiver, a full queue in a switch, and unequal MTUs."
)
_LOSS_REFUTED = "The counters of interfaces and switches show neither errors nor drops: then packets are only late."

K06 = Rule(
    id="K06",
    order=2945,
    family="hosts",
    title="Packets between the hosts are lost",
    severities=("warning",),
    confidences=("likely",),
    needs=("the kernel's account of the ranks' TCP connections, on all hosts",),
    window_s=WINDOW_MIN_S + HOLD_S,
    every_s=RARELY_S,
    estimated=True,
    threshold=(
        f"{LOSS_MIN:.0%} of the segments of a path, at least {LOSS_COUNT_MIN}, were sent again and had not arrived before, "
        f"over {WINDOW_MIN_S:.0f} to 60 s, for {HOLD_S:.0f} s"
    ),
    hides=("K05", "K08", "E06"),
    mechanism=_LOSS_CAUSE,
    signature="The kernel sends more than 1% of the segments of a path again, and on the other paths hardly any.",
    look_alike="Packets that overtake each other: the receiver reports those that it had already, which do not count. A "
    "download, or any other connection that is not a rank's.",
    fix="Check the errors of both interfaces and of the switch; compare the MTUs.",
    judge_machine=lossy_paths,
)
