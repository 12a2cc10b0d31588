"""Diagnoses this machine: until nothing is undecided, at an interval, or before a run."""

from __future__ import annotations

import argparse
import json
import shlex
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gputop.cli.doctor.answers import checked_json, code_of, exit_code, print_json, report_text
from gputop.cli.doctor.progress import Progress
from gputop.errors import EXIT_NO_GPU, EXIT_OK, UsageError

if TYPE_CHECKING:
    from gputop.agent.sampler import Sampler
    from gputop.doctor.preflight.checks import Report
    from gputop.doctor.watch import Outcome
    from gputop.snapshot import Snapshot


def diagnose(options: argparse.Namespace, sampler: Sampler) -> int:
    """Watch the machine until nothing is undecided; if nothing trains on it, also check it for the next run."""
    from gputop.doctor.diagnosis import Doctor
    from gputop.doctor.report import checks_text
    from gputop.doctor.watch import LONGEST_S, trains, watch
    from gputop.units import parse_duration

    diagnosis, progress = Doctor(), Progress(as_json=options.as_json)
    longest_s = parse_duration(options.seconds) if options.seconds is not None else LONGEST_S
    outcome = watch(diagnosis, _live_snapshots(sampler, longest_s, options.run), run=options.run, seen=progress.see)
    progress.end()
    none = sampler.source.name == "none"
    report = None
    if outcome.snapshot is not None and not options.run and sampler.source.name != "virtual" and not trains(outcome.snapshot):
        report = _preflight(outcome.snapshot)
        ids = {finding.id for finding in outcome.findings}
        more = () if none else tuple(finding for finding in report.findings if finding.id not in ids)
        outcome = replace(outcome, findings=(*outcome.findings, *more))
    code = exit_code(outcome, sampler)
    outcome = _with_driver(outcome, options.run)
    if options.as_json:
        print_json(outcome, diagnosis, report)
    else:
        print(report_text(outcome, diagnosis, progress.printed, diagnosis.observed_s))
        if report is not None:
            print(f"\n{checks_text(report.checks)}")
    return code


def report_changes(options: argparse.Namespace, sampler: Sampler) -> int:
    """Print the active findings whenever they change, until Ctrl-C; return the exit code of the last state."""
    from gputop.doctor.diagnosis import Doctor
    from gputop.doctor.report import text_report
    from gputop.doctor.watch import changed, standing
    from gputop.units import clock, parse_duration

    diagnosis, seconds = Doctor(), parse_duration(options.watch)
    last: Outcome | None = None
    code = EXIT_OK
    due = time.monotonic() + min(seconds, sampler.interval_s)
    try:
        while True:
            snapshot = sampler.take()
            if last is None:
                _require(options.run, snapshot)
            outcome = standing(diagnosis, snapshot, options.run)
            code = exit_code(outcome, sampler)
            outcome = _with_driver(outcome, options.run)
            if time.monotonic() >= due:
                due = time.monotonic() + seconds
                if last is None or changed(last, outcome):
                    last = outcome
                    if options.as_json:
                        print_json(outcome, diagnosis)
                    else:
                        stamp = clock(snapshot.time)
                        text = text_report(outcome.findings, (), snapshot, outcome.suppressed, outcome.undecided)
                        print(f"--- {stamp}\n{text}\n", flush=True)
            time.sleep(sampler.interval_s)
    except KeyboardInterrupt:
        return code


def _with_driver(outcome: Outcome, run: str | None) -> Outcome:
    """Add the reason why this machine shows no GPU, if the whole machine is watched and no rule reports it."""
    from gputop.doctor.preflight.gpu_checks import no_driver

    snapshot = outcome.snapshot
    if snapshot is None or run is not None or snapshot.host.source != "none":
        return outcome
    finding = no_driver(snapshot)
    if finding is None or finding.id in {item.id for item in outcome.findings}:
        return outcome
    return replace(outcome, findings=(finding, *outcome.findings))


def before(options: argparse.Namespace, sampler: Sampler) -> int:
    """Check the machine before a run. Exit code: 0 fine, 1 a problem, 3 no GPU."""
    from gputop.agent.sampler import take_once
    from gputop.doctor.report import preflight_report

    snapshot = take_once(sampler)
    report = _preflight(snapshot)
    if options.as_json:
        from gputop.doctor.findings.finding import findings_json

        print(json.dumps({**findings_json(report.findings), "checked": checked_json(report)}))
    else:
        print(preflight_report(report))
    return EXIT_NO_GPU if snapshot.host.source == "none" else code_of(report.findings)


def _preflight(snapshot: Snapshot) -> Report:
    from gputop.doctor.preflight.checks import check
    from gputop.sources.preflight import read_preflight

    return check(read_preflight(), snapshot)


def _live_snapshots(sampler: Sampler, seconds: float, run: str | None) -> Iterator[Snapshot]:
    """Yield snapshots at the sampler's interval for ``seconds``; only one if there is no GPU to watch."""
    end = time.monotonic() + seconds
    first = True
    while True:
        snapshot: Snapshot = sampler.take()
        if first:
            _require(run, snapshot)
            first = False
        yield snapshot
        nothing_to_watch = sampler.source.name == "none" and not (snapshot.runs or snapshot.process_runs)
        if time.monotonic() + sampler.interval_s > end or nothing_to_watch:
            return
        time.sleep(sampler.interval_s)


def _require(run: str | None, snapshot: Snapshot) -> None:
    """Check that the requested run is being watched.

    Raises:
        UsageError: there is no such run, or it ended too long ago to be watched.
    """
    if run is None or any(run in (seen.run_id, seen.name) for seen in snapshot.runs):
        return
    if any(run in (seen.key, seen.name) for seen in snapshot.process_runs):
        return
    from gputop.cli.stored.shelf import find_run

    find_run(run)
    raise UsageError(
        f"The run {run!r} ended too long ago: the doctor watches only live runs and those that ended most recently.",
        f"gputop runs show {shlex.quote(run)} shows what it logged.",
    )
