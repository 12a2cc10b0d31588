"""``gputop doctor``: watches this machine, reads a recording, explains logs or rules, or checks the machine before a run."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputop.cli.arguments.help import add_command
from gputop.errors import EXIT_NO_GPU, EXIT_OK, EXIT_PROBLEM, UsageError
from gputop.terminal_text import printable

if TYPE_CHECKING:
    from gputop.agent.sampler import Sampler
    from gputop.doctor.diagnosis import Doctor
    from gputop.doctor.findings.finding import Finding
    from gputop.doctor.preflight.checks import Report
    from gputop.doctor.watch import Outcome
    from gputop.snapshot import Snapshot

_ALL = ""
"""The value of ``--rules`` without an id."""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add the command to the command line and return its parser."""
    doctor = add_command(
        commands,
        "doctor",
        "diagnose the training on this machine: what is wrong, why, and the fix",
        ("gputop doctor", "watch until nothing is undecided, then report"),
        ("gputop doctor --log train.log", "explain the error in a log"),
        ("gputop doctor --before", "check the machine before a run"),
        ("gputop doctor --rules A07", "explain one rule"),
        ("gputop doctor -H 'gpu[1-4]'", "diagnose these hosts and the runs over them"),
        more="Exit code: 0 nothing likely or certain, 1 a problem or undecided, 3 no GPU.",
    )
    doctor.add_argument(
        "--for", dest="seconds", metavar="TIME", help="watch at most this long (default 120s); ends once nothing is undecided"
    )
    doctor.add_argument("--json", action="store_true", dest="as_json", help="print the findings as JSON")
    doctor.add_argument("--run", metavar="RUN", help="only findings of this run (id or name)")
    what = doctor.add_mutually_exclusive_group()
    what.add_argument("--replay", type=Path, metavar="FILE", help="diagnose a recording instead of this machine")
    what.add_argument("--log", nargs="+", metavar="FILE", help="explain the error in the logs of one run: files, a job, or -")
    what.add_argument("--before", action="store_true", help="check this machine before a run: driver, torch, ports, limits ...")
    what.add_argument(
        "--rules", nargs="?", const=_ALL, metavar="ID", help="list the causes that the doctor knows, or explain one: A07, oom"
    )
    doctor.add_argument("--watch", metavar="TIME", help="check at this interval and print changes, until Ctrl-C")
    return doctor


def doctor(
    options: argparse.Namespace,
    make_sampler: Callable[[argparse.Namespace], Sampler],
    exit_with: Callable[[Sampler, int], int],
) -> int:
    """Run the command. ``exit_with`` exits without waiting for a thread that hangs in the driver.

    Raises:
        UsageError: options exclude each other.
    """
    if options.rules is not None:
        return _rules(options)
    if options.watch and (options.log or options.before or options.replay):
        raise UsageError("--watch watches this machine live.", "Leave out --log, --before and --replay.")
    if options.log:
        return _explain_logs(options)
    if options.replay:
        return _replay(options)
    sampler = make_sampler(options)
    if options.before:
        return exit_with(sampler, _before(options, sampler))
    if options.watch:
        return exit_with(sampler, _watch(options, sampler))
    return exit_with(sampler, _diagnose(options, sampler))


def _rules(options: argparse.Namespace) -> int:
    """List the rules and the texts of logs, or explain one; reads no machine.

    Raises:
        UsageError: there is no such id, or an option is given that applies to findings.
    """
    from gputop.doctor.rulebook import listing, near_ids, page_of

    if options.as_json or options.watch or options.run:
        raise UsageError("--rules prints the rules as text.", "Leave out --json, --watch and --run.")
    if options.rules == _ALL:
        print(listing())
        return EXIT_OK
    page = page_of(options.rules)
    if page is None:
        near = near_ids(options.rules)
        hint = f"Near it: {', '.join(near)}." if near else ""
        raise UsageError(f"There is no rule {options.rules!r}.", f"{hint} gputop doctor --rules lists them all.".strip())
    print(page)
    return EXIT_OK


