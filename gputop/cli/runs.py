"""``gputop runs``: lists, shows, plots, exports, names, imports and prunes tracked runs.

Imports only the standard library and gputop's records; what else a command needs is imported there.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gputop import run_filter, units
from gputop.cli.shelf import EVERYTHING, Shelf, points_of
from gputop.cli.table import table
from gputop.cli.terminal import print_colored
from gputop.errors import EXIT_OK
from gputop.run_filter import RunFilter
from gputop.snapshot import LOSS_METRICS, Points, ProcessRun, Rank, Run, encode, loss_metric
from gputop.terminal_text import printable

if TYPE_CHECKING:
    from gputop.agent.sampler import Sampler

LISTED = 50
NOT_TRACKED, STARTING = "not tracked", "starting"
NONE = "-"


def runs(
    options: argparse.Namespace,
    make_sampler: Callable[[argparse.Namespace], Sampler],
    exit_with: Callable[[Sampler, int], int],
) -> int:
    """List the runs; show, plot, export, rename or tag one; import some; or delete old ones.

    ``exit_with`` ends the process without waiting for a thread that hangs in the driver.
    """
    if options.runs_command == "show":
        from gputop.cli.show import show_run

        print(show_run(options.run, as_json=options.as_json, everything=options.all))
    elif options.runs_command in ("rename", "tag"):
        from gputop.cli import relabel

        if options.runs_command == "rename":
            print(relabel.rename(options.run, options.name))
        else:
            print(relabel.tag(options.run, options.tags, remove=options.remove))
    elif options.runs_command == "export":
        export(options.run, as_csv=options.csv)
    elif options.runs_command == "plot":
        from gputop.cli.plot import READ_POINTS, plot

        run, points = read_run(options.run, READ_POINTS)
        others = [read_run(name, READ_POINTS) for name in options.others]
        color = not options.no_color
        print_colored(
            plot(
                run,
                points,
                options.metrics,
                others,
                width=options.width,
                height=options.height,
                color=color,
                ascii_only=options.ascii,
            )
        )
    elif options.runs_command == "import":
        from gputop.cli.importing import import_runs

        import_runs(options.paths)
    elif options.runs_command == "prune":
        from gputop.cli.prune import prune

        prune(options.older_than, options.keep, yes=options.yes)
    else:
        wanted = run_filter.parse(options.filter) if options.filter else None
        shelf = Shelf(recent_runs=LISTED if wanted is None else EVERYTHING, backlog_points=2)
        found = shelf.read_all()
        sampler = make_sampler(options)
        snapshot = sampler.take()
        print(list_text(found, snapshot.process_runs, snapshot.runs, wanted))
        shelf.tell_unreadable()
        if sampler.source.name == "nvml":  # only a driver's threads can hang
            return exit_with(sampler, EXIT_OK)
    return EXIT_OK


def list_text(
    found: tuple[Run, ...],
    untracked: Sequence[ProcessRun] = (),
    curves: Sequence[Run] = (),
    wanted: RunFilter | None = None,
) -> str:
    """Return the runs as a table: live ones that gputop does not track, then the tracked ones, newest first.

    ``curves`` holds what is known of the untracked ones' metrics, by ``ProcessRun.run_id``. Only runs that ``wanted`` keeps
    are listed.
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
            state = STARTING if other.starting else NOT_TRACKED
            rows.append((_pid_text(other), other.name, state, str(len(other.ranks)), *tail))
    for run in found:
        if wanted is None or wanted.keeps(run, now):
            tail = (*_progress(run), _started(run.created_at), ", ".join(run.tags) or NONE)
            rows.append((run.run_id, run.name, run.state, str(len(run.ranks)), *tail))
    if not rows:
        return f"None of {len(found) + len(untracked)} runs matches this filter."
    return "\n".join(table(("RUN", "NAME", "STATE", "RANKS", "STEP", "LOSS", "STARTED", "TAGS"), rows))


def _as_run(other: ProcessRun) -> Run:
    """Return what a filter sees of a run that gputop does not track."""
    ranks = tuple(Rank(rank.rank or 0, pid=rank.pid, state="running") for rank in other.ranks)
    return Run(other.run_id or _pid_text(other), other.name, state="running", created_at=other.started_at, ranks=ranks)


def _progress(run: Run | None) -> tuple[str, str]:
    """Return a run's step and loss."""
    step = run.step if run is not None else None
    return units.UNKNOWN if step is None else str(step), units.UNKNOWN if run is None else _loss_text(run)


def _pid_text(run: ProcessRun) -> str:
    return f"PID {run.launcher.pid if run.launcher is not None else run.ranks[0].pid}"


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

    Columns: metric, rank, step, time (seconds since the epoch; empty or null if imported files do not tell it), value.

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
