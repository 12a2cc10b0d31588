"""Why a job failed, according to the doctor's scan of its output."""

from __future__ import annotations

import textwrap
from collections import OrderedDict

from gputop.doctor.findings.finding import Finding
from gputop.errors import UsageError
from gputop.jobs import store
from gputop.jobs.output import logs
from gputop.jobs.output.follower import fingerprint
from gputop.snapshot import JobState
from gputop.terminal_text import printable

CACHED_JOBS = 64
"""Maximum number of jobs whose explanations are kept."""
_WIDTH = 100
"""Columns of a printed explanation."""
_cache: OrderedDict[str, tuple[tuple[tuple[int, ...], ...], Finding | None]] = OrderedDict()
_EXPLAINED: tuple[JobState, ...] = ("failed", "killed", "lost")


def explanation_of(job_id: str) -> Finding | None:
    """Return why a job failed; None if it did not fail or its output does not say why.

    Scans the job's output only if it has changed since the last call.
    """
    try:
        job = store.find(job_id)
        if job.state not in _EXPLAINED:
            return None
        files = tuple(fingerprint(source.path) for source in logs.sources(job_id))
        if job_id in _cache and _cache[job_id][0] == files:
            return _cache[job_id][1]
        from gputop.doctor.logs.meaning.explain import explain  # the known texts are loaded with the first failed job
        from gputop.jobs.output.scan import scan_job

        explanation = explain(scan_job(job_id), run=job_id, failed=True)
    except UsageError:  # the job is gone
        return None
    first = explanation.findings[0] if explanation.findings else None
    finding = first if first is not None and first.severity == "error" else None
    _cache[job_id] = (files, finding)
    while len(_cache) > CACHED_JOBS:
        _cache.popitem(last=False)
    return finding


def paragraph(finding: Finding) -> str:
    """Format a finding in a few lines: what happened and why, the first evidence, and the fix."""
    lines = textwrap.wrap(
        printable(f"{finding.title}. {finding.cause}"), _WIDTH, break_long_words=False, break_on_hyphens=False
    )
    if finding.evidence:
        lines += textwrap.wrap(
            printable(f"{finding.evidence[0].text} [{finding.evidence[0].source}]"),
            _WIDTH,
            initial_indent="  ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join([*lines, *(f"  fix: {line}" if not number else f"       {line}" for number, line in _fix(finding))])


def _fix(finding: Finding) -> list[tuple[int, str]]:
    return list(enumerate(map(printable, finding.fix.splitlines())))
