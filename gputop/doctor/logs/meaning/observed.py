"""The finding on one observation, from its own line only: what ``explain`` and the rules on texts both say. Pure."""

from __future__ import annotations

from dataclasses import replace

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Confidence, Fact, Finding
from gputop.doctor.findings.fixes import SCRIPT_UNKNOWN
from gputop.doctor.logs.meaning import xids
from gputop.doctor.logs.meaning.refuted import REFUTED_BY
from gputop.doctor.logs.observation import Observation
from gputop.doctor.logs.patterns.pattern import FAILURE, Pattern
from gputop.terminal_text import printable

QUOTE_CHARS = 400
"""A longer line is cut where a finding quotes it."""
UNKNOWN_ID = "exception"
"""Id of a finding about an exception without a known pattern: it has no rule."""
_STATES = ("A", "G", "I")
"""Families of rules about devices, launches and the driver."""
_FOLLOWED = "lines of progress follow it: the script caught it and continued, or had printed them before and wrote them later"


def finding_of(seen: Observation) -> Finding:
    """Return the finding for one observation, from its own line only."""
    facts: tuple[Fact, ...] = (Fact(quote(seen), short(seen.line), place(seen)),)
    pattern = seen.pattern
    if seen.survived:
        times = words.count(seen.survived, "time")
        text = f"progress followed this text {times}: it ended no run"
        if not seen.went_on:
            text = f"progress followed {seen.survived} of these texts, and none follows this one"
        facts = (*facts, Fact(text, seen.survived, place(seen)))
    elif seen.earlier_start:
        facts = (*facts, Fact("the log continues with another start: its steps begin again", True, place(seen)))
    elif seen.went_on:
        facts = (*facts, Fact("the job continued after this text: the following lines are not a traceback", True, place(seen)))
    if seen.followed:
        facts = (*facts, Fact(_FOLLOWED, True, place(seen)))
    if pattern is None:
        return _exception(seen, facts)
    finding = Finding(
        id=pattern.cause or pattern.id,
        severity=pattern.severity,
        confidence=_sure(seen, pattern.confidence),
        title=f"{'An earlier start: ' if seen.earlier_start else ''}{_sentence(pattern.said(pattern.title, seen.groups))}",
        evidence=facts,
        cause=_sentence(pattern.said(pattern.means, seen.groups)),
        fix=pattern.command(seen.groups),
        refuted_by=pattern.said(pattern.refuted_by, seen.groups) or REFUTED_BY.get(pattern.id, ""),
    )
    return _of_xid(seen, finding) if pattern.id == "xid" and "xid" in seen.groups else finding


def _sure(seen: Observation, otherwise: Confidence) -> Confidence:
    if seen.went_on or (seen.warned and _is_of_an_attempt(seen.pattern)):
        return "possible"
    # A script with buffered output writes what it printed earlier after the traceback that ended it.
    return "likely" if (seen.followed or seen.survived) and otherwise == "certain" else otherwise


def _is_of_an_attempt(pattern: Pattern | None) -> bool:
    """Return whether a text reports a failure. A warning with such a text was handled, or was a test.

    Other texts describe a state: no driver, a port that is in use.
    """
    if pattern is None or (pattern.kind != FAILURE and pattern.id != "nan_loss"):
        return False
    return pattern.cause is None or pattern.cause[0] not in _STATES


def _of_xid(seen: Observation, finding: Finding) -> Finding:
    """Add what is known about the number of a driver error."""
    address = xids.pci_address(seen.groups["pci"])
    meaning = xids.meaning_of(int(seen.groups["xid"]), address, f"python {SCRIPT_UNKNOWN}")
    title = f"The driver reported {meaning.short} (GPU at {address})"
    return replace(
        finding, id=meaning.cause_id, title=title, cause=meaning.cause, fix=meaning.fix, refuted_by=meaning.refuted_by
    )


def quote(seen: Observation) -> str:
    """Return the line with the rank that wrote it."""
    who = f"rank {seen.rank} said: " if seen.rank is not None else ""
    return f"{who}{short(seen.line)}"


def place(seen: Observation) -> str:
    """Return where the line is: "train.log:412"."""
    return f"{seen.file}:{seen.line_number}" if seen.line_number else seen.file


def _exception(seen: Observation, facts: tuple[Fact, ...]) -> Finding:
    name, _, message = seen.line.partition(":")
    said = short(f"{seen.line} {seen.message}")
    raised = f" It was raised from: {short(seen.raised_from).rstrip('.')}." if seen.raised_from else ""
    raised += f" It began with: {short(seen.began_with).rstrip('.')}." if seen.began_with else ""
    survived = seen.went_on and not seen.earlier_start
    what = "went on" if survived else "failed"
    alone = "An earlier start" if seen.earlier_start else "The script"
    who = f"Rank {seen.rank} {what}" if seen.rank is not None else f"{alone} {what}"
    where = f" at {seen.where}" if seen.where else ""
    return Finding(
        id=UNKNOWN_ID,
        severity="error",
        confidence=_sure(seen, "certain"),
        title=f"{who} {'after' if survived else 'with'} {name.rpartition('.')[2]}{where}",
        evidence=facts,
        cause=f"{_ended(said)}{raised}" if message or seen.message else f"{name}.{raised}",
        fix=printable(_to_read(seen)),
        refuted_by="The script continues after it, or ends with exit code 0: then it was caught.",
    )


def _to_read(seen: Observation) -> str:
    """Return where to read about an exception: at the script's own line if its traceback has one, else around the exception."""
    if not seen.block or seen.where is None:
        return f"# read {place(seen)} and the lines before it"
    if seen.in_library:
        return f"# read the traceback above {place(seen)}: all of its lines are those of libraries"
    return f"# read {seen.where}; the traceback is above {place(seen)}"


def _ended(text: str) -> str:
    return text if text.endswith("…") else f"{text.rstrip('.')}."


def short(text: str | None) -> str:
    """Return a line in one piece, cut to ``QUOTE_CHARS``, if possible between words."""
    flat = " ".join((text or "").split())
    if len(flat) <= QUOTE_CHARS:
        return flat
    cut = flat[: QUOTE_CHARS - 1]
    whole = cut.rpartition(" ")[0]
    return f"{whole} …" if len(whole) > QUOTE_CHARS // 2 else f"{cut}…"


def _sentence(text: str) -> str:
    return " ".join(text.split())
