"""Why a launched job failed, for whoever shows jobs: the doctor's reading of its output."""

from __future__ import annotations

import textwrap
from collections import OrderedDict

from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.explain import explain
from gputop.errors import UsageError
from gputop.jobs import store
from gputop.jobs.output import logs
from gputop.jobs.output.follower import fingerprint
from gputop.jobs.output.scan import scan_job

KEPT = 64
_known: OrderedDict[str, tuple[tuple[tuple[int, ...], ...], Finding | None]] = OrderedDict()
_EXPLAINED = ("failed", "killed", "lost")


def explanation_of(job_id: str) -> Finding | None:
    """Return what the output of an ended job says of its failure; None for one that did not fail, or says nothing.

    Reads the job's logs (their first and last parts where they are large) when they have changed since the last call.
    """
    try:
        job = store.find(job_id)
        if job.state not in _EXPLAINED:
            return None
        files = tuple(fingerprint(source.path) for source in logs.sources(job_id))
        if job_id in _known and _known[job_id][0] == files:
            return _known[job_id][1]
        explanation = explain(scan_job(job_id), run=job_id, failed=True)
    except UsageError:  # the job is gone
        return None
    first = explanation.findings[0] if explanation.findings else None
    finding = first if first is not None and first.severity == "error" else None
    _known[job_id] = (files, finding)
    while len(_known) > KEPT:
        _known.popitem(last=False)
    return finding


def paragraph(finding: Finding, width: int = 100) -> str:
    """Return a finding in a few lines for a terminal: what, the first evidence, why, and the fix."""
    lines = textwrap.wrap(f"{finding.title}. {finding.cause}", width, break_long_words=False, break_on_hyphens=False)
    if finding.evidence:
        lines += textwrap.wrap(
            f"{finding.evidence[0].text} [{finding.evidence[0].source}]",
            width,
            initial_indent="  ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join([*lines, *(f"  fix: {line}" if not number else f"       {line}" for number, line in _fix(finding))])


def _fix(finding: Finding) -> list[tuple[int, str]]:
    return list(enumerate(finding.fix.splitlines()))
