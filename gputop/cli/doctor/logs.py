"""Explains the error in the logs of one run."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gputop.cli.doctor.answers import code_of
from gputop.errors import UsageError

if TYPE_CHECKING:
    from gputop.doctor.findings.finding import Finding


def explain(options: argparse.Namespace) -> int:
    """Explain logs. Exit code: 0 nothing likely or certain, 1 an error or a warning, 2 a file cannot be read."""
    from gputop.doctor.findings.finding import findings_json
    from gputop.doctor.report import log_report

    if options.run:
        raise UsageError("--run chooses among tracked runs, and --log reads files.", "Leave one of them out.")
    findings, logs = explain_logs(options.log)
    if options.as_json:
        print(json.dumps(findings_json(findings)))
    else:
        print(log_report(findings, logs))
    return code_of(findings)


def explain_logs(names: Sequence[str]) -> tuple[tuple[Finding, ...], list[tuple[str, int]]]:
    """Return the findings on the logs of one run, its failure first, and each log's name and number of lines.

    Raises:
        UsageError: one of them cannot be read.
    """
    from gputop.doctor.logs.meaning import explain as meaning
    from gputop.doctor.printed import judge, with_printed
    from gputop.jobs.output.printed_log import printed_findings, printed_run
    from gputop.jobs.output.scan import scan_all

    scans = scan_all(names)
    printed = next((found for name in names if (found := printed_run(Path(name))) is not None), None)
    judged = judge(*printed) if printed is not None else ()
    known = {finding.id for finding in judged}
    others = [found for name in names for found in printed_findings(Path(name)) if found.id not in known]
    findings = with_printed(meaning.explain(scans), [*judged, *others])
    return findings, [(scan.name, scan.lines) for scan in scans]
