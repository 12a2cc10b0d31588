"""Explain a failed run by its logs: find the first failure of the first rank that failed, not its consequences.

A text caused by a failure elsewhere ("Connection closed by peer", ChildFailedError, an NCCL abort) is evidence of when and
where, never the cause. The first failure is determined by torchrun's "Root Cause (first observed failure)", by timestamps,
and by the order within one log. Pure: ``scan`` reads the logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gputop import units
from gputop.doctor.findings import words
from gputop.doctor.findings.commands import filled
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs import exits, last_words
from gputop.doctor.logs.last_words import Word, first_word
from gputop.doctor.logs.launcher import Root
from gputop.doctor.logs.meaning.first_failure import (
    PEER_LEFT,
    fatal,
    first_failure,
    is_same,
    not_after_a_peer,
    not_after_a_telling_one,
    not_before_hardware,
    not_cancelled_for,
    not_of_a_bus_error,
    reason_of,
    without_stops,
)
from gputop.doctor.logs.meaning.habits import shape_of, with_announced, with_those_before, without_habits, without_outlived
from gputop.doctor.logs.meaning.horovod import stalled
from gputop.doctor.logs.meaning.observed import finding_of, place, quote, short
from gputop.doctor.logs.meaning.stuck import TIMEOUTS, before_any, timed_out
from gputop.doctor.logs.observation import Observation
from gputop.doctor.logs.patterns.pattern import HINT
from gputop.doctor.logs.scan import LogScan

_ABORTS = ("cpp_terminate", "stopped")
"""How a process ends when its watchdog gives up or a peer has left, and how the launcher then ends the others."""


_TELL_WHERE = ("paddle_exit", "ray_worker_died")
"""Consequences whose own fix says where the words of the rank are."""


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
    failures = not_after_a_peer([item for item in seen if item.failure], consequences)
    failures = not_after_a_telling_one(not_cancelled_for(failures, consequences))
    failures = fatal(not_before_hardware(not_of_a_bus_error(failures)), passed)
    if any(item.pattern is not None and item.pattern.id in (*TIMEOUTS, *PEER_LEFT) for item in consequences):
        failures = [item for item in failures if item.pattern is None or item.pattern.id not in _ABORTS]
    root = first_failure(failures, launcher, scans)
    word = None if root is not None else _last_word(scans, consequences, launcher)
    if word is not None and word.kind == "exception":
        root = word.seen
    waits = before_any(scans) if root is None and launcher is None and not consequences else None
    word = word if waits is None else None
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
    elif root is None and any(not item.went_on for item in consequences):
        findings.append(_consequence_alone(consequences, scans, launcher))
    ended = bool(findings)
    if waits is not None:
        findings.append(waits)
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
    if timed_out(consequences, scans) is not None:
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
    finding = replace(finding, evidence=tuple(facts), confidence=confidence)
    if root.pattern is None or root.pattern.id != "invalid_ordinal" or launcher is None or root.rank != launcher.rank:
        return finding
    return finding if launcher.local_rank in (None, launcher.rank) else _of_global_rank(finding, launcher)


def _of_global_rank(finding: Finding, launcher: Root) -> Finding:
    """Return the finding for a rank that asked for a missing GPU and has another number on its own host.

    A host has a first GPU, so local rank 0 proves that the script used RANK.
    """
    fact = Fact(f"rank {launcher.rank} is local rank {launcher.local_rank} on its host", launcher.local_rank, "torchrun")
    return replace(
        finding,
        id="A08",
        confidence="certain" if launcher.local_rank == 0 else "likely",
        title=f"Rank {launcher.rank} asked for a GPU that it does not see: RANK is not LOCAL_RANK",
        evidence=(*finding.evidence, fact),
        cause="The script chooses its GPU by RANK, which counts across all hosts. This works on the first host, but on the "
        "second the number exceeds the number of GPUs.",
        refuted_by="CUDA_VISIBLE_DEVICES hides the GPU of that local rank.",
    )


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
    stuck = timed_out(consequences, scans)
    if stuck is not None:
        return replace(stuck, evidence=(*stuck.evidence, *_launcher_facts(launcher)))
    who = f"Rank {launcher.rank}" if launcher.rank is not None else "A rank"
    host = f" on {launcher.host}" if launcher.host and launcher.host != "localhost" else ""
    facts = (*_launcher_facts(launcher), *(Fact(quote(item), short(item.line), place(item)) for item in consequences[:2]))
    peers = _hosts_that_left(consequences, launcher.host or "")
    if peers and launcher.exit_code is not None and launcher.exit_code < 0:
        return Finding(
            id="G04",
            severity="error",
            confidence="likely",
            title=f"{who}{host} ended after processes on {', '.join(peers)} had closed their connections",
            evidence=facts,
            cause="What was at the other end is gone: its processes ended, or its host did. That is the cause, and this log "
            "does not have it.",
            fix=filled(
                "# read the logs of {peer} from that time on\n"
                "ssh {peer} 'uptime; last -x reboot shutdown | head -3; sudo dmesg --ctime | tail -50'",
                {"peer": peers[0]},
            ),
            refuted_by="All ranks there are alive: the network cut the connection.",
        )
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


def _hosts_that_left(consequences: Sequence[Observation], own: str) -> list[str]:
    """Return the other hosts whose processes closed their connections, by NCCL: "node0" of "node0<40118>"."""
    named = (item.groups.get("peer", "") for item in consequences if item.pattern and item.pattern.id == "nccl_peer_closed")
    hosts = dict.fromkeys(host for peer in named if (host := peer.partition("<")[0]))
    return [host for host in hosts if host.partition(".")[0] != own.partition(".")[0]]


def _consequence_alone(consequences: Sequence[Observation], scans: Sequence[LogScan], launcher: Root | None) -> Finding:
    stuck = timed_out(consequences, scans) or stalled(consequences, scans)
    if stuck is not None:
        return stuck
    # A launcher's line that names the log of the rank says more than the others.
    first = next((item for item in consequences if "file" in item.groups), consequences[0])
    base = finding_of(first)
    told = first.pattern is not None and first.pattern.id in _TELL_WHERE
    return replace(
        base,
        confidence="possible",
        evidence=(*base.evidence, *_launcher_facts(launcher)),
        cause=f"{base.cause} These logs have only what followed.",
        fix=base.fix
        if told
        else "# read the log of the rank that failed first: torchrun --log-dir logs --tee 3 ... keeps one for each rank",
    )
