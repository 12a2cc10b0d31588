"""``gputop runs``: lists, shows, plots, exports, names, imports and prunes tracked runs.

Imports only the standard library and gputop's records; what else a command needs is imported there.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gputop import units
from gputop.cli import hosts
from gputop.cli.output.terminal import print_colored
from gputop.cli.stored.shelf import EVERYTHING, Shelf, points_of
from gputop.errors import EXIT_OK, UsageError
from gputop.facts.setup import counts_lines
from gputop.filters import runs as run_filter
from gputop.filters.runs import RunFilter
from gputop.snapshot import LOSS_METRICS, Points, ProcessRun, Rank, Run, Snapshot, encode, loss_metric
from gputop.terminal_text import printable, table

if TYPE_CHECKING:
    from gputop.agent.sampler import Sampler
    from gputop.cli.across.runs import RunsThere

LISTED = 50
"""How many of the newest runs are listed without a filter."""
COLUMNS = ("RUN", "NAME", "STATE", "RANKS", "STEP", "LOSS", "STARTED", "TAGS")
NOT_TRACKED, STARTING = "not tracked", "starting"
NONE = "-"


def runs(
    options: argparse.Namespace,
    make_sampler: Callable[[argparse.Namespace], Sampler],
    exit_with: Callable[[Sampler, int], int],
) -> int:
    """List the runs; show, plot, export, rename or tag one; import some; or delete old ones.

    ``exit_with`` closes the sampler's source and returns the exit code.
    """
    if hosts.asked(options):
        return _over(options)
    if options.runs_command == "show":
        from gputop.cli.stored.show import show_run

        print(show_run(options.run, as_json=options.as_json, everything=options.all))
    elif options.runs_command in ("rename", "tag"):
        from gputop.cli.stored import relabel

        if options.runs_command == "rename":
            print(relabel.rename(options.run, options.name))
        else:
            print(relabel.tag(options.run, options.tags, remove=options.remove))
    elif options.runs_command == "export":
        export(options.run, as_csv=options.csv)
    elif options.runs_command == "plot":
        from gputop.cli.stored.plot import READ_POINTS, plot

        run, points = read_run(options.run, READ_POINTS)
        others = [read_run(name, READ_POINTS) for name in options.others]
        color = options.color is not False
        print_colored(
            plot(
                run,
                points,
                options.metrics,
                others,
                width=options.width,
                height=options.height,
                color=color,
                ascii_only=bool(options.ascii),
            )
        )
    elif options.runs_command == "import":
        from gputop.cli.stored.importing import import_runs

        import_runs(options.paths)
    elif options.runs_command == "prune":
        from gputop.cli.stored.prune import prune

        prune(options.older_than, options.keep, yes=options.yes)
    else:
        wanted = run_filter.parse(options.filter) if options.filter else None
        shelf = Shelf(recent_runs=LISTED if wanted is None else EVERYTHING, backlog_points=2)
        found = shelf.read_all()
        sampler = make_sampler(options)
        sampler.is_asked_once = True
        snapshot = sampler.take()
        if options.as_json:
            print(json.dumps(encode(_there(found, snapshot, wanted))))
        elif found or snapshot.process_runs or not shelf.unreadable():  # whether there are runs that cannot be read is unknown
            print(list_text(found, snapshot.process_runs, snapshot.runs, wanted))
        shelf.tell_unreadable()
        return exit_with(sampler, EXIT_OK)
    return EXIT_OK


def _there(found: Sequence[Run], snapshot: Snapshot, wanted: RunFilter | None) -> RunsThere:
    """Return the runs of this machine as a record, without the facts of ranks, which ``runs show`` prints."""
    from gputop.cli.across.runs import RunsThere

    now = time.time()
    by_id = {run.run_id: run for run in snapshot.runs}
    kept = [run for run in found if wanted is None or wanted.keeps(run, now)]
    others = [
        other
        for other in snapshot.process_runs
        if wanted is None or wanted.keeps(by_id.get(other.run_id or "") or _as_run(other), now)
    ]
    curves = [by_id[other.run_id] for other in others if other.run_id in by_id]
    return RunsThere(
        snapshot.host.hostname, now, tuple(map(_without_facts, kept)), tuple(others), tuple(map(_without_facts, curves))
    )


def _without_facts(run: Run) -> Run:
    return replace(run, ranks=tuple(replace(rank, facts={}) for rank in run.ranks))


def _over(options: argparse.Namespace) -> int:
    """List the runs of other machines, or show one of them."""
    from gputop.cli.across.jobs import report_failures
    from gputop.cli.across.runs import runs_of, show_over

    names = hosts.hosts_of(options)
    if options.runs_command == "show":
        with hosts.reached(options) as transport:
            return show_over(names, transport, options.run, as_json=options.as_json, everything=options.all)
    if options.runs_command is not None:
        raise UsageError(f"gputop runs {options.runs_command} works only on this machine.", "Leave out -H, or run it there.")
    if options.filter:
        run_filter.parse(options.filter)
    with hosts.reached(options) as transport:
        found, ends = runs_of(names, transport, options.filter)
    if options.as_json:
        print(json.dumps({host: encode(found[host]) if host in found else None for host in names}))
    else:
        print(printable_lines(rows_over(found)))
    return report_failures({host: end for host, end in ends.items() if host not in found})


def rows_over(found: Mapping[str, RunsThere]) -> list[tuple[str, ...]]:
    """Return a row for each run of several machines: untracked runs, then tracked ones, newest first."""
    from gputop.cli.across.runs import joined_runs

    rows: list[tuple[str, ...]] = []
    for host, there in found.items():
        by_id = {run.run_id: run for run in there.curves}
        for other in there.not_tracked:
            began = None if other.started_at is None else other.started_at - there.clock_offset_s
            tail = (*_progress(by_id.get(other.run_id or "")), _started(began), NONE, host)
            rows.append((_pid_text(other), other.name, _state(other), str(len(other.ranks)), *tail))
    for joined in joined_runs(found):
        run = joined.run
        tail = (*_progress(run), _started(run.created_at), ", ".join(run.tags) or NONE, ", ".join(joined.known_by))
        rows.append((run.run_id, run.name, run.state, str(len(run.ranks)), *tail))
    return rows


def printable_lines(rows: Sequence[tuple[str, ...]]) -> str:
    """Return the rows of several machines as a table."""
    return "\n".join(map(printable, table((*COLUMNS, "HOST"), rows))) if rows else "No runs on these hosts."


def _state(other: ProcessRun) -> str:
    return STARTING if other.starting else NOT_TRACKED


def list_text(
    found: tuple[Run, ...],
    untracked: Sequence[ProcessRun] = (),
    curves: Sequence[Run] = (),
    wanted: RunFilter | None = None,
) -> str:
    """Return the runs as a table: live untracked runs, then tracked ones, newest first.

    ``curves`` contains what is known about the metrics of untracked runs, by ``ProcessRun.run_id``. Only runs that ``wanted``
    keeps are listed.
    """
    if not found and not untracked:
        return "No runs yet. Call gputop.init() in a script, use gputop run -- CMD, or press l in gputop."
    now = time.time()
    rows = []
    by_id = {run.run_id: run for run in curves}
    for other in untracked:
        run = by_id.get(other.run_id or "")
        if wanted is None or wanted.keeps(run or _as_run(other), now):
            tail = (*_progress(run), _started(other.started_at), NONE)
            rows.append((_pid_text(other), other.name, _state(other), str(len(other.ranks)), *tail))
    for run in found:
        if wanted is None or wanted.keeps(run, now):
            tail = (*_progress(run), _started(run.created_at), ", ".join(run.tags) or NONE)
            rows.append((run.run_id, run.name, run.state, str(len(run.ranks)), *tail))
    if not rows:
        return f"None of {len(found) + len(untracked)} runs matches this filter."
    return "\n".join(table(COLUMNS, rows))


def _as_run(other: ProcessRun) -> Run:
    """Return what a filter sees of an untracked run."""
    ranks = tuple(Rank(rank.rank or 0, pid=rank.pid, state="running") for rank in other.ranks)
    return Run(other.run_id or _pid_text(other), other.name, state="running", created_at=other.started_at, ranks=ranks)


def _progress(run: Run | None) -> tuple[str, str]:
    """Return a run's step and loss."""
    step = run.step if run is not None else None
    counted = "line " if run is not None and any(counts_lines(rank.facts) for rank in run.ranks) else ""
    return units.UNKNOWN if step is None else f"{counted}{units.count(step)}", units.UNKNOWN if run is None else _loss_text(run)


