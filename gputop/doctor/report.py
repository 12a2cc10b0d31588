"""Format the output of ``gputop doctor``: findings as plain text for people, pipes and screen readers. Pure."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Abstained, Finding, Undecided
from gputop.doctor.findings.subjects import name_of, names_of_runs
from gputop.doctor.preflight.checks import Report
from gputop.doctor.preflight.record import Check
from gputop.doctor.rules import RULES
from gputop.snapshot import Snapshot
from gputop.terminal_text import printable

WIDTH = 100
"""Characters of a line."""
NAMED = 3
"""Maximum number of untracked runs that are named."""
ROUNDED_S = 10
"""A longer watch is proposed in steps of this."""


def text_report(
    findings: Sequence[Finding],
    abstained: Sequence[Abstained],
    snapshot: Snapshot | None,
    suppressed: Sequence[Finding] = (),
    undecided: Sequence[Undecided] = (),
    earlier: Finding | None = None,
    watched_s: float | None = None,
) -> str:
    """Return the whole report: each finding with its evidence, cause, fix, what would refute it, and what it explains.

    Undecided suspicions and rules that could not judge come last. ``earlier`` was printed before, so it is only named.
    ``watched_s``: how long a watch lasted that could have been longer.
    """
    blocks = []
    names = names_of_runs(snapshot) if snapshot is not None else {}
    for number, finding in enumerate(findings, 1):
        if earlier is not None and _same(finding, earlier):
            explained = _explained(finding, suppressed)
            blocks += ["\n".join([f"{finding.id} (above): explains", *explained])] if explained else []
        else:
            name = name_of(finding, snapshot, names) if snapshot is not None else ""
            blocks.append(finding_text(finding, number, len(findings), suppressed, name))
    if earlier is not None and not any(_same(finding, earlier) for finding in findings):
        roots = next((item.suppressed_by for item in suppressed if _same(item, earlier)), ())
        blocks.insert(
            0, f"{earlier.id} (above): " + (f"explained by {', '.join(roots)}." if roots else "it no longer applies.")
        )
    if undecided:
        blocks.append(undecided_text(undecided, watched_s, snapshot))
    if not findings:
        blocks.append(_nothing(snapshot, bool(undecided)))
    else:
        blocks.append(f"Looked at {_looked_at(snapshot)}.")
    blocks += _not_tracked(snapshot)
    if abstained:
        lines = ["Not judged:"]
        for item in abstained:
            lines += _wrap(f"{item.rule}: {item.why} It would need: {item.needs}.", "  ", "    ")
        blocks.append("\n".join(map(printable, lines)))
    return "\n\n".join(blocks)


def undecided_text(undecided: Sequence[Undecided], watched_s: float | None = None, snapshot: Snapshot | None = None) -> str:
    """Return the undecided suspicions, how much longer each needs at most, and the run of each if several are known.

    Say after ``watched_s`` how to watch longer.
    """
    names = names_of_runs(snapshot) if snapshot is not None else {}
    lines = ["Undecided:"]
    for item in undecided:
        rule = f"watching for {item.rule}: " if item.rule is not None else ""
        needs = f" (needs {max(1, round(item.needs_s))} s more at most)" if item.needs_s is not None else ""
        name = name_of(item, snapshot, names) if snapshot is not None and item.rule is not None else ""
        lines += _wrap(printable(f"{rule}{item.title}{f' · {name}' if name else ''}{needs}"), "  ", "    ")
    longest_s = max((item.needs_s for item in undecided if item.needs_s is not None), default=None)
    if watched_s is not None and longest_s is not None:
        enough_s = math.ceil((watched_s + longest_s) / ROUNDED_S + 1) * ROUNDED_S
        lines += _wrap(f"Not decided within {watched_s:.0f} s: watch longer with --for {enough_s}s.", "  ", "    ")
    return "\n".join(lines)


def log_report(findings: Sequence[Finding], logs: Sequence[tuple[str, int]]) -> str:
    """Return the report on logs: the root cause first, then remarks. ``logs`` holds each log's name and its number of lines."""
    blocks = [finding_text(finding, number, len(findings)) for number, finding in enumerate(findings, 1)]
    lines = sum(number for _, number in logs)
    read = printable(f"{words.count(lines, 'line')} of {words.count(len(logs), 'log') if len(logs) != 1 else logs[0][0]}")
    blocks.append(f"Read {read}." if findings else f"No known error and no exception. Read {read}.")
    return "\n\n".join(blocks)


