"""``gputop doctor``: watches this machine, reads a recording, explains logs, or checks the machine before a run."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputop.errors import EXIT_NO_GPU, EXIT_OK, EXIT_PROBLEM, UsageError

if TYPE_CHECKING:
    from gputop.agent import Sampler
    from gputop.snapshot import Snapshot

DOCTOR_FOR_S = 15.0
"""How long ``gputop doctor`` watches by default: the time in which a placement fault is certain."""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the command line's and return its parser."""
    doctor: argparse.ArgumentParser = commands.add_parser("doctor", help="name what is wrong with the training on this machine")
    doctor.add_argument("--for", dest="seconds", default=f"{DOCTOR_FOR_S:g}s", metavar="TIME", help="watch so long (15s)")
    doctor.add_argument("--json", action="store_true", dest="as_json")
    doctor.add_argument("--run", metavar="RUN", help="only findings of this run (id or name)")
    what = doctor.add_mutually_exclusive_group()
    what.add_argument("--replay", type=Path, metavar="FILE", help="diagnose a recording instead of this machine")
    what.add_argument("--log", nargs="+", metavar="FILE", help="explain the error in these logs of one run (- or a job too)")
    return doctor


def doctor(
    options: argparse.Namespace,
    make_sampler: Callable[[argparse.Namespace], Sampler],
    leave: Callable[[Sampler, int], int],
) -> int:
    """Run the command. ``leave`` ends the process without waiting for a thread that hangs in the driver."""
    if options.log:
        return _explain_logs(options)
    from gputop.doctor.diagnosis import Doctor
    from gputop.doctor.finding import findings_json
    from gputop.doctor.report import text_report
    from gputop.doctor.watch import watch
    from gputop.units import parse_duration

    physician = Doctor()
    sampler = None
    if options.replay:
        from gputop.sources.recording import read_recording

        outcome = watch(physician, read_recording(options.replay), run=options.run)
    else:
        sampler = make_sampler(options)
        seconds = parse_duration(options.seconds)
        outcome = watch(physician, _live_snapshots(sampler, seconds), run=options.run)
    if options.as_json:
        print(json.dumps(findings_json(outcome.findings, outcome.suppressed, physician.abstained)))
    else:
        print(text_report(outcome.findings, physician.abstained, outcome.snapshot, outcome.suppressed))
    code = EXIT_PROBLEM if any(finding.severity != "info" for finding in outcome.findings) else EXIT_OK
    if sampler is None:
        return code
    if sampler.source.name == "none" and code == EXIT_OK:
        code = EXIT_NO_GPU
    return leave(sampler, code)


def _explain_logs(options: argparse.Namespace) -> int:
    """Explain logs: exit code 0 nothing found, 1 an error or a warning, 2 a file cannot be read."""
    from gputop.doctor.finding import findings_json
    from gputop.doctor.logs import explain, verdicts
    from gputop.doctor.report import log_report
    from gputop.launch.log_files import scan_all

    if options.run:
        raise UsageError("--run chooses among tracked runs, and --log reads files.", "Leave one of them out.")
    scans = scan_all(options.log)
    explanation = explain(scans)
    if options.as_json:
        print(json.dumps(findings_json(explanation.findings)))
    else:
        print(log_report(explanation.findings, [(scan.name, scan.lines) for scan in scans]))
    return EXIT_PROBLEM if verdicts(explanation.findings) else EXIT_OK


def _live_snapshots(sampler: Sampler, seconds: float) -> Iterator[Snapshot]:
    """Yield snapshots at the sampler's interval for so long; one alone where there is no GPU to watch."""
    end = time.monotonic() + seconds
    while True:
        snapshot: Snapshot = sampler.take()
        yield snapshot
        if time.monotonic() + sampler.interval_s > end or (sampler.source.name == "none" and not snapshot.runs):
            return
        time.sleep(sampler.interval_s)