def _pid_text(run: ProcessRun) -> str:
    # Another machine may list a run without any process.
    pids = [run.launcher.pid] if run.launcher is not None else [rank.pid for rank in run.ranks]
    return f"PID {next(iter(pids), units.UNKNOWN)}"


def _started(at: float | None) -> str:
    return units.clock(at or None, "%Y-%m-%d %H:%M:%S")


def _loss_text(run: Run) -> str:
    """Return the loss, averaged over the ranks; with its name if the name says which loss it is."""
    name = loss_metric(name for rank in run.ranks for name in rank.metrics)
    values = [rank.metrics[name] for rank in run.ranks if name in rank.metrics] if name is not None else []
    if name is None or not values:
        return units.UNKNOWN
    mean = units.metric(units.mean(values))
    return mean if name in LOSS_METRICS else f"{mean} ({name.removeprefix('loss/')})"


def export(name: str, *, as_csv: bool) -> None:
    """Print every value of a run: CSV with a header, or one JSON object per value.

    Columns: metric, rank, step, time (seconds since the epoch; empty or null if imported files do not contain it), value.

    Raises:
        UsageError: there is no such run.
    """
    _, found = read_run(name, EVERYTHING)
    writer = csv.writer(sys.stdout)
    on_terminal = sys.stdout.isatty()
    if as_csv:
        writer.writerow(("metric", "rank", "step", "time", "value"))
    for points in found:
        metric = printable(points.metric) if on_terminal else points.metric
        for step, at, value in zip(points.steps, points.times, points.values, strict=True):
            if as_csv:
                writer.writerow((metric, points.rank, step, repr(at) if at else "", repr(value)))
            else:
                record = {
                    "metric": points.metric,
                    "rank": points.rank,
                    "step": step,
                    "time": at or None,
                    "value": encode(value),
                }
                sys.stdout.write(json.dumps(record) + "\n")


def read_run(name: str, most_points: int) -> tuple[Run, Iterator[Points]]:
    """Return a run and its points, at most about ``most_points`` per metric and rank; no spike is lost.

    Raises:
        UsageError: there is no such run.
    """
    shelf = Shelf(backlog_points=most_points)
    update = shelf.poll()
    run = shelf.find(name, update.runs)
    return run, points_of(shelf, update.points, run.run_id)