def _diagnose(options: argparse.Namespace, sampler: Sampler) -> int:
    """Watch the machine until nothing is undecided; if nothing trains on it, also check it for the next run."""
    from gputop.doctor.diagnosis import Doctor
    from gputop.doctor.report import checks_text
    from gputop.doctor.watch import LONGEST_S, trains, watch
    from gputop.units import parse_duration

    diagnosis, progress = Doctor(), _Progress(as_json=options.as_json)
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
    code = _exit_code(outcome, sampler)
    outcome = _with_driver(outcome, options.run)
    if options.as_json:
        _print_json(outcome, diagnosis, report)
    else:
        print(_text(outcome, diagnosis, progress.printed, diagnosis.observed_s))
        if report is not None:
            print(f"\n{checks_text(report.checks)}")
    return code


def _exit_code(outcome: Outcome, sampler: Sampler) -> int:
    """Return the exit code for the outcome. A missing GPU counts only if nothing else is wrong."""
    if _code(outcome.findings) == EXIT_OK and sampler.source.name == "none":
        return EXIT_NO_GPU
    return EXIT_PROBLEM if outcome.undecided else _code(outcome.findings)


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


def _replay(options: argparse.Namespace) -> int:
    from gputop.doctor.diagnosis import Doctor
    from gputop.doctor.watch import watch
    from gputop.sources.recording import read_recording

    diagnosis = Doctor()
    recorded = _recorded_snapshots(read_recording(options.replay), options.run)
    outcome = watch(diagnosis, recorded, run=options.run, whole=True)
    if options.as_json:
        _print_json(outcome, diagnosis)
    else:
        print(_text(outcome, diagnosis))
    return EXIT_PROBLEM if outcome.undecided else _code(outcome.findings)


class _Progress:
    """Prints what ``gputop doctor`` knows before it ends: the first certain finding and, on a terminal, what it waits for."""

    def __init__(self, *, as_json: bool) -> None:
        self.printed: Finding | None = None
        self._quiet = as_json
        self._line = "" if not as_json and sys.stderr is not None and sys.stderr.isatty() else None

    def see(self, outcome: Outcome) -> None:
        """Process the outcome of a snapshot."""
        from gputop.doctor.findings.subjects import name_of, names_of_runs
        from gputop.doctor.report import finding_text
        from gputop.doctor.watch import first_certain

        if self._quiet:
            return
        finding = first_certain(outcome) if self.printed is None else None
        if finding is not None:
            self._write("")
            self.printed = finding
            known = outcome.snapshot
            name = name_of(finding, known, names_of_runs(known)) if known is not None else ""
            print(f"{finding_text(finding, run=name)}\n", flush=True)
        longest = max((item.needs_s for item in outcome.undecided if item.needs_s is not None), default=None)
        names = ", ".join(dict.fromkeys(item.rule or item.title for item in outcome.undecided))
        more = f" ({max(1, round(longest))} s more at most)" if longest is not None else ""
        self._write(f"Undecided: {names}{more}" if names else "Watching …")

    def end(self) -> None:
        """Erase the line from the terminal."""
        self._write("")

    def _write(self, text: str) -> None:
        if self._line is None or text == self._line:
            return
        wide = shutil.get_terminal_size().columns - 1
        self._line = text
        sys.stderr.write(f"\r{printable(text)[:wide]:<{wide}}\r{printable(text)[:wide]}" if text else f"\r{' ' * wide}\r")
        sys.stderr.flush()


def _text(outcome: Outcome, diagnosis: Doctor, earlier: Finding | None = None, watched_s: float | None = None) -> str:
    from gputop.doctor.report import text_report

    found = (outcome.findings, diagnosis.abstained, outcome.snapshot, outcome.suppressed, outcome.undecided)
    return text_report(*found, earlier, watched_s)


