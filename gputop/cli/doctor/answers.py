"""What ``gputop doctor`` answers: its exit code, its text and its JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputop.errors import EXIT_NO_GPU, EXIT_OK, EXIT_PROBLEM

if TYPE_CHECKING:
    from gputop.agent.sampler import Sampler
    from gputop.doctor.diagnosis import Doctor
    from gputop.doctor.findings.finding import Finding
    from gputop.doctor.preflight.checks import Report
    from gputop.doctor.watch import Outcome


def exit_code(outcome: Outcome, sampler: Sampler) -> int:
    """Return the exit code for the outcome. A missing GPU counts only if nothing else is wrong."""
    if code_of(outcome.findings) == EXIT_OK and sampler.source.name == "none":
        return EXIT_NO_GPU
    return EXIT_PROBLEM if outcome.undecided else code_of(outcome.findings)


def code_of(findings: Sequence[Finding]) -> int:
    """Return 1 if something is wrong. A finding that is only possible is shown, but a script should not fail for it."""
    from gputop.doctor.findings.finding import is_problem

    return EXIT_PROBLEM if any(map(is_problem, findings)) else EXIT_OK


def report_text(outcome: Outcome, diagnosis: Doctor, earlier: Finding | None = None, watched_s: float | None = None) -> str:
    """Return an outcome as text; see ``text_report``."""
    from gputop.doctor.report import text_report

    found = (outcome.findings, diagnosis.abstained, outcome.snapshot, outcome.suppressed, outcome.undecided)
    return text_report(*found, earlier, watched_s)


def print_json(outcome: Outcome, diagnosis: Doctor, report: Report | None = None) -> None:
    """Print an outcome as one JSON object; ``report``: the checks before a run, if there were some."""
    from gputop.doctor.findings.finding import findings_json
    from gputop.doctor.findings.subjects import add_process_runs

    data = findings_json(outcome.findings, outcome.suppressed, diagnosis.abstained, outcome.undecided)
    add_process_runs(data["findings"], outcome.findings, outcome.snapshot)
    add_process_runs(data["suppressed"], outcome.suppressed, outcome.snapshot)
    print(json.dumps(data if report is None else {**data, "checked": checked_json(report)}), flush=True)


def checked_json(report: Report) -> list[dict[str, str]]:
    """Return the checks before a run as plain values."""
    return [{"name": check.name, "state": check.state, "text": check.text} for check in report.checks]
