"""A finding as text: in full for the doctor's screen, and plain for the clipboard. ``pane`` has its headline. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.findings.subjects import run_of
from gputop.snapshot import Snapshot
from gputop.terminal_text import printable
from gputop.tui.drawing.line import Line, Span, clean, text_width
from gputop.tui.drawing.line import width as line_width
from gputop.tui.drawing.prose import BLANK, heading, wrapped

SIGNS = {"error": ("✗", "bad"), "warning": ("!", "warn"), "info": ("i", "dim")}
ASCII_SIGNS = {"error": "x"}
EVIDENCE_SHOWN = 40
"""Maximum number of items of evidence; the others are counted."""


def sign(finding: Finding, ascii_only: bool) -> Span:
    """Return the mark of the finding's severity."""
    character, style = SIGNS.get(finding.severity, ("?", "dim"))
    return Span(ASCII_SIGNS.get(finding.severity, character) if ascii_only else character, style)


def finding_lines(finding: Finding, snapshot: Snapshot, width: int, ascii_only: bool = False) -> tuple[Line, ...]:
    """Return the whole finding, wrapped to ``width``: evidence, cause, fix, what would refute it, who is involved."""
    lines: list[Line] = list(wrapped(finding.title, width - 2, "accent", first="", rest="  "))
    lines[0] = (sign(finding, ascii_only), Span(" "), *lines[0])
    lines += [(Span(f"  {finding.severity}, {finding.confidence} · {finding.id}", "dim"),), BLANK]
    lines.append(heading("What was seen"))
    lines += _evidence(finding.evidence, width)
    for title, text, style in (
        ("Why", finding.cause, "text"),
        ("What to do", finding.fix, "ok"),
        ("This would be wrong if", finding.refuted_by, "text"),
    ):
        if text:
            lines += [BLANK, heading(title), *wrapped(text, width, style, first="  ", rest="  ")]
    if finding.suppressed_by:
        roots = ", ".join(finding.suppressed_by)
        lines += [BLANK, heading("Explained by"), *wrapped(f"{roots}: remove that first.", width, first="  ", rest="  ")]
    involved = _involved(finding, snapshot)
    if involved:
        lines += [
            BLANK,
            heading("Involved"),
            *(line for text in involved for line in wrapped(text, width, first="  ", rest="    ")),
        ]
    return tuple(lines)


def plain_text(finding: Finding) -> str:
    """Return the finding as plain text for the clipboard, to paste into a chat or an issue."""
    parts = [f"{finding.title} ({finding.confidence}, {finding.id})", ""]
    parts += [f"- {fact.text} [{fact.source}]" for fact in finding.evidence[:EVIDENCE_SHOWN]]
    fix = f"Fix: {finding.fix}".split("\n")
    return "\n".join(map(printable, [*parts, "", f"Cause: {finding.cause}", "", *fix]))


def _evidence(facts: Sequence[Fact], width: int) -> list[Line]:
    lines: list[Line] = []
    for fact in facts[:EVIDENCE_SHOWN]:
        body = wrapped(fact.text, width, first="  · ", rest="    ")
        source = f"[{clean(fact.source)}]"
        if line_width(body[-1]) + 2 + text_width(source) <= width:
            lines += [*body[:-1], (*body[-1], Span(f"  {source}", "dim"))]
        else:
            lines += [*body, *wrapped(source, width, "dim", first="    ", rest="    ")]
    if len(facts) > EVIDENCE_SHOWN:
        lines.append((Span(f"    and {len(facts) - EVIDENCE_SHOWN} more", "dim"),))
    return lines


def _involved(finding: Finding, snapshot: Snapshot) -> list[str]:
    found = []
    indices = {device.uuid: device for device in snapshot.devices}
    for uuid in finding.devices:
        device = indices.get(uuid)
        found.append(f"GPU {device.index}: {device.name or 'N/A'}, {uuid}" if device else f"GPU {uuid} (no longer listed)")
    processes = {process.pid: process for process in snapshot.processes}
    for pid in finding.pids:
        process = processes.get(pid)
        rank = f", rank {process.rank}" if process and process.rank is not None else ""
        command = " ".join(process.command) if process and process.command else (process.name if process else None)
        found.append(f"process {pid}{rank}: {command or 'ended'}")
    subject = run_of(finding, snapshot)
    found += [f"run {run.name} (not tracked)" for run in snapshot.process_runs if finding.run is None and run.key == subject]
    if finding.run:
        name = next((run.name for run in snapshot.runs if run.run_id == finding.run), None)
        found.append(f"run {name} ({finding.run})" if name else f"run {finding.run}")
    return found
