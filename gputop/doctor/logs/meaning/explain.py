"""Explain a failed run by its logs: find the first failure of the first rank that failed, not its consequences.

A text caused by a failure elsewhere ("Connection closed by peer", ChildFailedError, an NCCL abort) is evidence of when and
where, never the cause. The first failure is determined by torchrun's "Root Cause (first observed failure)", by timestamps,
and by the order within one log. Pure: ``scan`` reads the logs.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gputop import units
from gputop.doctor.findings import words
from gputop.doctor.findings.commands import filled
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs import exits, last_words
from gputop.doctor.logs.last_words import Word, first_word
from gputop.doctor.logs.launcher import Root
from gputop.doctor.logs.meaning.first_failure import (
    fatal,
    first_failure,
    is_same,
    not_cancelled_for,
    reason_of,
    without_stops,
)
from gputop.doctor.logs.meaning.habits import shape_of, with_announced, with_those_before, without_habits, without_outlived
from gputop.doctor.logs.meaning.observed import finding_of, place, quote, short
from gputop.doctor.logs.observation import Observation
from gputop.doctor.logs.patterns.pattern import HINT
from gputop.doctor.logs.scan import LogScan

_STUCK = ("nccl_watchdog", "nccl_heartbeat", "gloo_timeout")
_ONE_SIZE = ("ALLREDUCE", "BROADCAST", "REDUCE")
"""Collectives in which each rank has a tensor of the same size."""
_ABORTS = ("cpp_terminate", "stopped")
"""How a process ends when its watchdog gives up, and how the launcher then ends the others."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of logs: ``findings`` holds the root first, then remarks. ``root`` is None if no run failed in them."""

    root: Observation | None
    findings: tuple[Finding, ...]
    consequences: tuple[Observation, ...] = ()
    """Lines that follow from the root."""
    ended: bool = False
    """Whether the first finding explains the end of the run; if not, all are remarks."""
    unproven: bool = False
    """Whether only the log's last words name the root, not a traceback or a known text: the script may have caught it."""


def explain(scans: Sequence[LogScan], run: str | None = None, failed: bool = False, asked: bool = False) -> Explanation:
    """Explain the logs of one run, each read to its end.

    ``failed``: the run is known to have failed; ``asked``: it was asked to stop.
    """
    seen = [item for scan in scans for item in scan.observations]
    if asked:
        seen = without_stops(seen)
    launcher = next((scan.root for scan in scans if scan.root is not None), None)
    if not failed and launcher is None:
        seen = without_outlived(seen, {scan.name: scan.size_bytes for scan in scans})
        progress = {scan.name: scan.progress for scan in scans}
        seen = with_those_before(with_announced(without_habits(seen, progress), progress))
    if (failed or launcher is not None) and not any(item.failure for item in seen):
        # A script that catches its error, reports it and then ends did not really continue.
        seen = [
            item if item.earlier_start and not failed else replace(item, went_on=False, earlier_start=False) for item in seen
        ]
    passed = frozenset((item.file, item.at) for item in seen if item.followed)
    if failed or launcher is not None:
        seen = [replace(item, followed=False) for item in seen]
    consequences = tuple(item for item in seen if item.pattern is not None and item.pattern.cascade)
    failures = fatal(not_cancelled_for([item for item in seen if item.failure], consequences), passed)
    if any(item.pattern is not None and item.pattern.id in _STUCK for item in consequences):
        failures = [item for item in failures if item.pattern is None or item.pattern.id not in _ABORTS]
    root = first_failure(failures, launcher, scans)
    word = None if root is not None else _last_word(scans, consequences, launcher)
    if word is not None and word.kind == "exception":
        root = word.seen
    reason = reason_of(root or (None if word is None else word.seen), seen)
    if reason is not None:
        root, word = reason, None
    findings = [] if root is None else [_of_root(root, seen, scans, launcher)]
    unproven = root is not None and word is not None
    if unproven:
        findings = [replace(finding, confidence="likely") for finding in findings]
    elif word is not None:
        last = last_words.finding_of(word, short(word.seen.line), place(word.seen))
        if consequences and "NCCL WARN" in word.seen.line:
            last = replace(last, confidence="likely")  # the connections that are lost after it follow from it
        findings.append(replace(last, evidence=(*last.evidence, *_launcher_facts(launcher))))
    elif root is None and launcher is not None and launcher.exit_code is not None:
        findings.append(_without_text(launcher, consequences, scans))
    elif root is None and consequences:
        findings.append(_consequence_alone(consequences, scans, launcher))
    ended = bool(findings)
    findings += _remarks(seen, root, {finding.title for finding in findings})
    return Explanation(root, tuple(replace(finding, run=run) for finding in findings), consequences, ended, unproven)