def _watch(options: argparse.Namespace, sampler: Sampler) -> int:
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
            code = _exit_code(outcome, sampler)
            outcome = _with_driver(outcome, options.run)
            if time.monotonic() >= due:
                due = time.monotonic() + seconds
                if last is None or changed(last, outcome):
                    last = outcome
                    if options.as_json:
                        _print_json(outcome, diagnosis)
                    else:
                        stamp = clock(snapshot.time)
                        text = text_report(outcome.findings, (), snapshot, outcome.suppressed, outcome.undecided)
                        print(f"--- {stamp}\n{text}\n", flush=True)
            time.sleep(sampler.interval_s)
    except KeyboardInterrupt:
        return code


def _before(options: argparse.Namespace, sampler: Sampler) -> int:
    """Check the machine before a run. Exit code: 0 fine, 1 a problem, 3 no GPU."""
    from gputop.agent.sampler import take_once
    from gputop.doctor.report import preflight_report

    snapshot = take_once(sampler)
    report = _preflight(snapshot)
    if options.as_json:
        from gputop.doctor.findings.finding import findings_json

        print(json.dumps({**findings_json(report.findings), "checked": _checked(report)}))
    else:
        print(preflight_report(report))
    return EXIT_NO_GPU if snapshot.host.source == "none" else _code(report.findings)


def _preflight(snapshot: Snapshot) -> Report:
    from gputop.doctor.preflight.checks import check
    from gputop.sources.preflight import read_preflight

    return check(read_preflight(), snapshot)


def _checked(report: Report) -> list[dict[str, str]]:
    return [{"name": check.name, "state": check.state, "text": check.text} for check in report.checks]


def _print_json(outcome: Outcome, diagnosis: Doctor, report: Report | None = None) -> None:
    from gputop.doctor.findings.finding import findings_json
    from gputop.doctor.findings.subjects import add_process_runs

    data = findings_json(outcome.findings, outcome.suppressed, diagnosis.abstained, outcome.undecided)
    add_process_runs(data["findings"], outcome.findings, outcome.snapshot)
    add_process_runs(data["suppressed"], outcome.suppressed, outcome.snapshot)
    print(json.dumps(data if report is None else {**data, "checked": _checked(report)}), flush=True)


def _code(findings: Sequence[Finding]) -> int:
    """Return 1 if something is wrong. A finding that is only possible is shown, but a script should not fail for it."""
    from gputop.doctor.findings.finding import is_problem

    return EXIT_PROBLEM if any(map(is_problem, findings)) else EXIT_OK


def _explain_logs(options: argparse.Namespace) -> int:
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
    return _code(findings)


def explain_logs(names: Sequence[str]) -> tuple[tuple[Finding, ...], list[tuple[str, int]]]:
    """Return the findings on the logs of one run, its failure first, and each log's name and number of lines.

    Raises:
        UsageError: one of them cannot be read.
    """
    from gputop.doctor.logs.meaning.explain import explain
    from gputop.doctor.printed import judge, with_printed
    from gputop.jobs.output.printed_log import printed_run
    from gputop.jobs.output.scan import scan_all

    scans = scan_all(names)
    printed = next((found for name in names if (found := printed_run(Path(name))) is not None), None)
    findings = with_printed(explain(scans), judge(*printed) if printed is not None else ())
    return findings, [(scan.name, scan.lines) for scan in scans]


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


def _recorded_snapshots(snapshots: Iterable[Snapshot], run: str | None) -> Iterator[Snapshot]:
    """Yield a recording's snapshots; at the end, raise UsageError if none contained the requested run."""
    names: dict[str, str] = {}
    for snapshot in snapshots:
        names.update((seen.run_id, seen.name) for seen in snapshot.runs)
        yield snapshot
    if run is not None and run not in {*names, *names.values()}:
        held = ", ".join(sorted(set(names.values()))) or "none"
        raise UsageError(f"There is no run {run!r} in this recording.", f"Its runs: {held}.")


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
