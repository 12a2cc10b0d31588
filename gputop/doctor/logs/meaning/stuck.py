"""Ranks that wait in NCCL or gloo: which ones, in which collective operation, and which did not come. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gputop import units
from gputop.doctor.findings import words
from gputop.doctor.findings.commands import filled
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.after import is_progress
from gputop.doctor.logs.lines import rank_and_text
from gputop.doctor.logs.meaning.observed import finding_of, place, quote, short
from gputop.doctor.logs.observation import Observation
from gputop.doctor.logs.scan import LogScan
from gputop.doctor.logs.starts import SAME_RUN_LINES, TRIES_MIN

TIMEOUTS = ("nccl_watchdog", "nccl_heartbeat", "gloo_timeout")
"""The texts of ranks that gave up waiting, by their ids."""
_ONE_SIZE = ("ALLREDUCE", "BROADCAST", "REDUCE")
"""Collectives in which each rank has a tensor of the same size."""
_NO_DATA = "No data gets through, and none of them is missing: {what} between GPUs, or the network between hosts, is at fault."
_TRY_WITHOUT_P2P = (
    "NCCL_P2P_DISABLE=1 torchrun ...  # if this works: a newer driver; iommu=pt on the kernel command line; ACS off\n"
    "NCCL_DEBUG=INFO NCCL_SOCKET_IFNAME=eth0 torchrun ...  # several hosts: the interface that they share\n"
    "nvidia-smi topo -p2p r; sudo dmesg | grep -i -E 'xid|nvlink'"
)


def timed_out(consequences: Sequence[Observation], scans: Sequence[LogScan]) -> Finding | None:
    """Return the finding for a collective that timed out: which ranks waited in which one, and which did not enter."""
    stuck = [item for item in consequences if item.pattern is not None and item.pattern.id in TIMEOUTS]
    if not stuck:
        return None
    reports = {item.rank: item for item in reversed(stuck) if item.rank is not None and "sequence" in item.groups}
    base = finding_of(stuck[0])
    facts = [Fact(quote(item), short(item.line), place(item)) for item in (list(reports.values()) or stuck)[:4]]
    calls = {rank: (int(item.groups["sequence"]), item.groups["op"]) for rank, item in sorted(reports.items())}
    known = {rank for scan in scans for rank in scan.ranks}
    silent = sorted(known - set(reports))
    if len(set(calls.values())) > 1:
        behind = min(calls.values())
        late = [rank for rank, call in calls.items() if call == behind]
        ahead = max(calls.values())
        return replace(
            base,
            id="C08",
            confidence="likely",
            title=f"{_upper(words.ranks(late))} waited in {behind[1]} number {behind[0]}, "
            f"others in {ahead[1]} number {ahead[0]}",
            evidence=tuple(facts),
            cause="The ranks did not run the same collective operations: a branch, a break or uneven data on some of them.",
        )
    sizes = {rank: item.groups.get("elements") for rank, item in sorted(reports.items())}
    call = next(iter(calls.values()), None)
    if call is not None and call[1] in _ONE_SIZE and None not in sizes.values() and len(set(sizes.values())) > 1:
        return _of_other_sizes(base, facts, call, {rank: int(size or 0) for rank, size in sizes.items()})
    if call is not None and not silent and len(calls) > 1 and list(calls) == list(range(len(calls))):
        return _all_inside(base, facts, call, len(calls))
    if silent and reports:
        facts.append(Fact(f"{words.ranks(silent)} reported no timeout", silent, "log"))
        title = f"{base.title}; {words.ranks(silent)} did not come"
        return replace(base, confidence="likely", title=title, evidence=tuple(facts))
    return replace(base, confidence="likely", evidence=tuple(facts))


def _of_other_sizes(base: Finding, facts: list[Fact], call: tuple[int, str], sizes: Mapping[int, int]) -> Finding:
    """Return the finding for ranks that were in the same kind of collective, but not in the same one: their sizes differ."""
    [(usual, _)] = Counter(sizes.values()).most_common(1)
    other = [rank for rank, size in sizes.items() if size != usual]
    size = sizes[other[0]]
    return replace(
        base,
        id="C08",
        confidence="likely",
        title=f"{_upper(words.ranks(other))} waited in {call[1]} number {call[0]} of {words.count(size, 'element')}, "
        f"others in one of {units.count(usual)}",
        evidence=tuple(facts),
        cause="The ranks did not run the same collective operations: a branch, a break or uneven data on some of them. With "
        "uneven data, a rank that has finished its epoch goes on to the next operation, while the others average gradients.",
    )


def _all_inside(base: Finding, facts: list[Fact], call: tuple[int, str], ranks: int) -> Finding:
    """Return the finding for a collective that every rank has entered and none has left: the data does not get through."""
    which, first = f"{call[1]} number {call[0]}", call[0] <= 1
    facts.append(Fact(f"all {ranks} ranks of this log timed out in it", ranks, "log"))
    return replace(
        base,
        id="G02" if first else "G01",
        confidence="likely",
        title=f"All {ranks} ranks of this log entered {which}, {'the first collective operation, ' if first else ''}and none "
        "got through",
        evidence=tuple(facts),
        cause=_NO_DATA.format(what="peer-to-peer copies" if first else "a link"),
        fix=_TRY_WITHOUT_P2P,
        refuted_by="A rank whose output is not in these logs reported no timeout, or other operations: then it is missing.",
    )


def before_any(scans: Sequence[LogScan]) -> Finding | None:
    """Return the finding for a run that hung before its first collective operation ended, though nothing failed."""
    return _unreached(scans) or _not_joined(scans) or _behind_bridge(scans) or _ready_for_nothing(scans)


def _unreached(scans: Sequence[LogScan]) -> Finding | None:
    """Return the finding for a node that has tried to connect to the same place until the end of its log."""
    scan = next((scan for scan in scans if scan.start.tries >= TRIES_MIN and _stands_since(scan)), None)
    if scan is None:
        return None
    (address, port, why), (text, number) = scan.start.tried, scan.start.tried_line
    values = {"address": address, "port": port}
    return Finding(
        id="G03",
        severity="error",
        confidence="likely",
        title=f"This node cannot reach {address}, port {port}: {why.lower()}",
        evidence=(
            Fact(short(text), why, _place(scan, number)),
            Fact(f"{scan.start.tries} attempts failed, the last ones of this log", scan.start.tries, scan.name),
        ),
        cause="A firewall drops what comes to the port, no rank 0 listens there, or the address is of another network.",
        fix=filled(
            "nc -zv {address} {port}  # from this node, while rank 0 runs\n"
            "ss -ltn | grep {port}; sudo iptables -S; sudo ufw status  # on the other: does it listen, is the port open?",
            values,
        ),
        refuted_by=f"nc -zv reaches {address}, port {port}, from this node while rank 0 runs.",
    )


def _not_joined(scans: Sequence[LogScan]) -> Finding | None:
    """Return the finding for ranks that wait for others to join their group until the end of the log."""
    waiting = [scan for scan in scans if scan.start.waits >= TRIES_MIN and scan.start.joined[0] < scan.start.joined[1]]
    if not waiting or not all(map(_stands_since, waiting)):
        return None
    scan = waiting[0]
    (joined, world), (text, number) = scan.start.joined, scan.start.joined_line
    return Finding(
        id="G03",
        severity="error",
        confidence="likely",
        title=f"{joined} of {world} ranks have joined, and wait for the others",
        evidence=(Fact(short(text), joined, _place(scan, number)),),
        cause="The others were not started, have ended, or meet at another address or port.",
        fix="# are all nodes started, each with its own number, the same address and port, and the same number of nodes?\n"
        "torchrun --nnodes=2 --node-rank=0 --nproc-per-node=gpu --master-addr=HOST --master-port=29500 train.py",
        refuted_by="The others joined later: the log is from the middle of the start.",
    )


def _behind_bridge(scans: Sequence[LogScan]) -> Finding | None:
    """Return the finding for ranks of several hosts that NCCL cannot connect, because it chose a bridge to containers."""
    starts = [(scan, scan.start) for scan in scans if scan.start.ranks]
    begun = {rank for _, start in starts for rank in start.begun}
    waiting = [(scan, start) for scan, start in starts if start.bridge and not start.ready and len(begun) < start.ranks]
    if not waiting:
        return None
    scan, start = waiting[0]
    text, number = start.bridge_line
    return Finding(
        id="G02",
        severity="error",
        confidence="likely",
        title=f"NCCL meets the other ranks through {start.bridge}, which other hosts cannot reach",
        evidence=(
            Fact(short(text), start.bridge, _place(scan, number)),
            Fact(
                f"{words.ranks(sorted(begun))} of {start.ranks} began to connect, and no connection came",
                start.ranks,
                scan.name,
            ),
        ),
        cause=f"{start.bridge} leads to this host's containers. Other hosts have a bridge of their own under its address, so "
        "their ranks never meet this host's, and the first collective operation never ends.",
        fix="ip -brief address  # the interface of the network that all hosts share, on each host\n"
        "NCCL_SOCKET_IFNAME=eth0 torchrun ...  # that one; ^docker0,lo leaves some out",
        refuted_by="All ranks run on this host, and those that are missing here write to another file.",
    )


def _ready_for_nothing(scans: Sequence[LogScan]) -> Finding | None:
    """Return the finding for a run that printed nothing after NCCL was ready on all ranks, until a person stopped it."""
    starts = [scan for scan in scans if scan.start.ready]
    ranks = max((scan.start.ranks for scan in starts), default=0)
    ready = {rank for scan in starts for rank in scan.start.ready}
    stopped = any(scan.start.was_stopped for scan in scans)
    if not stopped or ranks < 2 or len(ready) < ranks or not all(map(_stands_since, starts)):
        return None
    return Finding(
        id="G02",
        severity="error",
        confidence="likely",
        title=f"NCCL was ready on all {ranks} ranks, and nothing came after that",
        evidence=(
            Fact(f"NCCL completed its communicator on all {ranks} ranks", ranks, starts[0].name),
            Fact("no progress follows, and the run was stopped by SIGINT", True, starts[0].name),
        ),
        cause=_NO_DATA.format(what="peer-to-peer copies"),
        fix=_TRY_WITHOUT_P2P,
        refuted_by="The run was stopped before its first steps could end, or it prints none.",
    )


def _stands_since(scan: LogScan) -> bool:
    """Return whether the log ends, without any progress, soon after its last line about the start."""
    after = max(0, scan.lines - scan.start.last_at)
    last = scan.ending[-after:] if after else []
    return after <= SAME_RUN_LINES and not any(is_progress(rank_and_text(line)[1]) for line in last)


def _place(scan: LogScan, number: int) -> str:
    return f"{scan.name}:{number}" if number else scan.name


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
