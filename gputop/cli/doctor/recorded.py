"""Diagnoses a recording instead of this machine."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gputop.cli.doctor.answers import code_of, print_json, report_text
from gputop.errors import EXIT_PROBLEM, UsageError

if TYPE_CHECKING:
    from gputop.snapshot import Snapshot


def replay(options: argparse.Namespace) -> int:
    """Diagnose a recording; return the exit code."""
    from gputop.doctor.diagnosis import Doctor
    from gputop.doctor.watch import watch
    from gputop.sources.recording import read_recording

    diagnosis = Doctor()
    recorded = _recorded_snapshots(read_recording(options.replay), options.run)
    outcome = watch(diagnosis, recorded, run=options.run, whole=True)
    if options.as_json:
        print_json(outcome, diagnosis)
    else:
        print(report_text(outcome, diagnosis))
    return EXIT_PROBLEM if outcome.undecided else code_of(outcome.findings)


def _recorded_snapshots(snapshots: Iterable[Snapshot], run: str | None) -> Iterator[Snapshot]:
    """Yield a recording's snapshots; at the end, raise UsageError if none contained the requested run."""
    names: dict[str, str] = {}
    for snapshot in snapshots:
        names.update((seen.run_id, seen.name) for seen in snapshot.runs)
        yield snapshot
    if run is not None and run not in {*names, *names.values()}:
        held = ", ".join(sorted(set(names.values()))) or "none"
        raise UsageError(f"There is no run {run!r} in this recording.", f"Its runs: {held}.")