def _remarks(seen: Sequence[Observation], root: Observation | None, titles: set[str]) -> list[Finding]:
    """Return what the run survived, and what is only worth knowing; ``titles``: those of findings that say why it ended."""
    findings = []
    habits = {shape_of(root)} if root is not None else set()
    for item in seen:
        shown = item.went_on or (item.pattern is not None and (item.pattern.kind == HINT or item.warned))
        if not shown or item is root or item.failure or (item.survived and shape_of(item) in habits):
            continue
        habits.add(shape_of(item))
        finding = finding_of(item)
        if item.earlier_start:
            finding = replace(finding, severity="info")
        elif finding.severity == "error":
            finding = replace(finding, severity="warning")
        if finding.title not in titles:
            titles.add(finding.title)
            findings.append(finding)
    return findings


def _last_word(scans: Sequence[LogScan], consequences: Sequence[Observation], launcher: Root | None) -> Word | None:
    """Return the error line at the end of the logs; None if a known text says more."""
    if _stuck(consequences, scans) is not None:
        return None
    begun = {item.file: item.at for item in reversed(consequences)}
    words = [word for scan in scans for word in scan.last_words]
    word = first_word([word for word in words if word.seen.at <= begun.get(word.seen.file, word.seen.at)])
    return None if word is not None and word.kind == "end" and (launcher is not None or consequences) else word


def _of_root(root: Observation, seen: list[Observation], scans: Sequence[LogScan], launcher: Root | None) -> Finding:
    finding = finding_of(root)
    facts = list(finding.evidence)
    if root.where is not None:
        facts.append(Fact(f"at {root.where}", root.where, "traceback"))
    beside = [item for item in seen if item.block and (item.block, item.file) == (root.block, root.file) and item is not root]
    confidence = finding.confidence
    other = {item.line: item for item in reversed(beside) if item.line != root.line}
    facts += [Fact(quote(item), short(item.line), place(item)) for item in [*other.values()][::-1][:3]]
    inner = next((scan.inner.get(root.block) for scan in scans if scan.name == root.file and root.block), None)
    if root.pattern is not None and root.pattern.id == "dp_replica_error":
        # Certain only if the inner error is the one that replicas cause; otherwise the inner error is what the user has to
        # read.
        confidence = "certain" if any(item.pattern and item.pattern.id == "two_devices" for item in beside) else "likely"
        if inner is not None and not any(inner in item.line for item in beside):
            facts.append(Fact(f"inner error: {short(inner)}", short(inner), "traceback"))
    alike = [item for item in seen if is_same(item, root)]
    same = {item.rank for item in alike if item.rank is not None} - {root.rank}
    if same:
        facts.append(Fact(f"the same on {words.ranks(sorted(same))}", sorted(same), "log"))
    raised = next((item.where for item in alike if item.where is not None), None) if root.where is None else None
    if raised is not None:  # a library printed the root, and Python raised it
        facts.append(Fact(f"at {raised}", raised, "traceback"))
    facts += _launcher_facts(launcher)
    after = [item for item in seen if item.pattern is not None and item.pattern.cascade and item.pattern.id != "child_failed"]
    if after:
        names = ", ".join(dict.fromkeys(item.pattern.id for item in after if item.pattern is not None))
        lines = "1 line that follows" if len(after) == 1 else f"{len(after)} lines that follow"
        facts.append(Fact(f"{lines} from it: {names}", len(after), place(after[0])))
    return replace(finding, evidence=tuple(facts), confidence=confidence)


