"""Whose a finding is, and its title in short. Pure."""

from __future__ import annotations

import re

from gputop.doctor.findings.finding import Finding
from gputop.snapshot import ProcessRun
from gputop.tui.state.view import View

_CLAUSE_END = re.compile(r"[:;] ")
_TOPIC = re.compile(r"(GPU \d+|\S+): ")


def first_clause(title: str) -> str:
    """Return a title up to the end of its first clause; a topic such as "GPU 0:" or "DDP:" alone says nothing."""
    topic = _TOPIC.match(title)
    start = topic.end() if topic else 0
    return title[:start] + _CLAUSE_END.split(title[start:])[0]


def untracked_owner(view: View, finding: Finding) -> ProcessRun | None:
    """Return the run without a journal that a finding is about: that of its processes, as such a run has no id."""
    if finding.run is not None:
        return None
    pids = set(finding.pids)
    return next((run for run in view.snapshot.process_runs if any(rank.pid in pids for rank in run.ranks)), None)


def run_name(view: View, finding: Finding) -> str | None:
    """Return the name of the run that a finding is about; None if it is about none, or no longer in the snapshot."""
    owner = untracked_owner(view, finding)
    if owner is not None:
        return owner.name
    return next((run.name for run in view.snapshot.runs if run.run_id == finding.run), None)


def shown_run_name(view: View, finding: Finding) -> str:
    """Return what a headline adds to a finding: the name of its run if several are known, else nothing."""
    runs = view.snapshot.runs
    curves = {run.run_id for run in runs}
    others = sum(not curves.intersection(run.curve_ids) for run in view.snapshot.process_runs)
    return (run_name(view, finding) or "") if len(runs) + others > 1 else ""