def preflight_report(report: Report) -> str:
    """Return the report of a preflight check: its findings and the table of everything it checked."""
    total = len(report.findings)
    blocks = [finding_text(finding, number, total) for number, finding in enumerate(report.findings, 1)]
    blocks.append(checks_text(report.checks))
    return "\n\n".join(blocks)


def checks_text(checks: Sequence[Check]) -> str:
    """Return the table of preflight checks: fine ("ok"), a problem ("!") or unknown ("?")."""
    width = max((len(check.name) for check in checks), default=0)
    marks = {"fine": "ok", "problem": "!", "unknown": "?"}
    lines = ["Checked before a run:"]
    for check in checks:
        lines += _wrap(printable(check.text), f"  {marks[check.state]:<3} {check.name:<{width}}  ", " " * (width + 8))
    problems = sum(check.state == "problem" for check in checks)
    lines.append(
        f"{sum(check.state == 'fine' for check in checks)} of {words.count(len(checks), 'check')} fine"
        + (f", {words.count(problems, 'problem')}" if problems else "")
    )
    return "\n".join(lines)


def _nothing(snapshot: Snapshot | None, undecided: bool = False) -> str:
    if snapshot is None:
        return "Nothing was observed: no reading arrived."
    problem = snapshot.host.problem
    if not snapshot.devices and problem is not None:
        return "\n".join(_wrap(f"{problem.message} {problem.hint}".strip(), "", ""))
    found = "No other problem found" if undecided else "No problem found"
    return f"{found}. Looked at {_looked_at(snapshot)}."


def _looked_at(snapshot: Snapshot | None) -> str:
    if snapshot is None:
        return "nothing"
    virtual = "virtual " if snapshot.devices and all(device.kind == "virtual" for device in snapshot.devices) else ""
    processes = sum(bool(process.devices) for process in snapshot.processes)
    parts = [
        words.count(len(snapshot.devices), f"{virtual}GPU"),
        f"{processes} process{'' if processes == 1 else 'es'} on {'it' if len(snapshot.devices) == 1 else 'them'}",
        words.count(len({run.run_id for run in snapshot.runs} - snapshot.untracked_ids), "tracked run"),
    ]
    starting = sum(run.starting for run in snapshot.process_runs)
    for count, state in ((starting, "starting"), (len(snapshot.process_runs) - starting, "not tracked")):
        if count:
            parts.append(f"{words.count(count, 'run')} {state}")
    return ", ".join(parts)


def _not_tracked(snapshot: Snapshot | None) -> list[str]:
    """Return a paragraph on the runs without a journal: their names, and what gputop cannot judge about them."""
    names = list(dict.fromkeys(run.name for run in snapshot.process_runs if not run.starting)) if snapshot is not None else []
    if not names:
        return []
    named = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    less = sum(rule.without_tracking == "none" for rule in RULES)
    text = f"Not tracked: {named}. For such runs, {less} of {len(RULES)} rules have no evidence, and others have less."
    return ["\n".join(_wrap(printable(f"{text} gputop run -- CMD tracks a run from its start."), "", ""))]


def finding_text(finding: Finding, number: int = 1, total: int = 1, suppressed: Sequence[Finding] = (), run: str = "") -> str:
    """Return one finding: its title, level, evidence, cause, fix, what would refute it, and what it explains.

    ``run``: the name of its run, if several are known.
    """
    order = f"{number}. " if total > 1 else ""
    level = f"   {finding.id} · {finding.severity}, {finding.confidence}"
    lines = [f"{order}{finding.title}", f"{level} · {run}" if run else level, ""]
    lines.append("Evidence")
    for fact in finding.evidence:
        lines += _wrap(f"- {fact.text} [{fact.source}]", "  ", "    ")
    lines += ["Cause", *_wrap(finding.cause, "  ", "  ")]
    lines += ["Fix", *(f"  {line}" for line in finding.fix.splitlines())]
    if finding.refuted_by:
        lines += ["Wrong if", *_wrap(finding.refuted_by, "  ", "  ")]
    explained = _explained(finding, suppressed)
    if explained:
        lines += ["It explains", *explained]
    return "\n".join(printable(line.rstrip()) for line in lines)


def _explained(finding: Finding, suppressed: Sequence[Finding]) -> list[str]:
    found = [item for item in suppressed if finding.id in item.suppressed_by and item.run in (finding.run, None)]
    return [line for item in found for line in _wrap(f"- {item.title} ({item.id})", "  ", "    ")]


def _same(finding: Finding, other: Finding) -> bool:
    return (finding.id, finding.run, finding.devices) == (other.id, other.run, other.devices)


def _wrap(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