def _launcher_facts(launcher: Root | None) -> list[Fact]:
    if launcher is None or launcher.rank is None:
        return []
    ended = _ended(launcher.exit_code)
    when = f", at {launcher.time.replace('_', ' ')}" if launcher.time else ""
    return [Fact(f"the first failure that torchrun observed: rank {launcher.rank} {ended}{when}", launcher.rank, "torchrun")]


def _ended(code: int | None) -> str:
    if code is None:
        return "failed"
    return f"was ended by {units.signal_name(-code)}" if code < 0 else f"ended with exit code {code}"


def _without_text(launcher: Root, consequences: Sequence[Observation], scans: Sequence[LogScan]) -> Finding:
    """Return the finding for a rank on which only the launcher reports."""
    stuck = _stuck(consequences, scans)
    if stuck is not None:
        return replace(stuck, evidence=(*stuck.evidence, *_launcher_facts(launcher)))
    who = f"Rank {launcher.rank}" if launcher.rank is not None else "A rank"
    host = f" on {launcher.host}" if launcher.host and launcher.host != "localhost" else ""
    facts = (*_launcher_facts(launcher), *(Fact(quote(item), short(item.line), place(item)) for item in consequences[:2]))
    logs = filled("\n# torchrun noted more in {file}", {"file": launcher.error_file}) if launcher.error_file else ""
    meaning = exits.meaning_of(launcher.exit_code) if launcher.exit_code is not None and launcher.exit_code < 0 else None
    if meaning is not None:
        followed = meaning.id is None and any(item.pattern and item.pattern.id != "child_failed" for item in consequences)
        return Finding(
            id=meaning.id or "G04",
            severity="error",
            confidence="possible" if followed else meaning.confidence,
            title=f"{who}{host} {_ended(launcher.exit_code)}",
            evidence=facts,
            cause=meaning.cause,
            fix=f"{meaning.fix}{logs}",
            refuted_by=meaning.refuted_by,
        )
    return Finding(
        id="G04",
        severity="error",
        confidence="possible",
        title=f"{who}{host} {_ended(launcher.exit_code)}",
        evidence=facts,
        cause="The rank's own words are not in these logs; the others followed it.",
        fix=f"torchrun --log-dir logs --tee 3 ...  # keeps what each rank says{logs}",
        refuted_by="The rank ended after another one had failed: its log, or theirs, has an earlier error.",
    )


def _consequence_alone(consequences: Sequence[Observation], scans: Sequence[LogScan], launcher: Root | None) -> Finding:
    stuck = _stuck(consequences, scans)
    if stuck is not None:
        return stuck
    first = consequences[0]
    base = finding_of(first)
    return replace(
        base,
        confidence="possible",
        evidence=(*base.evidence, *_launcher_facts(launcher)),
        cause=f"{base.cause} These logs have only what followed.",
        fix="# read the log of the rank that failed first: torchrun --log-dir logs --tee 3 ... keeps one for each rank",
    )


def _stuck(consequences: Sequence[Observation], scans: Sequence[LogScan]) -> Finding | None:
    """Return the finding for a collective that timed out: which ranks waited in which one, and which did not enter."""
    stuck = [item for item in consequences if item.pattern is not None and item.pattern.id in _STUCK]
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
    usual = statistics.mode(sizes.values())
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
    facts.append(Fact(f"all {ranks} ranks timed out in it: none of them is missing", ranks, "log"))
    return replace(
        base,
        id="G02" if first else "G01",
        confidence="likely",
        title=f"All ranks entered {which}, {'the first collective operation, ' if first else ''}and none got through",
        evidence=tuple(facts),
        cause=f"The data does not get through, and no rank is missing: {'peer-to-peer copies' if first else 'a link'} between "
        "GPUs, or the network between hosts, is at fault.",
        fix="NCCL_P2P_DISABLE=1 torchrun ...  # if this works: a newer driver; iommu=pt on the kernel command line; ACS off\n"
        "NCCL_DEBUG=INFO NCCL_SOCKET_IFNAME=eth0 torchrun ...  # several hosts: the interface that they share\n"
        "nvidia-smi topo -p2p r; sudo dmesg | grep -i -E 'xid|nvlink'",
        refuted_by="A rank whose output is not in these logs reported no timeout, or other operations: then it is missing.",
    )


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
